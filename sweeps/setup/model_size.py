"""The number of parameters of a trial's model, by the size of its encoder and its configuration; none is built."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mtlib.config.losses import num_outputs
from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.heads import vectors_width
from mtlib.model.layers import LAYER_LISTS
from mtlib.stages.active_weights import active_parts

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
    settings = config.tasks[task]
    if settings.head == "cosine":
        return linear_parameters(width, width) if settings.cosine_projection else 0
    joined, hidden = vectors_width(config, task, width), settings.hidden_units
    outputs = num_outputs(settings.loss, config.task(task))
    if hidden is None:
        return linear_parameters(joined, outputs)
    return linear_parameters(joined, hidden) + linear_parameters(hidden, outputs)


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
