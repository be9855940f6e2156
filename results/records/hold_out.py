"""Reads and writes `hold_out.json`: the train rows that no trial of a sweep has seen."""

from collections.abc import Mapping
from dataclasses import dataclass

from mtlib.data.tables import Table, content_fingerprint
from mtlib.errors import require
from results.records.files import Location, open_folder, read_dataclass, write_dataclass
from results.records.trials import SCHEMA_VERSION

HOLD_OUT_FILE = "hold_out.json"


@dataclass(frozen=True, kw_only=True)
class HeldOutRows:
    """The held-out rows of one task."""

    ids: tuple[str, ...]
    """In the order of the file."""
    fingerprint: str
    """SHA-256 of ids, texts and labels."""


@dataclass(frozen=True, kw_only=True)
class HoldOutRecord:
    """The held-out rows of a sweep."""

    schema_version: int = SCHEMA_VERSION
    share: float
    """Share of each task's own train rows (`--hold-out`), an upper bound on what is held out."""
    tasks: Mapping[str, HeldOutRows]
    evaluations: tuple[str, ...] = ()
    """When selections were scored on them, ISO 8601, UTC. Only the first score is unbiased."""


def held_out_rows(tables: Mapping[str, Table]) -> dict[str, HeldOutRows]:
    """The records of the tables that `read_held_out` returns, by task."""
    return {
        task: HeldOutRows(ids=tuple(table.ids), fingerprint=content_fingerprint({(task, table.split): table}))
        for task, table in tables.items()
    }


def write_hold_out(folder: Location, record: HoldOutRecord) -> None:
    """Writes `hold_out.json` into the sweep's folder."""
    write_dataclass(open_folder(folder), HOLD_OUT_FILE, record)


def read_hold_out(folder: Location) -> HoldOutRecord:
    """Reads `hold_out.json`; ValueError if the sweep held nothing out, or the file is damaged or of another version."""
    try:
        return read_dataclass(open_folder(folder), HOLD_OUT_FILE, HoldOutRecord)
    except (FileNotFoundError, NotADirectoryError):
        rule = "a sweep must have been run with --hold-out F to be scored on held-out rows"
        raise ValueError(f"{rule}; {folder} has no {HOLD_OUT_FILE}") from None


def check_held_out_rows(record: HoldOutRecord, tables: Mapping[str, Table]) -> None:
    """Raises ValueError, naming the tasks, unless tables by task hold the rows that the sweep has held out."""
    found = held_out_rows(tables)
    changed = [task for task in found if record.tasks.get(task) != found[task]]
    require(not changed, "held-out rows must be unchanged since the sweep began", f"others of {', '.join(changed)}")
