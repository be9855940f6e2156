"""The table of batch orders: each entry matches its function."""

import inspect

import numpy as np
import pytest

from mtlib.config.batch_orders import BATCH_ORDERS, ROUND_ORDERS, Rounds, StageSets
from mtlib.config.schema import fields_of
from tests.mtlib.config.config_cases import RANDOM_ORDERS, undescribed_fields


def rounds_in(order: str, number: int = 0, seed: int = 0, steps_per_epoch: int | None = None) -> Rounds:
    """The rounds of an order for sets of 2, 4 and 3 batches, with its default settings."""
    sets = StageSets(
        batches=(2, 4, 3),
        rows=(20, 40, 30),
        own_rows=(20, 40, 30),
        probability_factors=(1.0, 1.0, 1.0),
        num_epochs=5,
        steps_per_epoch=steps_per_epoch,
        stream=lambda epoch: np.random.default_rng([seed, epoch]),
    )
    settings = {name: default for name, (_, default) in fields_of([BATCH_ORDERS[order].settings]).items()}
    return BATCH_ORDERS[order].function(sets, number, **settings)


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


def test_titles_are_unique() -> None:
    assert len({order.title for order in BATCH_ORDERS.values()}) == len(BATCH_ORDERS)


def test_every_field_has_a_docstring() -> None:
    assert undescribed_fields("batch_orders.py") == []
