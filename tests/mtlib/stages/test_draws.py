"""Draws of a stage: its order's rounds as one stream, against loops written from the papers' text."""

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mtlib.config.batch_orders import BATCH_ORDERS
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.runtime.method_file import MODULE_PREFIX
from mtlib.runtime.seeds import stream_seed
from mtlib.stages.draws import Draw, batches_per_pass, epoch_draws, stage_sets, steps_per_epoch
from tests.config_cases import FIXED_ROUND_ORDERS
from tests.one_line_error import one_line_error

Steps = list[tuple[Draw, ...]]

SIZES = {"sst": 2, "qqp": 3, "sts": 4, "cfimdb": 5, "snli": 1}
ALL_SETS: dict[str, Any] = {"tasks": ("sst", "qqp", "sts"), "extra_data": ("snli", "cfimdb")}
NUM_ROWS = {"sst": 8, "qqp": 20, "sts": 11, "snli": 3, "cfimdb": 6}


def config_of(*stages: StageConfig, **changes: Any) -> TrialConfig:
    """A configuration with batches of `SIZES` and factors of 1."""
    tasks = {f"tasks.{name}.batch_size": SIZES[name] for name in ("sst", "qqp", "sts")}
    extra = {f"data.sources.{name}.batch_size": SIZES[name] for name in ("cfimdb", "snli")}
    return TrialConfig(stages=stages).override({**tasks, **extra, "data.sources.snli.probability_factor": 1, **changes})


def draws_of(config: TrialConfig, num_rows: dict[str, int], own_rows: dict[str, int] | None = None) -> list[Steps]:
    """The epochs of the first stage."""
    rows = own_rows or num_rows
    return [epoch_draws(config, 0, epoch, num_rows, rows) for epoch in range(config.stages[0].epochs)]


def joined(epochs: list[Steps]) -> Steps:
    return [step for steps in epochs for step in steps]


def naive_pass(stage: StageConfig, num_rows: dict[str, int], queues: dict[str, Iterator[int]]) -> Steps:
    """One pass, as described in the papers; `queues` holds the remaining batches of each set."""
    left = {name: math.ceil(num_rows[name] / SIZES[name]) for name in (*stage.tasks, *stage.extra_data)}
    given = dict.fromkeys(left, 0)
    largest = sorted(left, key=lambda name: -num_rows[name])[0]
    is_sampled = stage.order == "sampled_round_robin" and len(left) > 1
    steps: Steps = []
    if stage.order == "sequential":
        return [((name, next(queues[name])),) for name, count in left.items() for _ in range(count)]
    small = [name for name in left if not (is_sampled and name == largest)]
    while True:
        has_given = [given[name] >= left[name] for name in small]
        if any(has_given) if stage.order == "smallest_round_robin" else all(has_given):
            for _ in range(left[largest] - given[largest] if is_sampled else 0):
                next(queues[largest])  # these are not drawn in this pass
            return steps
        goes_on = stage.order in ("smallest_round_robin", "max_size_cycle")
        turn = [(name, next(queues[name])) for name in left if goes_on or given[name] < left[name]]
        for name, _ in turn:
            given[name] += 1
        steps += [tuple(turn)] if stage.sum_losses else [(draw,) for draw in turn]


@pytest.mark.parametrize(
    ("order", "sum_losses"),
    [
        ("batch_round_robin", False),
        ("batch_round_robin", True),
        ("smallest_round_robin", True),
        ("sampled_round_robin", False),
        ("max_size_cycle", True),
        ("sequential", False),
    ],
)
def test_three_passes_of_every_fixed_order_match_a_naive_loop(order: str, sum_losses: bool) -> None:
    groups: list[dict[str, Any]] = [{"tasks": ("sst",), "extra_data": ("cfimdb",)}, {"tasks": ("sts", "qqp", "sst")}]
    for group in groups:
        stage = StageConfig(**group, order=order, sum_losses=sum_losses, epochs=3)
        config, sets = config_of(stage), stage_sets(stage)
        for counts in itertools.product((1, 5, 13), repeat=len(sets)):
            num_rows = dict(zip(sets, counts, strict=True))
            queues: dict[str, Iterator[int]] = {name: itertools.count() for name in sets}
            assert draws_of(config, num_rows) == [naive_pass(stage, num_rows, queues) for _ in range(3)], num_rows


@pytest.mark.parametrize("order", BATCH_ORDERS)
def test_a_set_alone_is_the_same_in_every_order(order: str) -> None:
    config = config_of(StageConfig(tasks=("qqp",), order=order, epochs=3))
    assert joined(draws_of(config, NUM_ROWS)) == [(("qqp", position),) for position in range(3 * 7)]


