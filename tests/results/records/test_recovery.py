"""After kills and damage, records are recovered from the trials' own files, with notes for the user."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mtlib.tasks import TASKS
from mtlib.training.epoch_report import EpochReport, Point
from results.records.epochs import compact, curves_path, end_path, read_curves, read_predictions, write_epoch
from results.records.recovery import RecoveredRecords, delete_end, read_end, read_records_as_left, recover, write_end
from results.records.trials import (
    CURVES_BACKUP_FILE,
    TRIALS_BACKUP_FILE,
    TrialRecord,
    read_trials,
    write_sweep,
    write_trials,
)
from sweeps.driver.ledger import on_report
from sweeps.lanes.messages import Event
from sweeps.lanes.reporter import scores_in

MakeReport = Callable[..., EpochReport]
MakeRecord = Callable[..., TrialRecord]
Kill = Callable[[int, bool], type[BaseException]]

TRIAL = "0002-r0"
PART = f"trials/{TRIAL}/predictions/qqp-dev-0001.parquet"
STATE = f"trials/{TRIAL}/checkpoint/state-000000010-000/tensors"
END: dict[str, Any] = {
    "how": "complete",
    "error": None,
    "peak_memory_bytes": 12345,
    "shared_steps": 4,
    "taken_from": None,
    "time": 1714557612.25,
    "place": ["laptop", {"lane": "é"}],
}
BLANK: dict[str, Any] = {
    **{"status": "queued", "best": {}, "last": {}, "best_epoch": {}, "epochs": 0, "steps": 0, "shared_steps": 0},
    **{"device_seconds": 0.0, "checkpoint": None, "taken_from": None, "error": None},
}


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip_byte(path: Path) -> None:
    """Flips one byte in the middle of a file's data."""
    content = bytearray(path.read_bytes())
    content[100] ^= 0xFF
    path.write_bytes(bytes(content))


def recover_record(folder: Path, trial: str = TRIAL) -> TrialRecord:
    """The recovered record of a trial whose files are whole."""
    recovered = recover(folder)
    assert recovered.notes == ()
    return next(record for record in recovered.records if record.trial_id == trial)


def test_end_is_read_back_until_dropped(tmp_path: Path) -> None:
    assert read_end(tmp_path, TRIAL) is None
    write_end(tmp_path, TRIAL, END)
    assert read_end(tmp_path, TRIAL) == END
    assert read_end(tmp_path, "0003-r0") is None
    for _ in range(2):
        delete_end(tmp_path, TRIAL)
        assert read_end(tmp_path, TRIAL) is None


def test_damage_to_an_end_is_detected(tmp_path: Path) -> None:
    write_end(tmp_path, TRIAL, END)
    path = tmp_path / end_path(TRIAL)
    content = path.read_bytes()
    for length in range(len(content) - 2):  # the last two are the closing brace and the newline
        path.write_bytes(content[:length])
        assert read_end(tmp_path, TRIAL) is None
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert read_end(tmp_path, TRIAL) in (None, END), "white space may change"


@pytest.mark.parametrize("text", ["[]", "{}", '{"facts": [], "crc32": 0}', '{"facts": {"how": "failed"}, "crc32": 1}'])
def test_invalid_end_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / end_path(TRIAL)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert read_end(tmp_path, TRIAL) is None


@pytest.mark.parametrize("is_before", [True, False])
def test_end_is_written_whole_or_not_at_all(tmp_path: Path, kill_at_rename: Kill, is_before: bool) -> None:
    with pytest.raises(kill_at_rename(1, is_before)):
        write_end(tmp_path, TRIAL, END)
    assert read_end(tmp_path, TRIAL) == (None if is_before else END)


@pytest.mark.parametrize("status", ["complete", "pruned", "failed", "reused"])
def test_ended_trials_are_left_unchanged(sweep_folder: Path, make_record: MakeRecord, status: str) -> None:
    write_end(sweep_folder, TRIAL, {**END, "how": "failed", "error": "older"})
    record = make_record(2, status=status)
    write_trials(sweep_folder, [record], tuple(TASKS))
    assert recover_record(sweep_folder) == record


@pytest.mark.parametrize(
    ("path", "damage"),
    [*((path, damage) for path in (curves_path(TRIAL), PART) for damage in (truncate, flip_byte)), (PART, Path.unlink)],
)
@pytest.mark.parametrize("status", ["complete", "pruned", "reused"])
def test_an_ended_trial_whose_files_are_lost_has_failed_and_keeps_what_is_left(
    sweep_folder: Path, make_record: MakeRecord, status: str, path: str, damage: Callable[[Path], None]
) -> None:
    write_trials(sweep_folder, [make_record(0), make_record(2, status=status)], tuple(TASKS))
    damage(sweep_folder / path)
    before = sorted(sweep_folder.rglob("*"))
    found = recover(sweep_folder)
    assert [record.status for record in found.records] == ["complete", "failed"]
    assert found.lost == {TRIAL}
    assert "--retry-failed" in str(found.records[1].error)
    assert str(found.records[1].error) in found.notes[0]
    assert sorted(sweep_folder.rglob("*")) == before


