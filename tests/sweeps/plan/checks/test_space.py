"""Starting weights and tasks of every point of a space."""

from pathlib import Path
from typing import Any

import pytest

from mtlib.config.trial import TrialConfig
from mtlib.data.row_sources import HELD
from search_spaces.space import SearchSpace
from sweeps.options import SweepOptions
from sweeps.plan.checks.space import (
    check_comparable,
    check_held_out_files,
    check_held_out_share,
    check_starts,
)


def space_with(base: TrialConfig, **changes: Any) -> SearchSpace:
    return SearchSpace(**{"name": "trial", "question": "?", "base": base, "grid": {"smart.weight": (0.0,)}, **changes})


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


def test_other_train_files_are_allowed_where_none_of_their_rows_are_held_out(tiny_config: TrialConfig) -> None:
    space = held_out_space(tiny_config)
    check_held_out_files(space, [])
    check_held_out_files(space, [("sst", "train"), ("sst", "dev")])
    with pytest.raises(ValueError) as caught:
        check_held_out_files(space, [("sts", HELD), ("sst", "train"), ("qqp", HELD), ("qqp", HELD)])
    rule = "--hold-out must find a task's train rows in the same place in all trials of space 'trial'"
    assert str(caught.value) == f"{rule}, got different files of qqp, sts"


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
