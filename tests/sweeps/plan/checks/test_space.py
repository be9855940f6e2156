"""Keys of --set and --vary, and what holds for every point of a space."""

from pathlib import Path
from typing import Any

import pytest

from mtlib.config.trial import TrialConfig
from search_spaces.space import SearchSpace, load_space
from sweeps.options import SweepOptions
from sweeps.plan.checks.space import (
    check_changes,
    check_comparable,
    check_encoder_names,
    check_held_out_share,
    check_patience,
    check_starts,
    sets_searched,
)
from tests.one_line_error import one_line_error
from tests.sweeps.plan.conftest import Build, space_with


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"set": {"smart.weight": "2"}},
            "--set must leave alone what space 'smart_lambda' searches (smart.weight), got ",
        ),
        ({"set": {"encoder.name": "x"}}, "encoder.name must be given by --encoder, not by --set, got encoder.name=x"),
        ({"set": {"seed": "1"}}, "seed must be given by --seed, not by --set, got seed=1"),
        ({"set": {"replicate": "1"}}, "replicate must be given by --replicates, not by --set, got replicate=1"),
        ({"set": {"data.hold_out": ".1"}}, "data.hold_out must be given by --hold-out, not by --set, got "),
        ({"set": {"data.tasks.sst.weight": "1"}}, "--set must leave the definitions of tasks to tasks.toml"),
        ({"vary": {"seed": (1, 2)}}, "seed must be given by --seed, not by --vary, got seed=(1, 2)"),
        (
            {"vary": {"smart.weight": "0,1"}, "set": {"smart.weight": "1"}},
            "--set must leave alone what --vary searches (smart.weight), got smart.weight=1",
        ),
        (
            {"vary": {"tasks.*.batch_size": "8,16"}, "set": {"tasks.sts.batch_size": "4"}},
            "--set must leave alone what --vary searches (tasks.sst.batch_size, tasks.qqp.batch_size, ",
        ),
        (
            {"claim": "smart.weight=1 beats base", "set": {"smart.weight": "2"}},
            "--set must leave alone what --claim searches (smart.weight), got smart.weight=2",
        ),
        (
            {"claim": "base beats tasks.*.batch_size=8", "set": {"tasks.sts.batch_size": "4"}},
            "--set must leave alone what --claim searches (tasks.sst.batch_size, tasks.qqp.batch_size, ",
        ),
        ({"claim": "seed=1 beats base"}, "seed must be given by --seed, not by --claim, got seed=1"),
        ({"claim": "base beats replicate=1"}, "replicate must be given by --replicates, not by --claim, got "),
        ({"claim": "data.hold_out=.1 beats base"}, "data.hold_out must be given by --hold-out, not by --claim, got "),
        ({"claim": "data.tasks.sst.weight=1 beats base"}, "--claim must leave the definitions of tasks to tasks.toml"),
    ],
)
def test_key_with_a_flag_or_that_is_searched_is_refused(options: Build, changes: dict[str, Any], message: str) -> None:
    asked = load_space("smart_lambda")
    race = {"until_decided": 0.0, "replicates": 5} if "claim" in changes else {}
    assert one_line_error(check_changes, options(**race, **changes), asked.base, asked).startswith(message)


def test_set_must_not_change_keys_of_a_named_point(options: Build) -> None:
    asked = load_space("orders")
    for key, value in (("stages.0.epochs", "1"), ("smart.weight", "1")):
        message = one_line_error(check_changes, options(set={key: value}), asked.base, asked)
        assert message.startswith("--set must leave alone what space 'orders' searches (stages, smart.weight), got ")
        assert ("'stages.*.KEY=VALUE' sets a key in all stages" in message) == (key != "smart.weight")
    check_changes(options(set={"stages.*.epochs": "1", "optimizer.learning_rate": "1"}), asked.base, asked)
    check_changes(options(vary={"encoder.name": "a,b"}, set={"smart.weight": "1"}), asked.base, asked)
    claim = options(
        claim="encoder.name=a beats encoder.name=b",
        until_decided=0.0,
        replicates=5,
        set={"stages.*.epochs": "1", "smart.weight": "1"},
    )
    check_changes(claim, asked.base, asked)


