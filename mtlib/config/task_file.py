"""Reads `tasks.toml`: the definitions of the tasks whose data a folder holds.

    [tasks.tone]
    kind = "classes"
    labels = ["negative", "neutral", "positive"]
    texts = ["text"]
    label = "tone"
    train = "tone-train.jsonl"
    dev = "tone-dev.jsonl"

`docs/tasks.md` describes every key.
"""

import itertools
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from mtlib.config.data import (
    DELIMITED_FORMATS,
    FORMATS,
    HUB_PREFIX,
    TABLE_SUFFIXES,
    as_moment,
    as_number,
    format_of,
    is_pattern,
)
from mtlib.config.schema import check_types, from_dict
from mtlib.kinds import KINDS, Kind
from mtlib.runtime.errors import first_line, require, require_name, require_once
from mtlib.runtime.method_file import MethodFile
from mtlib.tasks import DevFrom, FileFormat, RowSelection, Task, TaskFiles

TASK_FILE = "tasks.toml"
GLUE_FILE = Path(__file__).with_name("glue.toml")
"""Defines GLUE's nine tasks; saved as `tasks.toml` beside their folders it is read."""
MAX_TASKS = 20
"""More are a mistake in the file rather than a sweep: each task has columns of its own in every table and page."""
SPLITS = ("train", "dev", "test")
MAX_DEV_SHARE = 0.5
"""The largest share of train rows that may become dev rows: with more, dev would be larger than train."""
TASK_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
RESERVED_NAMES = ("overall",)
"""Names that records use for something else."""
RESERVED_PREFIX = "epoch_"
"""Records have a column `best_NAME` and a column `best_epoch_NAME` for each task: of the tasks `a` and `epoch_a` two
columns would have one name."""


OwnMetrics = Mapping[str, MethodFile]
"""The user's files that define further metrics, by the metric's name."""
NO_METRICS: OwnMetrics = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class SplitEntry:
    """The keys of one split's rows, where files alone do not say which they are: `train = {files = ..., ...}`."""

    files: str | tuple[str, ...] | Mapping[str, str | tuple[str, ...]]
    """As `TaskEntry.train`; or, where each label has files of its own, those by its name in the data."""
    labels: str | tuple[str, ...] = ()
    """Files with a label a line, one for each of `files`, whose lines are texts."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """By column the value, or a list of the values, that rows must have there to be used."""
    first: int = 0
    """How many rows are used, from the first on; 0: all."""

    def __post_init__(self) -> None:
        require(self.first >= 0, "first must be at least 0", self.first)
        is_by_label = isinstance(self.files, Mapping)
        require(not (is_by_label and self.labels), "labels must be left out where files are given by label", "both")
        has_labels = is_by_label or bool(self.labels)
        is_hub = any(path.startswith(HUB_PREFIX) for path in self.paths)
        rule = "labels beside the texts must be those of files, not of a data set"
        require(not (has_labels and is_hub), rule, "hf://")

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all files."""
        given = self.files.values() if isinstance(self.files, Mapping) else (self.files,)
        return tuple(path for paths in given for path in as_tuple(paths))

    @property
    def selection(self) -> RowSelection:
        """Which rows are used."""
        by_label = self.files.items() if isinstance(self.files, Mapping) else ()
        return RowSelection(
            where=tuple((column, *map(cell_of_value, as_tuple(given))) for column, given in self.where.items()),
            first=self.first,
            label_files=as_tuple(self.labels),
            file_labels=tuple(label for label, paths in by_label for _ in as_tuple(paths)),
        )


