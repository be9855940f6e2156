"""The tables of a whole sweep, made from the folders of its trials; `trials.parquet` and `curves.parquet` cache them.

A cache says of each trial which files it was made of. Trials whose files have changed since are read again, so a cache
may be old, deleted or damaged: nothing but time is lost.
"""

import json
import warnings
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as fs

from mtlib.runtime.storage import Location, full_path, list_files, local_path, open_folder
from mtlib.tasks import in_order
from results.records.driver_file import read_driver
from results.records.epochs import curve_rows
from results.records.files import check_schema, open_parquet, write_parquet
from results.records.schemas import CURVES
from results.records.trial_folder import TRIAL_FILE, read_trial, record_of, trial_path
from results.records.trials import (
    OVERALL,
    UNFINISHED,
    TrialRecord,
    read_sweep,
    record_from_row,
    row_from_record,
    sweep_tasks,
    trials_schema,
)

TRIALS_FILE, CURVES_FILE = "trials.parquet", "curves.parquet"
BUCKET_READERS = 8
"""Trials of a bucket that are read at a time, as every file is a request there."""


@dataclass(frozen=True, kw_only=True)
class SweepTables:
    """All trials of a sweep and their curves."""

    records: tuple[TrialRecord, ...]
    """In the order of their numbers and replicates."""
    curves: pa.Table
    """With the columns of `CURVES`, sorted by trial; epochs ascend."""
    notes: tuple[str, ...] = ()
    """A line for each cache that was damaged, and for each damaged file of a trial."""
    damaged: Mapping[str, str] = field(default_factory=dict)
    """By trial with a damaged file, what is damaged: no cache counts for them, so every reader has their notes."""
    with_folder: frozenset[str] = frozenset()
    """Trials that have files of their own; a cache alone knows the others."""


def read_sweep_tables(folder: Location) -> SweepTables:
    """Returns the trials and curves of a sweep, running or not.

    Raises:
        ValueError: there is no sweep; one line.
    """
    root, notes, info = open_folder(folder), list[str](), read_sweep(folder)
    trials, curves = read_cache(root, TRIALS_FILE, notes), read_cache(root, CURVES_FILE, notes)
    cached_tasks = metadata_of(trials.schema, b"tasks", [])
    records = {row["trial"]: record_from_row(row, cached_tasks) for row in trials.to_pylist()}
    sources = trial_sources(root)
    caches = [metadata_of(table.schema, b"sources", {}) for table in (trials, curves)]
    changed = [trial for trial in sources if any(known.get(trial) != sources[trial] for known in caches)]
    rows, damaged = [], dict[str, str]()
    if changed:
        tasks, num_workers = sweep_tasks(info), int(info.get("num_workers", 1))
        with ThreadPoolExecutor(1 if local_path(root) is not None else BUCKET_READERS) as pool:
            found = list(pool.map(lambda trial: read_trial(root, trial), changed))
        for trial, files in zip(changed, found, strict=True):
            notes += files.damage
            damaged |= {trial: files.damage[0]} if files.damage else {}
            if files.start is not None and files.start.trial_id == trial:
                records[trial] = record_of(files, tasks, num_workers)
            elif trial not in records and not files.damage:
                path = full_path(root, trial_path(trial, TRIAL_FILE))
                notes.append(f"{path} is missing, or of another trial: the trial is left out")
            if trial in records:
                rows.append(curve_rows(trial, files.counted_epochs))
    kept = pc.invert(pc.is_in(curves["trial"], pa.array(changed, pa.string())))
    curves = curves.filter(kept).replace_schema_metadata(CURVES.metadata)
    return SweepTables(
        records=tuple(sorted(with_present_status(folder, records.values()), key=in_sweep_order)),
        curves=pa.concat_tables([curves, *rows]).sort_by("trial"),
        notes=tuple(notes),
        damaged=damaged,
        with_folder=frozenset(sources),
    )


def in_sweep_order(record: TrialRecord) -> tuple[int, int]:
    """Returns the key by which trials are sorted."""
    return record.number, record.replicate


def read_with_warnings(folder: Location) -> SweepTables:
    """`read_sweep_tables`, with a warning for each note."""
    found = read_sweep_tables(folder)
    for note in found.notes:
        warnings.warn(note, stacklevel=2)
    return found


def read_trials(folder: Location) -> list[TrialRecord]:
    """Returns every trial of a sweep; warns and raises as `read_with_warnings`."""
    return list(read_with_warnings(folder).records)


