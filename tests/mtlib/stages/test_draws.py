"""Batch orders against loops written from the papers' text, and probabilities by hand."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from scipy.stats import chisquare

from mtlib.config.batch_orders import BATCH_ORDERS, divide_steps
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.runtime.seeds import numpy_stream, stream_seed
from mtlib.stages.draws import (
    Draw,
    batches_per_pass,
    describe_sets,
    epoch_draws,
    stage_draws,
    stage_sets,
    steps_of_pass,
    steps_per_epoch,
)
from tests.config_cases import FIXED_ROUND_ORDERS, RANDOM_ORDERS
from tests.method_tables import ROUND_ORDERS

Steps = list[tuple[Draw, ...]]

SIZES = {"sst": 2, "qqp": 3, "sts": 4, "cfimdb": 5, "snli": 1}
ALL_SETS: dict[str, Any] = {"tasks": ("sst", "qqp", "sts"), "extra_data": ("snli", "cfimdb")}
GROUPS: tuple[dict[str, Any], ...] = (
    {"tasks": ("qqp",)},
    {"tasks": ("sts", "qqp")},
    {"tasks": ("sst",), "extra_data": ("cfimdb",)},
    {"tasks": ("sst", "qqp", "sts")},
)
CS224N_ROWS = {"sst": 8544, "qqp": 141498, "sts": 6040}


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
    ("order", "sum_losses"), [*itertools.product(FIXED_ROUND_ORDERS, (False, True)), ("sequential", 0)]
)
def test_three_passes_of_every_fixed_order_match_a_naive_loop(order: str, sum_losses: int) -> None:
    for group in GROUPS:
        stage = StageConfig(**group, order=order, sum_losses=bool(sum_losses), epochs=3)
        sets = stage_sets(stage)
        for counts in itertools.product((1, 5, 6, 13), repeat=len(sets)):
            num_rows = dict(zip(sets, counts, strict=True))
            queues: dict[str, Iterator[int]] = {name: itertools.count() for name in sets}
            epochs = draws_of(config_of(stage), num_rows)
            assert epochs == [naive_pass(stage, num_rows, queues) for _ in range(3)], num_rows


def test_sets_come_in_the_order_of_tasks_then_of_extra_data() -> None:
    assert stage_sets(StageConfig(**ALL_SETS)) == ("sst", "qqp", "sts", "snli", "cfimdb")
    steps = draws_of(config_of(StageConfig(**ALL_SETS)), dict.fromkeys(SIZES, 5))[0]
    assert [step[0][0] for step in steps[:5]] == ["sst", "qqp", "sts", "snli", "cfimdb"]


def test_batches_of_a_pass_are_rows_by_batch_size_rounded_up() -> None:
    stage = StageConfig(**ALL_SETS)
    num_rows = {"sst": 4, "qqp": 4, "sts": 4, "snli": 4, "cfimdb": 4}
    counts = batches_per_pass(config_of(stage), stage, num_rows)
    assert counts == {"sst": 2, "qqp": 2, "sts": 1, "snli": 4, "cfimdb": 1}


BY_HAND = {"sst": 4, "qqp": 12, "sts": 12}
"""2, 4 and 3 batches."""
KNOWN: dict[str, list[str]] = {
    "batch_round_robin": ["sst0 qqp0 sts0", "sst1 qqp1 sts1", "qqp2 sts2", "qqp3"],
    "smallest_round_robin": ["sst0 qqp0 sts0", "sst1 qqp1 sts1"],
    "sampled_round_robin": ["sst0 qqp0 sts0", "sst1 qqp1 sts1", "qqp2 sts2"],
    "max_size_cycle": ["sst0 qqp0 sts0", "sst1 qqp1 sts1", "sst2 qqp2 sts2", "sst3 qqp3 sts3"],
    "unimax": ["sst0 qqp0 sts0", "qqp1 sts1", "sst1 qqp2 sts2"],  # 16 batches in all: 4, 6 and 6
}
SECOND: dict[str, list[str]] = {
    "batch_round_robin": ["sst2 qqp4 sts3", "sst3 qqp5 sts4", "qqp6 sts5", "qqp7"],
    "smallest_round_robin": ["sst2 qqp2 sts2", "sst3 qqp3 sts3"],
    "sampled_round_robin": ["sst2 qqp4 sts3", "sst3 qqp5 sts4", "qqp6 sts5"],
    "max_size_cycle": ["sst4 qqp4 sts4", "sst5 qqp5 sts5", "sst6 qqp6 sts6", "sst7 qqp7 sts7"],
    "unimax": ["sst2 qqp3 sts3", "qqp4 sts4", "sst3 qqp5 sts5"],
}


@pytest.mark.parametrize("order", ROUND_ORDERS)
def test_rounds_known_by_hand(order: str) -> None:
    stage = StageConfig(tasks=("sst", "qqp", "sts"), order=order, epochs=2)
    rounds = [" ".join(f"{name}{position}" for name, position in step) for step in joined(summed(stage))]
    assert rounds == KNOWN[order] + SECOND[order]
    alternating = [f"{name}{position}" for ((name, position),) in joined(draws_of(config_of(stage), BY_HAND))]
    assert alternating == " ".join(KNOWN[order] + SECOND[order]).split()


def summed(stage: StageConfig) -> list[Steps]:
    return draws_of(config_of(stage).override({"stages.0.sum_losses": True}), BY_HAND)


@pytest.mark.parametrize(
    ("steps", "first", "second"),
    [
        (3, "sst0 qqp0 sts0", "sst1 qqp1 sts1"),
        (4, "sst0 qqp0 sts0 sts1", "sst1 qqp1 sts2 sts3"),
        (5, "sst0 qqp0 qqp1 sts0 sts1", "sst1 qqp2 qqp3 sts2 sts3"),
        (9, "sst0 sst1 qqp0 qqp1 qqp2 qqp3 sts0 sts1 sts2", "sst2 sst3 qqp4 qqp5 qqp6 qqp7 sts3 sts4 sts5"),
    ],
)
def test_sequential_steps_are_divided_among_the_sets_in_each_epoch(steps: int, first: str, second: str) -> None:
    stage = StageConfig(tasks=("sst", "qqp", "sts"), order="sequential", epochs=2, steps_per_epoch=steps)
    epochs = draws_of(config_of(stage), BY_HAND)
    assert [" ".join(f"{name}{position}" for ((name, position),) in steps) for steps in epochs] == [first, second]


@pytest.mark.parametrize(
    "batches", [(1,), (7,), (1, 1), (534, 2419, 378), (1, 5000), (5000, 1), (1, 1, 1, 900), (3, 3, 3)]
)
def test_steps_are_divided_in_proportion_with_at_least_one_each(batches: tuple[int, ...]) -> None:
    assert divide_steps(sum(batches), batches) == list(batches)
    for steps in (*range(len(batches), 60), 200, 100_003):
        shares = divide_steps(steps, batches)
        assert sum(shares) == steps
        exact = [max(1.0, steps * count / sum(batches)) for count in batches]
        most = 1 if min(batches) * steps >= sum(batches) else len(batches)  # sets of less than a step take from others
        assert all(share >= 1 and abs(share - part) <= most for share, part in zip(shares, exact, strict=True))


def test_sequential_and_epoch_round_robin_known_by_hand() -> None:
    tasks = ("sst", "qqp", "sts")
    sequential = joined(draws_of(config_of(StageConfig(tasks=tasks, order="sequential", epochs=2)), BY_HAND))
    first = ["sst0", "sst1", "qqp0", "qqp1", "qqp2", "qqp3", "sts0", "sts1", "sts2"]
    second = ["sst2", "sst3", "qqp4", "qqp5", "qqp6", "qqp7", "sts3", "sts4", "sts5"]
    assert [f"{name}{position}" for ((name, position),) in sequential] == first + second
    by_epoch = draws_of(config_of(StageConfig(tasks=tasks, order="epoch_round_robin", epochs=5)), BY_HAND)
    names = [[f"{name}{position}" for ((name, position),) in steps] for steps in by_epoch]
    whole = [["sst0", "sst1"], ["qqp0", "qqp1", "qqp2", "qqp3"], ["sts0", "sts1", "sts2"]]
    assert names == [*whole, ["sst2", "sst3"], ["qqp4", "qqp5", "qqp6", "qqp7"]]


def test_epochs_of_an_epoch_round_robin_have_the_length_of_their_set() -> None:
    stage = StageConfig(tasks=("sst",), extra_data=("cfimdb",), order="epoch_round_robin", epochs=5)
    assert steps_per_epoch(config_of(stage), 0, {"sst": 7, "cfimdb": 50}) == (4, 10, 4, 10, 4)


def test_an_epoch_round_robin_of_given_length_continues_each_sets_own_stream() -> None:
    stage = StageConfig(tasks=("sst", "qqp"), order="epoch_round_robin", epochs=4, steps_per_epoch=3)
    epochs = draws_of(config_of(stage), BY_HAND)
    assert [[step[0] for step in steps] for steps in epochs] == [
        [("sst", 0), ("sst", 1), ("sst", 2)],
        [("qqp", 0), ("qqp", 1), ("qqp", 2)],
        [("sst", 3), ("sst", 4), ("sst", 5)],
        [("qqp", 3), ("qqp", 4), ("qqp", 5)],
    ]


@pytest.mark.parametrize("sum_losses", [False, True])
@pytest.mark.parametrize("order", FIXED_ROUND_ORDERS)
@pytest.mark.parametrize("length", [1, 4, 9, 11, 37])
def test_epochs_of_any_length_are_slices_of_one_stream(order: str, sum_losses: bool, length: int) -> None:
    num_rows = {"sst": 8, "qqp": 20, "sts": 11, "snli": 3, "cfimdb": 6}
    stage = StageConfig(**ALL_SETS, order=order, sum_losses=sum_losses, epochs=20)
    stream = joined(draws_of(config_of(stage), num_rows))
    cut = config_of(stage).override({"stages.0.steps_per_epoch": length})
    parts = draws_of(cut, num_rows)[: len(stream) // length]
    assert parts
    assert joined(parts) == stream[: len(parts) * length]
    assert {len(part) for part in parts} == {length}


@pytest.mark.parametrize("order", BATCH_ORDERS)
@pytest.mark.parametrize("length", [None, 7])
def test_no_batch_of_a_stream_is_repeated_or_skipped(order: str, length: int | None) -> None:
    """A sampled round robin skips batches of the set that it draws from, but repeats none."""
    stage = StageConfig(**ALL_SETS, order=order, epochs=12, steps_per_epoch=length)
    num_rows = {"sst": 8, "qqp": 20, "sts": 11, "snli": 3, "cfimdb": 6}
    draws = [draw for step in joined(draws_of(config_of(stage), num_rows)) for draw in step]
    for name in stage_sets(stage):
        positions = [position for drawn, position in draws if drawn == name]
        assert positions == sorted(set(positions))
        if (order, name) != ("sampled_round_robin", "qqp"):
            assert positions == list(range(len(positions)))


@pytest.mark.parametrize("order", BATCH_ORDERS)
@pytest.mark.parametrize("length", [None, 5])
def test_a_single_set_has_the_same_batches_in_every_order(order: str, length: int | None) -> None:
    stage = StageConfig(tasks=("qqp",), order=order, epochs=3, steps_per_epoch=length)
    steps = joined(draws_of(config_of(stage), {"qqp": 20}))
    assert steps == [(("qqp", position),) for position in range(3 * (length or 7))]


@pytest.mark.parametrize("order", RANDOM_ORDERS)
def test_random_orders_are_one_long_loop_with_a_queue_per_set(order: str) -> None:
    stage = StageConfig(**ALL_SETS, order=order, epochs=6, steps_per_epoch=40)
    config = config_of(stage, **{"seed": 3, "replicate": 2, "tasks.sst.probability_factor": 2})
    own_rows = {"sst": 90, "qqp": 200, "sts": 40, "snli": 1000, "cfimdb": 7}
    factors = {"sst": 2.0, "qqp": 1.0, "sts": 1.0, "snli": 1.0, "cfimdb": 1.0}
    queues = {name: itertools.count() for name in stage_sets(stage)}
    expected: list[Steps] = []
    for epoch in range(6):
        alpha = {"uniform": 0, "proportional": 1, "square_root": 0.5, "annealed": 1 - 0.8 * epoch / 5}[order]
        weights = [factors[name] * own_rows[name] ** alpha for name in queues]
        ends = list(itertools.accumulate(weight / sum(weights) for weight in weights))
        stream = np.random.default_rng(stream_seed(3, 2, "draw", 0, epoch))
        names = [next(name for name, end in zip(queues, ends, strict=True) if u < end) for u in stream.random(40)]
        expected.append([((name, next(queues[name])),) for name in names])
    assert draws_of(config, dict.fromkeys(own_rows, 30), own_rows) == expected


@pytest.mark.parametrize("order", RANDOM_ORDERS)
def test_an_epoch_of_a_random_order_has_the_length_of_one_pass_over_all_sets(order: str) -> None:
    stage = StageConfig(**ALL_SETS, order=order, epochs=2)
    num_rows = {"sst": 8, "qqp": 20, "sts": 11, "snli": 3, "cfimdb": 6}
    assert steps_per_epoch(config_of(stage), 0, num_rows) == (4 + 7 + 3 + 3 + 2,) * 2


def probs_of(order: str, own_rows: dict[str, int], epoch: int = 0, **changes: Any) -> list[float]:
    tasks = tuple(name for name in own_rows if name in ("sst", "qqp", "sts"))
    extra = tuple(name for name in own_rows if name not in tasks)
    config = config_of(StageConfig(tasks=tasks, extra_data=extra, order=order, epochs=5), **changes)
    return probs_in(config, epoch, own_rows)


def probs_in(config: TrialConfig, epoch: int, own_rows: dict[str, int]) -> list[float]:
    """The probabilities that the first stage's order passes to its stream of draws."""
    stage, stream = config.stages[0], Mock()
    stream.choice.return_value = []
    sets = replace(describe_sets(config, 0, own_rows, own_rows), stream=lambda _epoch: stream)
    steps_of_pass(stage, sets, epoch)
    return [float(prob) for prob in stream.choice.call_args.kwargs["p"]]