def as_tuple(given: Any) -> tuple[Any, ...]:
    """Returns a value, or the values of a list, as a tuple."""
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def cell_of_value(value: Any) -> str:
    """Returns a value of a TOML file as the text of a cell."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, kw_only=True)
class TaskEntry:
    """The keys of one task."""

    kind: Kind
    """`classes`: one label of several; `binary`: two labels, one probability; `multilabel`: any number of several
    labels; `regression`: a number."""
    labels: tuple[str, ...] | Mapping[str, str] = ()
    """Names of the labels, in the order of their numbers 0, 1, ..., of a task of classes or a binary one. Files have
    the names, or the numbers unless a name is a number; a data set that carries names must have these, in this order.
    A mapping gives each value that files or data sets have a name: `{neg = "negative", pos = "positive"}`. Left out:
    labels have no names. For several labels (`multilabel`), which must have names, files have a list in JSON (`[]` for
    none), or texts with commas between."""
    num_labels: int = 0
    """The number of classes of a task whose classes have no names."""
    range: tuple[float, ...] = ()
    """The lowest and the highest label of a regression."""
    texts: tuple[str, ...]
    """The column of the text, or both columns of a pair."""
    label: str | tuple[str, ...]
    """The column of the label. Of several labels also a list of columns of 0 and 1, one for each label, in the order of
    `labels`, which may then be left out: the columns' names are the labels'."""
    id: str = ""
    """The column of the ids; left out: rows are numbered."""
    train: str | tuple[str, ...] | SplitEntry
    """The file of train rows, relative to the folder or absolute; a pattern, such as `parts/train-*.jsonl`, or a list,
    of files with one suffix; a data set of Hugging Face, `hf://NAME`, `hf://NAME#CONFIGURATION` or
    `hf://NAME#CONFIGURATION:SPLIT`; or such files and which rows of them, a `SplitEntry`."""
    dev: str | float | tuple[str, ...] | SplitEntry = ""
    """Likewise; or the share of train, above 0 and at most 0.5, that is not trained on but scored. It is stratified by
    the labels and drawn in whole groups of rows that share a text or a group, by these and labels alone: no seed
    changes it."""
    dev_from: DevFrom | None = None
    """In place of `dev`: the rows of train that are later than a date, or above a number, are not trained on but
    scored."""
    group: str | tuple[str, ...] = ()
    """The column, or columns, whose values connect rows as equal texts do; a row with a blank cell has no group there.
    Tasks with the same `train` have the same groups."""
    group_file: str = ""
    """A file with columns `text` and `group`, as `python -m mtlib.data DIR --near-copies` prints it: rows with a text
    that is there are in its group too."""
    slices: tuple[str, ...] = ()
    """Columns whose values have scores of their own."""
    test: str | tuple[str, ...] | SplitEntry = ""
    """Likewise, without labels; may be left out."""
    columns: tuple[str, ...] = ()
    """Names of all columns, of CSV, TSV and Excel files without a header line and of JSON files of lists. A file whose
    first line has the names of the columns of texts and label (of test: of texts) has a header line all the same. Files
    of test may lack the column of the label."""
    format: Annotated[str, ("", *FORMATS)] = ""
    """How files are read whose endings do not say it: a name of `mtlib.config.data.FORMATS`."""
    encoding: str = ""
    """Of the text files that are not UTF-8, such as `latin-1`."""
    separator: str = ""
    """What stands between the cells of a CSV or TSV file, one character."""
    quoting: Literal["", "standard", "none"] = ""
    """Whether cells of TSV files that hold quotation marks stand in them; left out: as the files themselves show."""
    pattern: str = ""
    """A regular expression that each line of a file of `lines` matches, with a group for each column, such as
    `(?P<topic>\\w+):(?P<text>.*)`."""
    leave_out: tuple[str, ...] = ()
    """Labels whose rows are left out, and counted."""
    title: str = ""
    """Shown in tables; left out: the name."""
    scored_train_rows: int = 0
    """How many fixed rows of train are scored beside dev each epoch."""
    metric: str = ""
    """A name of `mtlib.metrics.table`, or of one class `f1:CLASS`, `precision:CLASS` or `recall:CLASS`; left out:
    `accuracy`, `micro_f1` for several labels, `pearson` for a regression."""
    weight: float = 1.0
    """Weight in the overall score, above 0."""

    def __post_init__(self) -> None:
        check_types(self)
        require(len(self.texts) in (1, 2), "texts must name one column, or two of a pair", list(self.texts))
        wanted = [*self.texts, *self.label_columns, *([self.id] if self.id else [])]
        require(all(wanted), "texts and label must name columns", wanted)
        require_once(wanted, "texts, label and id must name different columns")
        check_labels(self)
        require(self.scored_train_rows >= 0, "scored_train_rows must be at least 0", self.scored_train_rows)
        require(self.weight > 0, "weight must be above 0", self.weight)
        check_further_columns(self)
        check_format(self)
        check_lines(self)
        for split in SPLITS:
            check_paths(split, self.given(split), self.format)
        if self.columns:
            further = itertools.chain(*self.further_columns.values())
            paths = [path for split in SPLITS for path in self.files.paths(split)]
            check_columns(self.columns, [*wanted, *further], paths, self.format)

    @property
    def further_columns(self) -> dict[str, tuple[str, ...]]:
        """The columns besides those of id, texts and label, by the key that names them."""
        dates = () if self.dev_from is None else (self.dev_from.column,)
        return {"dev_from": dates, "group": as_tuple(self.group), "slices": self.slices}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the labels 0, 1, ...; none if they have no names."""
        own = tuple(self.labels.values()) if isinstance(self.labels, Mapping) else self.labels
        return own or self.indicator_columns

    @property
    def indicator_columns(self) -> tuple[str, ...]:
        """The columns of 0 and 1, one for each of several labels; none where a single column has the labels."""
        return () if isinstance(self.label, str) else self.label

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns with the labels."""
        return (self.label,) if isinstance(self.label, str) else self.label

    def given(self, split: str) -> str | float | tuple[str, ...]:
        """Returns what the key of a split names: files, or the share that dev may be."""
        given = getattr(self, split)
        return given.paths if isinstance(given, SplitEntry) else given

    def selection(self, split: str) -> RowSelection:
        """Returns which rows of these files a split uses."""
        given = getattr(self, split)
        return given.selection if isinstance(given, SplitEntry) else RowSelection()

    @property
    def files(self) -> TaskFiles:
        """Where the rows are."""
        return TaskFiles(
            train=self.train.paths if isinstance(self.train, SplitEntry) else self.train,
            dev=self.given("dev"),
            dev_from=self.dev_from,
            group_columns=as_tuple(self.group),
            group_file=self.group_file,
            slice_columns=self.slices,
            test=self.test.paths if isinstance(self.test, SplitEntry) else self.test,
            id_column=self.id,
            columns=self.columns,
            format=FileFormat(
                name=self.format,
                encoding=self.encoding,
                separator=self.separator,
                quoting=self.quoting,
                pattern=self.pattern,
            ),
            train_rows=self.selection("train"),
            dev_rows=self.selection("dev"),
            test_rows=self.selection("test"),
            left_out=self.leave_out,
        )

    def task(self, name: str, own_metrics: OwnMetrics) -> Task:
        """Returns the definition that the keys stand for; ValueError if its kind does not have its metric."""
        highest = (len(self.names) or self.num_labels or 2) - 1
        return Task(
            name=name,
            title=self.title or name,
            kind=self.kind,
            label_range=(float(self.range[0]), float(self.range[1])) if self.range else (0.0, float(highest)),
            labels=self.names,
            label_values=tuple(self.labels) if isinstance(self.labels, Mapping) else (),
            text_columns=self.texts,
            label_column=self.label if isinstance(self.label, str) else "",
            indicator_columns=self.indicator_columns,
            files=self.files,
            scored_train_rows=self.scored_train_rows,
            metric=self.metric,
            metric_file=own_metrics.get(self.metric),
            weight=self.weight,
        )


def read_task_file(path: Path, own_metrics: OwnMetrics = NO_METRICS) -> dict[str, Task]:
    """Returns the tasks of a `tasks.toml`, in the order of their names.

    Args:
        path: of the file.
        own_metrics: metrics that tasks may have besides the built-in ones.

    Raises:
        ValueError: in one line, with the file: it cannot be read, or a key or value is wrong.
    """
    tree = read_toml(path)
    try:
        return tasks_of_tree(tree, own_metrics)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def read_toml(path: Path) -> dict[str, Any]:
    """Returns the content of a TOML file; ValueError with its name if it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path} must be readable TOML, got: {first_line(error)}") from error


