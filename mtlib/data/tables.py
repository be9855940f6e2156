"""Checked tables from rows of cells: unusable rows are counted, wrong values raise one line."""

import hashlib
import json
import math
import types
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mtlib.config.data import as_number
from mtlib.config.task_file import TASK_FILE
from mtlib.data.file_readers import MAX_QUOTED_VALUE, Row, errors_in_one_line, short_name
from mtlib.data.file_suggestions import describe_missing, near_folder
from mtlib.data.parquet_files import ClassNames
from mtlib.runtime.errors import nearest_first, require
from mtlib.tasks import Task

MAX_LISTED_LABELS = 10
"""Most labels outside the mapping that are listed; the most frequent come first."""
SINGLE_PRECISION = 2.0**-24
"""Relative rounding error of single precision."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """The usable rows of one set, in the order of its file."""

    task: str
    split: str
    """`train`, `dev`, or `held` for held-out train rows."""
    path: Path
    """The file that was read, or the name of the data set."""
    ids: list[str]
    """Example ids as text; some look like numbers."""
    places: list[str]
    """Where each row stands, e.g. `quora-dev.csv:17`."""
    texts: tuple[list[str], ...]
    """One list per text column, stripped."""
    labels: np.ndarray
    """(rows,) float32, within the task's range; of several labels (rows, num_classes), 0 or 1."""
    num_own_rows: int
    """Number of the set's own rows, which come first; the others are augmentation."""
    skipped: tuple[str, ...]
    """One line per unusable row, e.g. `quora-dev.csv:17: is_duplicate is blank`."""
    left_out: tuple[str, ...] = ()
    """One line per label that `labels` omits, e.g. `snli-train.csv: 3322 rows have label 1, ...`, and one for
    train rows that share a text with held-out rows."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The columns of a file that hold a task's rows, and the meaning of its labels."""

    id_column: str
    """Empty: rows are numbered."""
    is_numbered: bool = False
    """Whether rows are numbered if there is no column of ids."""
    text_columns: tuple[str, ...]
    label_column: str
    labels: tuple[str, ...] = ()
    """`from:to` for each value in use; empty: the values are the task's own labels."""
    has_all_labels: bool = False
    """Whether `labels` names every value: another one is an error, not a row to leave out."""
    has_unique_ids: bool = False
    """Whether an id that is there twice is an error."""
    class_names: ClassNames | None = None
    """As in `mtlib.data.parquet_files.table_rows`."""
    header: tuple[str, ...] = ()
    """Names of all columns where files have no header line."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The wanted columns: id, texts, label."""
        return (self.id_column, *self.text_columns, self.label_column)


class UnknownLabelsError(ValueError):
    """Rows have labels that the task does not have; the message names the first."""

    def __init__(self, message: str, task: Task, column: str, counts: Counter[str], known: Sequence[str]) -> None:
        super().__init__(message)
        self.task, self.column = task, column
        self.counts = counts
        """Rows by unknown label."""
        self.known = known
        """The names of labels that the task has; without names, the numbers that rows have."""
        self.others: Sequence[UnknownLabelsError] = ()
        """Such errors of other tables."""


