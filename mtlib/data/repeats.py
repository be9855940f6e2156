"""Rows that have the same texts as others: repeated, with contradicting labels, in both dev and train, or left out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mtlib.data.hold_out import Texts, normalise, normalise_columns
from mtlib.tasks import Task

TOLERATED_SHARE = 0.1
"""Numbers that two rows with the same texts have contradict each other if they differ by more than this share of the
task's range; smaller differences are noise rather than a mistake."""


@dataclass(frozen=True, kw_only=True)
class DroppedRows:
    """Train rows of a set that are left out, as they share a text or a group with dev or held-out rows of a task."""

    share: float
    """Of the set's train rows."""
    sentence: str
    """How many there are, for which task's rows, and what it does to the labels; without a full stop."""


def label_shift(task: Task, every: np.ndarray, kept: np.ndarray) -> str:
    """Returns how the labels of the rows that are kept differ from those of every row:
    the means, or of classes the share that differs most.

    Args:
        every, kept: labels as in `Table.labels`.
    """
    if task.is_regression:
        return f"the mean label of the rest is {np.nanmean(kept):.3g}, before {np.nanmean(every):.3g}"
    classes = np.arange(task.num_classes)
    before, after = ((own if own.ndim == 2 else own[:, None] == classes).mean(axis=0) for own in (every, kept))
    most = int(np.abs(after - before).argmax())
    return f"{after[most]:.1%} of the rest have label {task.class_names[most]}, before {before[most]:.1%}"


def repeats_row(texts: Texts, others: Texts, form: Callable[[str], str] = normalise) -> np.ndarray:
    """Returns whether each row has, in this form and any order, the texts of a row among others: (rows,) bool."""
    found, rows = ([tuple(sorted(map(form, row))) for row in zip(*columns, strict=True)] for columns in (others, texts))
    known = set(found)
    return np.array([row in known for row in rows], dtype=bool)


def repeated_rows(texts: Texts) -> list[list[int]]:
    """Returns the numbers of the rows that have the same texts, normalised and in the same columns, two at least."""
    rows_of: dict[tuple[str, ...], list[int]] = {}
    for number, row in enumerate(zip(*normalise_columns(texts), strict=True)):
        rows_of.setdefault(row, []).append(number)
    return [rows for rows in rows_of.values() if len(rows) > 1]


def contradicting_rows(task: Task, labels: np.ndarray, groups: Sequence[list[int]]) -> list[list[int]]:
    """Returns the groups of `repeated_rows` whose labels differ,
    numbers by more than `TOLERATED_SHARE` of their range."""
    tolerance = tolerated_difference(task)
    return [rows for rows in groups if np.ptp(labels[rows], axis=0).max() > tolerance]


def tolerated_difference(task: Task) -> float:
    """Returns the most by which labels of the same texts may differ; 0 for classes."""
    low, high = task.label_range
    return TOLERATED_SHARE * (high - low) if task.is_regression else 0.0
