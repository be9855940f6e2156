"""The label of a row, from its cells: a class, a number, or several labels; labels to leave out are counted."""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mtlib.config.data import TRUTH_VALUES, as_number
from mtlib.config.task_file import TASK_FILE
from mtlib.data.files.readers import MAX_QUOTED_VALUE, ClassNames
from mtlib.runtime.errors import nearest_first, require
from mtlib.tasks import DevFrom, Task

MAX_LISTED_LABELS = 10
"""Most labels outside the mapping that are listed; the most frequent come first."""
SINGLE_PRECISION = 2.0**-24
"""Relative rounding error of single precision."""


RowLabel = float | np.ndarray
"""A class or a number; of several labels (num_classes,) float32, 0 or 1; NaN for a missing label."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The columns of a file that hold a task's rows, and the meaning of its labels."""

    id_column: str
    """Empty: rows are numbered."""
    is_numbered: bool = False
    """Whether rows are numbered if there is no column of ids."""
    text_columns: tuple[str, ...]
    label_column: str = ""
    """Empty where `indicator_columns` has the labels."""
    indicator_columns: tuple[str, ...] = ()
    """A column of 0 and 1 for each of several labels."""
    teacher_columns: tuple[str, ...] = ()
    """Columns of a teacher's logits; none without a teacher."""
    may_lack_label: bool = False
    """Whether rows may have a blank label."""
    labels: tuple[str, ...] = ()
    """`from:to` for each value in use; empty: the values are the task's own labels."""
    leave_out: tuple[str, ...] = ()
    """Labels whose rows are left out."""
    has_all_labels: bool = False
    """Whether `labels` names every value: another one is an error, not a row to leave out."""
    has_unique_ids: bool = False
    """Whether an id that is there twice is an error."""
    class_names: ClassNames | None = None
    """As in `mtlib.data.files.readers.Wanted`."""
    header: tuple[str, ...] = ()
    """Names of all columns where files have no header line."""
    dev_from: DevFrom | None = None
    """Which rows are later, and so dev rows; None: no column says so."""
    group_columns: tuple[str, ...] = ()
    """Columns whose values connect rows."""
    slice_columns: tuple[str, ...] = ()
    """Columns whose values have scores of their own."""

    @property
    def label_columns(self) -> tuple[str, ...]:
        """Names the column of the label, or the columns of 0 and 1 where there is one for each label."""
        return self.indicator_columns or (self.label_column,)

    @property
    def unlabelled_columns(self) -> tuple[str, ...]:
        """The wanted columns of rows without labels: id, texts, teacher."""
        return (self.id_column, *self.text_columns, *self.teacher_columns)

    @property
    def needed_columns(self) -> tuple[str, ...]:
        """The wanted columns before the label that must not be blank: id, texts, teacher, date."""
        return (*self.unlabelled_columns, *(() if self.dev_from is None else (self.dev_from.column,)))

    @property
    def columns(self) -> tuple[str, ...]:
        """The wanted columns: those that are needed, groups, slices, label."""
        return (*self.needed_columns, *self.group_columns, *self.slice_columns, *self.label_columns)


