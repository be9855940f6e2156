"""A kill at any point leaves whole epochs; compaction moves them without changing what a reader gets."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mtlib.tasks import TASKS
from mtlib.training.epoch_report import EpochReport
from results.records import epochs
from results.records.epochs import compact, end_path, read_curves, read_predictions, write_epoch
from results.records.trials import CURVES_BACKUP_FILE, STATUSES, TrialRecord, write_trials

MakeReport = Callable[..., EpochReport]
MakeRecord = Callable[..., TrialRecord]
Kill = Callable[[int, bool], type[BaseException]]

SPLITS = [("sst", "dev"), ("sst", "train"), ("qqp", "dev"), ("sts", "dev")]
FILES_OF_AN_EPOCH = len(SPLITS) + 1
TRIAL = "0000-r0"


def read_all(folder: Path) -> list[pa.Table]:
    """All that a reader gets of a sweep's epochs."""
    return [read_curves(folder), *(read_predictions(folder, task, split) for task, split in SPLITS)]


def complete_epochs(folder: Path) -> set[tuple[str, int]]:
    """The epochs that a reader gets; checks that each is complete and unique."""
    curves, *predictions = read_all(folder)
    seen = set(epochs.reported_epochs(curves))
    for table, (task, split) in zip(predictions, SPLITS, strict=True):
        keys = list(zip(table["trial"].to_pylist(), table["epoch"].to_pylist(), table["id"].to_pylist(), strict=True))
        assert len(set(keys)) == len(keys)
        assert {key[:2] for key in keys} == seen, (task, split)
    points = [tuple(row[name] for name in ("trial", "epoch", "task", "split", "metric")) for row in curves.to_pylist()]
    assert len(set(points)) == len(points)
    return seen


def test_epoch_is_read_back_as_reported(tmp_path: Path, make_report: MakeReport) -> None:
    report = make_report(1)
    write_epoch(tmp_path, TRIAL, report)
    rows = read_curves(tmp_path).to_pylist()
    assert rows == [{"trial": TRIAL, **vars(point)} for point in report.points]
    for part in report.predictions:
        table = read_predictions(tmp_path, part.task, part.split)
        assert table.select(["id", "trial", "epoch"]).to_pylist() == [
            {"id": name, "trial": TRIAL, "epoch": 1} for name in part.ids
        ]
        np.testing.assert_array_equal(table["label"].to_numpy(), part.labels)
        np.testing.assert_array_equal(np.array(table["logits"].to_pylist(), dtype=np.float32), part.logits)


def test_repeated_epoch_replaces_the_first(tmp_path: Path, make_report: MakeReport) -> None:
    for epoch in (1, 2):
        write_epoch(tmp_path, TRIAL, make_report(epoch))
    expected = read_all(tmp_path)
    write_epoch(tmp_path, TRIAL, make_report(2, seed=5))
    assert read_all(tmp_path) != expected
    write_epoch(tmp_path, TRIAL, make_report(2))
    assert read_all(tmp_path) == expected


def test_earlier_epoch_drops_later_ones(tmp_path: Path, make_report: MakeReport) -> None:
    for epoch in (1, 2, 3, 2):
        write_epoch(tmp_path, TRIAL, make_report(epoch))
    assert complete_epochs(tmp_path) == {(TRIAL, 1), (TRIAL, 2)}


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("renames", range(1, FILES_OF_AN_EPOCH + 1))
def test_kill_while_an_epoch_is_written_leaves_whole_epochs(
    tmp_path: Path, make_report: MakeReport, kill_at_rename: Kill, renames: int, is_before: bool
) -> None:
    write_epoch(tmp_path, TRIAL, make_report(1))
    with pytest.raises(kill_at_rename(renames, is_before)):
        write_epoch(tmp_path, TRIAL, make_report(2))
    is_done = renames == FILES_OF_AN_EPOCH and not is_before
    assert complete_epochs(tmp_path) == {(TRIAL, epoch) for epoch in ((1, 2) if is_done else (1,))}
    write_epoch(tmp_path, TRIAL, make_report(2))
    write_epoch(tmp_path / "undisturbed", TRIAL, make_report(1))
    write_epoch(tmp_path / "undisturbed", TRIAL, make_report(2))
    assert read_all(tmp_path) == read_all(tmp_path / "undisturbed")


@pytest.mark.parametrize("renames", range(1, FILES_OF_AN_EPOCH + 2))
def test_kill_while_an_epoch_is_replaced_never_mixes_old_and_new(
    tmp_path: Path, make_report: MakeReport, kill_at_rename: Kill, renames: int
) -> None:
    write_epoch(tmp_path, TRIAL, make_report(1))
    with pytest.raises(kill_at_rename(renames, False)):
        write_epoch(tmp_path, TRIAL, make_report(1, seed=5))
    is_done = renames == FILES_OF_AN_EPOCH + 1
    assert complete_epochs(tmp_path) == ({(TRIAL, 1)} if is_done else set())


