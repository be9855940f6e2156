"""Search spaces: trials, domains, and the errors of a space that is built."""

import dataclasses
import importlib
import itertools
import json
import re
from typing import Any

import pytest

from mtlib.config.penalties import SmartConfig
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from search_spaces.domain import Choice, Condition, Float, Int, SearchKey
from search_spaces.published import PublishedRow, PublishedTable
from search_spaces.space import (
    SearchSpace,
    changed_keys,
    describe_space,
    grid_configs,
    grid_trials,
    list_spaces,
    load_space,
    range_configs,
    search_domain,
    trial_config,
    trial_params,
)
from tests.scripts import ROOT, run_process

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


def test_all_configurations_are_the_base_the_ends_of_ranges_and_the_grid() -> None:
    space = space_with(grid={"smart.weight": (1.0,)}, ranges={"replicate": Choice(values=(7, 8))})
    found = [(config.smart.weight, config.replicate) for config in space.configs]
    assert found == [(0.0, 0), (0.0, 7), (0.0, 8), (1.0, 0)]


def test_keys_in_a_tuple_vary_together() -> None:
    grid = {("tasks.sst.batch_size", "tasks.qqp.batch_size"): ((32, 16), (8, 16))}
    assert grid_trials(space_with(grid=grid)) == [
        {"tasks.sst.batch_size": 32, "tasks.qqp.batch_size": 16},
        {"tasks.sst.batch_size": 8, "tasks.qqp.batch_size": 16},
    ]


def test_a_star_stands_for_every_task_that_the_base_trains() -> None:
    space = space_with(grid={"tasks.*.batch_size": (8, 32)}, ranges={"tasks.*.batch_size": Int(low=8, high=32)})
    assert grid_trials(space) == [{"tasks.*.batch_size": 8}, {"tasks.*.batch_size": 32}]
    sizes = [{name: task.batch_size for name, task in config.tasks.items()} for config in grid_configs(space)]
    assert sizes == [dict.fromkeys(("qqp", "sst", "sts"), size) for size in (8, 32)]
    assert changed_keys(space, "tasks.*.batch_size") == tuple(f"tasks.{t}.batch_size" for t in ("sst", "qqp", "sts"))
    assert describe_space(space)["grid"] == [["tasks.*.batch_size", [8, 32]]]
    assert describe_space(space)["ranges"][0][0] == "tasks.*.batch_size"


def test_a_star_leaves_alone_tasks_that_the_base_does_not_train() -> None:
    base = TrialConfig(stages=(StageConfig(tasks=("sst", "sts")),))
    space = space_with(base=base, grid={"sizes": {"small": {"tasks.*.batch_size": 4}, "as they are": {}}})
    first, _ = grid_configs(space)
    assert {name: task.batch_size for name, task in first.tasks.items()} == {"sst": 4, "sts": 4, "qqp": 16}


def test_a_range_replaces_grid_values_and_may_add_a_key() -> None:
    ranges = {
        "smart.weight": Float(low=0, high=3),
        "optimizer.learning_rate": Float(low=1e-6, high=1e-4, log=True),
        "tasks.qqp.batch_size": Int(low=8, high=32),
    }
    domain = search_domain(space_with(ranges=ranges))
    assert domain == {"tasks.sst.batch_size": Choice(values=(8, 16, 32)), **ranges}


def test_a_draw_becomes_values_by_dotted_key() -> None:
    drawn: dict[SearchKey, Any] = {
        "smart.weight": 0.5,
        ("stages.0.epochs", "stages.0.order"): (3, "sampled_round_robin"),
    }
    params = {"smart.weight": 0.5, "stages.0.epochs": 3, "stages.0.order": "sampled_round_robin"}
    assert trial_params(drawn) == params
    assert trial_config(space_with(), params) == BASE.override(params)


PLANS: dict[str, dict[str, Any]] = {
    "whole": {"stages": (StageConfig(tasks=("sst",)), StageConfig(tasks=("qqp", "sts"), epochs=2))},
    "plain": {},
    "smoothed": {"smart.weight": 0.5},
}


def test_a_named_group_of_overrides_is_one_grid_key() -> None:
    space = space_with(grid={"plan": PLANS, "tasks.sst.batch_size": (8, 32)})
    trials = grid_trials(space)
    assert trials[:3] == [
        {"plan": "whole", "tasks.sst.batch_size": 8},
        {"plan": "whole", "tasks.sst.batch_size": 32},
        {"plan": "plain", "tasks.sst.batch_size": 8},
    ]
    configs = [trial_config(space, trial) for trial in trials]
    assert configs == grid_configs(space)
    assert configs[0] == BASE.override({"stages": PLANS["whole"]["stages"], "tasks.sst.batch_size": 8})
    assert configs[2] == BASE.override({"tasks.sst.batch_size": 8})
    assert search_domain(space)["plan"] == Choice(values=("whole", "plain", "smoothed"))
    assert changed_keys(space, "plan") == ("stages", "smart.weight")
    assert json.loads(json.dumps(describe_space(space)))["grid"][0][1]["smoothed"] == {"smart.weight": 0.5}


