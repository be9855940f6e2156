"""A sweep's tables follow from the folders of its trials; caches only save time."""

import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from mtlib.runtime.storage import Location, open_folder
from mtlib.tasks import TASKS
from mtlib.training.epoch_report import EpochReport
from results.records import epochs as epoch_files
from results.records.epochs import epoch_path, write_epoch
from results.records.files import write_json
from results.records.tables import (
    CURVES_FILE,
    TRIALS_FILE,
    SweepTables,
    read_sweep_tables,
    read_trials,
    read_with_warnings,
    write_caches,
    write_trials,
)
from results.records.trial_folder import (
    TRIAL_FILE,
    TrialEnd,
    TrialStart,
    delete_end,
    trial_path,
    write_end,
    write_start,
)
from results.records.trials import TrialRecord, write_sweep
from tests.driver_files import write_driver

MakeReport = Callable[..., EpochReport]
MakeRecord = Callable[..., TrialRecord]

TRIALS = tuple(f"000{number}-r0" for number in range(3))


def begin_trial(folder: Location, number: int) -> str:
    """Writes the `trial.json` of a configuration's first trial."""
    start = TrialStart(
        trial_id=f"{number:04d}-r0",
        number=number,
        replicate=0,
        seed=number,
        params={"smart.weight": number / 2},
        config="{}",
        config_hash=str(number),
        started="2026-05-01T10:00:00.000+00:00",
        host="laptop",
    )
    write_start(open_folder(folder), start)
    return start.trial_id


def write_trials_of_two_epochs(folder: Location, make_report: MakeReport) -> None:
    """A sweep of three trials: a complete one, one pruned after its first epoch, and one without end."""
    write_sweep(folder, {"name": "example"})
    for number in range(3):
        trial = begin_trial(folder, number)
        for epoch in (1, 2):
            write_epoch(folder, trial, make_report(epoch, skill=0.4 * number + 0.2 * epoch, seed=number))
    write_end(open_folder(folder), TRIALS[0], TrialEnd(how="complete"))
    write_end(open_folder(folder), TRIALS[1], TrialEnd(how="pruned", epochs=1))


