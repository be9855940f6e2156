"""What `hold_out.json` in a sweep's folder says: which train rows no trial of the sweep has seen."""

from collections.abc import Mapping
from dataclasses import dataclass

from mtlib.config.schema import to_dict
from mtlib.data.tables import Table, content_fingerprint
from mtlib.errors import require
from results.records.files import Location, open_folder, read_dataclass, write_json
from results.records.trials import SCHEMA_VERSION

HOLD_OUT_FILE = "hold_out.json"


@dataclass(frozen=True, kw_only=True)
class HeldOutRows:
    """The rows of one task that are kept aside."""

    ids: tuple[str, ...]
    """In the order of the file."""
    fingerprint: str
    """SHA-256 of ids, texts and labels."""


@dataclass(frozen=True, kw_only=True)
class HoldOutRecord:
    """What a sweep keeps aside."""

    share: float
    """Of each task's own train rows, as it was asked for; what is kept aside is no more."""
    tasks: Mapping[str, HeldOutRows]
    looks: tuple[str, ...] = ()
    """When a selection was scored on them, ISO 8601, UTC: only the first look is at rows that nothing was chosen by."""


def held_out_rows(held: Mapping[str, Table]) -> dict[str, HeldOutRows]:
    """What is recorded of the tables that `read_held_out` returns, by task."""
    return {
        task: HeldOutRows(ids=tuple(table.ids), fingerprint=content_fingerprint({(task, table.split): table}))
        for task, table in held.items()
    }


def write_hold_out(folder: Location, record: HoldOutRecord) -> None:
    """Writes `hold_out.json`, whole, with the schema version added.

    Args:
        folder: the sweep's folder; made if missing.
        record: what is kept aside.
    """
    write_json(open_folder(folder), HOLD_OUT_FILE, {"schema_version": SCHEMA_VERSION, **to_dict(record)})


def read_hold_out(folder: Location) -> HoldOutRecord:
    """Reads `hold_out.json`.

    Raises:
        ValueError: the sweep held nothing out, or the file is damaged or of another version; one line names it.
    """
    root, key, rule = open_folder(folder), "schema_version", "schema version must be"
    try:
        return read_dataclass(root, HOLD_OUT_FILE, HoldOutRecord, rule=rule, version=SCHEMA_VERSION, key=key)
    except (FileNotFoundError, NotADirectoryError):
        rule = "a sweep must have kept train rows aside, with --hold-out F, to be scored on them"
        raise ValueError(f"{rule}; {folder} has no {HOLD_OUT_FILE}") from None


def check_held_out_rows(record: HoldOutRecord, held: Mapping[str, Table]) -> None:
    """Checks that tables hold the very rows that a sweep has kept aside.

    Args:
        record: what the sweep has kept aside.
        held: by task, as `read_held_out` returns them now; tasks may be missing.

    Raises:
        ValueError: one line that names the tasks of which other rows would be kept aside now.
    """
    found = held_out_rows(held)
    changed = [task for task in found if record.tasks.get(task) != found[task]]
    require(not changed, "rows held out must be what they were when the sweep began", f"others of {', '.join(changed)}")
