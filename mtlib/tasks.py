"""The tasks: the layout of their files, their labels, and their scores.

This file defines the built-in tasks. Others are defined by a `tasks.toml` (`mtlib.config.task_file`).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt

from mtlib.kinds import KINDS, Kind, TaskKind
from mtlib.metrics.constant_prediction import SAME_LABEL_SHARE, SMALLEST_SPREAD
from mtlib.metrics.metric import Metric
from mtlib.metrics.table import METRICS, check_metric, metric_of_class
from mtlib.runtime.errors import require
from mtlib.runtime.method_file import MethodFile, UntrustedCodeError, run_method_file


@dataclass(frozen=True, kw_only=True)
class GlueFiles:
    """A task's files in the TSV folders of GLUE (Wang et al. 2019)."""

    folder: str
    """`<folder>/train.tsv` and `<folder>/dev.tsv`."""
    id_column: str
    text_columns: tuple[str, ...]
    label_column: str


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """How files are read, as far as the endings of their names do not say it."""

    name: str = ""
    """Of `mtlib.config.data.FORMATS`; empty: by the ending of each file's name."""
    encoding: str = ""
    """Of text, a name that Python knows; empty: UTF-8."""
    separator: str = ""
    """What stands between the cells of a line; empty: tabs, in CSV tabs or commas."""
    quoting: str = ""
    """Of TSV: `standard` or `none`; `unclear`: both fit, so it is read as `none`; empty: no file with quotation marks
    was there."""
    pattern: str = ""
    """A regular expression that each line must match, with a named group for each column; empty: lines are cells."""


@dataclass(frozen=True, kw_only=True)
class RowSelection:
    """Which rows of its files are a split, and where their labels are unless in a column."""

    where: tuple[tuple[str, ...], ...] = ()
    """Columns, each with the values of which a row must have one there."""
    first: int = 0
    """How many rows are used, from the first on; 0: all."""
    label_files: tuple[str, ...] = ()
    """Files with the label of each line of the split's files, in the same order."""
    file_labels: tuple[str, ...] = ()
    """The label of each of the split's paths, whose rows have it all."""


