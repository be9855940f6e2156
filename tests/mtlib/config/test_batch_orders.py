"""The table of batch orders: each entry matches its function."""

import inspect

import numpy as np
import pytest

from mtlib.config.batch_orders import (
    BATCH_ORDERS,
    Rounds,
    StageSets,
    unimax_counts,
    unimax_counts_in_rounds,
)
from mtlib.config.schema import fields_of
from tests.config_cases import RANDOM_ORDERS, undescribed_fields
from tests.method_tables import ROUND_ORDERS


def rounds_in(
    order: str,
    number: int = 0,
    seed: int = 0,
    steps_per_epoch: int | None = None,
    sums_rounds: bool = False,
    **changes: int,
) -> Rounds:
    """The rounds of an order for sets of 2, 4 and 3 batches, with its default settings but for the changes."""
    sets = StageSets(
        batches=(2, 4, 3),
        rows=(20, 40, 30),
        own_rows=(20, 40, 30),
        probability_factors=(1.0, 1.0, 1.0),
        num_epochs=5,
        steps_per_epoch=steps_per_epoch,
        sums_rounds=sums_rounds,
        stream=lambda epoch: np.random.default_rng([seed, epoch]),
    )
    settings = {name: default for name, (_, default) in fields_of([BATCH_ORDERS[order].settings]).items()}
    return BATCH_ORDERS[order].function(sets, number, **{**settings, **changes})


@pytest.mark.parametrize("order", BATCH_ORDERS)
def test_every_function_takes_the_settings_by_name_and_yields_sets_by_position(order: str) -> None:
    signature = inspect.signature(BATCH_ORDERS[order].function)
    parameters = [name for name, given in signature.parameters.items() if given.default is inspect.Parameter.empty]
    assert parameters[2:] == list(fields_of([BATCH_ORDERS[order].settings]))
    assert {position for step in rounds_in(order) for position in step} <= {0, 1, 2}


@pytest.mark.parametrize("order", BATCH_ORDERS)
def test_orders_without_rounds_give_one_set_at_a_time(order: str) -> None:
    has_several = any(len(step) > 1 for number in range(3) for step in rounds_in(order, number))
    assert has_several == (order in ROUND_ORDERS)


@pytest.mark.parametrize("order", BATCH_ORDERS)
def test_only_random_orders_depend_on_the_stream(order: str) -> None:
    depends = rounds_in(order, seed=0, steps_per_epoch=50) != rounds_in(order, seed=1, steps_per_epoch=50)
    assert depends == (order in RANDOM_ORDERS)


@pytest.mark.parametrize("order", [*RANDOM_ORDERS, "epoch_round_robin"])
def test_orders_that_depend_on_the_epoch_have_its_number_of_rounds(order: str) -> None:
    assert len(rounds_in(order, 3, steps_per_epoch=7)) == 7


@pytest.mark.parametrize(
    ("steps", "max_passes", "counts"),
    [
        (600, 3, [200, 200, 200]),  # no set has three passes
        (1530, 3, [510, 510, 510]),  # the smallest has just three
        (1531, 3, [510, 511, 510]),
        (3260, 3, [723, 2027, 510]),  # two sets have three, the largest has the rest
        (4497, 3, [723, 3264, 510]),  # all have three
        (4498, 3, [723, 3264, 511]),  # more than three: each as many
        (8994, 3, [1446, 6528, 1020]),
        (3260, 1, [524, 2366, 370]),
        (2, 3, [1, 1, 0]),
    ],
)
def test_unimax_divides_the_steps_as_by_hand(steps: int, max_passes: int, counts: list[int]) -> None:
    found = unimax_counts([241, 1088, 170], steps, max_passes)
    assert sum(found) == steps
    assert found == counts


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
    for _ in range(200):
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
    epochs = [rounds_in("unimax", number, 0, steps_per_epoch, sums_rounds) for number in range(5)]
    counts = np.array([[sum(position in step for step in epoch) for position in range(3)] for epoch in epochs])
    assert counts.sum(axis=0).tolist() == ([8, 18, 14] if steps_per_epoch is None else [10, 20, 15])
    assert np.ptp(counts, axis=0).max() <= 1


def test_unimax_rounds_by_hand() -> None:
    """Two epochs of a set in every round, one in half and one in three quarters of the rounds."""
    epochs = [rounds_in("unimax", number, steps_per_epoch=9) for number in range(2)]
    assert epochs == [[(1, 2), (0, 1), (1, 2), (0, 1, 2)], [(1, 2), (0, 1), (1, 2), (0, 1, 2)]]


@pytest.mark.parametrize("sums_rounds", [False, True])
def test_unimax_takes_turns_where_no_set_reaches_its_passes(sums_rounds: bool) -> None:
    steps = 1 if sums_rounds else 3
    assert rounds_in("unimax", 1, steps_per_epoch=steps, sums_rounds=sums_rounds, max_passes=3) == [(0, 1, 2)]


@pytest.mark.parametrize(
    ("rounds", "counts"), [(200, [200, 200, 200]), (2000, [723, 2000, 510]), (4352, [964, 4352, 680])]
)
def test_unimax_counts_in_rounds_by_hand(rounds: int, counts: list[int]) -> None:
    assert unimax_counts_in_rounds([241, 1088, 170], rounds, 3) == counts


def test_titles_are_unique() -> None:
    assert len({order.title for order in BATCH_ORDERS.values()}) == len(BATCH_ORDERS)


def test_every_field_has_a_docstring() -> None:
    assert undescribed_fields("batch_orders.py") == []
