"""Folds of examples: parts of nearly equal size in which labels are spread alike, from a seed.

Examples that share texts are dealt together: otherwise an ensemble would be scored on texts that it was selected by.
"""

from collections.abc import Iterator

import numpy as np

from mtlib.kinds import rarest_label
from mtlib.runtime.errors import require
from mtlib.tasks import Task
from results.stats.resampling import Floats, Numbers

LEAST_ROWS = 10
"""Least groups of examples of a fold that is scored by itself: with fewer the standard error of a correlation is far
too small."""


def count_folds(task: Task, num_groups: int, max_folds: int) -> int:
    """Returns the number of folds: at most `max_folds` and one per group;
    those scored alone have at least `LEAST_ROWS`.

    It is at least 2 if `max_folds` and the number of groups of examples are.
    """
    room = num_groups // LEAST_ROWS if task.metric_entry.is_scored_by_fold else num_groups
    return min(max_folds, num_groups, max(2, room))


def assign_folds(
    labels: Floats, num_folds: int, generator: np.random.Generator, groups: Numbers | None = None
) -> Numbers:
    """Deals whole groups of examples to folds, each run of `num_folds` groups to all of them.

    Groups are sorted by size, the largest first, and by mean label, of several labels by the mean of the rarest one, in
    random order among equals.

    Args:
        labels: (rows,), classes or real numbers; or (rows, num_classes), several labels.
        num_folds: at least 2 and at most the number of groups.
        generator: of random numbers.
        groups: (rows,) number of each example's group; None if each example is a group.

    Returns:
        (rows,) fold of each example, from 0. Sizes of folds differ by at most that of the largest group. If each
        example is a group and labels are classes, the numbers of examples of each class differ by at most 2.

    Raises:
        ValueError: fewer than 2 folds, or more than groups.
    """
    numbers = np.unique(np.arange(len(labels)) if groups is None else groups, return_inverse=True)[1]
    sizes = np.bincount(numbers)
    rule = f"there must be at least 2 folds and at most one per group of examples, of which there are {len(sizes)}"
    require(2 <= num_folds <= len(sizes), rule, num_folds)
    order = np.lexsort((generator.random(len(sizes)), np.bincount(numbers, rarest_label(labels)) / sizes, -sizes))
    num_runs, rest = divmod(len(sizes), num_folds)
    whole = generator.permuted(np.tile(np.arange(num_folds), (num_runs, 1)), axis=1)
    dealt = np.empty(len(sizes), dtype=np.intp)
    dealt[order] = np.concatenate([whole.ravel(), generator.permutation(num_folds)[:rest]])
    return dealt[numbers]


def iter_folds(folds: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """For each fold, the rows outside it and those in it."""
    for fold in range(int(folds.max()) + 1):
        yield np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
