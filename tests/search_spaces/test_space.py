"""Search spaces: what is a trial, what is drawn from, and what is refused when a space is built."""

import dataclasses
import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mtlib.config import TrialConfig
from mtlib.config_penalties import SmartConfig
from mtlib.config_training import StageConfig
from search_spaces.space import (
    Choice,
    Float,
    Int,
    Key,
    SearchSpace,
    describe_space,
    dotted_keys,
    grid_trials,
    key_title,
    list_spaces,
    load_space,
    search_domain,
    trial_overrides,
)

ROOT = Path(__file__).parents[2]
BASE = TrialConfig(stages=(StageConfig(tasks=("sst", "qqp", "sts")),), smart=SmartConfig(tasks=("sst",)))


def space_with(**changes: Any) -> SearchSpace:
    fields: dict[str, Any] = {
        "name": "trial_space",
        "question": "What is best?",
        "base": BASE,
        "grid": {"smart.weight": (0.0, 1.0), "tasks.sst.batch_size": (8, 16, 32)},
    }
    return SearchSpace(**{**fields, **changes})


def test_the_grid_is_the_cross_product_in_order_and_the_last_key_varies_fastest() -> None:
    trials = [(t["smart.weight"], t["tasks.sst.batch_size"]) for t in grid_trials(space_with())]
    assert trials == list(itertools.product((0.0, 1.0), (8, 16, 32)))


def test_no_trial_of_the_grid_is_there_twice() -> None:
    space = space_with()
    hashes = [space.base.override(trial).content_hash for trial in grid_trials(space)]
    assert len(set(hashes)) == len(hashes) == 6


def test_keys_in_a_tuple_vary_together() -> None:
    grid = {("tasks.sst.batch_size", "tasks.qqp.batch_size"): ((32, 16), (8, 16))}
    assert grid_trials(space_with(grid=grid)) == [
        {"tasks.sst.batch_size": 32, "tasks.qqp.batch_size": 16},
        {"tasks.sst.batch_size": 8, "tasks.qqp.batch_size": 16},
    ]


def test_a_space_with_ranges_only_has_no_grid_trials() -> None:
    assert grid_trials(space_with(grid={}, ranges={"smart.weight": Float(low=0, high=1)})) == []


def test_without_ranges_the_grid_values_are_the_choices() -> None:
    assert search_domain(space_with()) == {
        "smart.weight": Choice(values=(0.0, 1.0)),
        "tasks.sst.batch_size": Choice(values=(8, 16, 32)),
    }


def test_a_range_takes_the_place_of_grid_values_and_may_add_a_key() -> None:
    ranges = {
        "smart.weight": Float(low=0, high=3),
        "optimizer.learning_rate": Float(low=1e-6, high=1e-4, log=True),
        "tasks.qqp.batch_size": Int(low=8, high=32),
    }
    domain = search_domain(space_with(ranges=ranges))
    assert domain == {"tasks.sst.batch_size": Choice(values=(8, 16, 32)), **ranges}


def test_what_was_drawn_becomes_overrides_by_dotted_key() -> None:
    drawn: dict[Key, Any] = {"smart.weight": 0.5, ("stages.0.epochs", "stages.0.order"): (3, "sampled_round_robin")}
    assert trial_overrides(drawn) == {
        "smart.weight": 0.5,
        "stages.0.epochs": 3,
        "stages.0.order": "sampled_round_robin",
    }
    assert dotted_keys(("a.b", "c")) == ("a.b", "c")
    assert key_title(("a.b", "c")) == "a.b + c"


def test_an_unknown_key_is_refused_with_the_nearest_right_one() -> None:
    with pytest.raises(ValueError, match=r"space 'trial_space', trial 0000 .*did you mean 'smart\.weight'"):
        space_with(grid={"smart.wieght": (0.0, 1.0)})


def test_a_value_that_does_not_fit_is_refused_with_its_trial() -> None:
    with pytest.raises(ValueError, match=r"trial 0001 \(smart\.weight=-1\.0\): smart\.weight must be at least 0"):
        space_with(grid={"smart.weight": (0.0, -1.0)})