@pytest.mark.parametrize(
    ("searched", "is_hit"),
    [
        ("stages", False),
        ("stages.1", True),
        ("stages.1.epochs", True),
        ("stages.1.order", False),
        ("smart.weight", False),
    ],
)
def test_a_key_of_all_stages_is_not_set_where_a_stage_is_searched(searched: str, is_hit: bool) -> None:
    assert sets_searched("stages.*.epochs", searched) == is_hit


@pytest.mark.parametrize(
    ("name", "is_right"), [("owner/name", True), ("{}/here", True), ("./here", False), ("/no/such", False)]
)
def test_a_space_names_encoders_by_absolute_paths_alone(
    tiny_config: TrialConfig, tmp_path: Path, name: str, is_right: bool
) -> None:
    (tmp_path / "here").mkdir()
    named = {"first": {"encoder.name": name.format(tmp_path)}, "base": {}}
    space = space_with(tiny_config, grid={"encoder_of": named})
    if is_right:
        check_encoder_names(space)
    else:
        assert one_line_error(check_encoder_names, space).startswith("encoder.name must be a hub name or")


@pytest.mark.parametrize("path", ["here", "./here", "../here"])
def test_searched_starting_weights_must_be_absolute_paths(
    tiny_config: TrialConfig, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "there").mkdir()
    check_starts(space_with(tiny_config, grid={"encoder.start_from": (None, f"{tmp_path}/there", "~/there")}))
    with pytest.raises(ValueError, match=r"^encoder.start_from must be an absolute path where .*, got \.*/?here$"):
        check_starts(space_with(tiny_config, grid={"encoder.start_from": (None, path)}))


def held_out_space(base: TrialConfig, *shares: float) -> SearchSpace:
    return space_with(base, **({"grid": {"data.hold_out": shares}} if shares else {}))


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_one_share_for_all_is_allowed_and_two_are_not(tiny_config: TrialConfig, share: float) -> None:
    base = tiny_config.override({"data.hold_out": share})
    check_held_out_share(held_out_space(base))
    check_held_out_share(held_out_space(base, share))
    with pytest.raises(ValueError) as caught:
        check_held_out_share(held_out_space(base, share, 0.25))
    rule = "data.hold_out must be left to --hold-out, the same for all trials, in space 'trial'"
    assert str(caught.value) == f"{rule}, got {share:g}, 0.25"


def test_scheduler_is_refused_where_a_stage_may_end_early(options: Build, tiny_config: TrialConfig) -> None:
    patient = space_with(tiny_config, grid={"stages.1.patience": (None, 2)})
    check_patience(patient, options())
    check_patience(space_with(tiny_config), options(scheduler="asha"))
    rule = "--scheduler must be none where a stage has a patience (stages.1.patience), got asha"
    assert one_line_error(check_patience, patient, options(scheduler="asha")) == rule


@pytest.mark.parametrize("changes", [{"search": "tpe"}, {"search": "gp"}, {"scheduler": "asha"}])
def test_search_and_scheduler_compare_trials_of_the_same_tasks(options: Build, changes: dict[str, Any]) -> None:
    space = load_space("baselines")
    check_comparable(space, options())
    rule = "--search tpe, --search gp and --scheduler compare trials, which in space 'baselines' train different tasks"
    assert one_line_error(check_comparable, space, options(**changes)).startswith(rule)


def test_a_race_compares_configurations_of_the_same_tasks(tiny_config: TrialConfig) -> None:
    race = SweepOptions(space="trial", name="first", storage="here", until_decided=0.0, replicates=5)
    check_comparable(space_with(tiny_config, grid={"smart.weight": (0.0, 1.0)}), race)
    alone = {name: {"stages": ({"tasks": [name]},)} for name in ("sst", "qqp")}
    with pytest.raises(
        ValueError, match=r"^--until-decided compares trials, which in space 'trial' train different .*--replicates 3 "
    ):
        check_comparable(space_with(tiny_config, grid={"task": alone}), race)
    with pytest.raises(ValueError, match=r"^--until-decided must compare configurations .*, got 1 in space 'trial'$"):
        check_comparable(space_with(tiny_config), race)
