"""Orders: from a stage to its stream of optimizer steps, each naming tasks and rows.

A task's rows are seen in passes, every row once per pass, reshuffled for each. An order joins one pass over its tasks
into a list of steps; a stage is these lists one after another, and an epoch is a slice of the stage. What a step holds
follows from the configuration and the step's number alone, so there is no sampler state to save.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mtlib.config import TrialConfig
from mtlib.config_data import DataConfig
from mtlib.config_training import StageConfig
from mtlib.seeds import numpy_stream

Rows = np.ndarray
"""Row numbers of one global batch, int64, (rows,)."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One optimizer step: a batch of one task, or of several whose losses are summed."""

    batches: tuple[tuple[str, Rows], ...]
    """Task and rows of each global batch, at least one."""


def pass_batches(lengths: np.ndarray, batch_size: int, data: DataConfig, stream: np.random.Generator) -> list[Rows]:
    """Cuts one shuffled pass over a task's rows into batches.

    Args:
        lengths: (rows,) length of each row's input, in word pieces.
        batch_size: rows per batch; one last batch may hold fewer.
        data: whether rows of similar length share a batch.
        stream: source of the shuffle.

    Returns:
        Batches in random order, every row in exactly one.
    """
    rows = stream.permutation(len(lengths))
    if data.bucket_by_length:
        num_batches = -(-len(rows) // batch_size)
        pool = batch_size * max(1, min(data.bucket_batches, num_batches // 8))
        pools = [rows[start : start + pool] for start in range(0, len(rows), pool)]
        rows = np.concatenate([part[np.argsort(lengths[part], kind="stable")] for part in pools])
    batches = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
    return [batches[index] for index in stream.permutation(len(batches))] if data.bucket_by_length else batches


def batches_used(stage: StageConfig, num_batches: Mapping[str, int], num_rows: Mapping[str, int]) -> dict[str, int]:
    """How many batches of each task one pass of the stage's order uses.

    Args:
        stage: the order and its tasks.
        num_batches: batches in one pass over each task.
        num_rows: rows of each task; the largest is the one that `sampled_round_robin` samples.
    """
    used = {task: num_batches[task] for task in stage.tasks}
    if stage.order == "sampled_round_robin" and len(stage.tasks) > 1:
        largest = max(stage.tasks, key=lambda task: num_rows[task])
        rounds = max(count for task, count in used.items() if task != largest)
        used[largest] = min(rounds, used[largest])
    return used


def steps_per_pass(stage: StageConfig, used: Mapping[str, int]) -> int:
    """Optimizer steps of one pass: a step per batch, or per round where losses are summed."""
    return max(used.values()) if stage.sum_losses else sum(used.values())


def pass_steps(stage: StageConfig, batches: Mapping[str, Sequence[Rows]], used: Mapping[str, int]) -> list[Step]:
    """One pass of the stage's order: a batch of each task in turn; a task that has given its batches drops out.

    Args:
        stage: the order and its tasks.
        batches: shuffled batches of each task; the first `used` of them are a random draw.
        used: how many batches of each task the pass uses.
    """
    rounds = [
        [(task, batches[task][turn]) for task in stage.tasks if turn < used[task]] for turn in range(max(used.values()))
    ]
    if stage.sum_losses:
        return [Step(batches=tuple(batch_round)) for batch_round in rounds]
    return [Step(batches=(batch,)) for batch_round in rounds for batch in batch_round]


def epoch_steps(config: TrialConfig, stage_index: int, epoch: int, lengths: Mapping[str, np.ndarray]) -> list[Step]:
    """The steps of one epoch of a stage.

    Args:
        config: the trial's configuration.
        stage_index: which stage, from 0.
        epoch: which epoch of that stage, from 0.
        lengths: (rows,) input length of every train row, by task.

    Returns:
        As many steps as the epoch has, the same on every worker.
    """
    stage = config.stages[stage_index]
    used = used_in_stage(config, stage, {task: len(lengths[task]) for task in stage.tasks})
    pass_length = steps_per_pass(stage, used)
    epoch_length = stage.steps_per_epoch or pass_length
    first, last = epoch * epoch_length, (epoch + 1) * epoch_length
    steps: list[Step] = []
    for number in range(first // pass_length, -(-last // pass_length)):
        batches = {task: shuffled(config, stage_index, task, number, lengths[task]) for task in stage.tasks}
        start = number * pass_length
        steps += pass_steps(stage, batches, used)[max(first - start, 0) : last - start]
    return steps


def used_in_stage(config: TrialConfig, stage: StageConfig, num_rows: Mapping[str, int]) -> dict[str, int]:
    """Batches of each task in one pass of `stage`, from the tasks' numbers of train rows."""
    num_batches = {task: -(-num_rows[task] // config.tasks[task].batch_size) for task in stage.tasks}
    return batches_used(stage, num_batches, num_rows)


def shuffled(config: TrialConfig, stage_index: int, task: str, number: int, lengths: np.ndarray) -> list[Rows]:
    """Batches of pass `number` over a task within a stage."""
    stream = numpy_stream(config.seed, config.replicate, "order", stage_index, task, number)
    return pass_batches(lengths, config.tasks[task].batch_size, config.data, stream)