class LabelReader:
    """Reads the labels of one table's rows."""

    def __init__(self, task: Task, layout: Layout) -> None:
        self.task, self.layout = task, layout
        self.has_several = task.kind_entry.has_several_labels
        self.mapping = read_mapping(layout.labels)
        self.leave_out = set(map(as_number, layout.leave_out))
        self.has_indicator_lists = False
        """Whether each list of labels has a 0 or a 1 for every label."""
        self.missing: RowLabel = np.full(task.num_classes, np.nan, np.float32) if self.has_several else math.nan
        self.unnamed = Counter[str]()
        """Rows by value that the mapping, or `leave_out`, leaves out."""
        self.known = dict[str, float]()
        """The labels of single cells that were read before: most rows have one of them."""

    def find_indicator_lists(self, name: str, cells: Iterable[str]) -> None:
        """Notes, by the cells of all rows, whether lists of several labels have a 0 or a 1 for every label.

        Raises:
            ValueError: of two labels all lists are `[0, 1]`, or all `[1, 0]`: they may be the numbers of both labels.
        """
        lists = [parse_list(cell) for cell in cells if cell]
        number, indicators = self.task.num_classes, {0, 1, *TRUTH_VALUES}
        self.has_indicator_lists = bool(lists) and all(
            own is not None and len(own) == number and indicators.issuperset(map(as_number, own)) for own in lists
        )
        shown = {tuple(map(as_number, own or ())) for own in lists}
        is_unclear = self.has_indicator_lists and shown in ({(0.0, 1.0)}, {(1.0, 0.0)})
        column = f"{name}: column {self.layout.label_column}"
        rule = f"{column} must have lists of names, as 0 and 1 in all rows may name both labels, or be one for each"
        require(not is_unclear, rule, lists[0] if lists else "none")

    def read(self, where: str, cells: Sequence[str]) -> RowLabel | None:
        """Returns the label in a row's cells; None if the mapping leaves it out, which is counted.

        Args:
            where: the row, for messages.
            cells: those of `Layout.label_columns`.

        Raises:
            ValueError: the task lacks the label, an indicator is neither 0 nor 1, or a list is no JSON.
        """
        if len(cells) == 1 and (known := self.known.get(cells[0])) is not None:
            return known
        if not any(cells):
            return self.missing
        if self.layout.indicator_columns:
            return read_indicators(where, self.layout.indicator_columns, cells)
        if self.has_indicator_lists:
            own = parse_list(cells[0]) or []
            return read_indicators(where, [f"{self.layout.label_column}[{at}]" for at in range(len(own))], own)
        given = split_labels(where, cells[0]) if self.has_several else [self.single_label(cells[0])]
        if self.leave_out.intersection(map(as_number, given)):
            self.unnamed[given[0][:MAX_QUOTED_VALUE]] += 1
            return None
        named = [self.mapping.get(as_number(value)) if self.mapping else value for value in given]
        if None in named and not self.layout.has_all_labels:
            self.unnamed[given[named.index(None)][:MAX_QUOTED_VALUE]] += 1
            return None
        numbers = [math.nan if label is None else label_number(label, self.task) for label in named]
        wrong = next((at for at, number in enumerate(numbers) if math.isnan(number)), None)
        if wrong is not None:
            raise ValueError(describe_unknown(where, given[wrong], named[wrong], self.task, self.layout))
        if not self.has_several:
            self.known[cells[0]] = numbers[0]
            return numbers[0]
        rule = f"{where}: a list of labels must name each label once, or in all rows have a 0 or a 1 for each label"
        require(len(set(numbers)) == len(numbers), rule, cells[0][:MAX_QUOTED_VALUE])
        found = np.zeros(self.task.num_classes, dtype=np.float32)
        found[[int(number) for number in numbers]] = 1
        return found

    def single_label(self, cell: str) -> str:
        """Returns the label in a cell: itself, or the one of a list of one in JSON."""
        own = parse_list(cell) if cell.startswith("[") and as_number(cell) not in self.mapping else None
        return own[0] if own is not None and len(own) == 1 else cell


def read_teacher(where: str, columns: Sequence[str], cells: Sequence[str]) -> list[float]:
    """Returns a teacher's logits, a number in each cell; ValueError if one is none."""
    values = [as_number(cell) for cell in cells]
    for column, cell, value in zip(columns, cells, values, strict=True):
        require(isinstance(value, float), f"{where}: column {column} must be a number", cell[:MAX_QUOTED_VALUE])
    return [float(value) for value in values]


def read_indicators(where: str, columns: Sequence[str], cells: Sequence[str]) -> np.ndarray:
    """0 or 1 for each label, (num_classes,) float32, from a cell each; ValueError if one is neither."""
    values = [{"true": 1.0, "false": 0.0}.get(str(number), number) for number in map(as_number, cells)]
    for column, cell, value in zip(columns, cells, values, strict=True):
        require(value in (0, 1), f"{where}: column {column} must be 0 or 1", cell[:MAX_QUOTED_VALUE])
    return np.array(values, dtype=np.float32)


