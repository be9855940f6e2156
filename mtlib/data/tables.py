"""Checked tables from rows of cells: unusable rows are counted, wrong values raise one line."""

import hashlib
import json
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from mtlib.config.data import is_later
from mtlib.config.task_file import TASK_FILE
from mtlib.data.files.readers import MAX_QUOTED_VALUE, Row, short_name
from mtlib.data.files.suggestions import describe_folder, near_folder
from mtlib.data.hold_out import GROUP_MARK, group_value
from mtlib.data.repeats import DroppedRows
from mtlib.data.row_labels import LabelReader, Layout, RowLabel, describe_unnamed, read_teacher
from mtlib.runtime.errors import require
from mtlib.tasks import DevFrom, Task


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
    teacher: np.ndarray | None = None
    """(rows, num_logits) float32, a teacher's logits, NaN for a row without; None where no row has any."""
    groups: tuple[list[str], ...] = ()
    """What connects rows besides their texts: for each group column the `group_value` of each row, "" for none."""
    slices: Mapping[str, list[str]] = field(default_factory=dict)
    """The cells of each slice column, by its name; some are blank."""
    is_later: np.ndarray | None = None
    """(rows,) whether `dev_from` makes the row a dev row; None where it is not given."""
    num_own_rows: int
    """Number of the set's own rows, which come first; the others are augmentation."""
    skipped: tuple[str, ...]
    """One line per unusable row, e.g. `quora-dev.csv:17: is_duplicate is blank`."""
    left_out: tuple[str, ...] = ()
    """One line per label that `labels` omits, e.g. `snli-train.csv: 3322 rows have label 1, ...`, and one for
    `dropped`."""
    notes: tuple[str, ...] = ()
    """Lines about how the files were read."""
    dropped: DroppedRows | None = None
    """Train rows that are left out because of a text or a group in dev or held-out rows; None without any."""


def connecting_columns(table: Table) -> list[list[str]]:
    """Returns what connects rows: the column of each text, then that of each group.

    A row without a group has its first text there, which connects it with no further row.
    """
    first = table.texts[0]
    return [*table.texts, *([own or text for own, text in zip(column, first, strict=True)] for column in table.groups)]


def make_table(task: Task, split: str, layout: Layout, path: Path, rows: Iterable[Row]) -> Table:
    """Returns a table of the usable rows, at least one, of cells in the order of `layout.columns`.

    Rows with a blank id, text, date or label are skipped; `path` is for messages and the table.

    Raises:
        ValueError: there are no usable rows; a label is none of the task's, or outside its range (with its position
            and column); an id that must be unique is there twice.
    """
    reader, first_teacher = LabelReader(task, layout), 1 + len(layout.text_columns)
    end_of_needed, end_of_teacher = len(layout.needed_columns), len(layout.unlabelled_columns)
    first_label = len(layout.columns) - len(layout.label_columns)
    needed = [at for at in range(len(layout.columns)) if not end_of_needed <= at < first_label]
    checked = needed[:end_of_needed] if layout.may_lack_label else needed
    kept, logits, labels, skipped = [], list[list[float]](), list[RowLabel](), list[str]()
    later, further = list[bool](), list[list[str]]()
    place_of, places = dict[str, str](), list[str]()
    if reader.has_several and layout.label_column:
        rows = list(rows)
        reader.find_indicator_lists(short_name(path), (cells[first_label] for _, cells in rows))
    for where, cells in rows:
        if not all(cells[at] for at in checked):
            skipped.append(describe_blank(where, *([own[at] for at in needed] for own in (layout.columns, cells))))
            continue
        label = reader.read(where, cells[first_label:])
        if label is None:
            continue
        if layout.has_unique_ids:
            rule = f"{where}: column {layout.id_column} must hold each id once"
            require(cells[0] not in place_of, rule, f"{cells[0][:MAX_QUOTED_VALUE]} of {place_of.get(cells[0])} again")
            place_of[cells[0]] = where
        kept.append(cells[:first_teacher])
        if layout.teacher_columns:
            logits.append(read_teacher(where, layout.teacher_columns, cells[first_teacher:end_of_teacher]))
        if layout.dev_from is not None:
            later.append(read_later(where, layout.dev_from, cells[end_of_teacher]))
        further.append(cells[end_of_needed:first_label])
        places.append(where)
        labels.append(label)
    left_out = describe_unnamed(short_name(path), layout.label_column, reader.unnamed, layout.leave_out)
    if not kept:
        first = [f"{len(skipped)} unusable, the first: {skipped[0]}"] if skipped else []
        found = "; ".join([*first, *left_out]) or "none"
        raise ValueError(f"{short_name(path)}: there must be usable rows, got {found}")
    ids, *texts = (list(column) for column in zip(*kept, strict=True))
    own = list(map(list, zip(*further, strict=True)))
    files = () if task.files is None else task.files.paths("train")  # within which groups have one name
    spaces = [GROUP_MARK.join((column, *files)) for column in layout.group_columns]
    return Table(
        task=task.name,
        split=split,
        path=path,
        ids=ids,
        places=places,
        texts=tuple(texts),
        labels=np.array(labels, dtype=np.float32),
        teacher=np.array(logits, dtype=np.float32) if layout.teacher_columns else None,
        groups=tuple([group_value(space, cell) for cell in cells] for space, cells in zip(spaces, own, strict=False)),
        slices=dict(zip(layout.slice_columns, own[len(spaces) :], strict=True)),
        is_later=np.array(later) if later else None,
        num_own_rows=len(ids),
        skipped=tuple(skipped),
        left_out=left_out,
    )


