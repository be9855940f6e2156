"""The base configuration as a point of a space's domain; none where the domain does not hold it."""

from typing import Any

import pytest

from mtlib.config.trial import TrialConfig
from search_spaces.domain import Choice, Condition, Float, Int
from search_spaces.space import SearchSpace, trial_config
from sweeps.search.base_point import base_point

BATCHES = ("tasks.sst.batch_size", "tasks.qqp.batch_size")


def space_of(base: TrialConfig, **fields: Any) -> SearchSpace:
    return SearchSpace(name="tiny", question="?", base=base, **fields)


def test_numbers_choices_keys_together_and_names_are_those_of_the_base(tiny_config: TrialConfig) -> None:
    base = tiny_config.override({"smart.weight": 0.5, "tasks.sst.batch_size": 4, "tasks.qqp.batch_size": 8})
    base = base.override({f"tasks.{name}.scored_train_rows": 5 for name in base.active_tasks})
    longer = {"stages.1.epochs": base.stages[1].epochs + 1}
    space = space_of(
        base,
        grid={"plan": {"longer": longer, "short": {"stages.1.epochs": base.stages[1].epochs}}},
        ranges={
            "smart.weight": Float(low=0, high=1),
            BATCHES: Choice(values=((8, 4), (4, 8))),
            "stages.0.epochs": Int(low=1, high=3),
            "tasks.*.scored_train_rows": Int(low=0, high=10**6),
        },
    )
    point = base_point(space)
    assert point == {
        "plan": "short",
        "smart.weight": 0.5,
        "tasks.sst.batch_size": 4,
        "tasks.qqp.batch_size": 8,
        "stages.0.epochs": base.stages[0].epochs,
        "tasks.*.scored_train_rows": 5,
    }
    assert trial_config(space, point) == base


@pytest.mark.parametrize(
    "ranges",
    [
        {"smart.weight": Float(low=1, high=2)},
        {"smart.weight": Choice(values=(1.0, 2.0))},
        {BATCHES: Choice(values=((8, 4), (2, 8)))},
        {"tasks.*.batch_size": Int(low=1, high=64)},
        {"optimizer.head_learning_rate": Float(low=1e-5, high=1e-3)},
    ],
)
def test_base_outside_of_the_domain(tiny_config: TrialConfig, ranges: dict[Any, Any]) -> None:
    base = tiny_config.override({"smart.weight": 0.5, "tasks.sst.batch_size": 4, "tasks.qqp.batch_size": 8})
    assert base_point(space_of(base, ranges=ranges)) is None


@pytest.mark.parametrize(("mode", "keys"), [("paper", {"smart.mode", "smart.epsilon"}), ("random", {"smart.mode"})])
def test_key_whose_condition_does_not_hold_has_no_value(tiny_config: TrialConfig, mode: str, keys: set[str]) -> None:
    space = space_of(
        tiny_config.override({"smart.mode": mode, "smart.epsilon": 0.2}),
        ranges={"smart.mode": Choice(values=("paper", "random")), "smart.epsilon": Float(low=0.1, high=1.0)},
        conditions={"smart.epsilon": Condition(key="smart.mode", values=("paper",))},
    )
    assert set(base_point(space) or {}) == keys
