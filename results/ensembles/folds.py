"""Folds of examples: equal parts in which labels are spread alike, from a seed."""

from collections.abc import Iterator

import numpy as np

from mtlib.errors import require
from mtlib.tasks import Task
from results.comparison.bootstrap import Floats, Numbers

LEAST_ROWS = 10
"""Least rows of a fold in which a correlation is computed: with fewer its standard error is far too small."""


def count_folds(task: Task, num_rows: int, max_folds: int) -> int:
    """The number of folds: at most `max_folds` and one per example; folds of a correlation have at least `LEAST_ROWS`.

    It is at least 2 if `max_folds` and the number of examples are.
    """
    room = num_rows // LEAST_ROWS if task.metric == "pearson" else num_rows
    return min(max_folds, num_rows, max(2, room))


def assign_folds(labels: Floats, num_folds: int, generator: np.random.Generator) -> Numbers:
    """Deals examples to folds: sorted by label, in random order among equals, each run of `num_folds` to all of them.

    Args:
        labels: (rows,), classes or real numbers.
        num_folds: at least 2 and at most the number of rows.

    Returns:
        (rows,) fold of each example, from 0. Sizes of folds differ by at most 1, and, for classes, the numbers of
        examples of each class in them, by at most 2.

    Raises:
        ValueError: fewer than 2 folds, or more than examples.
    """
    rule = f"there must be at least 2 folds and at most one per example, of which there are {len(labels)}"
    require(2 <= num_folds <= len(labels), rule, num_folds)
    order = np.lexsort((generator.random(len(labels)), labels))
    num_runs, rest = divmod(len(labels), num_folds)
    whole = generator.permuted(np.tile(np.arange(num_folds), (num_runs, 1)), axis=1)
    dealt = np.empty(len(labels), dtype=np.intp)
    dealt[order] = np.concatenate([whole.ravel(), generator.permutation(num_folds)[:rest]])
    return dealt


def iter_folds(folds: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """For each fold, the rows outside it and those in it."""
    for fold in range(int(folds.max()) + 1):
        yield np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