def test_predictions_can_be_filtered_by_trial_and_epoch(sweep_folder: Path) -> None:
    compact(sweep_folder)

    def seen(**which: Any) -> set[tuple[str, int]]:
        table = read_predictions(sweep_folder, "qqp", "dev", **which)
        return set(zip(table["trial"].to_pylist(), table["epoch"].to_pylist(), strict=True))

    assert seen(trial="0001-r0", epoch=2) == {("0001-r0", 2)}
    assert seen(trial="0002-r0") == {("0002-r0", 1), ("0002-r0", 2)}
    assert seen(epoch=1) == {(f"000{number}-r0", 1) for number in range(3)}
    assert seen(trial="0009-r0") == set()
    assert read_predictions(sweep_folder, "sts", "train").num_rows == 0


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.glob("**/*") if path.is_file()}


def test_compaction_does_not_change_what_is_read(sweep_folder: Path) -> None:
    expected = read_all(sweep_folder)
    for _ in range(2):
        compact(sweep_folder)
        assert read_all(sweep_folder) == expected


def test_compaction_deletes_only_files_of_ended_trials(sweep_folder: Path) -> None:
    compact(sweep_folder)
    left = {path for path in files_in(sweep_folder) if path.startswith("trials/")}
    assert {path.split("/")[1] for path in left} == {"0002-r0"}
    assert len(left) == 2 * len(SPLITS) + 1


@pytest.mark.parametrize("status", STATUSES)
def test_trial_that_may_write_again_keeps_its_files(sweep_folder: Path, make_record: MakeRecord, status: str) -> None:
    (sweep_folder / end_path("0000-r0")).write_text("{}")
    expected = read_all(sweep_folder)
    write_trials(sweep_folder, [make_record(0, status=status)], tuple(TASKS))
    compact(sweep_folder)
    left = {path for path in files_in(sweep_folder) if "0000-r0" in path}
    assert len(left) == (2 * len(SPLITS) + 2 if status in ("queued", "running", "interrupted") else 0)
    assert read_all(sweep_folder) == expected


def test_end_file_is_deleted_only_once_the_trials_hold_it(sweep_folder: Path) -> None:
    for trial in ("0001-r0", "0002-r0", "0009-r0"):  # ended, running, unknown
        (sweep_folder / end_path(trial)).parent.mkdir(exist_ok=True)
        (sweep_folder / end_path(trial)).write_text("{}")
    compact(sweep_folder)
    left = {path for path in files_in(sweep_folder) if path.endswith("end.json")}
    assert left == {end_path("0002-r0"), end_path("0009-r0")}


def test_curves_have_a_copy(sweep_folder: Path) -> None:
    compact(sweep_folder)
    copy = (sweep_folder / CURVES_BACKUP_FILE).read_bytes()
    assert copy == (sweep_folder / "curves.parquet").read_bytes()


def test_compacted_table_has_a_row_group_per_trial_and_epoch(sweep_folder: Path) -> None:
    compact(sweep_folder)
    for task, split in SPLITS:
        file = pq.ParquetFile(sweep_folder / f"predictions/{task}-{split}.parquet")
        groups = [file.read_row_group(number) for number in range(file.num_row_groups)]
        keys = [set(zip(group["trial"].to_pylist(), group["epoch"].to_pylist(), strict=True)) for group in groups]
        assert keys == [{(f"000{number}-r0", epoch)} for number in range(3) for epoch in (1, 2)]


def test_later_epochs_are_read_with_compacted_ones_and_merged_next_time(
    sweep_folder: Path, make_report: MakeReport, make_record: MakeRecord
) -> None:
    compact(sweep_folder)
    write_epoch(sweep_folder, "0002-r0", make_report(3))
    write_epoch(sweep_folder, "0003-r0", make_report(1))
    expected = {(f"000{number}-r0", epoch) for number in range(3) for epoch in (1, 2)}
    expected |= {("0002-r0", 3), ("0003-r0", 1)}
    assert complete_epochs(sweep_folder) == expected
    write_trials(sweep_folder, [make_record(number) for number in range(4)], tuple(TASKS))
    compact(sweep_folder)
    assert complete_epochs(sweep_folder) == expected
    assert not {path for path in files_in(sweep_folder) if path.startswith("trials/")}


def test_resumed_trial_continues_from_the_compacted_table(sweep_folder: Path, make_report: MakeReport) -> None:
    compact(sweep_folder)
    write_epoch(sweep_folder, "0000-r0", make_report(3))
    assert {epoch for trial, epoch in complete_epochs(sweep_folder) if trial == "0000-r0"} == {1, 2, 3}
    write_epoch(sweep_folder, "0000-r0", make_report(2, seed=5))
    assert {epoch for trial, epoch in complete_epochs(sweep_folder) if trial == "0000-r0"} == {1, 2}
    logits = read_predictions(sweep_folder, "qqp", "dev", trial="0000-r0", epoch=2)["logits"].to_pylist()
    np.testing.assert_array_equal(logits, make_report(2, seed=5).predictions[1].logits)