def test_trial_that_never_started_is_queued(sweep_folder: Path, make_record: MakeRecord) -> None:
    record = make_record(7, **{**BLANK, "host": None, "started": None})
    write_trials(sweep_folder, [record], tuple(TASKS))
    assert recover_record(sweep_folder, "0007-r0") == record


def test_sweep_without_trials_file_has_none(tmp_path: Path, make_report: MakeReport) -> None:
    write_sweep(tmp_path, {})
    assert recover(tmp_path) == RecoveredRecords(records=(), notes=())
    write_epoch(tmp_path, TRIAL, make_report(1))
    assert recover(tmp_path) == RecoveredRecords(records=(), notes=())


def random_report(random: np.random.Generator, epoch: int, num_active: int) -> EpochReport:
    """Scores from a few values, so that many are equal, and points that are no main dev scores.

    With no active task it is an epoch that is not scored.
    """
    tasks = list(TASKS)[:num_active]
    places = [(task, split, metric) for task in tasks for split in ("dev", "train") for metric in ("loss", "f1")]
    places += [(task, split, TASKS[task].metric) for task in tasks for split in ("dev", "train")]
    places += [("overall", "dev", "overall")] if num_active == len(TASKS) else []
    places = places or [("sst", "train", "loss")]
    points = [
        Point(step=7 * epoch, epoch=epoch, task=task, split=split, metric=metric, value=value, seconds=1.1 * epoch)
        for (task, split, metric), value in zip(places, random.integers(-3, 4, len(places)) / 3, strict=True)
    ]
    return EpochReport(
        epoch=epoch,
        scored_epoch=0,
        stage=0,
        step=7 * epoch,
        seconds=1.1 * epoch,
        points=tuple(points),
        predictions=(),
        overall=None,
        is_last=False,
    )


@pytest.mark.parametrize("seed", range(30))
def test_curves_give_the_record_that_reports_gave(tmp_path: Path, make_record: MakeRecord, seed: int) -> None:
    random = np.random.default_rng(seed)
    num_workers = int(random.integers(1, 4))
    plan = SimpleNamespace(options=SimpleNamespace(workers=num_workers))
    ledger: Any = SimpleNamespace(plan=plan, progress={})
    start = make_record(2, **{**BLANK, "status": "running", "shared_steps": 3})
    record = start
    for epoch in range(1, 1 + int(random.integers(1, 6))):
        is_scored = random.random() < 0.7
        report = random_report(random, epoch, min(epoch + seed % 3, len(TASKS)) if is_scored else 0)
        write_epoch(tmp_path, TRIAL, report)
        scores = scores_in(map(vars, report.points), TASKS)
        facts = {"epoch": epoch, "scores": scores, "step": report.step, "seconds": report.seconds}
        record = on_report(record, Event(kind="report", trial_id=TRIAL, facts=facts), ledger)
    write_sweep(tmp_path, {"num_workers": num_workers})
    write_trials(tmp_path, [start], tuple(TASKS))
    assert recover_record(tmp_path) == replace(record, status="queued")
    compact(tmp_path)
    assert recover_record(tmp_path) == replace(record, status="queued")


@pytest.mark.parametrize("status", ["queued", "running", "interrupted"])
def test_trial_without_an_end_is_queued_with_its_reports(
    sweep_folder: Path, make_record: MakeRecord, status: str
) -> None:
    record = make_record(2, status=status, error="older", epochs=1, steps=10)
    write_trials(sweep_folder, [record], tuple(TASKS))
    found = recover_record(sweep_folder)
    assert (found.status, found.error, found.epochs, found.steps, found.device_seconds) == ("queued", None, 2, 20, 2.0)
    assert (found.host, found.started, found.shared_steps) == (record.host, record.started, record.shared_steps)
    assert found.checkpoint == f"trials/{TRIAL}/checkpoint"


@pytest.mark.parametrize("how", ["complete", "pruned", "failed", "reused"])
@pytest.mark.parametrize("status", ["queued", "running", "interrupted"])
def test_end_missing_from_the_records_counts(
    sweep_folder: Path, make_record: MakeRecord, status: str, how: str
) -> None:
    write_trials(sweep_folder, [make_record(2, status=status)], tuple(TASKS))
    facts = {**END, "how": how, "error": "it broke", "taken_from": "earlier/0001-r0"}
    write_end(sweep_folder, TRIAL, facts)
    found = recover_record(sweep_folder)
    assert (found.status, found.error, found.taken_from) == (how, "it broke", "earlier/0001-r0")
    assert (found.epochs, found.peak_memory_bytes, found.shared_steps) == (2, 12345, 4)


