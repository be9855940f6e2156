"""Recovers a sweep's records after a kill or damage: the last state of every trial.

The driver writes `trials.parquet`, which lags behind if the driver is killed. A trial's own files are newer: its
curves, and `end.json`, which it writes last.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.fs as fs

from mtlib.tasks import Task, score_of
from results.records.epoch_transfer import delete_epochs, list_prediction_files, open_trial_folder
from results.records.epochs import end_path, predicted_epochs, read_compacted_curves, read_trial_curves
from results.records.files import Location, full_path, open_folder, read_json, read_parquet, write_json, write_parquet
from results.records.predictions import advise_restoring, find_lost
from results.records.trials import (
    CURVES,
    CURVES_BACKUP_FILE,
    CURVES_FILE,
    OVERALL,
    PREDICTIONS,
    TRIALS_BACKUP_FILE,
    TRIALS_FILE,
    UNFINISHED,
    TrialRecord,
    read_sweep,
    read_trials,
    read_trials_table,
    sweep_tasks,
)

END_FIELDS = ("error", "peak_memory_bytes", "shared_steps", "taken_from")
"""Fields of a record that `end.json` overrides, beside its `how`, the status."""


@dataclass(frozen=True, kw_only=True)
class RecoveredRecords:
    """Records after recovery."""

    records: tuple[TrialRecord, ...]
    """Every trial of `trials.parquet`; unfinished ones are queued."""
    notes: tuple[str, ...]
    """One line per damaged file and what was done about it."""
    lost: frozenset[str] = frozenset()
    """Trials that have ended and whose predictions are lost."""


def write_end(folder: Location, trial: str, facts: Mapping[str, Any]) -> None:
    """Writes `end.json`, how a trial ended, atomically and with a checksum.

    Args:
        facts: plain JSON; `how` (`complete`, `pruned`, `failed` or `reused`), `error`, `peak_memory_bytes`,
            `shared_steps`, `shared_seconds` (of each worker's work, that others did), `taken_from`, `time` (seconds
            since 1970), and what else is worth keeping.
    """
    write_json(open_folder(folder), end_path(trial), {"crc32": json_checksum(facts), "facts": dict(facts)})


def read_end(folder: Location, trial: str) -> dict[str, Any] | None:
    """The facts given to `write_end`; None if the file is missing, truncated or damaged."""
    try:
        return load_end(open_folder(folder), trial)
    except ValueError:
        return None


def delete_end(folder: Location, trial: str) -> None:
    """Deletes `end.json` of a trial that will be trained again, if there is one."""
    with suppress(FileNotFoundError):
        open_folder(folder).delete_file(end_path(trial))


def recover(folder: Location) -> RecoveredRecords:
    """Recovers the records of a sweep that is not running, and repairs its files.

    Scores, epochs and times of an unfinished trial follow from its curves, its status from `end.json`. A trial with
    damaged files restarts: its curves are emptied, its predictions, `end.json` and checkpoints deleted. A trial that
    has ended has failed if its predictions are lost, unless those of all are: then a table or the storage cannot be
    read, and may be later. Else its record stays as it is.

    Raises:
        ValueError: `sweep.json` is missing or damaged, or `curves.parquet` and its copy are; one line names the file.
    """
    root = open_folder(folder)
    info = read_sweep(folder)
    num_workers, tasks = info.get("num_workers", 1), sweep_tasks(info)
    records, notes = read_newest_trials(folder)
    if notes and records:
        write_parquet(root, TRIALS_FILE, read_trials_table(folder, TRIALS_BACKUP_FILE)[0])
    compacted, damages = restore_curves(root)
    notes += damages
    ended = [record.trial_id for record in records if record.status not in UNFINISHED]
    lost = find_lost_ends(folder, ended, compacted, tasks)
    are_all_lost = 1 < len(ended) == len(lost)
    if are_all_lost:
        notes.append(f"the predictions of all ended trials cannot be read, e.g. of {ended[0]}: {lost[ended[0]]}")
    for place, record in enumerate(records):
        if record.status in UNFINISHED:
            records[place], damages = recover_trial(folder, record, compacted, num_workers, tasks)
            notes += damages
        elif record.trial_id in lost and record.status != "failed" and not are_all_lost:
            records[place] = replace(record, status="failed", error=lost[record.trial_id])
            notes.append(f"trial {record.trial_id} has failed: {lost[record.trial_id]}")
    return RecoveredRecords(records=tuple(records), notes=tuple(notes), lost=frozenset(lost))


def find_lost_ends(
    folder: Location, trials: Sequence[str], compacted: pa.Table, tasks: Mapping[str, Task]
) -> dict[str, str]:
    """By trial that has ended: why its curves or predictions cannot be read."""
    root, points, lost = open_folder(folder), list[dict[str, Any]](), dict[str, str]()
    for trial in trials:
        try:
            points += read_trial_curves(root, trial, compacted).to_pylist()
        except ValueError as error:
            lost[trial] = advise_restoring(str(error))
    return {**find_lost(folder, predicted_epochs(points, tasks)), **lost}


def read_records_as_left(folder: Location) -> RecoveredRecords:
    """The records of a sweep with nothing repaired; an unfinished trial has the status of its `end.json`, if any."""
    records, notes = read_newest_trials(folder)
    for place, record in enumerate(records):
        if record.status in UNFINISHED:
            end = read_end(folder, record.trial_id) or {}
            records[place] = replace(record, status=end.get("how", record.status))
    return RecoveredRecords(records=tuple(records), notes=tuple(notes))


def read_newest_trials(folder: Location) -> tuple[list[TrialRecord], list[str]]:
    """The records of `trials.parquet`, or of its backup if it is damaged, and notes if so."""
    try:
        return read_trials(folder), []
    except ValueError as error:
        damage = str(error)
    try:
        records = read_trials(folder, TRIALS_BACKUP_FILE)
    except ValueError as error:
        return [], [f"{damage}; its backup is damaged too", f"{error}; all trial records are lost"]
    if not records:
        return [], [f"{damage}; there is no backup; all trial records are lost"]
    return records, [f"{damage}; the backup is used"]


def restore_curves(root: fs.SubTreeFileSystem) -> tuple[pa.Table, list[str]]:
    """`curves.parquet`, replaced by its backup if it is damaged, and notes if so."""
    try:
        return read_compacted_curves(root), []
    except ValueError as error:
        damage = str(error)
    try:
        copy = read_parquet(root, CURVES_BACKUP_FILE, CURVES)
    except (FileNotFoundError, ValueError):
        raise ValueError(f"{damage}; its backup {CURVES_BACKUP_FILE} cannot be read either") from None
    write_parquet(root, CURVES_FILE, copy)
    return copy, [f"{damage}; the backup is used"]


def recover_trial(
    folder: Location, record: TrialRecord, compacted: pa.Table, num_workers: int, tasks: Mapping[str, Task]
) -> tuple[TrialRecord, list[str]]:
    """The record of an unfinished trial from its own files, and notes."""
    root, trial = open_folder(folder), record.trial_id
    end, notes = None, []
    try:
        curves = read_trial_curves(root, trial, compacted)
        check_predictions_of(folder, trial, curves)
    except ValueError as error:
        discard_trial_files(folder, trial)  # with `end.json`
        curves = CURVES.empty_table()
        notes.append(f"{error}; trial {trial} starts over")
    try:
        end = load_end(root, trial)
    except ValueError as error:
        notes.append(f"{error}; trial {trial} continues from its last checkpoint")
    return record_with_end(record_with_curves(record, curves, num_workers, tasks), end, num_workers), notes


def check_predictions_of(folder: Location, trial: str, curves: pa.Table) -> None:
    """Raises ValueError if predictions of an epoch in a trial's curves are damaged."""
    own, reported = open_trial_folder(folder, trial), set(curves["epoch"].to_pylist())
    for (_, _, epoch), path in list_prediction_files(own).items():
        if epoch in reported:
            read_parquet(own, path, PREDICTIONS)