def test_both_ends_of_a_range_are_checked() -> None:
    with pytest.raises(ValueError, match=r"encoder\.dropout=1\.0"):
        space_with(ranges={"encoder.dropout": Float(low=0.0, high=1.0)})
    with pytest.raises(ValueError, match=r"smart\.weight=-1\.0"):
        space_with(ranges={"smart.weight": Float(low=-1.0, high=1.0)})


def test_every_choice_is_checked() -> None:
    with pytest.raises(ValueError, match="order must be one of"):
        space_with(ranges={"stages.0.order": Choice(values=("batch_round_robin", "sorted"))})


def test_two_equal_trials_are_named() -> None:
    with pytest.raises(ValueError, match=r"trials must differ, 0000 and 0002 are the same configuration"):
        space_with(grid={"smart.weight": (1, 0.5, 1.0)})


def test_a_key_searched_twice_is_refused() -> None:
    grid = {"smart.weight": (0.0, 1.0), ("smart.weight", "smart.num_steps"): ((0.5, 1), (2.0, 2))}
    with pytest.raises(ValueError, match=r"searched only once, got smart\.weight"):
        space_with(grid=grid)


def test_a_value_with_too_few_parts_is_refused() -> None:
    with pytest.raises(ValueError, match="must have one part per key"):
        space_with(grid={("smart.weight", "smart.num_steps"): ((0.5,), (2.0, 2))})
    with pytest.raises(ValueError, match="must have one part per key"):
        space_with(grid={("smart.weight", "smart.num_steps"): (0.5,)})


def test_a_space_must_search_something() -> None:
    with pytest.raises(ValueError, match="grid or ranges must name a key"):
        space_with(grid={})


def test_the_metric_is_overall_or_a_task() -> None:
    assert space_with(metric="sts").metric == "sts"
    with pytest.raises(ValueError, match=r"unknown metric of space 'trial_space' 'stss'; did you mean 'sts'"):
        space_with(metric="stss")


@pytest.mark.parametrize("build", [Float, Int])
def test_a_range_must_have_a_low_and_a_higher_end(build: Any) -> None:
    with pytest.raises(ValueError, match="low must be below high, got 2"):
        build(low=2, high=2)
    with pytest.raises(ValueError, match="low must be above 0 on a logarithmic scale, got 0"):
        build(low=0, high=2, log=True)
    assert build(low=1, high=2, log=True).high == 2


def test_a_choice_must_have_a_value() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        Choice(values=())


def test_the_hash_follows_what_decides_the_trials_and_nothing_else() -> None:
    space = space_with()
    assert space.content_hash == space_with(question="Another?", name="renamed").content_hash
    others = [
        space_with(base=BASE.override({"seed": 1})),
        space_with(metric="sst"),
        space_with(ranges={"smart.weight": Float(low=0, high=3)}),
        space_with(grid={"smart.weight": (1.0, 0.0), "tasks.sst.batch_size": (8, 16, 32)}),
    ]
    assert len({space.content_hash, *(other.content_hash for other in others)}) == 5


def test_replacing_the_base_checks_the_grid_again() -> None:
    two_stages = StageConfig(tasks=("qqp",)), StageConfig(tasks=("sst", "sts"))
    base = TrialConfig(stages=two_stages)
    space = space_with(base=base, grid={"stages.1.epochs": (1, 2)})
    with pytest.raises(ValueError, match="stages has positions"):
        dataclasses.replace(space, base=BASE)


def test_a_described_space_is_plain_data() -> None:
    described = describe_space(space_with(ranges={"smart.weight": Float(low=0, high=3)}))
    assert described["grid"] == [["smart.weight", [0.0, 1.0]], ["tasks.sst.batch_size", [8, 16, 32]]]
    assert described["ranges"] == [["smart.weight", {"Float": {"low": 0.0, "high": 3.0, "log": False}}]]


def test_an_unknown_space_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="unknown search space 'smart_lamda'; did you mean 'smart_lambda'"):
        load_space("smart_lamda")
    with pytest.raises(ValueError, match="unknown search space 'presets'"):
        load_space("presets")


def test_every_space_is_listed_and_loads_under_its_own_name() -> None:
    spaces = list_spaces()
    assert "smart_lambda" in [space.name for space in spaces]
    assert all(load_space(space.name) == space for space in spaces)


def test_search_spaces_load_without_torch_or_ray() -> None:
    code = "import sys, search_spaces.space as s; s.list_spaces(); print({'torch', 'ray'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "set()"
