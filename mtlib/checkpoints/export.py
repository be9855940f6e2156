"""Export of a trained model to a folder: its encoder as `transformers` loads it, all other weights in a second file.

Of an encoder with an adapter, the exported weights are the sums W + alpha / rank B A, and a folder holds the adapter as
`peft` loads it beside the pretrained encoder.
"""

import contextlib
import json
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from mtlib.checkpoints.initial_weights import ENCODER, ENCODER_FILE, TASKS_FILE, check_fit
from mtlib.checkpoints.model_card import CardFacts, card_text
from mtlib.checkpoints.published import public_name, published
from mtlib.config.trial import TrialConfig
from mtlib.data.tokenizer_facts import AUTO_TOKENIZER, TOKENIZER_FILE
from mtlib.model.adapters import adapter_settings, import_peft
from mtlib.model.encoder import PretrainedEncoder, load_encoder, quiet_transformers
from mtlib.model.multitask import MultiTaskModel
from mtlib.runtime.errors import first_line, require
from mtlib.runtime.method_file import UntrustedCodeError, permit_stored, trusting_methods
from mtlib.runtime.storage import expanded_path
from mtlib.runtime.threads import using_threads
from mtlib.stages.active_weights import active_parts, active_weights, part_of_weight

EXPORTED_CONFIG_FILE, MODEL_CARD_FILE = "trial.json", "README.md"

FILES = {
    ENCODER_FILE: "the encoder's weights, as `transformers` names them",
    "config.json": "the encoder's architecture",
    "tokenizer.json": "its tokenizer, with `tokenizer_config.json`",
    TASKS_FILE: "all other weights: heads, and layers of single tasks where there are some",
    EXPORTED_CONFIG_FILE: "the trial's whole configuration",
}
"""Files of an exported model's folder besides the card."""
ADAPTER_FOLDER = "adapter"
ADAPTER_FILE = {f"{ADAPTER_FOLDER}/": "the adapter, which `peft` loads beside the pretrained encoder"}
ONNX_FOLDER = "onnx"
ONNX_FILE = {
    f"{ONNX_FOLDER}/": "`TASK.onnx` for each task, from tokens to logits. `TASK.json` has labels in the order of the "
    "logits, kind, metric and range; so has `get_modelmeta().custom_metadata_map` of ONNX Runtime's session"
}


@dataclass(frozen=True, kw_only=True)
class ExportedModel:
    """An exported model, loaded."""

    model: MultiTaskModel
    """The whole model, in evaluation mode, on the CPU."""
    config: TrialConfig
    pretrained: PretrainedEncoder
    """Its encoder, trained, and its tokenizer."""


def export_model(
    config: TrialConfig,
    pretrained: PretrainedEncoder,
    weights: Mapping[str, Tensor],
    folder: Path,
    facts: CardFacts,
    *,
    overwrite: bool = False,
    write_onnx: Callable[[ExportedModel, Path], object] | None = None,
) -> None:
    """Writes a trained model into a new folder, whole or not at all; missing parents are made.

    Args:
        config, facts: the trial's configuration, and facts for the model card.
        pretrained: the encoder that the trial started with; only its architecture and tokenizer are used.
        weights: all weights of the trained model by name, as a trial's checkpoint keeps them.
        overwrite: whether an exported model in the folder is replaced.
        write_onnx: writes ONNX files into a folder, before all else: not every architecture can be written.

    Raises:
        ValueError: in one line: the folder is there already or cannot be written, or the weights do not fit the model
            that the configuration describes.
    """
    require(overwrite or not folder.exists(), "an exported model's folder must be new", folder)
    model = build_model(config, pretrained, weights, "the weights must fit the trial's configuration")
    has_adapter = config.adapter.method != "none"
    files = {**FILES, **(ADAPTER_FILE if has_adapter else {}), **(ONNX_FILE if write_onnx else {})}
    aside = written_aside(folder, "an exported model's folder", EXPORTED_CONFIG_FILE)
    with aside as partial, quiet_transformers():
        if has_adapter:
            model = merge_adapter(model, config, pretrained, partial / ADAPTER_FOLDER)
        if write_onnx is not None:
            merged = ExportedModel(model=model, config=without_adapter_settings(config), pretrained=pretrained)
            write_onnx(merged, partial / ONNX_FOLDER)
        model.encoder.save_pretrained(partial)  # type: ignore[operator]
        save_tokenizer(pretrained, partial)
        own = model.state_dict().items()
        save_file({name: part.contiguous() for name, part in own if not name.startswith(ENCODER)}, partial / TASKS_FILE)
        (partial / EXPORTED_CONFIG_FILE).write_text(config.to_json() + "\n", encoding="utf-8")
        (partial / MODEL_CARD_FILE).write_text(
            card_text(config, pretrained.fingerprint, files, facts), encoding="utf-8"
        )
        for path in filter(Path.is_file, partial.rglob("*")):  # safetensors lets nobody else read what it writes
            path.chmod((partial / MODEL_CARD_FILE).stat().st_mode)


def merge_adapter(
    model: MultiTaskModel, config: TrialConfig, pretrained: PretrainedEncoder, folder: Path
) -> MultiTaskModel:
    """Writes a model's adapter as `peft` does, and returns the model with W + alpha / rank B A in place of W."""
    plain = MultiTaskModel(without_adapter_settings(config), pretrained)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # `peft` asks for an attribute that `transformers` renames
        wrapped = import_peft().get_peft_model(plain.encoder, adapter_settings(plain.encoder, config.adapter))
    wrapped.get_base_model().load_state_dict(model.encoder.state_dict())
    wrapped.peft_config[wrapped.active_adapter].base_model_name_or_path = public_name(config.encoder.name)
    wrapped.save_pretrained(folder, save_embedding_layers=False)  # others would ask the hub for the vocabulary
    (folder / MODEL_CARD_FILE).unlink()  # a form to be filled in
    plain.encoder = wrapped.merge_and_unload()
    others = {name: weight for name, weight in model.state_dict().items() if not name.startswith(ENCODER)}
    plain.load_state_dict(others, strict=False)
    return plain