def test_named_overrides_are_checked_and_hashed() -> None:
    with pytest.raises(ValueError, match=r"trial 0001 \(plan=bad\): smart\.weight must be at least 0"):
        space_with(grid={"plan": {"good": {}, "bad": {"smart.weight": -1.0}}})
    other = {**PLANS, "smoothed": {"smart.weight": 0.6}}
    assert space_with(grid={"plan": PLANS}).content_hash != space_with(grid={"plan": other}).content_hash
    with pytest.raises(ValueError, match="unknown value of plan 'hole'; did you mean 'whole'"):
        trial_config(space_with(grid={"plan": PLANS}), {"plan": "hole"})


@pytest.mark.parametrize("name", ["smart", "stages", "a.b", "two words", ("a", "b")])
def test_a_name_must_be_one_word_and_no_configuration_key(name: SearchKey) -> None:
    with pytest.raises(ValueError, match="a name of its own must be one word, and no key of the configuration"):
        space_with(grid={name: PLANS})


def test_a_key_of_named_overrides_must_not_be_searched_elsewhere() -> None:
    for key in ("smart.weight", "stages.0.epochs"):
        with pytest.raises(ValueError, match=f"searched only once, got {key}"):
            space_with(grid={"plan": PLANS, key: (1, 2)})
    assert len(grid_trials(space_with(grid={"plan": PLANS, "smart.num_steps": (1, 2)}))) == 6


MODE = Choice(values=("unit_norm", "paper", "random"))
STEPS = Int(low=1, high=3)
WITH_STEPS = Condition(key="smart.mode", values=("unit_norm", "paper"))


def test_a_condition_is_described_and_changes_the_hash() -> None:
    ranges = {"smart.mode": MODE, "smart.num_steps": STEPS}
    free = space_with(grid={}, ranges=ranges)
    space = space_with(grid={}, ranges=ranges, conditions={"smart.num_steps": WITH_STEPS})
    assert space.content_hash != free.content_hash
    assert describe_space(space)["conditions"] == [
        ["smart.num_steps", {"key": "smart.mode", "values": ["unit_norm", "paper"]}]
    ]
    assert len(list(range_configs(free))) == 3 + 2
    assert len(list(range_configs(space))) == 3 + 2 * 2


def test_a_conditional_key_is_built_where_its_condition_holds() -> None:
    ranges = {
        "stages.0.sum_losses": Choice(values=(False, True)),
        "gradients": Choice(values=("sum", "pcgrad")),
    }
    with pytest.raises(ValueError, match=r"gradients \(gradients=pcgrad\): gradients must be sum unless"):
        space_with(grid={}, ranges=ranges)
    condition = {"gradients": Condition(key="stages.0.sum_losses", values=(True,))}
    configs = list(range_configs(space_with(grid={}, ranges=ranges, conditions=condition)))
    assert [(config.stages[0].sum_losses, config.gradients) for config in configs] == [
        (False, "sum"),
        (True, "sum"),
        (True, "sum"),
        (True, "pcgrad"),
    ]


def test_a_condition_may_be_on_a_key_of_the_grid_but_no_key_of_the_grid_may_have_one() -> None:
    grid = {"smart.mode": MODE.values}
    space = space_with(grid=grid, ranges={"smart.num_steps": STEPS}, conditions={"smart.num_steps": WITH_STEPS})
    assert list(search_domain(space)) == ["smart.mode", "smart.num_steps"]
    with pytest.raises(ValueError, match="a key of the grid must have no condition"):
        space_with(
            grid={**grid, "smart.num_steps": (1, 2)},
            conditions={"smart.num_steps": WITH_STEPS},
        )


TOGETHER = ("smart.weight", "smart.num_steps")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": {}}, "grid or ranges must name a key"),
        ({"grid": {"smart.weight": (1, 0.5, 1.0)}}, "trials must differ, 0000 and 0002 are the same configuration"),
        (
            {"grid": {"smart.weight": (0.0, 1.0), TOGETHER: ((0.5, 1), (2.0, 2))}},
            "searched only once, got smart.weight",
        ),
        ({"grid": {TOGETHER: ((0.5,), (2.0, 2))}}, "must have one part per key"),
        ({"grid": {TOGETHER: (0.5,)}}, "must have one part per key"),
        (
            {"grid": {"tasks.*.batch_size": (8, 16), "tasks.sst.batch_size": (8, 16)}},
            "searched only once, got tasks.sst.batch_size",
        ),
        (
            {"base": TrialConfig(stages=(StageConfig(tasks=("qqp",)),)), "grid": {"tasks.*.batch_sise": (8, 16)}},
            "did you mean 'tasks.qqp.batch_size'",
        ),
        (
            {"grid": {"stages": ((StageConfig(tasks=("sst",)),), (StageConfig(tasks=("qqp",)),))}},
            "whole stages must be searched under a name of the space's own, got stages",
        ),
        ({"ranges": {"encoder.dropout": Float(low=0.0, high=1.0)}}, "encoder.dropout=1.0"),
        ({"ranges": {"smart.weight": Float(low=-1.0, high=1.0)}}, "smart.weight=-1.0"),
        ({"ranges": {"stages.0.order": Choice(values=("batch_round_robin", "sorted"))}}, "order must be one of"),
        ({"published": ("table 6",)}, "an entry of published must be PublishedTable, got 'table 6'"),
    ],
)
def test_a_space_that_breaks_a_rule_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        space_with(**changes)


