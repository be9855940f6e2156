"""Values that are set in every configuration, in whole plans of stages that are searched too."""

import dataclasses

import pytest

from search_spaces.set_values import change_plans, expand_keys, set_stages
from search_spaces.space import grid_configs, load_space

ORDERS = load_space("orders")
"""A space over whole plans of stages of several lengths."""


def test_stars_stand_for_every_task_and_every_stage() -> None:
    base = load_space("smart_lambda").base
    assert expand_keys({"tasks.*.batch_size": "4", "stages.*.epochs": "2"}, base) == {
        **{f"tasks.{task}.batch_size": "4" for task in base.active_tasks},
        **{f"stages.{number}.epochs": "2" for number in range(len(base.stages))},
    }


def test_set_changes_every_stage_of_whole_plans_that_are_searched() -> None:
    plain = grid_configs(ORDERS)
    assert {len(config.stages) for config in plain} > {1, 2}
    changes = {"stages.*.epochs": "3", "stages.*.steps_per_epoch": "7", "optimizer.learning_rate": "0.5"}
    for old, new in zip(plain, grid_configs(set_stages(ORDERS, changes)), strict=True):
        stages = tuple(dataclasses.replace(stage, epochs=3, steps_per_epoch=7) for stage in old.stages)
        assert new == dataclasses.replace(old, stages=stages), "other keys are set in the base"
    assert set_stages(ORDERS, {"optimizer.learning_rate": "0.5"}) is ORDERS
    with pytest.raises(ValueError, match=r"^--set: order=epoch_round_robin: stages\.0: epochs .* got 1$"):
        set_stages(ORDERS, {"stages.*.epochs": "1"})


def test_whole_plans_alone_are_changed() -> None:
    space = dataclasses.replace(ORDERS, grid={**ORDERS.grid, "seed": (8, 9)})
    found = change_plans(space, lambda config: config.stages[:1])
    assert found["seed"] == (8, 9)
    changed = dataclasses.replace(space, grid=found)
    assert {len(config.stages) for config in grid_configs(changed)} == {1}
