"""The record of a trial, and `sweep.json`.

A sweep folder holds `sweep.json`, and in `trials/<trial>/` all that is known of a trial, which it writes itself
(`results.records.trial_folder`). `trials.parquet` (a row per trial) and `curves.parquet` (a row per point of a curve)
are caches of these folders (`results.records.tables`). `hold_out.json` lists held-out train rows, and
`examples/<task>-dev.parquet` says which dev rows share texts (`results.records.examples`). Nothing is pickled.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa
import pyarrow.fs as fs

from mtlib.config.schema import read_value
from mtlib.data.cut_rows import CutRows
from mtlib.data.tokenizer_facts import AUTO_TOKENIZER
from mtlib.runtime.errors import first_line, nearest_names, require, require_name
from mtlib.runtime.method_file import other_owner, stored_files
from mtlib.runtime.program_names import DEFAULT_STORAGE
from mtlib.runtime.storage import Location, exists, full_path, join_location, open_folder, split_location
from mtlib.tasks import TASKS, Task, in_order
from results.records.files import check_version, json_checksum, read_json, write_json
from results.records.schemas import SCHEMA_VERSION, table_schema

STATUSES = ("queued", "running", "complete", "pruned", "failed", "interrupted", "reused")
COMPLETED = ("complete", "reused")
"""Statuses of trials that reached their last epoch."""
UNFINISHED = ("queued", "running", "interrupted")
"""Statuses of trials that may still write, now or after a resume."""

OVERALL = "overall"
"""The name of the overall score, beside the tasks' names."""

SWEEP_FILE, SWEEP_COPY = "sweep.json", "sweep-copy.json"
SPACE_FILE = "space.py"
"""A copy of the file of a search space that is not built in."""
ENCODERS_KEY = "encoders"
"""The key under which a sweep with several encoders has the fingerprint of each by name."""
TOKENIZERS_KEY = "tokenizers"
"""The key under which a sweep has a `TokenizerRecord` of each encoder by name."""
CUT_ROWS_KEY = "cut_rows"
"""The key of a sweep's data under which it has the fields of each `CutRows`."""
DROPPED_ROWS_KEY = "dropped_rows"
"""Likewise, by task, the fields of the `DroppedRows` of its train rows, where there are any."""
FIRST_LOOK = "first_look"
"""Key of `sweep.json`: configurations and replicates that the first command declared which can tell anything apart."""

WITH_CODE_OF_OTHERS: set[str] = set()
"""Paths of each `sweep.json` that this process has read or written whose code is run with --trust-methods only."""

STOPPED_BY = "stopped_by"
"""Key of `sweep.json`: the limit, as it was typed, that ended the last command with trials left; else absent."""


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """One trial as `trials.parquet` shows it; by default, one that has not begun."""

    trial_id: str
    """Configuration and replicate, e.g. `0003-r0`; column `trial`, as in every other table."""
    number: int
    """Number of the configuration, from 0; its replicates share it."""
    config_hash: str
    replicate: int
    seed: int
    status: str = "queued"
    """One of `STATUSES`."""
    params: Mapping[str, Any]
    """Searched values by dotted key."""
    config: str
    """The whole configuration as canonical JSON."""
    best: Mapping[str, float] = field(default_factory=dict)
    """Highest dev score so far by task name and `overall`; names without a score are absent."""
    last: Mapping[str, float] = field(default_factory=dict)
    """Newest dev score, likewise."""
    best_epoch: Mapping[str, int] = field(default_factory=dict)
    """Epoch of the highest dev score, likewise; epochs count from 1."""
    epochs: int = 0
    """Epochs done."""
    steps: int = 0
    """Optimizer steps done."""
    shared_steps: int = 0
    """Optimizer steps reused from the stage store or another trial."""
    device_seconds: float = 0.0
    """Seconds of work times number of workers."""
    wall_seconds: float = 0.0
    peak_memory_bytes: int = 0
    checkpoint: str | None = None
    """Folder of its weights, relative to the sweep's."""
    taken_from: str | None = None
    """`sweep/trial` of the equal configuration whose result was reused."""
    error: str | None = None
    """Why it failed."""
    host: str | None = None
    started: str | None = None
    """ISO 8601, UTC."""

    def __post_init__(self) -> None:
        require(self.status in STATUSES, f"status must be one of {', '.join(STATUSES)}", self.status)


ARROW_TYPES: Mapping[Any, pa.DataType] = {int: pa.int64(), float: pa.float64()}
"""Types of columns by type of field; all others are text, `params` a JSON object."""

WIDE = {"best": pa.float64(), "last": pa.float64(), "best_epoch": pa.int64()}
"""Fields of a trial that become a column per task and one for the overall score; null where there is no score."""


