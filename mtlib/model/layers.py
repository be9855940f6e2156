"""The layers of an encoder: their list, which are trained, and where task modules are added."""

from typing import Any

from torch import nn

from mtlib.config.training import OptimizerConfig
from mtlib.config.trial import TrialConfig
from mtlib.model.architecture_check import unsupported_encoder
from mtlib.runtime.errors import require

LAYER_LISTS = ("encoder.layer", "transformer.layer", "layers")
"""Paths of the list of layers: BERT and relatives, DistilBERT, ModernBERT."""
BEFORE_LAYERS = (
    *("embeddings.", "embeddings_project.", "embed_tokens.", "encoder.embed_positions."),
    *("encoder.embedding_hidden_mapping_in.", "encoder.relative_attention_bias.", "encoder.rel_embeddings."),
    *("char_embeddings.", "initial_char_encoder.", "chars_to_molecules."),
)
"""Parameters before layer 0: token and position embeddings, and what projects or mixes them (ELECTRA, RemBERT, CANINE).
Positions that MPNet, DeBERTa and RoFormer give to every layer count among them."""
WITH_FIRST_LAYER = ("encoder.conv.",)
"""Parameters that work beside layer 0, in DeBERTa-v2."""
AFTER_LAYERS = (
    *("norm.", "final_norm.", "LayerNorm.", "final_layer_norm.", "encoder.ln.", "encoder.emb_layer_norm_after."),
    *("encoder.LayerNorm.", "projection.", "final_char_encoder.", "contact_head."),
)
"""Parameters after the last layer: the final norm of encoders whose layers begin with one (EuroBERT, Gemma, ModernBERT,
RoBERTa-PreLayerNorm, SAM's text model, Megatron's BERT, ESM, XLM-RoBERTa-XL), and heads (CANINE, ESM)."""
NORM_OF_POSITIONS = "encoder.LayerNorm."
"""In DeBERTa-v2 it is for the positions `encoder.rel_embeddings`, which enter every layer, and not a final norm."""
NORMS = {
    "attention": ("attention.output.LayerNorm", "sa_layer_norm"),
    "layer": ("output.LayerNorm", "output_layer_norm"),
}
"""By placement of task modules, the path of the LayerNorm of the sum that they are added to: BERT and relatives,
DistilBERT. Pre-norm encoders have none."""
EMBEDDINGS = -1
"""Layer number of parameters before layer 0."""


def find_layers(encoder: nn.Module, what: str) -> tuple[str, nn.ModuleList]:
    """Returns the path and the modules of an encoder's transformer layers, first to last, for the feature `what`:
    "PALs", "layer rates".

    Raises:
        ValueError: the architecture has no known list of layers.
    """
    for path in LAYER_LISTS:
        layers = module_at(encoder, path)
        if isinstance(layers, nn.ModuleList) and len(layers) > 0:
            return path, layers
    raise unsupported_encoder(what, encoder, "it has no known list of layers")


def module_at(module: nn.Module, path: str) -> Any:
    """Returns the attribute of a module at a dotted path; None if there is none."""
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def layer_of(encoder: nn.Module, what: str) -> dict[str, int]:
    """Returns the number of the layer that each parameter of an encoder belongs to, by name, for the feature `what`.

    It is `EMBEDDINGS` for parameters before the layers; those after the last layer count with it.

    Raises:
        ValueError: the architecture has no known list of layers, or a parameter that is not known to be before or after
            them.
    """
    path, layers = find_layers(encoder, what)
    before = (*BEFORE_LAYERS, NORM_OF_POSITIONS) if module_at(encoder, "encoder.rel_embeddings") else BEFORE_LAYERS
    numbers = {}
    for name, _ in encoder.named_parameters():
        if name.startswith(f"{path}."):
            numbers[name] = int(name.removeprefix(f"{path}.").split(".")[0])
        elif name.startswith(before):
            numbers[name] = EMBEDDINGS
        elif name.startswith(WITH_FIRST_LAYER):
            numbers[name] = 0
        elif name.startswith(AFTER_LAYERS):
            numbers[name] = len(layers) - 1
        else:
            raise unsupported_encoder(what, encoder, f"its {name} is not known to come before or after the layers")
    return numbers


def freeze(encoder: nn.Module, trained_layers: tuple[int, ...] | None) -> None:
    """Freezes all but these layers; None trains the whole encoder, embeddings included.

    Raises:
        ValueError: layers are named, and `layer_of` does not know the architecture.
    """
    if trained_layers is None:
        return
    numbers = layer_of(encoder, "encoder.trained_layers") if trained_layers else {}
    for name, parameter in encoder.named_parameters():
        parameter.requires_grad_(numbers.get(name) in trained_layers)


def norms_of(encoder: nn.Module, placement: str) -> list[nn.Module]:
    """Returns the LayerNorm of each layer whose input is the sum that task modules are added to.

    With placement `attention` it is the norm of h + SA(h), with `layer` that of a + FFN(a), for the layer's input h and
    its attention's output a.

    Raises:
        ValueError: the architecture has no known norms of these sums, or their width is not that of hidden states.
    """
    norms, config = [], module_at(encoder, "config")
    for layer in find_layers(encoder, "PALs")[1]:
        norm = next(filter(None, (module_at(layer, path) for path in NORMS[placement])), None)
        if norm is None or norm.weight.numel() != config.hidden_size:
            feature = f"PALs with pals.placement {placement}"
            raise unsupported_encoder(feature, encoder, "its layers have no known norm of that sum")
        norms.append(norm)
    return norms


def has_layer_rates(config: OptimizerConfig) -> bool:
    """Returns whether learning rates may differ between layers."""
    return (config.layer_decay, config.chosen_scale, config.other_scale) != (1.0, 1.0, 1.0)


def check_fits(config: TrialConfig, encoder: nn.Module) -> None:
    """Raises ValueError for a layer that the encoder lacks, or settings that its architecture does not support."""
    named = {"encoder.trained_layers": config.encoder.trained_layers or ()}
    named |= {f"tasks.{task}.chosen_layers": config.tasks[task].chosen_layers for task in config.active_tasks}
    for name, layers in named.items():
        for layer in layers:
            last = len(find_layers(encoder, name)[1]) - 1
            require(layer <= last, f"{name} must be layers of the encoder, 0 to {last}", layer)
    if has_layer_rates(config.optimizer):
        layer_of(encoder, "layer rates")
    if config.pals.size > 0:
        norms_of(encoder, config.pals.placement)