def without_adapter_settings(config: TrialConfig) -> TrialConfig:
    """Returns the configuration of a model whose adapter has been merged into its encoder."""
    return config.override({"adapter.method": "none"})


@using_threads(1)  # a process that was forked while torch has further threads waits for them for ever
def load_exported(folder: Path | str, *, trust_methods: bool = False) -> ExportedModel:
    """Loads a whole model that `export_model` has written; it gives the trained model's logits exactly.

    Where it had an adapter, that is merged: logits are equal to rounding, and its configuration has no adapter.

    Args:
        folder: of the model.
        trust_methods: whether methods of its maker's own, which are Python, are run if the file is not this user's.

    Raises:
        ValueError: in one line: the folder holds no exported model, or one that is damaged; or its methods are not run.
    """
    folder = expanded_path(folder)
    for name in (EXPORTED_CONFIG_FILE, TASKS_FILE):
        found = f"{folder}, which {f'has no {name}' if folder.is_dir() else 'is no folder'}"
        require((folder / name).is_file(), "an exported model must be a folder that export_model wrote", found)
    with trusting_methods(trust_methods):
        config = without_adapter_settings(read_config(folder / EXPORTED_CONFIG_FILE))
    has_file = (folder / TOKENIZER_FILE).is_file()  # another version of `transformers` may build its class otherwise
    pretrained = load_encoder(str(folder), TOKENIZER_FILE if has_file else AUTO_TOKENIZER)
    encoder = {f"{ENCODER}{name}": tensor for name, tensor in pretrained.weights.items()}
    try:
        weights = {**encoder, **load_file(folder / TASKS_FILE)}
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{folder / TASKS_FILE} is truncated or damaged: {first_line(error)}") from error
    model = build_model(config, pretrained, weights, f"the weights in {folder} must fit its {EXPORTED_CONFIG_FILE}")
    return ExportedModel(model=model, config=config, pretrained=pretrained)


def build_model(
    config: TrialConfig, pretrained: PretrainedEncoder, weights: Mapping[str, Tensor], rule: str
) -> MultiTaskModel:
    """Returns a configuration's model with these weights, in evaluation mode;
    ValueError with the rule if some do not fit.

    Weights of an early epoch lack those of tasks that were not active yet; these are initialised anew.
    """
    has_flash = config.encoder.attention == "flash_attention_2"  # a kernel of GPUs, which training alone needs
    model = MultiTaskModel(config.override({"encoder.attention": "auto"}) if has_flash else config, pretrained)
    own = model.state_dict()
    active = [task for task in config.active_tasks if was_active(config, task, own, weights)]
    check_fit(rule, weights, active_weights(config, active or config.active_tasks, own))
    model.load_state_dict({**own, **weights})
    return model.eval()


def was_active(config: TrialConfig, task: str, own: Iterable[str], given: Iterable[str]) -> bool:
    """Returns whether a task had been active when weights were saved:
    some weights of its own are there, or all that it uses.

    `own` are the names of all weights of the trial's model, `given` those of the saved weights.
    """
    kept, parts = set(map(part_of_weight, given)), active_parts(config, [task]) & set(map(part_of_weight, own))
    return parts <= kept or any(part in kept for part in parts if part.endswith(f".{task}"))


def publish_config(source: Path, target: Path) -> None:
    """Writes the configuration of an exported model's folder into another, or the same, with public names of paths."""
    config = json.loads((source / EXPORTED_CONFIG_FILE).read_text(encoding="utf-8"))
    (target / EXPORTED_CONFIG_FILE).write_text(json.dumps(published(config)) + "\n", encoding="utf-8")


def save_tokenizer(pretrained: PretrainedEncoder, folder: Path) -> None:
    """Writes an encoder's tokenizer; OSError if it cannot be written."""
    try:
        pretrained.tokenizer.save_pretrained(folder)
    except Exception as error:  # the `tokenizers` library raises this very class where the disk is full
        raise OSError(first_line(error)) from error


def read_config(path: Path) -> TrialConfig:
    try:
        text = path.read_text(encoding="utf-8")
        permit_stored(json.loads(text), path.parent, path.name)
        return TrialConfig.from_json(text)
    except UntrustedCodeError:
        raise
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is damaged, or of another version: {first_line(error)}") from error


@contextlib.contextmanager
def written_aside(folder: Path, what: str, mark: str) -> Iterator[Path]:
    """A temporary folder that replaces `folder` when the block ends without an error, and is removed otherwise.

    Where it cannot be renamed, `folder` is as it was.

    Raises:
        ValueError: it cannot be written, or is there and neither empty nor with the file `mark`, as earlier ones of its
            kind; the message calls it `what`.
    """
    place = folder.resolve()  # a link stays one
    is_kind = not place.exists() or (place / mark).is_file() or (place.is_dir() and not any(place.iterdir()))
    require(is_kind, f"{what} may replace an empty folder, or one that holds {mark}", folder)
    partial, replaced = (place.with_name(f".{place.name}.{state}") for state in ("partial", "replaced"))
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        yield partial
        if place.is_dir():
            shutil.rmtree(replaced, ignore_errors=True)
            place.rename(replaced)
        try:
            partial.rename(place)
        except OSError:
            if replaced.is_dir():
                replaced.rename(place)
            raise
        shutil.rmtree(replaced, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{what} must be a place that can be written, got {folder}: {first_line(error)}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
