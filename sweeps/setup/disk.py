"""The most disk that a sweep can need, by the sizes of its models and predictions."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from rich.filesize import decimal

from mtlib.checkpoints.state import STATES_KEPT, WEIGHTS_KEPT_BYTES
from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.stages.active_weights import active_weights
from mtlib.stages.keys import next_stage_starts_from_best
from mtlib.stages.plan import num_epochs, scored_epochs, tasks_active_by
from sweeps.options import SweepOptions
from sweeps.setup.inputs import SweepInputs
from sweeps.setup.stage_tree import Segment, distinct

BYTES_PER_PREDICTION = 20
"""Of an example's id and label in a compressed table, without the four bytes of each logit."""
BYTES_PER_TABLE = 2_000
"""Of one epoch's table of predictions, without its rows."""
BYTES_PER_EPOCH = 500
"""Of an epoch's points in the curves and their copy."""
BYTES_PER_TRIAL = 20_000
"""Of a trial's small files, a disk block each, and of its row in the records."""

Measure = Callable[[TrialConfig], int]
"""Bytes of the weights of a configuration's model, as they are kept."""


@dataclass(frozen=True, kw_only=True)
class DiskNeed:
    """The most bytes that a sweep needs while it runs."""

    weights: int
    """For best weights of trials, if each score has another best epoch."""
    stages: int
    """For kept stages, with best weights of their own."""
    states: int
    """For the states of running trials."""
    records: int
    """For predictions and curves."""

    @property
    def total(self) -> int:
        return self.weights + self.stages + self.states + self.records


def measure_model(config: TrialConfig, pretrained: PretrainedEncoder) -> int:
    """Bytes of the weights of a configuration's model; none of them is allocated."""
    with torch.device("meta"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*copying from a non-meta parameter.*")
        model = MultiTaskModel(config, pretrained)
    kept = active_weights(config, config.active_tasks, dict(model.named_parameters()))
    return WEIGHTS_KEPT_BYTES * sum(weight.numel() for weight in kept.values())


def disk_need(
    paths: Sequence[Sequence[Segment]],
    inputs: SweepInputs,
    measure: Measure,
    options: SweepOptions,
    num_concurrent: int,
) -> DiskNeed:
    """Returns the most bytes that a sweep's folder and its stages in the store need.

    Stages of other sweeps in the store are not considered.

    `paths` are the segments of each configuration; `num_concurrent` trials run at the same time.
    """
    copies, configs, segments = options.replicates, [path[-1].config for path in paths], distinct(paths)
    found = sorted(num_best(config, num_epochs(config)) * measure(config) for config in configs for _ in range(copies))
    num_kept = options.keep_models * max(num_scores(config) for config in configs) + num_concurrent
    stages = sum(entry_bytes(segment, inputs, measure) for segment in segments if segment.is_kept)
    # While a state is written there is one more than are kept.
    state = max(state_bytes(segment.config, segment.cut.stage, measure) for segment in segments)
    return DiskNeed(
        weights=sum(found[-num_kept:]),
        stages=min(options.keep_bytes, copies * stages),
        states=num_concurrent * (STATES_KEPT + 1) * state,
        records=copies * sum(record_bytes(config, inputs) for config in configs),
    )


def num_scores(config: TrialConfig) -> int:
    """Scores by which best weights are kept: that of each task, and the overall one."""
    return len(config.active_tasks) + 1


def num_best(config: TrialConfig, epochs: int) -> int:
    """Returns the most of the first epochs that are best by some score."""
    return min(num_scores(config), sum(epoch <= epochs for epoch, _ in scored_epochs(config)))


def entry_bytes(segment: Segment, inputs: SweepInputs, measure: Measure) -> int:
    """Bytes of a segment's end in the store."""
    config, epochs = segment.config, segment.cut.total_epochs
    weights = num_best(config, epochs) * measure(config)
    return (
        weights
        + state_bytes(config, segment.cut.stage, measure)
        + prediction_bytes(config, inputs, epochs)
        + BYTES_PER_TRIAL
    )


def state_bytes(config: TrialConfig, stage: int, measure: Measure) -> int:
    """Bytes of a state in a stage: weights, AdamW's two moments, weights of the mean teacher, of the average that is
    scored and of the stage's best epoch, and what a gradient method keeps for each task."""
    is_averaged = config.optimizer.average_power is not None
    num_kept = len(tasks_active_by(config, stage)) if config.gradient_entry.state == "weights" else 0
    num_copies = 3 + config.needs_teacher + is_averaged + next_stage_starts_from_best(config, stage) + num_kept
    return num_copies * measure(config)


def record_bytes(config: TrialConfig, inputs: SweepInputs) -> int:
    """Bytes of one trial's records."""
    epochs = num_epochs(config)
    return prediction_bytes(config, inputs, epochs) + epochs * BYTES_PER_EPOCH + BYTES_PER_TRIAL


def prediction_bytes(config: TrialConfig, inputs: SweepInputs, epochs: int) -> int:
    """Bytes of a trial's predictions in its first epochs: dev and scored train rows of each active task."""
    total, num_rows = 0, inputs.rows_of(config)
    scored_stages = [stage for epoch, stage in scored_epochs(config) if epoch <= epochs]
    for index in range(len(config.stages)):
        num_own = scored_stages.count(index)
        for task in tasks_active_by(config, index):
            scored = min(config.tasks[task].scored_train_rows, num_rows[task, "train"])
            rows, tables = num_rows[task, "dev"] + scored, 1 + (scored > 0)
            per_row = BYTES_PER_PREDICTION + 4 * config.task(task).num_logits
            total += num_own * (rows * per_row + tables * BYTES_PER_TABLE)
    return total


def describe_disk(need: DiskNeed, free: int | None, num_concurrent: int) -> list[str]:
    """Returns the most disk that the sweep needs, and a warning if that is more than is free,
    which is None for a bucket."""
    running = "a running trial" if num_concurrent == 1 else f"{num_concurrent} running trials"
    weights, stages, states, records = map(decimal, (need.weights, need.stages, need.states, need.records))
    parts = f"best weights {weights}, kept stages {stages}, states of {running} {states}, predictions {records}"
    left = "" if free is None else f"; {decimal(free)} free"
    warning = "Warning: the sweep may need more disk than is free; choose another --storage, or fewer trials."
    lines = [f"Disk: at most {decimal(need.total)}: {parts}{left}."]
    return [*lines, *([warning] if free is not None and need.total > free else [])]
