"""What a sweep records about its examples: the train rows that no trial has seen, and groups and slices of dev rows.

`hold_out.json` lists the held-out rows. `examples/<task>-dev.parquet` has the group of connected rows of each dev row,
and `examples/<task>-dev-slices.parquet` its values in the columns of slices, as predictions hold ids only. Both are in
the order of the data.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mtlib.config.schema import to_dict
from mtlib.data.hold_out import group_rows, normalise_columns
from mtlib.data.tables import Table, connecting_columns, content_fingerprint
from mtlib.runtime.errors import require
from mtlib.runtime.storage import Location, full_path, open_folder
from mtlib.tasks import Task
from results.records.files import check_schema, open_parquet, read_dataclass, read_parquet, write_json, write_parquet
from results.records.schemas import SCHEMA_VERSION, table_schema

HOLD_OUT_FILE = "hold_out.json"

EXAMPLES = table_schema("examples", {"id": pa.string(), "group": pa.int32()})


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
    """Returns the records of the tables that `read_held_out` returns, by task."""
    return {
        task: HeldOutRows(ids=tuple(table.ids), fingerprint=content_fingerprint({(task, table.split): table}))
        for task, table in tables.items()
    }


def write_hold_out(folder: Location, record: HoldOutRecord) -> None:
    """Writes `hold_out.json` into the sweep's folder."""
    write_json(open_folder(folder), HOLD_OUT_FILE, to_dict(record))


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


def examples_path(task: str) -> str:
    """Returns where the groups of a task's dev rows are in the sweep's folder."""
    return f"examples/{task}-dev.parquet"


def slices_path(task: str) -> str:
    """Returns where the slices of a task's dev rows are in the sweep's folder."""
    return f"examples/{task}-dev-slices.parquet"


def write_groups(folder: Location, tables: Mapping[str, Table]) -> None:
    """Writes the group of each dev row, and of tasks with slices those of the row.

    Rows with equal ids are in one group too, so that an id names a group.

    Args:
        folder: of the sweep.
        tables: of the dev rows, by task.
    """
    for task, table in tables.items():
        groups = group_rows([*normalise_columns(connecting_columns(table)), [f"\0{name}" for name in table.ids]])
        columns = [pa.array(table.ids, pa.string()), pa.array(groups, pa.int32())]
        write_parquet(open_folder(folder), examples_path(task), pa.Table.from_arrays(columns, schema=EXAMPLES))
        if table.slices:
            columns = [pa.array(values, pa.string()) for values in (table.ids, *table.slices.values())]
            written = pa.Table.from_arrays(columns, schema=slices_schema(table.slices))
            write_parquet(open_folder(folder), slices_path(task), written)


def slices_schema(names: Iterable[str]) -> pa.Schema:
    """Returns the schema of the slices of dev rows, by the names of their columns."""
    return table_schema("slices", dict.fromkeys(["id", *names], pa.string()))


def read_groups(folder: Location, task: Task, ids: Sequence[str]) -> npt.NDArray[np.intp] | None:
    """(rows,) the group of a task's dev rows by their ids; None if the sweep has not recorded them all.

    Rows of a task whose files say which belong together are then in a single group: nothing else is safe.

    Raises:
        ValueError: the file is damaged or of another schema; one line names it.
    """
    try:
        table = read_parquet(open_folder(folder), examples_path(task.name), EXAMPLES)
        known = dict(zip(table["id"].to_pylist(), table["group"].to_pylist(), strict=True))
    except FileNotFoundError:
        known = {}
    found = [known.get(name) for name in ids]
    if None not in found:
        return np.array(found, dtype=np.intp)
    return np.zeros(len(ids), dtype=np.intp) if task.has_groups else None


def read_slices(folder: Location, task: str, ids: Sequence[str]) -> dict[str, list[str]] | None:
    """Returns the values of dev rows in each column of slices, by their ids; None if the sweep has not recorded them
    all, or the task has no slices.

    Of rows with equal ids the values of the first one count.

    Raises:
        ValueError: the file is damaged or of another schema; one line names it.
    """
    root, path = open_folder(folder), slices_path(task)
    try:
        with open_parquet(root, path) as file:
            names = file.schema_arrow.names[1:]
            check_schema(file.schema_arrow, slices_schema(names), full_path(root, path))
            columns = [column.to_pylist() for column in file.read().columns]
    except FileNotFoundError:
        return None
    known = {name: values for name, *values in reversed(list(zip(*columns, strict=True)))}
    if not known.keys() >= set(ids):
        return None
    return {column: [known[name][at] for name in ids] for at, column in enumerate(names)}