def tasks_of_tree(tree: Mapping[str, Any], own_metrics: OwnMetrics = NO_METRICS) -> dict[str, Task]:
    """Returns the tasks of a parsed `tasks.toml`."""
    for key in tree:
        require_name(key, ("tasks",), "key")
    entries = tree.get("tasks", {})
    require(isinstance(entries, Mapping), "tasks must be a table of tasks, [tasks.NAME]", repr(entries))
    require(1 <= len(entries) <= MAX_TASKS, f"there must be 1 to {MAX_TASKS} tasks, [tasks.NAME]", len(entries))
    for name in entries:
        rule = "the name of a task must be small letters, digits and underscores, a letter first, at most 40"
        require(TASK_NAME.fullmatch(name) is not None, rule, repr(name))
        require(name not in RESERVED_NAMES, f"the name of a task must not be {' or '.join(RESERVED_NAMES)}", name)
        rule = f"the name of a task must not begin with {RESERVED_PREFIX}, as names of columns in records do"
        require(not name.startswith(RESERVED_PREFIX), rule, name)
    tasks = {}
    for name in sorted(entries):
        entry: TaskEntry = from_dict(TaskEntry, entries[name], f"tasks.{name}")
        try:
            tasks[name] = entry.task(name, own_metrics)
        except ValueError as error:  # the task does not know where it is defined
            raise ValueError(f"tasks.{name}: {error}") from error
    return tasks