def trials_schema(tasks: Sequence[str]) -> pa.Schema:
    """Returns the schema of `trials.parquet` for a sweep over these tasks:
    the fields of `TrialRecord`, in their order."""
    columns: dict[str, pa.DataType] = {}
    for item in fields(TrialRecord):
        if item.name in WIDE:
            columns |= {f"{item.name}_{name}": WIDE[item.name] for name in (*tasks, OVERALL)}
        else:
            name = "trial" if item.name == "trial_id" else item.name
            columns[name] = ARROW_TYPES.get(item.type, pa.string())
    return table_schema("trials", columns, tasks)


def best_trial(records: Iterable[TrialRecord], score: str = OVERALL) -> TrialRecord | None:
    """Returns the first of `best_by_tasks`; None if there is none."""
    return next(iter(best_by_tasks(records, score)), None)


def best_by_tasks(records: Iterable[TrialRecord], score: str = OVERALL) -> list[TrialRecord]:
    """Returns the trial with the highest dev score, of a task or overall, that has not failed.

    An overall score is a mean over the tasks of a trial: of trials with different ones there is the best of each set of
    tasks, the largest set first.
    """
    found: dict[frozenset[str], TrialRecord] = {}
    for record in (own for own in records if score in own.best and own.status != "failed"):
        tasks = frozenset(record.best if score == OVERALL else ())
        if tasks not in found or record.best[score] > found[tasks].best[score]:
            found[tasks] = record
    return sorted(found.values(), key=lambda record: -len(record.best))


def row_from_record(record: TrialRecord, tasks: Sequence[str]) -> dict[str, Any]:
    """Returns a trial as a row of `trials.parquet`."""
    row = {field.name: getattr(record, field.name) for field in fields(record)}
    row["trial"] = row.pop("trial_id")
    row["params"] = json.dumps(dict(record.params), allow_nan=False)
    for group in WIDE:
        scores = row.pop(group)
        assert set(scores) <= {*tasks, OVERALL}, f"{record.trial_id} has {group} of {sorted(scores)}"
        row |= {f"{group}_{name}": scores.get(name) for name in (*tasks, OVERALL)}
    return row


def record_from_row(row: dict[str, Any], tasks: Sequence[str]) -> TrialRecord:
    """Returns a row of `trials.parquet` as a trial."""
    row = {**row, "trial_id": row["trial"], "params": json.loads(row["params"])}
    for group in WIDE:
        scores = {name: row.pop(f"{group}_{name}") for name in (*tasks, OVERALL)}
        row[group] = {name: value for name, value in scores.items() if value is not None}
    return TrialRecord(**{field.name: row[field.name] for field in fields(TrialRecord)})


def require_trial(name: object, known: Iterable[str]) -> None:
    """Raises ValueError that lists the right names, nearest first, unless one of these trials has the name."""
    if not isinstance(name, str):
        raise ValueError(f"a trial must be named by a text such as '0003-r0', got {type(name).__name__}")
    require_name(name, known, "trial")


def sweep_tasks(info: Mapping[str, Any]) -> dict[str, Task]:
    """Returns the definitions of a sweep's tasks in the order in which they are shown,
    from the content of `sweep.json`.

    A sweep of the built-in tasks may have none there.
    """
    given = ((info.get("base") or {}).get("data") or {}).get("tasks")
    tasks: Mapping[str, Task] = TASKS if given is None else read_value(Mapping[str, Task], given, "base.data.tasks")
    return {name: tasks[name] for name in in_order(tasks)}


def sweep_encoders(info: Mapping[str, Any]) -> dict[str, str]:
    """Returns the fingerprints of a sweep's encoders by name, the base's first, from the content of `sweep.json`."""
    one = info.get("encoder") or {}
    own = {one["name"]: one.get("fingerprint", "not recorded")} if one.get("name") else {}
    return dict(info.get(ENCODERS_KEY) or own)


@dataclass(frozen=True, kw_only=True)
class TokenizerRecord:
    """How the texts of a sweep's data become the tokens of an encoder."""

    source: str = AUTO_TOKENIZER
    """What made the tokenizer: `AutoTokenizer`, or `tokenizer.json`."""
    tokens: str | None = None
    """SHA-256 of the tokens of a sample of the texts; None where it was not recorded."""


def sweep_tokenizer(info: Mapping[str, Any], encoder: str) -> TokenizerRecord:
    """Returns how a sweep tokenises texts for an encoder, which may have another name now if it is the only one.

    `info` is the content of `sweep.json`; a sweep that has no record used `AutoTokenizer`.
    """
    known = info.get(TOKENIZERS_KEY) or {}
    found = known.get(encoder) or (next(iter(known.values())) if len(known) == 1 else {})
    return TokenizerRecord(**found)


