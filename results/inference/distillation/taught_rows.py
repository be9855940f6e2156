"""Rows that teach students: their files, and the logits that models give them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from mtlib.config.data import SourceConfig
from mtlib.config.schema import to_dict
from mtlib.data.hold_out import group_cell
from mtlib.data.tables import Table
from mtlib.runtime.checksum import hash_of
from mtlib.tasks import Task
from results.ensembles.outputs import logits_behind
from results.inference.models import ModelSource
from results.inference.predictor import load_members, predict_rows
from results.inference.readers import ID_COLUMN
from results.records.selection import Member
from results.stats.resampling import Floats

TEACHERS_FOLDER = "teachers"
"""Folder of a sweep that holds what its ensembles teach."""
LABEL_COLUMN = "label"
FILE_VERSION = 1
"""The version of the files; files of another version are made again."""

TaughtRole = Literal["train", "augment"]
"""`train` for a task's own train rows, `augment` for further texts without labels."""


@dataclass(frozen=True, kw_only=True)
class TaughtRows:
    """Rows that models teach."""

    ids: Sequence[str]
    texts: Sequence[tuple[str, ...]]
    labels: np.ndarray | None
    """As in `mtlib.data.tables.Table`; None without labels."""
    further: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The cells of the columns of groups and slices, which a task's own rows must have."""

    @cached_property
    def key(self) -> str:
        """A hash of the rows."""
        further = [dict(self.further)] if self.further else []
        return hash_of([FILE_VERSION, self.texts, self.ids, np.asarray(self.labels).tolist(), *further])


def train_rows(task: Task, table: Table) -> TaughtRows:
    """Returns a task's own train rows, without augmentation."""
    own = slice(table.num_own_rows)
    texts = list(zip(*table.texts, strict=True))
    groups = zip(() if task.files is None else task.files.group_columns, table.groups, strict=False)
    further = {name: list(map(group_cell, cells[own])) for name, cells in groups}
    further |= {name: cells[own] for name, cells in table.slices.items()}
    return TaughtRows(ids=table.ids[own], texts=texts[own], labels=table.labels[own], further=further)


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """Rows, and the models whose predictions are learned for them."""

    members: tuple[Member, ...]
    rows: TaughtRows


def lesson_logits(task: Task, lesson: Lesson, source: ModelSource) -> Floats:
    """Returns the predictions of a lesson's models as logits, (rows, num_logits); of a regression the predictions."""
    outputs = predict_rows(load_members(task, lesson.members, source), lesson.rows.texts)
    return outputs if task.is_regression else logits_behind(task, outputs)


def source_settings(name: str, task: Task, path: Path, role: TaughtRole) -> Mapping[str, Any]:
    """Returns the settings that give a trial the rows of a file, by dotted key; the source is called `name`."""
    source = SourceConfig(
        task=task.name,
        path=str(path),
        role=role,
        text_columns=text_columns(task),
        label_column=LABEL_COLUMN,
        id_column=ID_COLUMN,
        teacher_columns=logit_columns(task),
    )
    return {f"data.sources.{name}.{key}": value for key, value in to_dict(source).items()}


def table_of(task: Task, rows: TaughtRows, logits: Floats) -> pa.Table:
    """Returns the file of rows, with the logits that are learned for them."""
    texts = dict(zip(text_columns(task), map(list, zip(*rows.texts, strict=True)), strict=True))
    values = zip(logit_columns(task), logits.astype(np.float32).T, strict=True)
    labels = [None] * len(rows.ids) if rows.labels is None else label_values(task, rows.labels)
    kind = pa.list_(pa.string()) if task.kind_entry.has_several_labels else pa.string()
    return pa.table(
        {**rows.further, ID_COLUMN: rows.ids, **texts, **dict(values), LABEL_COLUMN: pa.array(labels, kind)}
    )


def text_columns(task: Task) -> tuple[str, ...]:
    """Returns the names of the columns of texts."""
    return tuple(f"text_{number}" for number in range(1, len(task.text_columns) + 1))


def logit_columns(task: Task) -> tuple[str, ...]:
    """Returns the names of the columns of logits."""
    return tuple(f"logit_{number}" for number in range(task.num_logits))


def label_values(task: Task, labels: np.ndarray) -> list[Any]:
    """Returns labels as the task's files have them: by value, name or number."""
    if task.is_regression:
        return [str(label) for label in labels.tolist()]
    names = task.label_values or task.class_names
    if task.kind_entry.has_several_labels:
        return [[names[number] for number in np.flatnonzero(row)] for row in labels]
    return [names[int(label)] for label in labels]