def check_labels(entry: TaskEntry) -> None:
    """Checks that labels, their number and range fit the kind of task."""
    kind, names, low_high = entry.kind, entry.names, entry.range
    if KINDS[kind].is_regression:
        is_range = len(low_high) == 2 and low_high[0] < low_high[1]
        require(is_range, "range must be the lowest and the highest label of a regression", list(low_high))
        require(not names, f"labels must be left out of kind {kind}", list(names))
    else:
        require(not low_high, f"range must be left out of kind {kind}", list(low_high))
    words = list(dict.fromkeys([*names, *entry.labels]))  # of a mapping the values too
    require(all(word and word == word.strip() for word in words), "labels must be words, not blank", words)
    require_once(names, "labels must name each label once")
    require_once([*map(as_number, entry.labels)], "labels must name each value once")
    is_one = not entry.num_labels or (kind == "classes" and not names)
    require(is_one, "num_labels must be left out of all but classes without names", entry.num_labels)
    if kind == "binary":
        require(len(names) in (0, 2), "labels must name 2 labels of kind binary", len(names))
    elif kind == "classes":
        require(bool(names or entry.num_labels), "labels, or num_labels, must be given of kind classes", "neither")
        rule = "labels, or num_labels, must be at least 2"
        require(max(len(names), entry.num_labels) >= 2, rule, entry.num_labels or len(names))
    elif kind == "multilabel":
        require(len(names) >= 2, "labels must name at least 2 labels of kind multilabel", len(names))
    if entry.indicator_columns:
        require(KINDS[kind].has_several_labels, "label must be one column unless kind is multilabel", list(entry.label))
        rule = "labels must be a list of a name for each column of label, or left out"
        fits = not isinstance(entry.labels, Mapping) and len(names) == len(entry.label)
        require(fits, rule, f"{len(names)} names and {len(entry.label)} columns")


def check_further_columns(entry: TaskEntry) -> None:
    """Checks the columns of dates, groups and slices, and that dev is given once."""
    has_dev, has_date = entry.dev != "", entry.dev_from is not None
    require(has_dev != has_date, "dev, or dev_from in its place, must be given", "both" if has_dev else "neither")
    if entry.dev_from is not None:
        as_moment(str(entry.dev_from.after))
    has_columns = entry.format not in ("lines", "fasttext") or bool(entry.pattern)
    for key, names in entry.further_columns.items():
        require(all(names), f"{key} must name columns", list(names))
        require_once(names, f"{key} must name each column once")
        require(not {*names} & {*entry.label_columns}, f"{key} must name other columns than label", list(names))
        rule = f"{key} must be left out, as files of format {entry.format} have no further columns"
        require(has_columns or not names, rule, list(names))
    rule = "slices must not name the column of the ids, or one that is called id"
    require(not {*entry.slices} & {"id", entry.id}, rule, list(entry.slices))