def read_mapping(labels: tuple[str, ...]) -> dict[str | float, str]:
    """`from:to` entries as a dictionary; numbers are equal however they are written."""
    pairs = [(entry.rpartition(":")[0], entry.rpartition(":")[2]) for entry in labels]
    mapping = {as_number(value.strip()): label.strip() for value, label in pairs}
    require(len(mapping) == len(labels), "labels must name each value once", ", ".join(labels))
    return mapping


def describe_unnamed(name: str, column: str, counts: Counter[str], leave_out: Collection[str]) -> tuple[str, ...]:
    """Returns one line per label that is left out, by `leave_out` or the mapping, with its number of rows."""
    shown = counts.most_common(MAX_LISTED_LABELS)
    why = {label: "leave_out names" if label in leave_out else "labels does not name" for label, _ in shown}
    lines = [f"{name}: {rows_text(count)} {column} {label}, which {why[label]}" for label, count in shown]
    if rest := counts.total() - sum(count for _, count in shown):
        lines.append(f"{name}: {rows_text(rest)} another {column} that labels does not name")
    return tuple(lines)


def rows_text(count: int) -> str:
    return "1 row has" if count == 1 else f"{count} rows have"


def label_number(cell: str, task: Task) -> float:
    """Returns the label in `cell`; NaN unless it is in the task's range, and whole for classes.

    A bound that was rounded to single precision, as labels are, is the bound.
    """
    number = as_number(cell)
    label = number if isinstance(number, float) else math.nan
    low, high = map(float, task.label_range)
    label = next((bound for bound in (low, high) if math.isclose(label, bound, rel_tol=SINGLE_PRECISION)), label)
    return label if low <= label <= high and (task.is_regression or label.is_integer()) else math.nan


def describe_unknown(where: str, value: str, label: str | None, task: Task, layout: Layout) -> str:
    """Returns a line about a value that is no label of a task;
    `label` is what a mapping makes of it, if it has it."""
    shown, column = (value if label is None else label)[:MAX_QUOTED_VALUE], layout.label_column
    if label is None:
        names = [entry.rpartition(":")[0] for entry in layout.labels]
        unknown = f"unknown label in column {column} of {where} '{shown}'; {nearest_first(shown, names)}"
        return unknown + count_from_one(shown, task)
    low, high = task.label_range
    rule = f"must be a {'' if task.is_regression else 'whole '}number from {low:g} to {high:g}"
    can_have_names = task.files is not None and not task.is_regression and isinstance(as_number(label), str)
    hint = f"; labels can be named: labels = [...] in {TASK_FILE}" if can_have_names else ""
    return f"{where}: column {column} {rule}, got {shown!r}{hint}{count_from_one(shown, task)}"


def count_from_one(value: str, task: Task) -> str:
    """Returns what to paste if an unknown label is the number that follows the last one; "" for any other."""
    is_next = not task.is_regression and task.files is not None and as_number(value) == task.num_classes
    numbered = ", ".join(f"{number} = {json.dumps(name)}" for number, name in enumerate(task.class_names, 1))
    return f"; if labels begin at 1: labels = {{{numbered}}}" if is_next else ""


def split_labels(where: str, cell: str) -> list[str]:
    """Returns the labels in a cell: a JSON list, `[]` for none, or texts with commas between."""
    if not cell.startswith(("[", "{")):
        return [part.strip() for part in cell.split(",")]
    found = parse_list(cell)
    require(found is not None, f"{where}: a list of labels must be JSON", cell[:MAX_QUOTED_VALUE])
    return found or []


def parse_list(cell: str) -> list[str] | None:
    """Returns the labels of a list in JSON, or of Label Studio's `{"choices": [...]}`; None if a cell is neither."""
    try:
        found = json.loads(cell)
    except ValueError:
        return None
    found = found.get("choices") if isinstance(found, dict) else found
    if not isinstance(found, list) or not all(isinstance(label, str | int | float) for label in found):
        return None
    return [str(label).strip() for label in found]
