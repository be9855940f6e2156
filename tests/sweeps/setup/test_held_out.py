"""Rows that a sweep keeps aside: the same in all trials, said in a line, recorded where there are some."""

from pathlib import Path

import pytest

from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_held_out
from mtlib.data.row_sources import HELD
from results.records.hold_out import HoldOutRecord, describe_rows, read_hold_out
from search_spaces.space import SearchSpace
from sweeps.setup.held_out import check_files_alike, check_shares, describe_held, record_held


def space_with(base: TrialConfig, *shares: float) -> SearchSpace:
    grid: dict[str | tuple[str, ...], tuple[float, ...]] = {"smart.weight": (0.0, 1.0)}
    grid = {"data.hold_out": shares} if shares else grid
    return SearchSpace(name="trial", question="?", base=base, grid=grid)


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_one_share_for_all_is_allowed_and_two_are_not(tiny_config: TrialConfig, share: float) -> None:
    base = tiny_config.override({"data.hold_out": share})
    check_shares(space_with(base))
    check_shares(space_with(base, share))
    with pytest.raises(ValueError) as caught:
        check_shares(space_with(base, share, 0.25))
    rule = "data.hold_out must be left to --hold-out, the same for all trials, in space 'trial'"
    assert str(caught.value) == f"{rule}, got {share:g}, 0.25"


def test_other_train_files_are_allowed_where_nothing_is_kept_aside_of_them(tiny_config: TrialConfig) -> None:
    space = space_with(tiny_config)
    check_files_alike(space, [])
    check_files_alike(space, [("sst", "train"), ("sst", "dev")])
    with pytest.raises(ValueError) as caught:
        check_files_alike(space, [("sts", HELD), ("sst", "train"), ("qqp", HELD), ("qqp", HELD)])
    rule = "--hold-out must find a task's train rows in the same place in all trials of space 'trial'"
    assert str(caught.value) == f"{rule}, got different files of qqp, sts"


def test_rows_kept_aside_are_said_and_recorded(tiny_config: TrialConfig, tiny_folder: Path, tmp_path: Path) -> None:
    held = read_held_out(tiny_config.override({"data.hold_out": 0.2}), tiny_folder)
    assert describe_held(0.2, held) == ["Held out for a last score, 0.2 of train: sst 6, qqp 14, sts 4 rows."]
    record_held(tmp_path, 0.2, held)
    assert read_hold_out(tmp_path) == HoldOutRecord(share=0.2, tasks=describe_rows(held))


def test_where_nothing_is_kept_aside_nothing_is_said_or_recorded(tmp_path: Path) -> None:
    assert describe_held(0.0, {}) == []
    record_held(tmp_path, 0.0, {})
    assert not list(tmp_path.iterdir())
