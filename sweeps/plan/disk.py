"""The disk that a sweep is expected to need, and can need, by the sizes of its models and predictions."""

import math
import warnings
from collections.abc import Callable, Sequence

import torch

from mtlib.checkpoints.state import STATES_KEPT, WEIGHTS_KEPT_BYTES
from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.stages.active_weights import active_weights
from mtlib.stages.keys import next_stage_starts_from_best
from mtlib.stages.plan import num_epochs, scored_epochs, tasks_active_by
from sweeps.options import SweepOptions
from sweeps.plan.inputs import SweepInputs, planned_configs
from sweeps.reuse.finished_trials import score_names

BYTES_PER_PREDICTION = 20
"""The size of an example's id and label in a compressed table, without the four bytes of each logit."""
BYTES_PER_TABLE = 2_000
"""The size of one epoch's table of predictions, without its rows."""
BYTES_PER_EPOCH = 500
"""The size of an epoch's points in the curves and their copy."""
BYTES_PER_TRIAL = 20_000
"""The size of a trial's small files, a disk block each, and of its row in the records."""

EXPECTED_BEST = 2
"""Epochs of a trial of three tasks that are best by some score: 1 or 2 (docs/measurements/sweeps.md, "Disk")."""

Measure = Callable[[TrialConfig], int]
"""Bytes of the weights of a configuration's model, as they are kept."""


def measure_model(config: TrialConfig, pretrained: PretrainedEncoder) -> int:
    """Bytes of the weights of a configuration's model; none of them is allocated."""
    with torch.device("meta"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*copying from a non-meta parameter.*")
        model = MultiTaskModel(config, pretrained)
    kept = active_weights(config, config.active_tasks, dict(model.named_parameters()))
    return WEIGHTS_KEPT_BYTES * sum(weight.numel() for weight in kept.values())


def disk_need(
    options: SweepOptions,
    inputs: SweepInputs,
    ends: Sequence[TrialConfig],
    measure: Measure,
    num_concurrent: int,
    num_best: Callable[[TrialConfig], int],
) -> int:
    """Returns the bytes that a sweep's folder and its stages in the store need.

    Stages of other sweeps in the store are not considered.

    Args:
        options, inputs: of the sweep.
        ends: for each end of a stage that is stored, a configuration that has it.
        measure: of a configuration's model.
        num_concurrent: trials that run at the same time.
        num_best: of a configuration, the epochs of a trial that are best by some score.
    """
    configs = planned_configs(options, inputs.space)
    copies = math.ceil(options.num_trials(len(configs)) / len(configs))
    weights = sorted(measure(config) for config in configs for _ in range(copies * num_best(config)))
    # Of a trial that has ended only the epochs stay by whose score it is among the best.
    num_scores = max(len(score_names(config)) for config in configs)
    num_weights = options.keep_models * num_scores + num_concurrent * max(map(num_best, configs))
    # The end of a stage in the store has at most what there is at the trial's end.
    entries = (num_best(own) * measure(own) + state_bytes(own, measure) + record_bytes(own, inputs) for own in ends)
    stages = copies * sum(entries) if options.shares_stages else 0
    # While a state is written there is one more than are kept.
    states = num_concurrent * (STATES_KEPT + 1) * max(state_bytes(config, measure) for config in configs)
    records = copies * sum(record_bytes(config, inputs) for config in configs)
    return sum(weights[-num_weights:]) + min(options.keep_bytes, stages) + states + records


def most_best(config: TrialConfig) -> int:
    """Returns the most epochs that are best by some score."""
    return min(len(score_names(config)), len(scored_epochs(config)))


def expected_best(config: TrialConfig) -> int:
    """Returns the epochs that are expected to be best by some score."""
    return min(EXPECTED_BEST, most_best(config))


def state_bytes(config: TrialConfig, measure: Measure) -> int:
    """Bytes of a state: weights, AdamW's two moments, weights of the mean teacher, of the average that is scored and of
    a stage's best epoch, and what a gradient method keeps for each task."""
    is_averaged = config.optimizer.average_power is not None
    starts_from_best = any(next_stage_starts_from_best(config, stage) for stage in range(len(config.stages)))
    num_kept = len(config.active_tasks) if config.gradient_entry.state == "weights" else 0
    return (3 + config.needs_teacher + is_averaged + starts_from_best + num_kept) * measure(config)


def record_bytes(config: TrialConfig, inputs: SweepInputs) -> int:
    """Bytes of one trial's records: predictions of dev and scored train rows of each task that is active by an epoch,
    and the epoch's scores."""
    total, num_rows = BYTES_PER_TRIAL, inputs.rows_of(config)
    for _, stage in scored_epochs(config):
        for task in tasks_active_by(config, stage):
            scored = min(config.tasks[task].scored_train_rows, num_rows[task, "train"])
            per_row = BYTES_PER_PREDICTION + 4 * config.task(task).num_logits
            total += (num_rows[task, "dev"] + scored) * per_row + (1 + (scored > 0)) * BYTES_PER_TABLE
    return total + num_epochs(config) * BYTES_PER_EPOCH