def trials_table(records: Sequence[TrialRecord], tasks: Sequence[str] | None = None) -> pa.Table:
    """Trials as the table `trials.parquet`, with columns for the tasks in their order, or for those with scores."""
    names = tasks_of(records) if tasks is None else tasks
    return pa.Table.from_pylist([row_from_record(record, names) for record in records], schema=trials_schema(names))


def tasks_of(records: Sequence[TrialRecord]) -> tuple[str, ...]:
    """The tasks that some trial trains, or has a score of."""
    trained = {
        task
        for config in {record.config for record in records}
        for stage in json.loads(config or "{}").get("stages", ())
        for task in stage.get("tasks", ())
    }
    scored = {name for record in records for name in record.best if name != OVERALL}
    return in_order(trained | scored)


def write_caches(folder: Location, records: Sequence[TrialRecord], tasks: Sequence[str] | None = None) -> None:
    """Writes `trials.parquet` and `curves.parquet`, from the trials' folders and `records` of trials without one.

    Args:
        folder: the sweep's.
        records: of all its trials; those with a folder are read from it.
        tasks: columns of `trials.parquet` in their order; None for those that some trial trains.
    """
    root = open_folder(folder)
    sources = trial_sources(root)  # before the files: what is written meanwhile is read again
    found = read_sweep_tables(folder)
    known = {record.trial_id for record in found.records}
    without_folder = [record for record in records if record.trial_id not in known]
    every = sorted([*found.records, *without_folder], key=in_sweep_order)
    kept = {trial: source for trial, source in sources.items() if trial in known - set(found.damaged)}
    write_parquet(root, CURVES_FILE, with_sources(found.curves, kept))
    write_parquet(root, TRIALS_FILE, with_sources(trials_table(every, tasks), kept))


def write_trials(folder: Location, records: Sequence[TrialRecord], tasks: Sequence[str]) -> None:
    """Writes `trials.parquet` as it is, with no source: trials with a folder of their own are read from it."""
    write_parquet(open_folder(folder), TRIALS_FILE, trials_table(records, tasks))


def with_sources(table: pa.Table, sources: Mapping[str, int]) -> pa.Table:
    """Returns a table that says of each trial which files it was made of."""
    return table.replace_schema_metadata({**table.schema.metadata, b"sources": json.dumps(dict(sources)).encode()})


def read_cache(root: fs.SubTreeFileSystem, name: str, notes: list[str]) -> pa.Table:
    """Returns a cache, with its metadata; empty where there is none, or it is damaged or of another schema,
    which is noted."""
    try:
        with open_parquet(root, name) as file:
            tasks = metadata_of(file.schema_arrow, b"tasks", [])
            declared = trials_schema(tasks) if name == TRIALS_FILE else CURVES
            check_schema(file.schema_arrow, declared, full_path(root, name))
            return file.read()
    except FileNotFoundError:
        pass
    except ValueError as error:
        notes.append(f"{error}; it is made again from the folders of the trials")
    return (trials_schema(()) if name == TRIALS_FILE else CURVES).empty_table()


def metadata_of(schema: pa.Schema, key: bytes, default: Any) -> Any:
    """Returns what a cache's metadata has at a key."""
    metadata = schema.metadata or {}
    return json.loads(metadata[key]) if key in metadata else default


def trial_sources(root: fs.SubTreeFileSystem) -> dict[str, int]:
    """By trial with a file: a checksum of the names, sizes and times of the files that its rows are made of."""
    found: dict[str, int] = {}
    for info in list_files(root, "trials"):
        _, trial, *rest = info.path.split("/")
        if rest[:1] == ["epochs"] or len(rest) == 1:
            facts = f"{'/'.join(rest)} {info.size} {info.mtime_ns}"
            found[trial] = zlib.crc32(facts.encode(), found.get(trial, 0))
    return found


def with_present_status(folder: Location, records: Iterable[TrialRecord]) -> list[TrialRecord]:
    """Trials with `running` for those that a live driver has on a lane, `interrupted` for others that have begun."""
    known = list(records)
    driver = read_driver(folder) if any(record.status in UNFINISHED for record in known) else None
    if driver is None:
        return known
    running = set(driver.progress) if driver.stop_time is None else set()

    def present(record: TrialRecord) -> TrialRecord:
        if record.status in UNFINISHED and record.trial_id in running:
            return replace(record, status="running")
        return replace(record, status="interrupted") if record.status == "running" else record

    return list(map(present, known))
