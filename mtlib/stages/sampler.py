"""Samplers: the steps of an epoch with the rows of every batch.

A set's rows are seen in passes, every row once per pass, reshuffled for each; `mtlib.stages.draws` decides
which batch of which set a step takes. A step follows from the configuration and its number alone, so there is no
sampler state to save.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mtlib.config.data import DataConfig
from mtlib.config.trial import TrialConfig
from mtlib.runtime.seeds import numpy_stream
from mtlib.stages.draws import batches_per_pass, epoch_draws, stage_sets

Rows = np.ndarray
"""Row numbers of one global batch, int64, (rows,)."""


@dataclass(frozen=True, kw_only=True)
class StepBatch:
    """One global batch of a step."""

    set: str
    """A task, for its own train data, or the name of extra data."""
    rows: Rows
    """Rows of the set's train table."""
    turn: int
    """Which batch of its task within the epoch this is, from 0; all sets of the task count."""


Step = tuple[StepBatch, ...]
"""One optimizer step: a batch of one set, or of several whose losses are summed."""


def epoch_steps(
    config: TrialConfig,
    stage_index: int,
    epoch: int,
    lengths: Mapping[str, np.ndarray],
    own_rows: Mapping[str, int],
) -> list[Step]:
    """Returns the steps of one epoch of a stage, the same on every worker.

    Args:
        config, stage_index: which stage of which trial, from 0.
        epoch: which epoch of that stage, from 0.
        lengths: (rows,) input length of every train row, augmentation included, by set.
        own_rows: train rows without augmentation, by set.
    """
    stage = config.stages[stage_index]
    num_rows = {name: len(lengths[name]) for name in stage_sets(stage)}
    num_batches = batches_per_pass(config, stage, num_rows)
    passes: dict[tuple[str, int], list[Rows]] = {}
    turns: Counter[str] = Counter()

    def batch(name: str, position: int) -> StepBatch:
        number, index = divmod(position, num_batches[name])
        if (name, number) not in passes:
            passes[name, number] = shuffled(config, stage_index, name, number, lengths[name])
        turns[config.task_of(name)] += 1
        return StepBatch(set=name, rows=passes[name, number][index], turn=turns[config.task_of(name)] - 1)

    draws = epoch_draws(config, stage_index, epoch, num_rows, own_rows)
    return [tuple(batch(name, position) for name, position in step) for step in draws]


def shuffled(config: TrialConfig, stage_index: int, name: str, number: int, lengths: np.ndarray) -> list[Rows]:
    """Batches of pass `number` over the set `name` within a stage."""
    stream = numpy_stream(config.seed, config.replicate, "order", stage_index, name, number)
    return pass_batches(lengths, config.batch_size_of(name), config.data, stream)


def pass_batches(lengths: np.ndarray, batch_size: int, data: DataConfig, stream: np.random.Generator) -> list[Rows]:
    """Cuts one shuffled pass over a set's rows into batches.

    With buckets, rows stand in order of length, each moved at random by at most `bucket_batches` batches: rows of
    similar length share a batch, but not the same ones in every pass. The short batch is cut anywhere.

    Args:
        lengths: (rows,) length of each row's input, in word pieces.
        batch_size: rows per batch; one last batch may hold fewer.
        data: whether rows of similar length share a batch.
        stream: source of the shuffle.

    Returns:
        Batches in random order, every row in exactly one.
    """
    rows = stream.permutation(len(lengths))
    starts = range(0, len(rows), batch_size)
    if not data.bucket_by_length:
        return [rows[start : start + batch_size] for start in starts]
    by_length = rows[np.argsort(lengths[rows], kind="stable")]  # rows of one length are in random order
    most = data.bucket_batches * batch_size
    places = np.arange(len(rows)) + stream.uniform(-most, most, len(rows))
    sizes = stream.permutation([len(rows[start : start + batch_size]) for start in starts])
    batches = np.split(by_length[np.argsort(places, kind="stable")], np.cumsum(sizes)[:-1])
    return [batches[index] for index in stream.permutation(len(batches))]
