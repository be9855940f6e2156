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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtlib.config.data import HUB_PREFIX, TABLE_SUFFIXES
from mtlib.config.schema import check_types, from_dict
from mtlib.metrics.metric import Kind
from mtlib.metrics.table import check_metric
from mtlib.runtime.errors import first_line, require, require_name, require_once
from mtlib.tasks import TASKS, Task, TaskFiles

TASK_FILE = "tasks.toml"
MAX_TASKS = 20
TASK_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
RESERVED_NAMES = ("overall",)
"""Names that records use for something else."""


@dataclass(frozen=True, kw_only=True)
class TaskEntry:
    """The keys of one task."""

    kind: Kind
    """`classes`: one label of several; `binary`: two labels, one probability; `regression`: a number."""
    labels: tuple[str, ...] = ()
    """Names of the labels as files have them, in the order of their numbers 0, 1, ..., of a task of classes or a binary
    one. Left out where files have the numbers."""
    num_labels: int = 0
    """Of a task of classes whose files have numbers: how many there are."""
    range: tuple[float, ...] = ()
    """Of a regression: the lowest and the highest label."""
    texts: tuple[str, ...]
    """The column of the text, or both columns of a pair."""
    label: str
    """The column of the label."""
    id: str = ""
    """The column of the ids; left out: rows are numbered."""
    train: str
    """The file of train rows, relative to the folder or absolute, or `hf://NAME`."""
    dev: str
    """Likewise."""
    test: str = ""
    """Likewise; may be left out."""
    title: str = ""
    """Shown in tables; left out: the name."""
    scored_train_rows: int = 0
    """How many fixed rows of train are scored beside dev each epoch."""
    metric: str = ""
    """A name of `mtlib.metrics.table`; left out: `accuracy`, or `pearson` for a regression."""
    weight: float = 1.0
    """Weight in the overall score, above 0."""

    def __post_init__(self) -> None:
        check_types(self)
        require(len(self.texts) in (1, 2), "texts must name one column, or two of a pair", list(self.texts))
        require_once([*self.texts, self.label, *([self.id] if self.id else [])], "columns must be different ones")
        require_once(self.labels, "labels must name each label once")
        if self.kind == "regression":
            is_range = len(self.range) == 2 and self.range[0] < self.range[-1]
            require(is_range, "range must be the lowest and the highest label of a regression", list(self.range))
        else:
            require(not self.range, f"range must be left out of kind {self.kind}", list(self.range))
        rule = f"labels must be left out of kind {self.kind}"
        require(self.kind != "regression" or not self.labels, rule, list(self.labels))
        least = {"classes": self.num_labels or len(self.labels), "binary": len(self.labels) or 2, "regression": 2}
        rule = "labels must name 2 labels" if self.kind == "binary" else "labels, or num_labels, must be at least 2"
        is_right = least[self.kind] == 2 if self.kind == "binary" else least[self.kind] >= 2
        require(is_right, rule, least[self.kind])
        is_one = not self.num_labels or (self.kind == "classes" and not self.labels)
        require(is_one, "num_labels must be left out of all but classes without names", self.num_labels)
        require(self.scored_train_rows >= 0, "scored_train_rows must be at least 0", self.scored_train_rows)
        require(self.weight > 0, "weight must be above 0", self.weight)
        if self.metric:
            check_metric(self.metric, self.kind)
        for path in (self.train, self.dev, *([self.test] if self.test else [])):
            rule = f"train, dev and test must end in {', '.join(TABLE_SUFFIXES)} or begin with {HUB_PREFIX}"
            require(path.startswith(HUB_PREFIX) or path.endswith(TABLE_SUFFIXES), rule, repr(path))

    def task(self, name: str) -> Task:
        """The definition that the keys stand for."""
        highest = (len(self.labels) or self.num_labels or 2) - 1
        return Task(
            name=name,
            title=self.title or name,
            kind=self.kind,
            label_range=(float(self.range[0]), float(self.range[1])) if self.range else (0.0, float(highest)),
            labels=self.labels,
            text_columns=self.texts,
            label_column=self.label,
            files=TaskFiles(train=self.train, dev=self.dev, test=self.test, id_column=self.id),
            scored_train_rows=self.scored_train_rows,
            metric=self.metric,
            weight=self.weight,
        )


def find_tasks(folder: Path) -> Mapping[str, Task]:
    """The tasks that a folder's `tasks.toml` defines; SST, QQP and STS where there is none.

    Raises:
        ValueError: in one line, with the file: it cannot be read, or a key or value is wrong.
    """
    path = folder / TASK_FILE
    return read_task_file(path) if path.is_file() else TASKS


def read_task_file(path: Path) -> dict[str, Task]:
    """The tasks of a `tasks.toml`, in the order of their names; ValueError as `find_tasks`."""
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path} must be readable TOML, got: {first_line(error)}") from error
    try:
        return tasks_of_tree(tree)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def tasks_of_tree(tree: Mapping[str, Any]) -> dict[str, Task]:
    """The tasks of a parsed `tasks.toml`."""
    for key in tree:
        require_name(key, ("tasks",), "key")
    entries = tree.get("tasks", {})
    require(isinstance(entries, Mapping), "tasks must be a table of tasks, [tasks.NAME]", repr(entries))
    require(1 <= len(entries) <= MAX_TASKS, f"there must be 1 to {MAX_TASKS} tasks, [tasks.NAME]", len(entries))
    for name in entries:
        rule = "the name of a task must be small letters, digits and underscores, a letter first, at most 40"
        require(TASK_NAME.fullmatch(name) is not None, rule, repr(name))
        require(name not in RESERVED_NAMES, f"the name of a task must not be {' or '.join(RESERVED_NAMES)}", name)
    return {name: from_dict(TaskEntry, entries[name], f"tasks.{name}").task(name) for name in sorted(entries)}