@dataclass(frozen=True, kw_only=True)
class DevFrom:
    """Which train rows are dev rows instead: those with a later date, or a greater number, in a column."""

    column: str
    after: str | float | date
    """An ISO 8601 date or time, or a number; text once it is set. Rows of a day that is named without a time are not
    later."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "after", str(self.after))


@dataclass(frozen=True, kw_only=True)
class TaskFiles:
    """A task's files or data sets, as `tasks.toml` names them.

    Each is a path or a pattern of paths such as `parts/train-*.jsonl`, relative to the data folder or absolute; a list
    of them; or a Hugging Face data set, `hf://NAME#CONFIGURATION:SPLIT`.
    """

    train: str | tuple[str, ...]
    dev: str | float | tuple[str, ...] = ""
    """A number: the share of train rows that are dev rows instead. Empty: `dev_from` says which."""
    dev_from: DevFrom | None = None
    test: str | tuple[str, ...] = ""
    """Empty: none."""
    group_columns: tuple[str, ...] = ()
    """Columns whose values connect rows as their texts do."""
    group_file: str = ""
    """A file of texts with the group of each; empty: none."""
    slice_columns: tuple[str, ...] = ()
    """Columns whose values have scores of their own."""
    id_column: str = ""
    """Empty: rows are numbered."""
    columns: tuple[str, ...] = ()
    """Names of the columns of files without a header line; empty: files have one."""
    format: FileFormat = FileFormat()
    train_rows: RowSelection = RowSelection()
    dev_rows: RowSelection = RowSelection()
    test_rows: RowSelection = RowSelection()
    left_out: tuple[str, ...] = ()
    """Labels whose rows are left out."""

    @property
    def dev_share(self) -> float:
        """The share of train rows that are dev rows; 0 where dev has files of its own."""
        return self.dev if isinstance(self.dev, float) else 0.0

    @property
    def takes_dev_from_train(self) -> bool:
        """Whether some train rows are the dev rows."""
        return isinstance(self.dev, float) or self.dev_from is not None

    def paths(self, split: str) -> tuple[str, ...]:
        """The paths, patterns or data set that the rows of `train`, `dev` or `test` are taken from."""
        dev = self.train if isinstance(self.dev, float) or self.takes_dev_from_train else self.dev
        given = {"train": self.train, "dev": dev, "test": self.test}[split]
        return tuple(filter(None, (given,))) if isinstance(given, str) else given

    def rows(self, split: str) -> RowSelection:
        """Which rows of these paths are used; where dev is taken from train, those of train."""
        dev = self.train_rows if self.takes_dev_from_train else self.dev_rows
        return {"train": self.train_rows, "dev": dev, "test": self.test_rows}[split]


@dataclass(frozen=True, kw_only=True)
class Task:
    """The fixed properties of a task: files, labels, score. `TaskConfig` has its settings."""

    name: str
    """Key in a configuration's definitions, in its settings (`tasks.<name>.batch_size`) and in every record."""
    title: str
    """Name in tables and reports."""
    kind: Kind
    """`classes`: labels 0..num_classes-1; `binary`: labels 0 and 1; `multilabel`: any of the labels 0..num_classes-1;
    `regression`: any real in `label_range`."""
    label_range: tuple[float, float]
    """Lowest and highest label, both allowed. Metrics clip regression predictions to it; loss and records do not."""
    labels: tuple[str, ...] = ()
    """Names of the labels 0, 1, ...; empty: they have none, and files have the numbers."""
    label_values: tuple[str, ...] = ()
    """What files and data sets have for the labels 0, 1, ...; empty: their names, or numbers."""
    text_columns: tuple[str, ...]
    """One column for a single sentence, two for a pair."""
    label_column: str
    """Column of the label; absent from test files."""
    indicator_columns: tuple[str, ...] = ()
    """In place of `label_column`, where several labels have a column of 0 and 1 each: these, in the labels' order."""
    files: TaskFiles | None = None
    """The task's own files; None if they are in the layout of CS224N or GLUE."""
    file_stem: str = ""
    """In the CS224N layout files are `<stem>-train.csv`, `<stem>-dev.csv` and `<stem>-test-student.csv`."""
    metric: str = ""
    """The metric in tables and in the overall score, of one class with its name, such as `f1:legal`; "": `accuracy`, or
    `pearson` for a regression."""
    metric_file: MethodFile | None = None
    """A user's file whose `METRICS` has the metric; None if it is built in."""
    lower_is_better: bool = False
    """As the metric says: so records can be read where `metric_file` must not be run."""
    weight: float = 1.0
    """Weight in the overall score, above 0."""
    scored_train_rows: int = 0
    """Number of fixed train rows that are scored each epoch, to show over-fitting; 0 for none."""
    glue: GlueFiles | None = None
    """The task's files in a GLUE folder; None if GLUE has no such task."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", self.metric or self.kind_entry.default_metric)
        check_metric(self.metric, self.kind, self.metrics)
        object.__setattr__(self, "lower_is_better", self.metric_entry.lower_is_better)
        require(self.weight > 0, f"the weight of task {self.name} must be above 0", self.weight)

    @property
    def kind_entry(self) -> TaskKind:
        """The entry of the task's kind."""
        return KINDS[self.kind]

    @property
    def is_regression(self) -> bool:
        """Whether labels are real numbers, not classes."""
        return self.kind_entry.is_regression

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The built-in metrics, those that `metric_file` defines, and the task's own if it is of one class."""
        own = {} if self.metric_file is None else self.own_metrics(self.metric_file)
        of_class = {} if self.is_regression else metric_of_class(self.metric, self.class_names)
        return {**METRICS, **of_class, **own}

    def own_metrics(self, file: MethodFile) -> Mapping[str, Metric]:
        """Returns the metrics of a user's file; where it must not be run the task's alone, which cannot be computed."""
        try:
            return dict(run_method_file(file).METRICS)
        except UntrustedCodeError:
            recorded = Metric(
                title=self.metric,
                kinds=(self.kind,),
                reads="output",
                function=lambda *_values, **_weights: run_method_file(file),  # raises the error again
                lower_is_better=self.lower_is_better,
            )
            return {self.metric: recorded}

    @property
    def metric_entry(self) -> Metric:
        """The entry of the task's metric."""
        return self.metrics[self.metric]

    def value_of(self, score: float) -> float:
        """Returns the value of the metric, as it is shown, of a score or of a difference of scores."""
        return self.metric_entry.value_of(score)

    def bounds_text(self, bounds: Collection[float]) -> str:
        """Returns an interval of scores, or of differences, as it is shown: `0.512 to 0.540`, the lower value first, or
        `not known` where there is none."""
        if not bounds:
            return "not known"
        low, high = sorted(map(self.value_of, bounds))
        return f"{low:.3f} to {high:.3f}"

    @property
    def has_groups(self) -> bool:
        """Whether its files say which rows belong together."""
        return self.files is not None and bool(self.files.group_columns or self.files.group_file)

    @property
    def is_pair(self) -> bool:
        return len(self.text_columns) == 2

    @property
    def num_classes(self) -> int:
        """Number of classes, or of labels of which a row may have several; 1 for regression."""
        return 1 if self.is_regression else int(self.label_range[1]) + 1

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the labels 0, 1, ...; their numbers where they have no names."""
        return self.labels or tuple(map(str, range(self.num_classes)))

    def class_sizes(self, labels: npt.ArrayLike) -> list[int]:
        """Returns how many rows have each class, from labels, (rows,), or (rows, num_classes) of several labels."""
        values = np.asarray(labels)
        numbers = np.nonzero(values)[1] if self.kind_entry.has_several_labels else values.astype(int)
        return list(map(int, np.bincount(numbers, minlength=self.num_classes)))

    def has_one_prediction(self, logits: npt.ArrayLike, labels: npt.ArrayLike) -> bool:
        """Returns whether predictions are one label (or set of labels) for nearly all rows, or one number.

        Not of metrics that read the output of a binary or multi-label task: a threshold has no part in them.

        Args:
            logits: (rows, num_logits).
            labels: (rows,), or (rows, num_classes) of several labels.
        """
        predictions = self.kind_entry.predict(logits)
        if self.is_regression:
            low, high = self.label_range
            return bool(predictions.clip(low, high).std() < SMALLEST_SPREAD * (high - low))
        if self.metric_entry.reads == "output":
            return False
        values, counts = np.unique(predictions, axis=0, return_counts=True)
        share, most = counts.max() / len(predictions), values[counts.argmax()]
        has_most = (np.asarray(labels) == most).reshape(len(predictions), -1).all(axis=1)
        return bool(share > max(SAME_LABEL_SHARE, has_most.mean()))

    def names_of(self, label: Any) -> str:
        """Returns the name of a row's class, a number;
        of several labels, (num_classes,), the names of all that it has."""
        if not self.kind_entry.has_several_labels:
            return self.class_names[int(label)]
        return ", ".join(name for name, has in zip(self.class_names, label, strict=True) if has) or "none"

    @property
    def num_logits(self) -> int:
        """Width of the head's output: one per class or label, one for a binary task, one for regression."""
        return self.kind_entry.num_logits(self.num_classes)

    def file_name(self, split: str) -> str:
        """Name of the file of `split` (`train`, `dev` or `test`) in the CS224N layout."""
        return f"{self.file_stem}-{'test-student' if split == 'test' else split}.csv"


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            name="sst",
            title="SST",
            kind="classes",
            label_range=(0, 4),
            text_columns=("sentence",),
            label_column="sentiment",
            file_stem="ids-sst",
            scored_train_rows=2000,
        ),
        Task(
            name="qqp",
            title="QQP",
            kind="binary",
            label_range=(0, 1),
            text_columns=("sentence1", "sentence2"),
            label_column="is_duplicate",
            file_stem="quora",
            glue=GlueFiles(
                folder="QQP", id_column="id", text_columns=("question1", "question2"), label_column="is_duplicate"
            ),
        ),
        Task(
            name="sts",
            title="STS",
            kind="regression",
            label_range=(0, 5),
            text_columns=("sentence1", "sentence2"),
            label_column="similarity",
            file_stem="sts",
            glue=GlueFiles(
                folder="STS-B", id_column="index", text_columns=("sentence1", "sentence2"), label_column="score"
            ),
        ),
    )
}