def test_an_epoch_for_each_set_has_its_length_and_continues_its_stream() -> None:
    stage = StageConfig(tasks=("sst",), extra_data=("cfimdb",), order="epoch_round_robin", epochs=4)
    config = config_of(stage)
    assert steps_per_epoch(config, 0, {"sst": 7, "cfimdb": 50}) == (4, 10, 4, 10)
    assert draws_of(config.override({"stages.0.steps_per_epoch": 2}), {"sst": 7, "cfimdb": 50}) == [
        [(("sst", 0),), (("sst", 1),)],
        [(("cfimdb", 0),), (("cfimdb", 1),)],
        [(("sst", 2),), (("sst", 3),)],
        [(("cfimdb", 2),), (("cfimdb", 3),)],
    ]


@pytest.mark.parametrize("order", FIXED_ROUND_ORDERS)
@pytest.mark.parametrize(("length", "sum_losses"), [(1, True), (11, False)])
def test_epochs_of_any_length_are_slices_of_one_stream(order: str, length: int, sum_losses: bool) -> None:
    config = config_of(StageConfig(**ALL_SETS, order=order, sum_losses=sum_losses, epochs=8))
    stream = joined(draws_of(config, NUM_ROWS))
    parts = draws_of(config.override({"stages.0.steps_per_epoch": length}), NUM_ROWS)[: len(stream) // length]
    assert parts
    assert joined(parts) == stream[: len(parts) * length]
    assert {len(part) for part in parts} == {length}


def test_random_orders_are_one_long_loop_with_a_queue_per_set() -> None:
    stage = StageConfig(**ALL_SETS, order="annealed", epochs=6, steps_per_epoch=40)
    config = config_of(stage, **{"seed": 3, "replicate": 2, "tasks.sst.probability_factor": 2})
    own_rows = {"sst": 90, "qqp": 200, "sts": 40, "snli": 1000, "cfimdb": 7}
    factors = {"sst": 2.0, "qqp": 1.0, "sts": 1.0, "snli": 1.0, "cfimdb": 1.0}
    queues = {name: itertools.count() for name in stage_sets(stage)}
    expected: list[Steps] = []
    for epoch in range(6):
        weights = [factors[name] * own_rows[name] ** (1 - 0.8 * epoch / 5) for name in queues]
        ends = list(itertools.accumulate(weight / sum(weights) for weight in weights))
        stream = np.random.default_rng(stream_seed(3, 2, "draw", 0, epoch))
        names = [next(name for name, end in zip(queues, ends, strict=True) if u < end) for u in stream.random(40)]
        expected.append([((name, next(queues[name])),) for name in names])
    assert draws_of(config, dict.fromkeys(own_rows, 30), own_rows) == expected


def test_augmentation_lengthens_passes_but_changes_no_probability() -> None:
    stage = StageConfig(tasks=("sst", "sts"), order="proportional", epochs=3, steps_per_epoch=50)
    config = config_of(stage)
    plain, augmented = {"sst": 30, "sts": 40}, {"sst": 3000, "sts": 41}
    assert batches_per_pass(config, stage, augmented) == {"sst": 1500, "sts": 11}  # the last is short
    assert draws_of(config, augmented, plain) == draws_of(config, plain, plain)
    counted = Counter(step[0][0] for step in joined(draws_of(config, augmented, augmented)))
    assert counted["sst"] > 140  # of 150 with augmentation


@pytest.mark.parametrize(
    ("rounds", "got"),
    [
        ([], "an empty list"),
        ([(0,), (3,)], "(3,)"),
        ([(-1,)], "(-1,)"),
        ([(0,), ()], "()"),
        ([0, 1], "0"),
        (iter([(0,)]), "list_iterator"),
    ],
)
def test_order_whose_rounds_are_no_positions_is_named(rounds: Any, got: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def own_order(_sets: Any, _number: int) -> Any:
        return rounds

    own_order.__module__ = f"{MODULE_PREFIX}of_a_user"
    wrong = dataclasses.replace(BATCH_ORDERS["uniform"], function=own_order)
    monkeypatch.setitem(BATCH_ORDERS, "uniform", wrong)
    config = config_of(StageConfig(tasks=("sst", "qqp", "sts"), order="uniform"))
    rule = "the order uniform must return a list of rounds, each a tuple of positions of sets, 0 to 2"
    assert one_line_error(draws_of, config, NUM_ROWS) == f"{rule}, got {got}"
