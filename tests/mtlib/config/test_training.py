"""Stages and optimizer: every range on both sides."""

from typing import Any

import pytest

from mtlib.config.batch_orders import BATCH_ORDERS
from mtlib.config.training import StageConfig
from tests.config_cases import BASE, assert_range, override_error


@pytest.mark.parametrize(
    ("key", "outside", "inside"),
    [
        ("stages.0.tasks", ["sst", "sst"], ["qqp", "sst"]),
        ("stages.0.extra_data", ["cfimdb", "cfimdb"], ["cfimdb"]),
        ("stages.0.epochs", 0, 1),
        ("stages.0.score_every", 0, 1),
        ("stages.0.steps_per_epoch", 0, 1),
        ("stages.0.micro_batch_size", 0, 1),
        ("stages.0.patience", 0, 1),
        ("optimizer.learning_rate", 0.0, 1e-12),
        ("optimizer.head_learning_rate", 0.0, 1e-12),
        ("optimizer.weight_decay", -1e-9, 0.0),
        ("optimizer.layer_decay", 0.0, 1e-9),
        ("optimizer.layer_decay", 1.001, 1.0),
        ("optimizer.chosen_scale", -1e-9, 1.0),
        ("optimizer.other_scale", -1e-9, 1.0),
        ("optimizer.beta1", -1e-9, 0.0),
        ("optimizer.beta1", 1.0, 0.999),
        ("optimizer.beta2", -1e-9, 0.0),
        ("optimizer.beta2", 1.0, 0.9999),
        ("optimizer.epsilon", 0.0, 1e-12),
        ("optimizer.warmup_fraction", -1e-9, 0.0),
        ("optimizer.warmup_fraction", 1.0, 0.999),
        ("optimizer.average_power", -1e-9, 0.0),
        ("optimizer.clip_norm", 0.0, 1e-12),
    ],
)
def test_settings_have_ranges(key: str, outside: Any, inside: Any) -> None:
    assert_range(key, outside, inside)


@pytest.mark.parametrize(
    ("epochs", "every", "scored"),
    [(3, 1, (1, 2, 3)), (6, 2, (2, 4, 6)), (7, 3, (3, 6, 7)), (3, 4, (3,))],
)
def test_every_so_manieth_epoch_and_the_last_are_scored(epochs: int, every: int, scored: tuple[int, ...]) -> None:
    assert StageConfig(tasks=("sst",), epochs=epochs, score_every=every).scored_epochs == scored


@pytest.mark.parametrize("order", BATCH_ORDERS)
def test_losses_are_summed_only_in_orders_with_rounds(order: str) -> None:
    changes = {"stages.0.order": order, "stages.0.epochs": 3, "stages.0.sum_losses": True}  # an epoch for each set
    if BATCH_ORDERS[order].has_rounds:
        assert BASE.override(changes).stages[0].sums_tasks
        assert not BASE.override({**changes, "stages.0.tasks": "sst"}).stages[0].sums_tasks
    else:
        assert override_error(changes).startswith("stages.0: sum_losses needs rounds: order must be one of ")
    assert not BASE.override({**changes, "stages.0.sum_losses": False}).stages[0].sums_tasks


@pytest.mark.parametrize(("order", "name"), [("epoch_round_robin", "epochs"), ("sequential", "steps_per_epoch")])
@pytest.mark.parametrize(("extra", "sets"), [([], 3), (["snli"], 4)])
def test_no_set_is_left_out_of_an_order_of_whole_sets(order: str, name: str, extra: list[str], sets: int) -> None:
    changes = {"stages.0.order": order, "stages.0.extra_data": extra}
    line = override_error({**changes, f"stages.0.{name}": sets - 1})
    assert line.startswith(f"stages.0: {name} of {order} must be at least the number of its sets, {sets}")
    assert getattr(BASE.override({**changes, f"stages.0.{name}": sets}).stages[0], name) == sets
    other = {**changes, "stages.0.order": "uniform"}
    assert getattr(BASE.override({**other, f"stages.0.{name}": 1}).stages[0], name) == 1
