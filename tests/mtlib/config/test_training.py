"""Stages and optimizer: every range on both sides."""

import dataclasses
from typing import Any

import pytest

from mtlib.config.batch_orders import BATCH_ORDERS
from mtlib.config.training import OptimizerConfig, StageConfig
from tests.config_cases import (
    BASE,
    RANDOM_ORDERS,
    Case,
    assert_range,
    override_error,
    undescribed_fields,
)
from tests.method_tables import ROUND_ORDERS

CASES: list[Case] = [
    ("stages.0.tasks", [], "stages.0: a stage must name at least one task", ["sst"]),
    ("stages.0.tasks", ["sst", "sst"], "stages.0: tasks of a stage must not be named twice", ["qqp", "sst"]),
    (
        "stages.0.extra_data",
        ["cfimdb", "cfimdb"],
        "stages.0: extra_data of a stage must not be named twice",
        ["cfimdb"],
    ),
    ("stages.0.order", "round_robin", "stages.0.order must be one of batch_round_robin, ", "sampled_round_robin"),
    ("stages.0.annealing", -1e-9, "stages.0: annealing must be from 0 to 1", 0.0),
    ("stages.0.annealing", 1.001, "stages.0: annealing must be from 0 to 1", 1.0),
    ("stages.0.max_passes", 0, "stages.0: max_passes must be at least 1", 1),
    ("stages.0.epochs", 0, "stages.0: epochs must be at least 1", 1),
    ("stages.0.score_every", 0, "stages.0: score_every must be at least 1", 1),
    ("stages.0.steps_per_epoch", 0, "stages.0: steps_per_epoch must be at least 1", 1),
    ("optimizer.learning_rate", 0.0, "optimizer.learning_rate must be above 0", 1e-12),
    ("optimizer.head_learning_rate", 0.0, "optimizer.head_learning_rate must be above 0", 1e-12),
    ("optimizer.weight_decay", -1e-9, "optimizer.weight_decay must be at least 0", 0.0),
    ("optimizer.layer_decay", 0.0, "optimizer.layer_decay must be above 0 and at most 1", 1e-9),
    ("optimizer.layer_decay", 1.001, "optimizer.layer_decay must be above 0 and at most 1", 1.0),
    ("optimizer.chosen_scale", -1e-9, "optimizer.chosen_scale must be at least 0", 1.0),
    ("optimizer.other_scale", -1e-9, "optimizer.other_scale must be at least 0", 1.0),
    ("optimizer.beta1", -1e-9, "optimizer.beta1 must be at least 0 and below 1", 0.0),
    ("optimizer.beta1", 1.0, "optimizer.beta1 must be at least 0 and below 1", 0.999),
    ("optimizer.beta2", -1e-9, "optimizer.beta2 must be at least 0 and below 1", 0.0),
    ("optimizer.beta2", 1.0, "optimizer.beta2 must be at least 0 and below 1", 0.9999),
    ("optimizer.epsilon", 0.0, "optimizer.epsilon must be above 0", 1e-12),
    ("optimizer.schedule", "cosine", "optimizer.schedule must be one of constant, slanted_", "slanted_triangular"),
    ("optimizer.warmup_fraction", 0.0, "optimizer.warmup_fraction must be above 0 and below 1", 0.001),
    ("optimizer.warmup_fraction", 1.0, "optimizer.warmup_fraction must be above 0 and below 1", 0.999),
    ("optimizer.average_power", -1e-9, "optimizer.average_power must be at least 0", 0.0),
]


@pytest.mark.parametrize("case", CASES)
def test_values_out_of_range_are_refused_and_the_nearest_inside_is_accepted(case: Case) -> None:
    assert_range(case)


def test_every_field_of_a_stage_changes_the_hash() -> None:
    two = BASE.override({"stages": [BASE.stages[0], BASE.stages[0]]})
    values: dict[str, Any] = {"tasks": ["qqp"], "extra_data": ["snli"], "order": "annealed", "annealing": 0.5}
    values |= {"sum_losses": True, "epochs": 2, "steps_per_epoch": 7, "start_from": "best", "reset_optimizer": True}
    values |= {"score_every": 2, "max_passes": 3, "micro_batch_size": 4}
    hashes = {two.override({f"stages.1.{name}": value}).content_hash for name, value in values.items()}
    assert len(hashes | {two.content_hash}) == len(values) + 1


