"""The number of parameters of a trial's model, by the files of its encoder and its configuration; nothing is loaded."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mtlib.checkpoints.state import WEIGHTS_KEPT_BYTES
from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.heads import vectors_width
from mtlib.model.layers import LAYER_LISTS
from mtlib.stages.active_weights import active_parts
from mtlib.tasks import TASKS

WEIGHT_FILE_NAMES = ("model.safetensors", "pytorch_model.bin")
"""Names of weight files in a hub repository."""
NOT_TRAINED = re.compile(r"(^|\.)(pooler|cls|lm_head|classifier)\.")
"""Weights in an encoder's files that belong to its pretraining and are not in a trial's model."""
LAYER = re.compile(rf"(?:^|\.)(?:{'|'.join(re.escape(path) for path in LAYER_LISTS)})\.(\d+)\.")
WIDTHS = ("hidden_size", "dim")
"""Keys of config.json that hold the width of the hidden states."""


@dataclass(frozen=True, kw_only=True)
class EncoderSize:
    """The size of an encoder."""

    num_parameters: int
    in_layers: Mapping[int, int] = field(default_factory=dict)
    """Parameters of each layer by its number; empty where that is unknown."""
    hidden_size: int | None = None
    """Width of its hidden states; None where that is unknown."""


@dataclass(frozen=True, kw_only=True)
class ModelSize:
    """Parameters of a trial's model, those of inactive tasks left out."""

    kept: int
    """All of them."""
    trained: int
    """Those that are not frozen."""


def measure_model(config: TrialConfig, tasks: Iterable[str], encoder: EncoderSize) -> ModelSize:
    """The size of the model once these tasks have been active.

    Args:
        config: the trial's configuration.
        tasks: names of tasks.
        encoder: the size of its encoder.
    """
    own, layers = own_parameters(config, tuple(tasks), encoder), config.encoder.trained_layers
    is_known = not layers or bool(encoder.in_layers)
    trained = encoder.num_parameters
    if layers is not None and is_known:
        trained = sum(encoder.in_layers.get(layer, 0) for layer in layers)
    return ModelSize(kept=encoder.num_parameters + own, trained=trained + own)


def own_parameters(config: TrialConfig, tasks: Iterable[str], encoder: EncoderSize) -> int:
    """Parameters that are not the encoder's; 0 where its width is unknown."""
    width, active = encoder.hidden_size, tuple(tasks)
    if width is None:
        return 0
    parts = active_parts(config, active)
    total = sum(head_parameters(config, task, width) for task in active)
    if config.pals.size > 0:
        total += len(set(active).intersection(config.pals.tasks)) * pals_parameters(config, width, encoder)
    if "relational" in parts:
        joined = vectors_width(config, next(task for task in config.relational_tasks if task in active), width)
        total += linear_parameters(joined, joined)
    if "projection" in parts and config.simcse.projection != "none":
        total += linear_parameters(width, width)
    return total + (len(active) if config.loss_weighting == "uncertainty" else 0)


def head_parameters(config: TrialConfig, task: str, width: int) -> int:
    """Parameters of a task's head, as `mtlib.model.heads.make_head` builds it."""
    settings, facts = config.tasks[task], TASKS[task]
    if settings.head == "cosine":
        return linear_parameters(width, width) if settings.cosine_projection else 0
    joined, hidden = vectors_width(config, task, width), settings.hidden_units
    num_outputs = 2 if facts.kind == "binary" and settings.loss == "cross_entropy" else facts.num_logits
    if hidden is None:
        return linear_parameters(joined, num_outputs)
    return linear_parameters(joined, hidden) + linear_parameters(hidden, num_outputs)


def pals_parameters(config: TrialConfig, width: int, encoder: EncoderSize) -> int:
    """Parameters of one task's PALs, as `mtlib.model.pals.make_pals` builds them."""
    size, num_layers = config.pals.size, len(encoder.in_layers)
    if config.pals.function == "low_rank":
        return num_layers * (linear_parameters(width, size) + linear_parameters(size, width))
    return 2 * width * size + (num_layers * 3 * size * size if config.pals.function == "attention" else 0)


def linear_parameters(inputs: int, outputs: int) -> int:
    return (inputs + 1) * outputs


def count_parameters(encoder: str) -> int | None:
    """Parameters of an encoder, read from its files without loading it; None if it is not on this machine.

    Args:
        encoder: a hub name or a local folder.
    """
    size = measure_encoder(encoder)
    return None if size is None else size.num_parameters


def measure_encoder(encoder: str) -> EncoderSize | None:
    """The size of an encoder by its files; None if it is not on this machine."""
    sizes: dict[str, int] = {}
    for path in weight_files(encoder):
        sizes |= sizes_in_file(path)
    return encoder_size(sizes, read_width(encoder)) if sizes else None


def measure_loaded(pretrained: PretrainedEncoder) -> EncoderSize:
    """The size of an encoder that is in memory, possibly without its weights' values."""
    sizes = {name: weight.numel() for name, weight in pretrained.weights.items()}
    return encoder_size(sizes, int(pretrained.config.hidden_size))


def encoder_size(sizes: Mapping[str, int], hidden_size: int | None) -> EncoderSize:
    """The size of an encoder from the number of parameters of each weight, by name, and its width."""
    in_layers: dict[int, int] = {}
    for name, size in sizes.items():
        if found := LAYER.search(name):
            in_layers[int(found[1])] = in_layers.get(int(found[1]), 0) + size
    return EncoderSize(num_parameters=sum(sizes.values()), in_layers=in_layers, hidden_size=hidden_size)


def weight_files(encoder: str) -> list[Path]:
    """The weight files of an encoder on this machine; safetensors are preferred."""
    if not Path(encoder).is_dir():
        return [path for name in WEIGHT_FILE_NAMES if (path := cached_file(encoder, name))][:1]
    folder = Path(encoder)
    return sorted(folder.glob("model*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))


def cached_file(name: str, file: str) -> Path | None:
    """A file of a hub repository, if it has been downloaded."""
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(name, file)
    return Path(path) if isinstance(path, str) else None


def sizes_in_file(path: Path) -> dict[str, int]:
    """Parameters by name in one weight file, by the header of safetensors or the size of other files."""
    if path.suffix != ".safetensors":
        return {path.name: path.stat().st_size // WEIGHTS_KEPT_BYTES}
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    names = (name for name in header if name != "__metadata__" and not NOT_TRAINED.search(name))
    return {name: math.prod(header[name]["shape"]) for name in names}


def read_width(encoder: str) -> int | None:
    """The width of an encoder's hidden states, from its config.json."""
    path = Path(encoder) / "config.json" if Path(encoder).is_dir() else cached_file(encoder, "config.json")
    if path is None or not path.is_file():
        return None
    found = json.loads(path.read_text())
    return next((int(found[name]) for name in WIDTHS if name in found), None)