def test_incomplete_end_keeps_the_other_fields(sweep_folder: Path, make_record: MakeRecord) -> None:
    record = make_record(2, status="running", started=None)
    write_trials(sweep_folder, [record], tuple(TASKS))
    write_end(sweep_folder, TRIAL, {"how": "pruned", "time": END["time"]})
    found = recover_record(sweep_folder)
    assert found.status == "pruned"
    for name in ("peak_memory_bytes", "shared_steps", "started"):
        assert getattr(found, name) == getattr(record, name)


@pytest.mark.parametrize(("on_record", "found"), [(1.25, 1.5), (1.5, 1.5), (700.0, 700.0)])
def test_idle_time_between_runs_does_not_count(
    sweep_folder: Path, make_record: MakeRecord, on_record: float, found: float
) -> None:
    """The trial started years before its end."""
    write_trials(sweep_folder, [make_record(2, status="running", wall_seconds=on_record)], tuple(TASKS))
    write_end(sweep_folder, TRIAL, {**END, "shared_seconds": 0.5, "time": 2e9})
    assert recover_record(sweep_folder).wall_seconds == found, "of its 2 seconds others did half a second's work"


def test_reading_without_recovery_shows_statuses_and_changes_nothing(
    sweep_folder: Path, make_record: MakeRecord
) -> None:
    trials = [
        make_record(0),
        *(make_record(n, status=s) for n, s in ((1, "interrupted"), (2, "running"), (3, "queued"))),
    ]
    write_trials(sweep_folder, trials, tuple(TASKS))
    write_end(sweep_folder, TRIAL, {**END, "how": "pruned"})
    truncate(sweep_folder / curves_path("0001-r0"))
    before = files_of(sweep_folder)
    found = read_records_as_left(sweep_folder)
    assert [record.status for record in found.records] == ["complete", "interrupted", "pruned", "queued"]
    assert found.notes == ()
    assert files_of(sweep_folder) == before


def test_reading_damaged_trials_shows_the_previous_ones_and_repairs_nothing(
    sweep_folder: Path, make_record: MakeRecord
) -> None:
    write_trials(sweep_folder, [make_record(number) for number in range(9)], tuple(TASKS))
    truncate(sweep_folder / "trials.parquet")
    before = files_of(sweep_folder)
    found = read_records_as_left(sweep_folder)
    assert [record.status for record in found.records] == ["complete", "complete", "running"]
    assert [note.partition("; ")[2] for note in found.notes] == ["the backup is used"]
    assert files_of(sweep_folder) == before


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_end_survives_an_interruption_and_is_dropped_once_recorded(sweep_folder: Path, make_record: MakeRecord) -> None:
    write_end(sweep_folder, TRIAL, END)
    write_trials(sweep_folder, [make_record(2, status="interrupted")], tuple(TASKS))
    compact(sweep_folder)
    found = recover_record(sweep_folder)
    assert found.status == "complete"
    write_trials(sweep_folder, [found], tuple(TASKS))
    compact(sweep_folder)
    assert read_end(sweep_folder, TRIAL) is None
    assert recover_record(sweep_folder) == found


def test_damaged_end_is_reported_and_the_trial_continues(sweep_folder: Path) -> None:
    write_end(sweep_folder, TRIAL, END)
    truncate(sweep_folder / end_path(TRIAL))
    recovered = recover(sweep_folder)
    (note,) = recovered.notes
    assert note.startswith(f"{sweep_folder / end_path(TRIAL)}: truncated or damaged: ")
    assert note.endswith(f"; trial {TRIAL} continues from its last checkpoint")
    assert (recovered.records[2].status, recovered.records[2].epochs) == ("queued", 2)


