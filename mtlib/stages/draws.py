"""The stream of a stage's optimizer steps: for each step, its sets and the numbers of their batches, without rows.

The batches of a set form one endless stream: pass after pass, each over all its rows, reshuffled. All follows from the
configuration, the numbers of rows and the epoch alone, so there is no sampler state to save.
"""

import itertools
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from mtlib.config.batch_orders import Rounds, StageSets
from mtlib.config.schema import settings_of
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.runtime.errors import require
from mtlib.runtime.lazy_functions import is_users_own
from mtlib.runtime.seeds import numpy_stream

Draw = tuple[str, int]
"""A set, and the number of the batch in the set's stream over the stage, from 0."""


def stage_sets(stage: StageConfig) -> tuple[str, ...]:
    """Returns the sets of a stage, in their order: its tasks, then its extra data."""
    return (*stage.tasks, *stage.extra_data)


def batches_per_pass(config: TrialConfig, stage: StageConfig, num_rows: Mapping[str, int]) -> dict[str, int]:
    """Batches in one pass over each set of a stage, the last of which may be short; `num_rows` as in `epoch_draws`."""
    return {name: -(-num_rows[name] // config.batch_size_of(name)) for name in stage_sets(stage)}


def steps_per_epoch(config: TrialConfig, stage_index: int, num_rows: Mapping[str, int]) -> tuple[int, ...]:
    """Optimizer steps of each epoch of a stage, which may differ unless configured; as `epoch_draws`."""
    stage = config.stages[stage_index]
    if stage.steps_per_epoch is not None:
        return (stage.steps_per_epoch,) * stage.epochs
    sets = describe_sets(config, stage_index, num_rows, num_rows)
    return tuple(len(steps_of_pass(stage, sets, number)) for number in range(stage.epochs))


def epoch_draws(
    config: TrialConfig, stage_index: int, epoch: int, num_rows: Mapping[str, int], own_rows: Mapping[str, int]
) -> list[tuple[Draw, ...]]:
    """Returns the steps of one epoch of a stage.

    Args:
        config, stage_index: which stage of which trial, from 0.
        epoch: which epoch of that stage, from 0.
        num_rows: train rows, augmentation included, by set: what a pass covers.
        own_rows: train rows without augmentation, by set: what probabilities count.

    Returns:
        For each step its draws: one, or those of a round where losses are summed.
    """
    lengths = steps_per_epoch(config, stage_index, num_rows)
    first = sum(lengths[:epoch])
    return list(itertools.islice(stage_draws(config, stage_index, num_rows, own_rows), first, first + lengths[epoch]))


def stage_draws(
    config: TrialConfig, stage_index: int, num_rows: Mapping[str, int], own_rows: Mapping[str, int]
) -> Iterator[tuple[Draw, ...]]:
    """Draws a stage's steps without end; takes the arguments of `epoch_draws`.

    Each set continues where the previous pass of the order left it, so that all its rows are used equally often: in
    `smallest_round_robin` the larger sets need several passes; in `max_size_cycle` the next pass first finishes what a
    smaller set has begun. The papers leave this open (My PAL BERT 4.1, BERT and Beyond 3.4).
    """
    stage, names = config.stages[stage_index], stage_sets(config.stages[stage_index])
    sets = describe_sets(config, stage_index, num_rows, own_rows)
    positions = [0] * len(names)
    for number in itertools.count():
        if stage.order_entry.restarts_sets:
            positions = [number * count for count in sets.batches]
        for step in steps_of_pass(stage, sets, number):
            yield tuple((names[index], positions[index]) for index in step)
            for index in step:
                positions[index] += 1


def steps_of_pass(stage: StageConfig, sets: StageSets, number: int) -> Rounds:
    """Pass `number` of a stage's order: positions of the sets of each step. A set alone is the same in every order."""
    if len(sets.batches) == 1:
        return [(0,)] * sets.batches[0]
    order = stage.order_entry
    rounds = order.function(sets, number, **settings_of(order.settings, stage))
    if is_users_own(order.function):  # each pass of each trial comes by here
        check_rounds(stage.order, rounds, len(sets.batches))
    return rounds if stage.sum_losses else [(index,) for step in rounds for index in step]


def check_rounds(order: str, rounds: Any, num_sets: int) -> None:
    """Raises ValueError unless a user's own order has returned rounds of positions of the sets."""
    rule = f"the order {order} must return a list of rounds, each a tuple of positions of sets, 0 to {num_sets - 1}"
    require(isinstance(rounds, list), rule, type(rounds).__name__)
    require(bool(rounds), rule, "an empty list")
    for step in rounds:
        is_round = isinstance(step, tuple) and len(step) > 0
        require(is_round and all(isinstance(at, int | np.integer) and 0 <= at < num_sets for at in step), rule, step)


def describe_sets(
    config: TrialConfig, stage_index: int, num_rows: Mapping[str, int], own_rows: Mapping[str, int]
) -> StageSets:
    """Collects the facts of a stage that its order may use; takes the arguments of `epoch_draws`."""
    stage = config.stages[stage_index]
    names = stage_sets(stage)
    return StageSets(
        batches=tuple(batches_per_pass(config, stage, num_rows).values()),
        rows=tuple(num_rows[name] for name in names),
        own_rows=tuple(own_rows[name] for name in names),
        probability_factors=tuple(config.set_settings(name).probability_factor for name in names),
        num_epochs=stage.epochs,
        steps_per_epoch=stage.steps_per_epoch,
        sums_rounds=stage.sum_losses,
        stream=partial(numpy_stream, config.seed, config.replicate, "draw", stage_index),
    )