def sweep_cut_rows(info: Mapping[str, Any]) -> list[CutRows]:
    """Returns the rows that a sweep's trials cut, from the content of `sweep.json`; none without a record of it."""
    return [CutRows(**fields) for fields in (info.get("data") or {}).get(CUT_ROWS_KEY, [])]


def write_sweep(folder: Location, info: Mapping[str, Any]) -> None:
    """Writes `sweep.json`: plain JSON values, the schema version and a checksum. Makes the folder if it is missing.

    It alone has the sweep's options, so there is a copy of it.
    """
    content = {"schema_version": SCHEMA_VERSION, **info}
    content.pop("crc32", None)  # of what it was before
    for name in (SWEEP_COPY, SWEEP_FILE):
        write_json(open_folder(folder), name, {**content, "crc32": json_checksum(content)})
    note_code(open_folder(folder), SWEEP_FILE, content)


def read_info(root: fs.SubTreeFileSystem, name: str) -> dict[str, Any]:
    """Returns the content of `sweep.json` or its copy; ValueError if it is damaged or of another version."""
    info, path = read_json(root, name), full_path(root, name)
    check_version(info, path, "schema_version", SCHEMA_VERSION)
    if info.pop("crc32", None) != json_checksum(info):
        raise ValueError(f"{path}: truncated or damaged: its checksum is wrong")
    note_code(root, name, info)
    return info


def note_code(root: fs.SubTreeFileSystem, name: str, info: Mapping[str, Any]) -> None:
    """Notes whether a sweep holds methods, or a space in Python, and is not this user's."""
    has_space = str((info.get("options") or {}).get("space")).endswith(".py")
    if (has_space or any(stored_files(info))) and other_owner(root, name):
        WITH_CODE_OF_OTHERS.add(full_path(root, SWEEP_FILE))


def trust_flag(folder: Location) -> str:
    """Returns ` --trust-methods` for commands that read a sweep whose code would not be run without it, else ""."""
    return " --trust-methods" if full_path(open_folder(folder), SWEEP_FILE) in WITH_CODE_OF_OTHERS else ""


def damage_of_sweep_file(folder: Location) -> str | None:
    """Returns what is wrong with `sweep.json`, in a line; None if it is whole."""
    try:
        read_info(open_folder(folder), SWEEP_FILE)
    except (ValueError, OSError) as error:
        return first_line(error)
    return None


def read_sweep(folder: Location) -> dict[str, Any]:
    """Reads `sweep.json`, or its copy where it is damaged.

    Raises:
        ValueError: it is missing, of another version, or damaged like its copy.
    """
    root = open_folder(folder)
    try:
        return read_info(root, SWEEP_FILE)
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"{folder} is no sweep folder: {why_no_sweep(folder)}") from None
    except ValueError as error:
        try:
            return read_info(root, SWEEP_COPY)
        except (ValueError, OSError):
            raise error from None


def why_no_sweep(folder: Location) -> str:
    """Says why a folder without `sweep.json` is no sweep's, and names a sweep with nearly its name if there is one."""
    held = sweeps_in(folder)
    if held:
        return f"it holds sweeps, one of which must be named, e.g. {join_location(str(folder), held[0])}"
    is_there = exists(folder)
    reason = f"it has no {SWEEP_FILE}" if is_there else "it does not exist"
    near = nearest_sweep(folder, must_be_equal=is_there)
    return f"{reason} (did you mean {near}?)" if near else reason


def sweeps_in(folder: Location) -> list[str]:
    """Returns the names of the sweeps that a folder holds, sorted; none where it cannot be listed."""
    try:
        root = open_folder(folder)
        names = sorted(entry.base_name for entry in root.get_file_info(fs.FileSelector("")))
        infos = root.get_file_info([f"{name}/{SWEEP_FILE}" for name in names])
    except (OSError, ValueError):
        return []
    return [name for name, info in zip(names, infos, strict=True) if info.type == fs.FileType.File]


def nearest_sweep(folder: Location, *, must_be_equal: bool) -> str | None:
    """Returns the sweep with the nearest name to a folder's, or with its name,
    beside it or in the default storage; or None."""
    parent, wanted = split_location(str(folder))
    places = [DEFAULT_STORAGE] if parent.endswith(("/", ":")) else [parent or ".", DEFAULT_STORAGE]
    known = {name: place for place in reversed(places) for name in sweeps_in(place)}
    near = [wanted] if must_be_equal or wanted in known else nearest_names(wanted, list(known))
    return next((join_location(known[name], name) for name in near if name in known), None)