def drawn_sets(config: TrialConfig, epoch: int, num_steps: int) -> list[int]:
    """The set of each step of an epoch of the first stage, by position."""
    names = stage_sets(config.stages[0])
    config = config.override({"stages.0.steps_per_epoch": num_steps})
    return [names.index(name) for ((name, _),) in epoch_draws(config, 0, epoch, CS224N_ROWS, CS224N_ROWS)]


def test_probabilities_known_by_hand() -> None:
    rows = {"sst": 16, "qqp": 81, "sts": 1}
    assert probs_of("uniform", rows) == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert probs_of("proportional", rows) == pytest.approx([16 / 98, 81 / 98, 1 / 98])
    assert probs_of("square_root", rows) == pytest.approx([4 / 14, 9 / 14, 1 / 14])
    assert probs_of("annealed", rows, 0) == pytest.approx([16 / 98, 81 / 98, 1 / 98])
    assert probs_of("annealed", rows, 4, **{"stages.0.annealing": 0.75}) == pytest.approx([2 / 6, 3 / 6, 1 / 6])
    assert probs_of("annealed", rows, 2, **{"stages.0.annealing": 1}) == pytest.approx([4 / 14, 9 / 14, 1 / 14])


def test_annealed_probabilities_of_the_cs224n_data_in_the_first_and_last_epoch() -> None:
    # 8544 + 141498 + 6040 = 156082; 8544^.2 = 6.1141, 141498^.2 = 10.7189, 6040^.2 = 5.7044, in all 22.5374.
    assert probs_of("annealed", CS224N_ROWS, 0) == pytest.approx([0.05474, 0.90656, 0.03870], abs=1e-5)
    assert probs_of("annealed", CS224N_ROWS, 4) == pytest.approx([0.27129, 0.47561, 0.25311], abs=1e-5)