def test_the_metric_is_overall_or_a_task() -> None:
    assert space_with(metric="sts").metric == "sts"
    with pytest.raises(ValueError, match=r"unknown metric of space 'trial_space' 'stss'; did you mean 'sts'"):
        space_with(metric="stss")


def test_the_hash_depends_on_what_decides_the_trials_alone() -> None:
    space = space_with()
    assert space.content_hash == space_with(question="Another?", name="renamed").content_hash
    others = [
        space_with(base=BASE.override({"seed": 1})),
        space_with(metric="sst"),
        space_with(ranges={"smart.weight": Float(low=0, high=3)}),
        space_with(grid={"smart.weight": (1.0, 0.0), "tasks.sst.batch_size": (8, 16, 32)}),
    ]
    assert len({space.content_hash, *(other.content_hash for other in others)}) == 5


def table_about(*keys: str, task: str = "sst") -> PublishedTable:
    """A table of one row with a score of a task at a value 0 of each key."""
    row = PublishedRow(params=dict.fromkeys(keys, 0.0), scores={task: 0.5})
    return PublishedTable(
        paper="A paper", table="table 1", encoder="tiny", data="rows", training="one epoch", rows=(row,)
    )


KEYS = ("smart.weight", "tasks.sst.batch_size")


def test_published_tables_are_described_and_change_no_hash() -> None:
    space = space_with(published=(table_about(*KEYS),))
    assert space.published == (table_about(*KEYS),)
    assert space.content_hash == space_with().content_hash
    (described,) = json.loads(json.dumps(describe_space(space)))["published"]
    assert described["rows"][0]["scores"] == {"sst": 0.5}
    assert describe_space(space_with())["published"] == []


def test_keys_that_vary_together_are_named_one_by_one_in_published_tables() -> None:
    space = space_with(grid={KEYS: ((0.0, 8), (1.0, 16))}, published=(table_about(*KEYS),))
    assert space.published == (table_about(*KEYS),)


@pytest.mark.parametrize(
    "table",
    [table_about("smart.weight"), table_about(*KEYS, "seed"), table_about("order"), table_about(*KEYS, task="a")],
)
def test_published_tables_about_other_keys_or_tasks_are_left_out(table: PublishedTable) -> None:
    assert space_with(published=(table, table_about(*KEYS))).published == (table_about(*KEYS),)


def test_another_grid_leaves_out_the_published_tables_of_the_space_it_was_made_of() -> None:
    space = load_space("smart_lambda")
    assert dataclasses.replace(space, grid={"smart.num_steps": (1, 2)}, ranges={}).published == ()
    assert dataclasses.replace(space, grid={"smart.weight": (0.0, 9.0)}).published == space.published


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


def test_an_unknown_space_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="unknown search space 'smart_lamda'; did you mean 'smart_lambda'"):
        load_space("smart_lamda")
    with pytest.raises(ValueError, match="unknown search space 'presets'"):
        load_space("presets")


def test_every_space_is_listed_and_loads_under_its_own_name() -> None:
    spaces = list_spaces()
    files = {path.stem for path in (ROOT / "search_spaces" / "questions").glob("*.py")} - {"__init__"}
    assert {space.name for space in spaces} == files
    assert all(load_space(space.name) == space for space in spaces)


@pytest.mark.parametrize("name", [space.name for space in list_spaces()])
def test_the_docstring_of_a_space_has_question_command_cost_expectation_and_answer(name: str) -> None:
    docstring = str(importlib.import_module(f"search_spaces.questions.{name}").__doc__)
    assert docstring.splitlines()[0].endswith("?")
    assert f"python sweeps/run.py --space {name}" in docstring
    assert re.findall(r"^(\w+):", docstring, re.MULTILINE)[:4] == ["Command", "Cost", "Expected", "Answer"]
    assert load_space(name).question.endswith("?")


def test_search_spaces_load_without_torch_or_ray() -> None:
    done = run_process(["-c", "import search_spaces.space; search_spaces.space.list_spaces()"], ROOT)
    assert (done.code, done.heavy_packages) == (0, set())