def discard_trial_files(folder: Location, trial: str) -> None:
    """Deletes a trial's files. Its epochs go last, so that after a kill the damage is found again."""
    with suppress(FileNotFoundError):
        open_folder(folder).delete_dir(checkpoint_path(trial))
    delete_end(folder, trial)
    delete_epochs(folder, trial)


def is_main_score(point: Mapping[str, Any], tasks: Mapping[str, Task]) -> bool:
    """Whether a point of the curves is the dev score of a task by its own metric, or the overall dev score."""
    name = point["task"]
    metric = tasks[name].metric if name in tasks else OVERALL
    return bool(point["split"] == "dev" and point["metric"] == metric)


def record_with_curves(
    record: TrialRecord, curves: pa.Table, num_workers: int, tasks: Mapping[str, Task]
) -> TrialRecord:
    """A record with every field that follows from the curves; of equal scores the first is the best."""
    best: dict[str, float] = {}
    last: dict[str, float] = {}
    best_epoch: dict[str, int] = {}
    newest: dict[str, Any] = {"epoch": 0, "step": 0, "seconds": 0.0}
    for newest in curves.to_pylist():
        if not is_main_score(newest, tasks):
            continue
        name = newest["task"]
        value = score_of(name, newest["value"], tasks)
        last[name] = value
        if value > best.get(name, float("-inf")):
            best[name], best_epoch[name] = value, newest["epoch"]
    return replace(
        record,
        best=best,
        last=last,
        best_epoch=best_epoch,
        epochs=newest["epoch"],
        steps=newest["step"],
        device_seconds=newest["seconds"] * num_workers,
        checkpoint=checkpoint_path(record.trial_id) if newest["epoch"] else None,
        shared_steps=record.shared_steps if newest["epoch"] else 0,
        taken_from=record.taken_from if newest["epoch"] else None,
    )


def record_with_end(record: TrialRecord, end: Mapping[str, Any] | None, num_workers: int) -> TrialRecord:
    """A record with what `end.json` holds, or queued again if there is none."""
    if end is None:
        return replace(record, status="queued", error=None)
    changes = {name: end[name] for name in END_FIELDS if name in end}
    changes["device_seconds"] = max(0.0, record.device_seconds - num_workers * end.get("shared_seconds", 0.0))
    # The start is not recorded, as the sweep may have been stopped in between: at least the work itself took time.
    changes["wall_seconds"] = max(record.wall_seconds, changes["device_seconds"] / num_workers)
    return replace(record, status=end["how"], **changes)


def checkpoint_path(trial: str) -> str:
    """Folder of a trial's states and best weights, relative to the sweep's."""
    return f"trials/{trial}/checkpoint"


def load_end(root: fs.SubTreeFileSystem, trial: str) -> dict[str, Any] | None:
    """The content of `end.json`; None if there is none. Raises ValueError if it is truncated or damaged."""
    try:
        found = read_json(root, end_path(trial))
    except FileNotFoundError:
        return None
    facts = found.get("facts")
    if not isinstance(facts, dict) or found.get("crc32") != json_checksum(facts):
        raise ValueError(f"{full_path(root, end_path(trial))}: truncated or damaged: its checksum is wrong")
    return facts


def json_checksum(facts: Mapping[str, Any]) -> int:
    """CRC-32 of plain JSON."""
    return zlib.crc32(json.dumps(dict(facts), sort_keys=True).encode())