def check_format(entry: TaskEntry) -> None:
    """Checks how files are read."""
    if entry.encoding:
        try:
            "".encode(entry.encoding)
        except LookupError:
            raise ValueError(f"encoding must be one that Python knows, such as latin-1, got {entry.encoding}") from None
    rule = "separator must be one character, other than a line feed or a quotation mark"
    is_one = len(entry.separator) == 1 and entry.separator not in '\r\n"'
    require(is_one or not entry.separator, rule, repr(entry.separator))
    if entry.pattern:
        require(entry.format == "lines", 'pattern must come with format = "lines"', entry.format or "no format")
        try:
            names = re.compile(entry.pattern).groupindex
        except re.error as error:
            raise ValueError(f"pattern must be a regular expression, got {entry.pattern}: {error}") from None
        wanted = {*entry.texts, *entry.label_columns, *itertools.chain(*entry.further_columns.values())}
        rule = f"pattern must have a group (?P<NAME>...) for each of {', '.join(sorted(wanted))}"
        require(wanted <= set(names), rule, ", ".join(names) or "none")


def check_lines(entry: TaskEntry) -> None:
    """Checks that files of plain lines, which have no columns, get their labels from elsewhere."""
    if entry.format != "lines" or entry.pattern:
        return
    for split in ("train", "dev"):
        own = entry.selection(split)
        rule = f"{split} must have files by label, a file of labels or a pattern, as lines are texts alone"
        is_labelled = bool(own.label_files or own.file_labels)
        require(is_labelled or isinstance(entry.given(split), float), rule, "files of texts")
        require(not own.where, f"{split}.where must be left out, as lines have no columns", "where")


def check_paths(key: str, given: str | float | tuple[str, ...], form: str = "") -> None:
    """Checks the paths of a split, or the share that dev may be, as far as is possible without the files.

    `form` is the format that all files have, if it is given.
    """
    if isinstance(given, float):
        rule = f"{key} must be a share above 0 and at most {MAX_DEV_SHARE:g}, or name files"
        require(0 < given <= MAX_DEV_SHARE, rule, f"{given:g}")
        return
    if (key == "test" and not given) or (key == "dev" and given == ""):  # `dev_from` is given in its place
        return
    paths = (given,) if isinstance(given, str) else given
    require(bool(paths), f"{key} must name a file", list(paths))
    require_once(paths, f"{key} must name each file once")
    is_alone = len(paths) == 1 or not any(path.startswith(HUB_PREFIX) for path in paths)
    require(is_alone, f"{key} must name files, or one data set {HUB_PREFIX}NAME alone", list(paths))
    share = ", or be a share such as 0.1" if key == "dev" else ""
    if form:
        return
    rule = f"{key} must end in {', '.join(TABLE_SUFFIXES)}, begin with {HUB_PREFIX}, or have a format{share}"
    for path in paths:
        require(path.startswith(HUB_PREFIX) or is_pattern(path) or format_of(path) is not None, rule, repr(path))
    check_suffixes(key, [path for path in paths if format_of(path) is not None])


def check_suffixes(key: str, paths: Iterable[str]) -> None:
    """Checks that the files of one split have one format, which can be read."""
    firsts: dict[str, str] = {}
    for path in paths:
        form = format_of(path)
        rule = f"{key} must name files that end in {', '.join(TABLE_SUFFIXES)}, or have a format"
        require(form is not None, rule, path)
        firsts.setdefault(str(form), path)
    require(len(firsts) <= 1, f"{key} must name files of one format", ", ".join(firsts.values()))


def check_columns(columns: Sequence[str], wanted: Sequence[str], paths: Sequence[str], form: str) -> None:
    """Checks the names of the columns of files without a header line."""
    require_once(columns, "columns must name each column once")
    for name in wanted:
        require(name in columns, f"columns must hold {name}", list(columns))
    for path in paths:
        rule = f"columns must be left out unless the format of files is {' or '.join(DELIMITED_FORMATS)}"
        is_right = is_pattern(path) or (form or format_of(path)) in DELIMITED_FORMATS
        require(is_right and not path.startswith(HUB_PREFIX), rule, path)