FURTHER_SETS: dict[str, dict[str, Any]] = {
    "cfimdb": {
        "task": "sst",
        "path": "ids-cfimdb-train.csv",
        "label_column": "sentiment",
        "labels": ("0:0", "1:4"),
        "batch_size": 8,
    },
    "snli": {
        "task": "qqp",
        "path": "snli-train.csv",
        "label_column": "label",
        "labels": ("0:1", "2:0"),
        "probability_factor": 0.1,
    },
}
"""Settings of further data sets, fields of `mtlib.config.data.SourceConfig`, by their name in `data.sources`.

Source: My PAL BERT, 4.1 and 5.3. CFIMDB's labels are multiplied by 4. SNLI's entailment is a duplicate, its
contradiction none; neutral pairs are left out.
"""


def in_order(names: Collection[str]) -> tuple[str, ...]:
    """Sorts names of tasks as they are shown: in the order of `TASKS`, then by the alphabet."""
    return tuple(name for name in TASKS if name in names) + tuple(sorted(set(names) - set(TASKS)))


def overall_score(scores: Mapping[str, float], tasks: Mapping[str, Task]) -> float:
    """Mean over tasks of what their scores contribute, 0..1, by their weights: the papers' overall score.

    For SST, QQP and STS it is `(SST + QQP + (1 + STS) / 2) / 3`. `scores` has the score of each task by name, and
    `tasks` their definitions.
    """
    own = {name: tasks[name] for name in scores}
    parts = [task.weight * task.metric_entry.overall(scores[name], task.label_range) for name, task in own.items()]
    return sum(parts) / sum(task.weight for task in own.values())


def overall_slopes(names: Collection[str], tasks: Mapping[str, Task]) -> dict[str, float]:
    """Returns the derivative of the overall score of some tasks by the score of each."""
    total = sum(tasks[name].weight for name in names)
    return {
        name: tasks[name].weight * tasks[name].metric_entry.overall_slope(tasks[name].label_range) / total
        for name in names
    }


def score_of(name: str, value: float, tasks: Mapping[str, Task]) -> float:
    """Turns a value of a task's metric, or an overall value, into a score: the higher, the better."""
    return tasks[name].metric_entry.score_of(value) if name in tasks else value


def value_of(name: str, score: float, tasks: Mapping[str, Task]) -> float:
    """Returns the value, as it is shown, of a score of a task or overall, or of a difference of scores."""
    return tasks[name].metric_entry.value_of(score) if name in tasks else score


def title_of(name: str, tasks: Mapping[str, Task]) -> str:
    """Returns the title of a task; `overall` stays."""
    return tasks[name].title if name in tasks else name