@pytest.mark.parametrize("is_compacted", [False, True], ids=["first run", "resumed after a compaction"])
@pytest.mark.parametrize("damage", [truncate, flip_byte])
@pytest.mark.parametrize("path", [curves_path(TRIAL), PART])
def test_trial_with_damaged_files_starts_over(
    sweep_folder: Path, make_report: MakeReport, path: str, damage: Callable[[Path], None], is_compacted: bool
) -> None:
    (sweep_folder / STATE).parent.mkdir(parents=True)
    (sweep_folder / STATE).write_text("")
    write_end(sweep_folder, TRIAL, END)
    if is_compacted:
        compact(sweep_folder)
    before = read_trials(sweep_folder)
    expected = read_curves(sweep_folder).to_pandas().query("trial != @TRIAL")
    damage(sweep_folder / path)
    recovered = recover(sweep_folder)
    (note,) = recovered.notes
    assert note.startswith(f"{sweep_folder / path}: truncated or damaged: ")
    assert note.endswith(f"; trial {TRIAL} starts over")
    assert "\n" not in note
    assert recovered.records == (*before[:2], replace(before[2], **BLANK))
    assert read_curves(sweep_folder).to_pandas().equals(expected)
    assert TRIAL not in read_predictions(sweep_folder, "qqp", "dev")["trial"].to_pylist()
    left = [path.name for path in (sweep_folder / "trials" / TRIAL).glob("**/*") if path.is_file()]
    assert left == ["curves.parquet"], "an empty one"
    assert (recover(sweep_folder).records, recover(sweep_folder).notes) == (recovered.records, ())
    write_epoch(sweep_folder, TRIAL, make_report(1))
    assert recover_record(sweep_folder).epochs == 1


@pytest.mark.parametrize("is_before", [True, False])
def test_kill_while_a_trial_is_reset_changes_nothing(sweep_folder: Path, kill_at_rename: Kill, is_before: bool) -> None:
    before = read_trials(sweep_folder)
    write_end(sweep_folder, TRIAL, END)
    truncate(sweep_folder / PART)
    with pytest.raises(kill_at_rename(1, is_before)):
        recover(sweep_folder)
    assert recover(sweep_folder).records == (*before[:2], replace(before[2], **BLANK))


def test_damaged_predictions_of_an_unreported_epoch_are_ignored(sweep_folder: Path) -> None:
    (sweep_folder / PART.replace("0001", "0003")).write_text("")
    assert recover_record(sweep_folder).epochs == 2


@pytest.mark.parametrize("damage", [truncate, flip_byte])
def test_damaged_trials_are_replaced_by_the_previous_ones(
    sweep_folder: Path, make_record: MakeRecord, damage: Callable[[Path], None]
) -> None:
    first = recover(sweep_folder).records
    write_trials(sweep_folder, [make_record(number) for number in range(9)], tuple(TASKS))
    path = sweep_folder / "trials.parquet"
    damage(path)
    recovered = recover(sweep_folder)
    assert recovered.records == first
    (note,) = recovered.notes
    assert note.startswith(f"{path}: truncated or damaged: ")
    assert note.endswith("; the backup is used")
    assert read_trials(sweep_folder) == read_trials(sweep_folder, TRIALS_BACKUP_FILE)
    assert recover(sweep_folder).notes == ()


def test_damaged_trials_without_previous_ones_are_reported(sweep_folder: Path) -> None:
    truncate(sweep_folder / "trials.parquet")
    recovered = recover(sweep_folder)
    assert recovered.records == ()
    (note,) = recovered.notes
    assert note.endswith("; there is no backup; all trial records are lost")


def test_trials_damaged_twice_are_reported_twice(sweep_folder: Path, make_record: MakeRecord) -> None:
    write_trials(sweep_folder, [make_record(0)], tuple(TASKS))
    names = ("trials.parquet", TRIALS_BACKUP_FILE)
    for name in names:
        truncate(sweep_folder / name)
    recovered = recover(sweep_folder)
    assert recovered.records == ()
    assert len(recovered.notes) == 2
    for note, name in zip(recovered.notes, names, strict=True):
        assert note.startswith(f"{sweep_folder / name}: truncated or damaged: ")


def test_damaged_shared_curves_are_replaced_by_their_copy(sweep_folder: Path, make_record: MakeRecord) -> None:
    write_trials(sweep_folder, [make_record(number, status="interrupted") for number in range(3)], tuple(TASKS))
    write_trials(sweep_folder, [make_record(0), make_record(1), make_record(2, status="running")], tuple(TASKS))
    compact(sweep_folder)
    expected, records = read_curves(sweep_folder), recover(sweep_folder).records
    truncate(sweep_folder / "curves.parquet")
    recovered = recover(sweep_folder)
    assert recovered.records == records
    assert [note.partition("; ")[2] for note in recovered.notes] == ["the backup is used"]
    assert read_curves(sweep_folder) == expected
    assert recover(sweep_folder).notes == ()


def test_shared_curves_without_a_whole_copy_stop_the_recovery(sweep_folder: Path) -> None:
    compact(sweep_folder)
    truncate(sweep_folder / "curves.parquet")
    truncate(sweep_folder / CURVES_BACKUP_FILE)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"curves.parquet: truncated or damaged: .* its backup .* cannot be read"):
            recover(sweep_folder)
        (sweep_folder / CURVES_BACKUP_FILE).unlink(missing_ok=True)


def test_folder_without_a_description_is_no_sweep(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no sweep folder"):
        recover(tmp_path)