def test_annealing_is_linear_from_1_by_its_amount() -> None:
    rows = {"sst": 10, "sts": 1}
    odds = [first / second for first, second in (probs_of("annealed", rows, epoch) for epoch in range(5))]
    assert np.log10(odds) == pytest.approx([1, 0.8, 0.6, 0.4, 0.2])
    single = config_of(StageConfig(tasks=("sst", "sts"), order="annealed", epochs=1))
    assert probs_in(single, 0, rows) == pytest.approx([10 / 11, 1 / 11])


def test_no_annealing_is_proportional_and_full_annealing_ends_uniform() -> None:
    assert probs_of("annealed", CS224N_ROWS, 4, **{"stages.0.annealing": 0}) == probs_of("proportional", CS224N_ROWS)
    assert probs_of("annealed", CS224N_ROWS, 4, **{"stages.0.annealing": 1}) == probs_of("uniform", CS224N_ROWS)


def test_a_factor_of_a_tenth_divides_the_odds_by_ten() -> None:
    rows = {"qqp": 400, "snli": 1600}
    tenth: dict[str, Any] = {"data.sources.snli.probability_factor": 0.1}
    assert probs_of("proportional", rows) == pytest.approx([1 / 5, 4 / 5])
    assert probs_of("proportional", rows, **tenth) == pytest.approx([400 / 560, 160 / 560])
    assert probs_of("uniform", rows, **tenth) == pytest.approx([10 / 11, 1 / 11])
    assert probs_of("square_root", rows, **tenth) == pytest.approx([20 / 24, 4 / 24])
    both: dict[str, Any] = {**tenth, "tasks.qqp.probability_factor": 0.1}
    assert probs_of("proportional", rows, **both) == pytest.approx([1 / 5, 4 / 5])