@pytest.mark.parametrize(
    ("epochs", "every", "scored"),
    [
        (1, 1, (1,)),
        (3, 1, (1, 2, 3)),
        (6, 2, (2, 4, 6)),
        (7, 3, (3, 6, 7)),
        (3, 3, (3,)),
        (3, 4, (3,)),
    ],
)
def test_every_so_manieth_epoch_and_the_last_are_scored(epochs: int, every: int, scored: tuple[int, ...]) -> None:
    assert StageConfig(tasks=("sst",), epochs=epochs, score_every=every).scored_epochs == scored


def test_every_field_of_the_optimizer_changes_the_hash() -> None:
    values: dict[str, Any] = {"learning_rate": 1e-5, "head_learning_rate": 1e-3, "weight_decay": 0.0}
    values |= {"decay_biases_and_norms": False, "layer_decay": 0.9, "beta1": 0.8, "beta2": 0.99, "epsilon": 1e-6}
    values |= {"schedule": "slanted_triangular", "warmup_fraction": 0.2, "average_power": 1.0}
    layered = BASE.override({"tasks.sst.chosen_layers": [0]})
    scales = {
        name: layered.override({f"optimizer.{name}": 0.5}).content_hash for name in ("chosen_scale", "other_scale")
    }
    assert len({layered.content_hash, *scales.values()}) == 3
    assert {*values, *scales} == {f.name for f in dataclasses.fields(OptimizerConfig)}
    hashes = {BASE.override({f"optimizer.{name}": value}).content_hash for name, value in values.items()}
    assert len(hashes | {BASE.content_hash}) == len(values) + 1


@pytest.mark.parametrize("order", BATCH_ORDERS)
def test_losses_are_summed_only_in_orders_with_rounds(order: str) -> None:
    of_order = {"stages.0.order": order, "stages.0.epochs": 3}  # as many as sets
    changes = {**of_order, "stages.0.sum_losses": True}
    if order in ROUND_ORDERS:
        assert BASE.override(changes).stages[0].sum_losses
    else:
        rule = f"stages.0: sum_losses needs rounds: order must be one of {', '.join(ROUND_ORDERS)}, got {order}"
        assert override_error(changes) == rule
    assert not BASE.override(of_order).stages[0].sum_losses


@pytest.mark.parametrize(("extra", "sets"), [([], 3), (["snli"], 4), (["snli", "cfimdb"], 5)])
def test_an_epoch_per_set_needs_as_many_epochs_as_sets(extra: list[str], sets: int) -> None:
    changes = {"stages.0.order": "epoch_round_robin", "stages.0.extra_data": extra}
    rule = f"stages.0: epochs of epoch_round_robin must be at least the number of its sets, {sets}, or one is never "
    assert override_error({**changes, "stages.0.epochs": sets - 1}) == f"{rule}trained, got {sets - 1}"
    for epochs in (sets, sets + 1):
        assert BASE.override({**changes, "stages.0.epochs": epochs}).stages[0].epochs == epochs
    assert BASE.override({**changes, "stages.0.order": "sequential"}).stages[0].epochs == 1


@pytest.mark.parametrize(("extra", "sets"), [([], 3), (["snli"], 4)])
def test_an_epoch_of_all_sets_needs_as_many_steps_as_sets(extra: list[str], sets: int) -> None:
    changes = {"stages.0.order": "sequential", "stages.0.extra_data": extra}
    rule = f"stages.0: steps_per_epoch of sequential must be at least the number of its sets, {sets}, or one is "
    assert override_error({**changes, "stages.0.steps_per_epoch": sets - 1}) == f"{rule}never trained, got {sets - 1}"
    for steps in (None, sets, sets + 1):
        assert BASE.override({**changes, "stages.0.steps_per_epoch": steps}).stages[0].steps_per_epoch == steps
    fewer = BASE.override({"stages.0.order": "uniform", "stages.0.steps_per_epoch": 1})
    assert fewer.stages[0].steps_per_epoch == 1


def test_no_order_has_rounds_and_is_random() -> None:
    assert not set(ROUND_ORDERS) & set(RANDOM_ORDERS)
    assert set(ROUND_ORDERS) | set(RANDOM_ORDERS) <= set(BATCH_ORDERS)


def test_a_stage_in_python_may_be_json_or_a_dataclass() -> None:
    stage = StageConfig(tasks=("qqp",), epochs=3)
    plans: list[Any] = [(stage,), [stage], [{"tasks": ["qqp"], "epochs": 3}]]
    assert {BASE.override({"stages": plan}).stages for plan in plans} == {(stage,)}


def test_every_field_has_a_docstring() -> None:
    assert undescribed_fields("training.py") == []