NUM_RENAMES = len(SPLITS) + 2
"""Renames of a compaction. A kill after one of them is nearly a kill before the next one."""


@pytest.mark.parametrize(
    ("renames", "is_before"),
    [
        pytest.param(renames, is_before, marks=[pytest.mark.slow] * (not is_before and renames < NUM_RENAMES))
        for renames in range(1, NUM_RENAMES + 1)
        for is_before in (True, False)
    ],
)
@pytest.mark.parametrize("is_first", [True, False], ids=["first compaction", "later compaction"])
def test_kill_during_compaction_loses_and_duplicates_nothing(
    sweep_folder: Path, make_report: MakeReport, kill_at_rename: Kill, renames: int, is_before: bool, is_first: bool
) -> None:
    if not is_first:
        compact(sweep_folder)
        write_epoch(sweep_folder, "0002-r0", make_report(2, seed=5))
        write_epoch(sweep_folder, "0003-r0", make_report(1))
    expected = read_all(sweep_folder)
    with pytest.raises(kill_at_rename(renames, is_before)):
        compact(sweep_folder)
    assert read_all(sweep_folder) == expected
    compact(sweep_folder)
    assert read_all(sweep_folder) == expected


@pytest.mark.parametrize("deleted", [["curves.parquet"], ["predictions/sst-dev-0001.parquet"]])
def test_kill_while_merged_files_are_deleted_loses_nothing(sweep_folder: Path, deleted: Sequence[str]) -> None:
    expected = read_all(sweep_folder)
    saved = {path: (sweep_folder / path).read_bytes() for path in files_in(sweep_folder) if "0000-r0" in path}
    compact(sweep_folder)
    for path, content in saved.items():  # as if only `deleted` had been deleted so far
        if not path.endswith(tuple(deleted)):
            (sweep_folder / path).write_bytes(content)
    assert read_all(sweep_folder) == expected
    compact(sweep_folder)
    assert read_all(sweep_folder) == expected
    assert not [path for path in files_in(sweep_folder) if "0000-r0" in path]


def test_predictions_of_an_unreported_epoch_are_dropped(
    sweep_folder: Path, make_report: MakeReport, kill_at_rename: Kill
) -> None:
    with pytest.raises(kill_at_rename(2, False)):
        write_epoch(sweep_folder, "0000-r0", make_report(3))
    expected = read_all(sweep_folder)
    compact(sweep_folder)
    assert read_all(sweep_folder) == expected
    assert ("0000-r0", 3) not in complete_epochs(sweep_folder)
    assert not [path for path in files_in(sweep_folder) if "0000-r0" in path]


def test_compaction_deletes_old_temporary_files_and_no_new_ones(sweep_folder: Path) -> None:
    ages = {"predictions/.sst-dev.parquet.1.tmp": 2, ".trials.parquet.2.tmp": 0, "trials/0002-r0/notes.tmp": 2}
    for name, hours in ages.items():
        (sweep_folder / name).parent.mkdir(exist_ok=True)
        (sweep_folder / name).write_text("")
        os.utime(sweep_folder / name, (time.time() - 3600 * hours,) * 2)
    compact(sweep_folder)
    assert [(sweep_folder / name).exists() for name in ages] == [False, True, True]


def test_compaction_leaves_a_damaged_file_and_merges_all_others(sweep_folder: Path) -> None:
    path = sweep_folder / "trials/0001-r0/predictions/sts-dev-0002.parquet"
    path.write_bytes(path.read_bytes()[:60])
    before = read_predictions(sweep_folder, "sts", "dev", trial="0000-r0")
    for _ in range(2):
        ((trial, reason),) = compact(sweep_folder).items()
        assert trial == "0001-r0"
        assert reason.startswith(f"{path}: truncated or damaged")
        assert path.exists()
    assert read_predictions(sweep_folder, "sts", "dev", trial="0000-r0").equals(before)
    assert not list((sweep_folder / "trials/0000-r0").rglob("*.parquet"))


def test_compaction_stops_at_a_damaged_table_and_deletes_nothing(sweep_folder: Path, make_report: MakeReport) -> None:
    compact(sweep_folder)
    write_epoch(sweep_folder, "0002-r0", make_report(3))
    path = sweep_folder / "predictions/sts-dev.parquet"
    path.write_bytes(path.read_bytes()[:60])
    before = files_in(sweep_folder)
    with pytest.raises(ValueError, match=f"^{path}: truncated or damaged"):
        compact(sweep_folder)
    assert files_in(sweep_folder) >= before
    for trial in ("0000-r0", "0001-r0", "0002-r0"):  # all are trained again
        for epoch in (1, 2, 3):
            write_epoch(sweep_folder, trial, make_report(epoch))
    assert compact(sweep_folder) == {}
    assert read_predictions(sweep_folder, "sts", "dev").num_rows == 9 * 50


def test_sweep_without_epochs_has_empty_tables(tmp_path: Path) -> None:
    compact(tmp_path)
    assert [table.num_rows for table in read_all(tmp_path)] == [0] * 5
    assert files_in(tmp_path) == set()