@pytest.mark.parametrize("order", RANDOM_ORDERS)
@pytest.mark.parametrize("epoch", [0, 4])
def test_sets_are_drawn_with_their_probabilities(order: str, epoch: int) -> None:
    stage = StageConfig(tasks=("sst", "qqp", "sts"), order=order, epochs=5)
    config = config_of(stage, **{"tasks.sts.probability_factor": 3})
    drawn = drawn_sets(config, epoch, 20_000)
    alpha = {"uniform": 0, "proportional": 1, "square_root": 0.5, "annealed": 1 - 0.2 * epoch}[order]
    weights = np.array([8544**alpha, 141498**alpha, 3 * 6040**alpha])
    seen = np.bincount(drawn, minlength=3)
    assert chisquare(seen, 20_000 * weights / weights.sum()).pvalue > 0.01
    wrong = weights / [1, 1, 1.5]  # enough draws to detect a wrong factor
    assert chisquare(seen, 20_000 * wrong / wrong.sum()).pvalue < 1e-6


def test_draws_of_adjacent_steps_and_epochs_are_independent() -> None:
    stage = StageConfig(tasks=("sst", "qqp"), order="uniform", epochs=40)
    config = config_of(stage)
    drawn = np.array([drawn_sets(config, epoch, 500) for epoch in range(40)])
    assert abs(np.corrcoef(drawn[:, 1:].ravel(), drawn[:, :-1].ravel())[0, 1]) < 0.03
    assert abs(np.corrcoef(drawn[1:].ravel(), drawn[:-1].ravel())[0, 1]) < 0.03
    assert drawn.sum(axis=1).std() == pytest.approx(math.sqrt(500 / 4), rel=0.35)