@pytest.fixture
def folder(tmp_path: Path, make_report: MakeReport) -> Path:
    write_trials_of_two_epochs(tmp_path, make_report)
    return tmp_path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The trials whose epochs are read, in order."""
    read = epoch_files.read_epoch
    found: list[str] = []

    def note(root: object, trial: str, epoch: int) -> object:
        found.append(trial)
        return read(root, trial, epoch)

    monkeypatch.setattr(epoch_files, "read_epoch", note)
    return found


def counted_epochs(found: SweepTables) -> set[tuple[str, int]]:
    """Trials and epochs of the curves."""
    return set(zip(found.curves["trial"].to_pylist(), found.curves["epoch"].to_pylist(), strict=True))


def assert_same(first: SweepTables, second: SweepTables) -> None:
    assert first.records == second.records
    assert first.curves.equals(second.curves)


def test_tables_have_all_trials_and_the_epochs_that_count(folder: Path) -> None:
    found = read_sweep_tables(folder)
    assert [(record.trial_id, record.status, record.epochs) for record in found.records] == [
        (TRIALS[0], "complete", 2),
        (TRIALS[1], "pruned", 1),
        (TRIALS[2], "interrupted", 2),
    ]
    assert counted_epochs(found) == {(TRIALS[0], 1), (TRIALS[0], 2), (TRIALS[1], 1), (TRIALS[2], 1), (TRIALS[2], 2)}
    assert found.notes == ()
    assert (list(found.records), found.curves) == (read_trials(folder), read_with_warnings(folder).curves)


def test_caches_are_read_instead_of_unchanged_folders(folder: Path, opened: list[str], make_report: MakeReport) -> None:
    expected = read_sweep_tables(folder)
    write_caches(folder, [])
    opened.clear()
    write_json(open_folder(folder), trial_path(TRIALS[2], "checkpoint/best.json"), {})  # no table depends on it
    assert_same(read_sweep_tables(folder), expected)
    assert opened == []
    write_epoch(folder, TRIALS[2], make_report(3))
    assert counted_epochs(read_sweep_tables(folder)) == counted_epochs(expected) | {(TRIALS[2], 3)}
    os.utime(folder / epoch_path(TRIALS[1], 1), (1, 1))
    opened.clear()
    read_trials(folder)
    assert set(opened) == {TRIALS[1], TRIALS[2]}


def test_sweep_in_a_bucket_has_the_tables_of_one_on_a_disk(
    folder: Path, bucket: str, opened: list[str], make_report: MakeReport
) -> None:
    write_trials_of_two_epochs(bucket, make_report)
    assert_same(read_sweep_tables(bucket), on_disk := read_sweep_tables(folder))
    write_caches(bucket, [])
    opened.clear()
    assert_same(read_sweep_tables(bucket), on_disk)
    assert opened == []
    write_epoch(bucket, TRIALS[2], make_report(1))  # trained again: its second epoch goes
    assert counted_epochs(read_sweep_tables(bucket)) == counted_epochs(on_disk) - {(TRIALS[2], 2)}


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def change_version(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"schema_version": b"99"}), path)


@pytest.mark.parametrize("name", [TRIALS_FILE, CURVES_FILE])
@pytest.mark.parametrize("damage", [truncate, change_version, Path.unlink])
def test_damaged_or_deleted_cache_is_made_again_from_the_folders(
    folder: Path, name: str, damage: Callable[[Path], None]
) -> None:
    expected = read_sweep_tables(folder)
    write_caches(folder, [])
    damage(folder / name)
    found = read_sweep_tables(folder)
    assert_same(found, expected)
    assert [note.startswith(f"{folder / name}: ") for note in found.notes] == [True] * (damage is not Path.unlink)
    write_caches(folder, [])
    assert_same(read_sweep_tables(folder), expected)
    assert read_sweep_tables(folder).notes == ()


def test_old_caches_give_the_tables_of_today(folder: Path, make_report: MakeReport, tmp_path: Path) -> None:
    write_caches(folder, [])
    write_epoch(folder, TRIALS[0], make_report(1, seed=9))  # trained again: its second epoch is gone
    delete_end(open_folder(folder), TRIALS[0])
    write_end(open_folder(folder), TRIALS[2], TrialEnd(how="failed", error="no room"))
    write_epoch(folder, begin_trial(folder, 10), make_report(1))
    found = read_sweep_tables(folder)
    for name in (TRIALS_FILE, CURVES_FILE):
        (tmp_path / name).unlink()
    assert_same(found, read_sweep_tables(folder))
    assert [record.status for record in found.records] == ["interrupted", "pruned", "failed", "interrupted"]


def test_trials_without_a_folder_keep_their_row(folder: Path, make_record: MakeRecord) -> None:
    queued, last = make_record(1, 1, status="queued", epochs=0), make_record(10_000)
    write_caches(folder, [last, queued, make_record(0, status="failed"), make_record(9_999)])
    names = [*TRIALS[:2], queued.trial_id, TRIALS[2], "9999-r0", last.trial_id]  # by number, not by name
    for _ in range(2):
        found = read_sweep_tables(folder)
        assert [record.trial_id for record in found.records] == names
        assert found.records[2] == queued
        assert found.records[0].status == "complete", "its folder says so"
        write_caches(folder, [])


def test_truncated_epoch_is_named_at_every_reading_and_counts_up_to_there(folder: Path) -> None:
    path = folder / epoch_path(TRIALS[0], 2)
    truncate(path)
    for _ in range(2):
        found = read_sweep_tables(folder)
        assert (TRIALS[0], 2) not in counted_epochs(found)
        assert found.records[0].epochs == 1
        (note,) = found.notes
        assert note.startswith(f"{path}: truncated or damaged")
        write_caches(folder, [])
    with pytest.warns(UserWarning, match=f"^{path}: truncated or damaged"):
        read_trials(folder)


@pytest.mark.parametrize("is_cached", [True, False])
@pytest.mark.parametrize("damage", [truncate, Path.unlink])
def test_trial_without_a_readable_start_is_named_unless_its_row_is_known(
    folder: Path, damage: Callable[[Path], None], is_cached: bool
) -> None:
    expected = read_sweep_tables(folder)
    if is_cached:
        write_caches(folder, [])
    path = folder / trial_path(TRIALS[2], TRIAL_FILE)
    damage(path)
    found = read_sweep_tables(folder)
    assert len(found.notes) == (not is_cached or damage is truncate)
    assert all(str(path) in note for note in found.notes)
    if is_cached:
        assert_same(found, expected)
    else:
        assert found.records == expected.records[:2]
        assert TRIALS[2] not in found.curves["trial"].to_pylist()


def test_status_of_a_trial_without_end_follows_from_the_driver(folder: Path, make_record: MakeRecord) -> None:
    write_caches(folder, [make_record(3, status="running"), make_record(4, status="queued")])

    def statuses() -> list[str]:
        return [record.status for record in read_trials(folder)]

    write_driver(folder, {TRIALS[0]: {"since": 0.0}, TRIALS[2]: {"since": 0.0}, "0003-r0": {"since": 0.0}})
    assert statuses() == ["complete", "pruned", "running", "running", "queued"]
    write_caches(folder, [])
    write_driver(folder, {"0003-r0": {"since": 0.0}})
    assert statuses() == ["complete", "pruned", "interrupted", "running", "queued"]
    for gone in ({"has_stopped": True}, {"time": 0.0, "processes": ""}, {"pid": 2**22 + 1}):
        write_driver(folder, {TRIALS[2]: {"since": 0.0}}, **gone)
        assert statuses() == ["complete", "pruned", "interrupted", "interrupted", "queued"]


def test_trials_of_a_cache_are_read_back_as_written(tmp_path: Path, make_record: MakeRecord) -> None:
    written = [make_record(0), make_record(1, 2, "failed"), make_record(3, best={"qqp": 0.1 + 0.2}, last={})]
    write_sweep(tmp_path, {})
    write_trials(tmp_path, written, tuple(TASKS))
    assert read_trials(tmp_path) == written
    frame = pd.read_parquet(tmp_path / TRIALS_FILE)
    assert frame["best_sst"].isna().tolist() == [False, False, True]
    assert frame["best_epoch_overall"].dtype == "int64"