@errors_in_one_line(UnknownLabelsError)
def make_table(task: Task, split: str, layout: Layout, path: Path, rows: Iterable[Row]) -> Table:
    """A table of the usable rows, at least one, of cells in the order of `layout.columns`.

    Rows with a blank id, text or label are skipped; `path` is for messages and the table.

    Raises:
        UnknownLabelsError: in one line, after all rows are read. Labels are none of the task's classes.
        ValueError: in one line. There are no usable rows; a label of a regression is no number, not finite or outside
            the task's range (with its position and column); an id that must be unique is there twice.
    """
    mapping, has_several = read_mapping(layout.labels), task.kind_entry.has_several_labels
    kept, labels, skipped, unnamed = [], [], list[str](), Counter[str]()
    place_of, places = dict[str, str](), list[str]()
    known, unknown = set[str](), Counter[str]()
    first_unknown: tuple[str, str, str | None] = "", "", None
    for where, cells in rows:
        if not all(cells):
            skipped.append(describe_blank(where, layout.columns, cells))
            continue
        given = split_labels(where, cells[-1]) if has_several else [cells[-1]]
        named = [mapping.get(as_number(value)) if mapping else value for value in given]
        if None in named and not layout.has_all_labels:
            unnamed[given[named.index(None)][:MAX_QUOTED_VALUE]] += 1
            continue
        numbers = [math.nan if label is None else label_number(label, task) for label in named]
        wrong = [at for at, number in enumerate(numbers) if math.isnan(number)]
        if wrong:
            if not unknown:
                first_unknown = where, given[wrong[0]], named[wrong[0]]
            unknown.update(given[at] for at in wrong)
            if task.is_regression:
                raise ValueError(describe_unknown(*first_unknown, task, layout, len(unknown)))
            continue
        known.update(given)
        if layout.has_unique_ids:
            rule = f"{where}: column {layout.id_column} must hold each id once"
            require(cells[0] not in place_of, rule, f"{cells[0][:MAX_QUOTED_VALUE]} of {place_of.get(cells[0])} again")
            place_of[cells[0]] = where
        kept.append(cells)
        places.append(where)
        labels.append(indicator(numbers, task.num_classes) if has_several else numbers[0])
    if unknown:
        message = describe_unknown(*first_unknown, task, layout, len(unknown))
        raise UnknownLabelsError(message, task, layout.label_column, unknown, task.labels or sorted(known))
    left_out = describe_unnamed(short_name(path), layout.label_column, unnamed)
    if not kept:
        first = [f"{len(skipped)} unusable, the first: {skipped[0]}"] if skipped else []
        found = "; ".join([*first, *left_out]) or "none"
        raise ValueError(f"{short_name(path)}: there must be usable rows, got {found}")
    ids, *texts, _ = (list(column) for column in zip(*kept, strict=True))
    return Table(
        task=task.name,
        split=split,
        path=path,
        ids=ids,
        places=places,
        texts=tuple(texts),
        labels=np.array(labels, dtype=np.float32),
        num_own_rows=len(ids),
        skipped=tuple(skipped),
        left_out=left_out,
    )


def describe_blank(where: str, columns: Sequence[str], cells: Sequence[str]) -> str:
    """A line that names the blank cells of a row."""
    blank = [column for column, cell in zip(columns, cells, strict=True) if not cell]
    return f"{where}: {' and '.join(blank)} {'is' if len(blank) == 1 else 'are'} blank"


def content_fingerprint(tables: Mapping[tuple[str, str], Table]) -> str:
    """SHA-256, in hexadecimal, of sets, tasks, splits, ids, texts and labels; not of paths or the tables' order."""
    digest = hashlib.sha256()
    for (name, split), table in sorted(tables.items()):
        # False: part of the fingerprints in existing sweeps, from when a table could lack labels.
        fields = [name, table.task, split, table.num_own_rows, table.ids, table.texts, False]
        digest.update(json.dumps(fields).encode())
        digest.update(table.labels.astype("<f4").tobytes())
    return digest.hexdigest()


def prefixed_table(table: Table, prefix: str) -> Table:
    """The table with a prefix before each of its texts; itself where it is empty."""
    if not prefix:
        return table
    return replace(table, texts=tuple([f"{prefix}{text}" for text in texts] for texts in table.texts))


def check_folder(folder: Path, files: Iterable[str], keys: Mapping[str, str] = types.MappingProxyType({})) -> None:
    """Raises ValueError that names the folder, or every one of `files` that is not in it, and the key of a file."""
    if not folder.is_dir():
        what = "a file" if folder.exists() else f"missing{near_folder(folder)}"
        raise ValueError(f"data must be a folder, got {folder}, which is {what}")
    wanted = set(files)
    missing = sorted(file for file in wanted if not (folder / file).is_file())
    if missing:
        hint = describe_missing(folder, missing, wanted.difference(missing))
        raise ValueError(f"data folder {folder} lacks {named_by_key(missing, keys)}; {hint}")


