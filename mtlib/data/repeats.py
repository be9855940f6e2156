"""Rows that have the same texts as others: repeated, with contradicting labels, or in both dev and train."""

from collections.abc import Sequence

import numpy as np

from mtlib.data.hold_out import Texts, normalise_columns
from mtlib.tasks import Task

TOLERATED_SHARE = 0.1
"""Numbers that two rows with the same texts have contradict each other if they differ by more than this share of the
task's range; smaller differences are noise rather than a mistake."""


def repeats_row(texts: Texts, others: Texts) -> np.ndarray:
    """Returns whether each row has, normalised and in any order, the texts of a row among others: (rows,) bool."""
    known = {tuple(sorted(row)) for row in zip(*normalise_columns(others), strict=True)}
    rows = zip(*normalise_columns(texts), strict=True)
    return np.array([tuple(sorted(row)) in known for row in rows], dtype=bool)


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