def read_later(where: str, dev_from: DevFrom, cell: str) -> bool:
    """Returns whether the date or number in a cell is later; ValueError if it is none."""
    try:
        return is_later(cell, str(dev_from.after))
    except ValueError:
        rule = f"{where}: column {dev_from.column} must be a date or a number, as {dev_from.after} is"
        raise ValueError(f"{rule}, got {cell[:MAX_QUOTED_VALUE]!r}") from None


def describe_blank(where: str, columns: Sequence[str], cells: Sequence[str]) -> str:
    """Returns a line that names the blank cells of a row."""
    blank = [column for column, cell in zip(columns, cells, strict=True) if not cell]
    return f"{where}: {' and '.join(blank)} {'is' if len(blank) == 1 else 'are'} blank"


def content_fingerprint(tables: Mapping[tuple[str, str], Table]) -> str:
    """SHA-256, in hexadecimal, of sets, tasks, splits, ids, texts and labels; not of paths or the tables' order.

    Nor of groups and slices, from which nothing is learned: groups show in which rows a table has.
    """
    digest = hashlib.sha256()
    for (name, split), table in sorted(tables.items()):
        fields = [name, table.task, split, table.num_own_rows, table.ids, table.texts]
        digest.update(json.dumps(fields).encode())
        digest.update(table.labels.astype("<f4").tobytes())
        if table.teacher is not None:
            digest.update(table.teacher.astype("<f4").tobytes())
    return digest.hexdigest()


def prefixed_table(table: Table, prefix: str) -> Table:
    """Returns the table with a prefix before each of its texts; itself where it is empty."""
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
        is_other = len(missing) == len(wanted) and not (folder / TASK_FILE).is_file()
        hint = f"; other data need a {TASK_FILE} there (see `python -m mtlib.data --help`)" if is_other else ""
        raise ValueError(f"data folder {folder} lacks {named_by_key(missing, keys)}; {describe_folder(folder)}{hint}")


def named_by_key(paths: Iterable[str], keys: Mapping[str, str]) -> str:
    """Paths as a text, each with the key of `tasks.toml` that names it, if one does."""
    return ", ".join(f"{path} ({keys[path]})" if path in keys else path for path in paths)
