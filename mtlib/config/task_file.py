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

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any

from mtlib.config.data import DELIMITED_SUFFIXES, HUB_PREFIX, TABLE_SUFFIXES, as_number, is_pattern
from mtlib.config.schema import check_types, from_dict
from mtlib.kinds import KINDS, Kind
from mtlib.runtime.errors import first_line, require, require_name, require_once
from mtlib.runtime.method_file import MethodFile
from mtlib.tasks import Task, TaskFiles

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
    train: str | tuple[str, ...]
    """The file of train rows, relative to the folder or absolute; a pattern, such as `parts/train-*.jsonl`, or a list,
    of files with one suffix; or a data set of Hugging Face, `hf://NAME`, `hf://NAME#CONFIGURATION` or
    `hf://NAME#CONFIGURATION:SPLIT`."""
    dev: str | float | tuple[str, ...]
    """Likewise; or the share of train, above 0 and at most 0.5, that is not trained on but scored. It is stratified by
    the labels and drawn in whole groups of rows that share a text, by texts and labels alone: no seed changes it."""
    test: str | tuple[str, ...] = ""
    """Likewise, without labels; may be left out."""
    columns: tuple[str, ...] = ()
    """Names of all columns, of CSV and TSV files without a header line. A file whose first line has the names of the
    columns of texts and label (of test: of texts) has a header line all the same. Files of test may lack the
    column of the label."""
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
        for split in SPLITS:
            check_paths(split, getattr(self, split))
        if self.columns:
            check_columns(self.columns, wanted, [path for split in SPLITS for path in self.files.paths(split)])

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

    @property
    def files(self) -> TaskFiles:
        """Where the rows are."""
        return TaskFiles(train=self.train, dev=self.dev, test=self.test, id_column=self.id, columns=self.columns)

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


def check_paths(key: str, given: str | float | tuple[str, ...]) -> None:
    """Checks the paths of a split, or the share that dev may be, as far as is possible without the files."""
    if isinstance(given, float):
        rule = f"{key} must be a share above 0 and at most {MAX_DEV_SHARE:g}, or name files"
        require(0 < given <= MAX_DEV_SHARE, rule, f"{given:g}")
        return
    if key == "test" and not given:
        return
    paths = (given,) if isinstance(given, str) else given
    require(bool(paths), f"{key} must name a file", list(paths))
    require_once(paths, f"{key} must name each file once")
    is_alone = len(paths) == 1 or not any(path.startswith(HUB_PREFIX) for path in paths)
    require(is_alone, f"{key} must name files, or one data set {HUB_PREFIX}NAME alone", list(paths))
    share = ", or be a share such as 0.1" if key == "dev" else ""
    rule = f"{key} must end in {', '.join(TABLE_SUFFIXES)} or begin with {HUB_PREFIX}{share}"
    for path in paths:
        require(path.startswith(HUB_PREFIX) or is_pattern(path) or path.endswith(TABLE_SUFFIXES), rule, repr(path))
    check_suffixes(key, [path for path in paths if path.endswith(TABLE_SUFFIXES)])


def check_suffixes(key: str, paths: Iterable[str]) -> None:
    """Checks that the files of one split have one suffix, which can be read."""
    firsts: dict[str, str] = {}
    for path in paths:
        suffix = PurePath(path).suffix
        require(suffix in TABLE_SUFFIXES, f"{key} must name files that end in {', '.join(TABLE_SUFFIXES)}", path)
        firsts.setdefault(suffix, path)
    require(len(firsts) <= 1, f"{key} must name files of one suffix", ", ".join(firsts.values()))


def check_columns(columns: Sequence[str], wanted: Sequence[str], paths: Sequence[str]) -> None:
    """Checks the names of the columns of files without a header line."""
    require_once(columns, "columns must name each column once")
    for name in wanted:
        require(name in columns, f"columns must hold {name}", list(columns))
    for path in paths:
        rule = f"columns must be left out unless files end in {' or '.join(DELIMITED_SUFFIXES)}"
        require(path.endswith(DELIMITED_SUFFIXES) and not path.startswith(HUB_PREFIX), rule, path)
