"""The functions of batch orders: rounds by hand, probabilities and shares by the papers' formulas."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mtlib.config.batch_orders import (
    BATCH_ORDERS,
    Rounds,
    StageSets,
    divide_steps,
    unimax_counts,
)
from mtlib.config.schema import fields_of
from tests.config_cases import assert_range


def rounds_in(
    order: str,
    number: int = 0,
    seed: int = 0,
    settings: dict[str, Any] | None = None,
    **facts: Any,
) -> Rounds:
    """The rounds of an order for sets of 2, 4 and 3 batches, with its default settings but for the changes."""
    plain: dict[str, Any] = {
        "batches": (2, 4, 3),
        "rows": (20, 40, 30),
        "own_rows": (20, 40, 30),
        "probability_factors": (1.0, 1.0, 1.0),
        "num_epochs": 5,
        "steps_per_epoch": None,
        "sums_rounds": False,
        "stream": lambda epoch: np.random.default_rng([seed, epoch]),
    }
    defaults = {name: default for name, (_, default) in fields_of([BATCH_ORDERS[order].settings]).items()}
    return BATCH_ORDERS[order].function(StageSets(**plain | facts), number, **defaults | (settings or {}))


@pytest.mark.parametrize("order", BATCH_ORDERS)
def test_every_function_takes_the_settings_by_name_and_does_what_its_entry_says(order: str) -> None:
    entry = BATCH_ORDERS[order]
    parameters = inspect.signature(entry.function).parameters.items()
    required = [name for name, given in parameters if given.default is inspect.Parameter.empty]
    assert required[2:] == list(fields_of([entry.settings]))
    passes = [rounds_in(order, number) for number in range(3)]
    assert {position for rounds in passes for step in rounds for position in step} == {0, 1, 2}
    assert any(len(step) > 1 for rounds in passes for step in rounds) == entry.has_rounds
    depends = rounds_in(order, seed=0, steps_per_epoch=50) != rounds_in(order, seed=1, steps_per_epoch=50)
    assert depends == entry.is_random
    if entry.is_random or entry.is_one_set_per_epoch:
        assert len(rounds_in(order, 3, steps_per_epoch=7)) == 7


@pytest.mark.parametrize(
    ("order", "number", "rounds"),
    [
        ("batch_round_robin", 0, [(0, 1, 2), (0, 1, 2), (1, 2), (1,)]),
        ("sampled_round_robin", 0, [(0, 1, 2), (0, 1, 2), (1, 2)]),
        ("sequential", 0, [(0,)] * 2 + [(1,)] * 4 + [(2,)] * 3),
        ("epoch_round_robin", 5, [(2,)] * 3),
        ("unimax", 0, [(0, 1, 2), (1, 2), (0, 1, 2)]),
    ],
)
def test_rounds_known_by_hand(order: str, number: int, rounds: Rounds) -> None:
    assert rounds_in(order, number, num_epochs=2) == rounds


def test_a_sampled_round_robin_draws_from_the_set_of_most_rows_not_of_most_batches() -> None:
    rounds = rounds_in("sampled_round_robin", rows=(20, 40, 90), batches=(2, 6, 4))
    assert [sum(position in step for step in rounds) for position in range(3)] == [2, 6, 4]
    alone = rounds_in("sampled_round_robin", rows=(20,), batches=(4,))
    assert alone == [(0,)] * 4


@pytest.mark.parametrize("batches", [(7,), (1, 1), (534, 2419, 378), (1, 5000), (5000, 1), (1, 1, 1, 900)])
def test_steps_are_divided_in_proportion_with_at_least_one_each(batches: tuple[int, ...]) -> None:
    assert divide_steps(sum(batches), batches) == list(batches)
    for steps in (*range(len(batches), 60), 200, 100_003):
        shares = divide_steps(steps, batches)
        assert sum(shares) == steps
        exact = [max(1.0, steps * count / sum(batches)) for count in batches]
        most = 1 if min(batches) * steps >= sum(batches) else len(batches)  # sets of less than a step take from others
        assert all(share >= 1 and abs(share - part) <= most for share, part in zip(shares, exact, strict=True))


@pytest.mark.parametrize(
    ("order", "exponent"),
    [
        ("uniform", lambda _epoch: 0),
        ("proportional", lambda _epoch: 1),
        ("square_root", lambda _epoch: 0.5),
        ("annealed", lambda epoch: 1 - 0.8 * epoch / 4),
    ],
)
def test_sets_are_drawn_with_the_probabilities_of_the_papers(order: str, exponent: Callable[[int], float]) -> None:
    """Against the inverse of the distribution function, on the same draws; augmented rows do not count."""
    factors, own_rows = np.array([0.5, 1, 3]), np.array([4, 25, 11])
    for epoch in range(5):
        weights = factors * own_rows ** exponent(epoch)
        expected = np.searchsorted(np.cumsum(weights) / weights.sum(), np.random.default_rng([0, epoch]).random(999))
        facts: dict[str, Any] = {"probability_factors": factors, "own_rows": own_rows, "steps_per_epoch": 999}
        assert rounds_in(order, epoch, **facts) == [(position,) for position in expected]


def naive_unimax(sizes: list[int], budget: float, max_passes: int) -> list[float]:
    """Algorithm 1 of Chung et al. 2023: the probability of each language, from its size and the budget."""
    left, given = budget, [0.0] * len(sizes)
    for place, index in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        share = left / (len(sizes) - place)
        given[index] = sizes[index] * max_passes if share / sizes[index] > max_passes else share
        left -= given[index]
    return [part / sum(given) for part in given]


@pytest.mark.parametrize("max_passes", [1, 2, 5])
def test_unimax_counts_are_the_published_proportions(max_passes: int) -> None:
    stream = np.random.default_rng(0)
    for _ in range(100):
        sizes = stream.integers(1, 1000, size=stream.integers(2, 6)).tolist()
        steps = int(stream.integers(1, 2 * max_passes * sum(sizes)))
        found = unimax_counts(sizes, steps, max_passes)
        expected = [steps * part for part in naive_unimax(sizes, steps, max_passes)]
        assert sum(found) == steps
        assert found == pytest.approx(expected, abs=len(sizes)), (sizes, steps)


@pytest.mark.parametrize(("steps_per_epoch", "sums_rounds"), [(9, False), (4, True), (None, False), (None, True)])
def test_unimax_spreads_the_batches_of_each_set_evenly_over_the_stage(
    steps_per_epoch: int | None, sums_rounds: bool
) -> None:
    """Sets of 2, 4 and 3 batches, five epochs: 45 steps or 20 rounds are five passes, 40 batches more than four."""
    facts: dict[str, Any] = {"steps_per_epoch": steps_per_epoch, "sums_rounds": sums_rounds}
    epochs = [rounds_in("unimax", number, **facts) for number in range(5)]
    counts = np.array([[sum(position in step for step in epoch) for position in range(3)] for epoch in epochs])
    assert counts.sum(axis=0).tolist() == ([8, 18, 14] if steps_per_epoch is None else [10, 20, 15])
    assert np.ptp(counts, axis=0).max() <= 1


@pytest.mark.parametrize(
    ("name", "outside", "inside"), [("annealing", -1e-9, 0.0), ("annealing", 1.001, 1.0), ("max_passes", 0, 1)]
)
def test_settings_have_ranges(name: str, outside: float, inside: float) -> None:
    assert_range(f"stages.0.{name}", outside, inside)
