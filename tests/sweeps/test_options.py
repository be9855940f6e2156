"""Sweep options: the rules for each value, and the resulting plan."""

import re
from pathlib import Path
from typing import Any

import pytest

from search_spaces.space import load_space
from sweeps.options import DEFAULT_TRIALS, SweepOptions, SweepPlan
from tests.one_line_error import one_line_error


def options_with(**changes: Any) -> SweepOptions:
    return SweepOptions(**{"space": "smart_lambda", "name": "first", "storage": "/sweeps", **changes})


def test_best_get_more_trainings_than_all_others() -> None:
    assert options_with(replicates=3, replicate_best=2).common_replicates == 1


def test_race_gives_more_trainings_to_some() -> None:
    assert options_with(replicates=3, until_decided=0.0).common_replicates == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"replicates": 5, "until_decided": 0.0}, 50),
        ({}, 10),
        ({"replicates": 3}, 30),
        ({"replicates": 3, "replicate_best": 4}, 18),
        ({"replicates": 5, "replicate_best": 4, "chosen_by": 2}, 32),
        ({"replicates": 5, "replicate_best": 4, "search": "random", "until_decided": 0.0}, 26),
        ({"replicates": 3, "replicate_best": 40}, 30),
    ],
)
def test_number_of_trials(options: dict[str, Any], expected: int) -> None:
    assert options_with(**options).num_trials(10) == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workers": True}, "--workers must be a whole number, got True"),
        ({"storage": Path("/sweeps")}, "--storage must be text, got "),
        ({"keep_gb": "5"}, "--keep-gb must be a number, got '5'"),
        ({"hold_out": float("nan")}, "--hold-out must be finite, got nan"),
        ({"set": "a=1"}, "--set must be "),
        ({"search": "bayes"}, "--search must be one of grid, tpe, gp, random, got bayes"),
        ({"search": "gp", "scheduler": "asha"}, "--scheduler must be none with --search gp, .*, got asha$"),
        ({"scheduler": "median"}, "--scheduler must be one of asha, none, got median"),
        ({"replicate_best": 4}, "--replicates must be above 1 with --replicate-best, .*, got 1$"),
        ({"replicates": 3, "replicate_best": 4, "chosen_by": 3}, "--replicates must be above 3 .*, got 3$"),
        ({"replicates": 3, "replicate_best": 1}, "--replicate-best must be at least 2, .*, got 1$"),
        (
            {"replicates": 3, "until_decided": -0.1},
            r"--until-decided must be a difference in score, at least 0 .*, got -0\.1$",
        ),
        (
            {"replicates": 3, "until_decided": 1.0},
            r"--until-decided must be .* below 1, the whole range, .*, got 1\.0$",
        ),
        ({"until_decided": 0.0}, "--replicates must be at least 2 with --until-decided, got 1$"),
        (
            {"search": "tpe", "replicates": 3, "until_decided": 0.0},
            "--until-decided of a search must come with --replicate-best, got none$",
        ),
        (
            {"vary": {"smart.weight": "0,1", "smart.epsilon": "1e-5..1e-4"}},
            "--search grid must have a list of values for each key of --vary, got smart.epsilon=1e-5..1e-4$",
        ),
        ({"gpus_per_worker": -0.5}, "--gpus-per-worker must be from 0 to 1"),
        ({"gpus_per_worker": 1.5}, "--gpus-per-worker must be from 0 to 1"),
        ({"gpus_per_worker": 2}, "--gpus-per-worker must be from 0 to 1"),
        ({"workers": 2, "gpus_per_worker": 0.5}, ".*each of them needs a GPU of its own"),
        ({"hold_out": -0.001}, "--hold-out must be from 0 to 0.5, got"),
        ({"hold_out": 0.501}, "--hold-out must be from 0 to 0.5, got"),
        ({"extend": 1}, "--extend must be left out for a sweep over a grid"),
        ({"search": "tpe", "extend": -1}, "--extend must be at least 0, got -1$"),
    ],
)
def test_options_that_break_a_rule_are_refused_by_their_flag(changes: dict[str, Any], message: str) -> None:
    assert re.match(message, one_line_error(options_with, **changes))


def test_several_workers_have_a_gpu_each() -> None:
    assert options_with(workers=2, gpus_per_worker=1).workers == 2


@pytest.mark.parametrize("name", [".", "..", ".cache", "a/b", "../a", "a b", "-a", "ä", "a\n", "A" * 101])
def test_unsafe_folder_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="--name must be letters, digits"):
        options_with(name=name)


def test_plan_has_the_configurations_of_its_grid_or_those_to_be_drawn() -> None:
    space = load_space("smart_lambda")
    for options, count in ((options_with(), 7), (options_with(search="tpe", trials=5, replicates=3), 5)):
        assert SweepPlan(options=options, space=space, data_folder=Path("/data")).num_configurations == count


def test_search_can_be_extended() -> None:
    assert options_with(search="tpe", trials=5, extend=3).num_drawn == 8
    assert options_with(search="random", extend=1).num_drawn == DEFAULT_TRIALS + 1


@pytest.mark.parametrize(("keep_gb", "shares"), [(0.0, False), (5e-10, False), (1e-9, True), (20.0, True)])
def test_stage_limit_of_zero_shares_only_whole_trials(keep_gb: float, shares: bool) -> None:
    options = options_with(keep_gb=keep_gb)
    assert (options.shares_stages, options.reuse) == (shares, True)


CLAIM = "smart.weight=1 beats smart.weight=0 by 0.005"


def claiming(**changes: Any) -> SweepOptions:
    return options_with(**{"claim": CLAIM, "until_decided": 0.0, "replicates": 20, **changes})


def test_claim_is_a_race_of_two_configurations() -> None:
    options = claiming()
    assert options.claimed is not None
    assert (options.claimed.better, options.claimed.worse) == ({"smart.weight": "1"}, {"smart.weight": "0"})
    assert options.common_replicates == 1
    assert options.num_trials(2) == 40
    assert options_with().claimed is None


@pytest.mark.parametrize(
    "changes",
    [
        {"vary": {"smart.weight": "0,1"}},
        {"vary": {"smart.num_steps": "1,2"}},
        {"search": "tpe", "replicate_best": 2},
        {"search": "random", "replicate_best": 2},
        {"until_decided": 0.01},
        {"until_decided": None},
        {"replicate_best": 2},
        {"scheduler": "asha"},
    ],
    ids=str,
)
def test_claim_leaves_no_other_choice_of_what_is_trained(changes: dict[str, Any]) -> None:
    message = one_line_error(claiming, **changes)
    assert "must be left out with" in message
    assert "--claim" in message


@pytest.mark.parametrize(
    "changes",
    [{"trials": 5}, {"replicates": 1}, {"extend": 1}, {"claim": "smart.weight=1"}, {"claim": 1}, {"claim": ""}],
    ids=str,
)
def test_other_rules_hold_for_a_claim(changes: dict[str, Any]) -> None:
    assert one_line_error(claiming, **changes).startswith("--")
