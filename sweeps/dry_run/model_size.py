"""The number of parameters of a trial's model, by the files of its encoder and its configuration; nothing is loaded."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True, kw_only=True)
class EncoderSize:
    """The size of an encoder."""

    num_parameters: int
    in_layers: Mapping[int, int] = field(default_factory=dict)
    """Parameters of each layer by its number."""
    hidden_size: int | None = None
    """Width of its hidden states; None: heads are not counted."""


@dataclass(frozen=True, kw_only=True)
class ModelSize:
    """Parameters of a trial's model, those of inactive tasks left out."""

    kept: int
    """All of them."""
    trained: int
    """Those that are not frozen."""


def measure_model(config: TrialConfig, tasks: Sequence[str], encoder: EncoderSize) -> ModelSize:
    """The size of the model once these tasks have been active."""
    own, layers = own_parameters(config, tasks, encoder), config.encoder.trained_layers
    trained = encoder.num_parameters if layers is None else sum(encoder.in_layers.get(layer, 0) for layer in layers)
    return ModelSize(kept=encoder.num_parameters + own, trained=trained + own)


def own_parameters(config: TrialConfig, tasks: Sequence[str], encoder: EncoderSize) -> int:
    """Parameters that are not the encoder's; 0 where its width is unknown."""
    width = encoder.hidden_size
    if width is None:
        return 0
    parts = active_parts(config, tasks)
    total = sum(head_parameters(config, task, width) for task in tasks)
    if config.pals.size > 0:
        total += len(set(tasks).intersection(config.pals.tasks)) * pals_parameters(config, width, encoder)
    if "relational" in parts:
        joined = vectors_width(config, next(task for task in config.relational_tasks if task in tasks), width)
        total += linear_parameters(joined, joined)
    if "projection" in parts and config.simcse.projection != "none":
        total += linear_parameters(width, width)
    return total + (len(tasks) if config.loss_weighting == "uncertainty" else 0)


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


def measure_encoder(pretrained: PretrainedEncoder) -> EncoderSize:
    """The size of an encoder that is in memory, possibly without its weights' values."""
    in_layers: Counter[int] = Counter()
    for name, weight in pretrained.weights.items():
        if found := LAYER.search(name):
            in_layers[int(found[1])] += weight.numel()
    hidden_size = int(pretrained.config.hidden_size)
    return EncoderSize(num_parameters=pretrained.num_parameters, in_layers=in_layers, hidden_size=hidden_size)


def count_parameters(encoder: str) -> int | None:
    """Parameters of an encoder, a hub name or folder, by its files alone; None if it is not on this machine."""
    sizes = {name: size for path in weight_files(encoder) for name, size in sizes_in_file(path).items()}
    return sum(sizes.values()) if sizes else None


def weight_files(encoder: str) -> list[Path]:
    """The weight files of an encoder on this machine; safetensors are preferred."""
    from huggingface_hub import try_to_load_from_cache

    folder = Path(encoder)
    if folder.is_dir():
        return sorted(folder.glob("model*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
    cached = (try_to_load_from_cache(encoder, name) for name in WEIGHT_FILE_NAMES)
    return [Path(path) for path in cached if isinstance(path, str)][:1]


def sizes_in_file(path: Path) -> dict[str, int]:
    """Parameters by name in one weight file, by the header of safetensors or the size of other files."""
    if path.suffix != ".safetensors":
        return {path.name: path.stat().st_size // WEIGHTS_KEPT_BYTES}
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    names = (name for name in header if name != "__metadata__" and not NOT_TRAINED.search(name))
    return {name: math.prod(header[name]["shape"]) for name in names}