def test_draws_depend_on_seed_replicate_stage_and_epoch_and_no_global_state() -> None:
    stage = StageConfig(tasks=("sst", "qqp"), order="uniform", epochs=2, steps_per_epoch=64)
    config = config_of(stage, stage)

    def names(changed: TrialConfig, stage_index: int, epoch: int) -> tuple[str, ...]:
        return tuple(step[0][0] for step in epoch_draws(changed, stage_index, epoch, CS224N_ROWS, CS224N_ROWS))

    base = names(config, 0, 0)
    others = [
        names(config.override({"seed": 1}), 0, 0),
        names(config.override({"replicate": 1}), 0, 0),
        names(config, 1, 0),
        names(config, 0, 1),
    ]
    assert len({base, *others}) == 5
    np.random.seed(8)
    state = repr(np.random.get_state())
    assert names(config.override({"optimizer.learning_rate": 1e-3, "tasks.sst.batch_size": 9}), 0, 0) == base
    assert repr(np.random.get_state()) == state


def test_augmentation_lengthens_passes_but_changes_no_probability() -> None:
    stage = StageConfig(tasks=("sst", "sts"), order="proportional", epochs=3, steps_per_epoch=50)
    config = config_of(stage)
    own_rows = {"sst": 30, "sts": 40}
    plain, augmented = own_rows, {"sst": 3000, "sts": 40}
    assert batches_per_pass(config, stage, augmented) == {"sst": 1500, "sts": 10}
    assert probs_in(config, 0, own_rows) == pytest.approx([3 / 7, 4 / 7])
    assert draws_of(config, augmented, own_rows) == draws_of(config, plain, own_rows)
    counted = Counter(step[0][0] for step in joined(draws_of(config, augmented, augmented)))
    assert counted["sst"] > 140  # of 150 with augmentation


def test_a_late_epoch_continues_after_the_draws_of_all_earlier_epochs() -> None:
    stage = StageConfig(tasks=("sst", "qqp", "sts"), order="annealed", epochs=200, steps_per_epoch=30)
    config = config_of(stage)
    epochs = list(itertools.islice(stage_draws(config, 0, CS224N_ROWS, CS224N_ROWS), 150 * 30))
    before = Counter(name for ((name, _),) in epochs)
    first: dict[str, int] = {}
    for ((name, position),) in epoch_draws(config, 0, 150, CS224N_ROWS, CS224N_ROWS):
        first.setdefault(name, position)
    assert set(first) == set(CS224N_ROWS)
    assert first == {name: before[name] for name in first}


def test_the_seed_of_a_draw_includes_its_purpose() -> None:
    config = config_of(StageConfig(tasks=("sst", "qqp"), order="uniform", epochs=2))
    expected = numpy_stream(0, 0, "draw", 0, 1).choice(2, size=30, p=[0.5, 0.5])
    assert drawn_sets(config, 1, 30) == expected.tolist()