def named_by_key(paths: Iterable[str], keys: Mapping[str, str]) -> str:
    """Paths as a text, each with the key of `tasks.toml` that names it, if one does."""
    return ", ".join(f"{path} ({keys[path]})" if path in keys else path for path in paths)


def read_mapping(labels: tuple[str, ...]) -> dict[str | float, str]:
    """`from:to` entries as a dictionary; numbers are equal however they are written."""
    pairs = [(entry.rpartition(":")[0], entry.rpartition(":")[2]) for entry in labels]
    mapping = {as_number(value.strip()): label.strip() for value, label in pairs}
    require(len(mapping) == len(labels), "labels must name each value once", ", ".join(labels))
    return mapping


def describe_unnamed(name: str, column: str, counts: Counter[str]) -> tuple[str, ...]:
    """One line per label outside the mapping with its number of rows."""
    shown = counts.most_common(MAX_LISTED_LABELS)
    lines = [f"{name}: {rows_text(count)} {column} {label}, which labels does not name" for label, count in shown]
    if rest := counts.total() - sum(count for _, count in shown):
        lines.append(f"{name}: {rows_text(rest)} another {column} that labels does not name")
    return tuple(lines)


def rows_text(count: int) -> str:
    return "1 row has" if count == 1 else f"{count} rows have"


def label_number(cell: str, task: Task) -> float:
    """The label in `cell`; NaN unless it is in the task's range, and whole for classes.

    A bound that was rounded to single precision, as labels are, is the bound.
    """
    number = as_number(cell)
    label = number if isinstance(number, float) else math.nan
    low, high = map(float, task.label_range)
    label = next((bound for bound in (low, high) if math.isclose(label, bound, rel_tol=SINGLE_PRECISION)), label)
    return label if low <= label <= high and (task.is_regression or label.is_integer()) else math.nan


def describe_unknown(where: str, value: str, label: str | None, task: Task, layout: Layout, num_unknown: int) -> str:
    """A line about the first value that is no label of a task; `label` is what a mapping makes of it, if it has it."""
    shown, column = (value if label is None else label)[:MAX_QUOTED_VALUE], layout.label_column
    others = f" ('python -m mtlib.data DIR' lists all {num_unknown} unknown labels)" if num_unknown > 1 else ""
    if label is None:
        names = [entry.rpartition(":")[0] for entry in layout.labels]
        return f"unknown label in column {column} of {where} '{shown}'{others}; {nearest_first(shown, names)}"
    low, high = task.label_range
    rule = f"must be a {'' if task.is_regression else 'whole '}number from {low:g} to {high:g}"
    can_have_names = task.files is not None and not task.is_regression and isinstance(as_number(label), str)
    hint = f"; labels can be named: labels = [...] in {TASK_FILE}" if can_have_names else ""
    return f"{where}: column {column} {rule}, got {shown!r}{hint}{others}"


def split_labels(where: str, cell: str) -> list[str]:
    """The labels in a cell: a JSON list, `[]` for none, or texts with commas between."""
    if not cell.startswith("["):
        return [part.strip() for part in cell.split(",")]
    try:
        found = json.loads(cell)
    except ValueError:
        found = None
    is_list = isinstance(found, list) and all(isinstance(label, str | int | float) for label in found)
    require(is_list, f"{where}: a list of labels must be JSON", cell[:MAX_QUOTED_VALUE])
    return [str(label).strip() for label in found or []]


def indicator(labels: Sequence[float], num_classes: int) -> np.ndarray:
    """Numbers of labels as 1 for each that is there and 0 for the others, (num_classes,) float32."""
    found = np.zeros(num_classes, dtype=np.float32)
    found[[int(label) for label in labels]] = 1
    return found
