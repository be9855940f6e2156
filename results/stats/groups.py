"""Groups of examples that count as one draw: examples that share texts are not independent."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mtlib.data.hold_out import are_usable, group_rows, normalise_columns
from mtlib.data.tables import Table, connecting_columns
from mtlib.tasks import Task
from results.stats.resampling import Floats, Numbers, bootstrap_scores, percentile_interval

MANY_DEGREES = 300
"""Degrees of freedom from which on a variance counts as known: intervals are then at most .4 % too narrow."""


def independent_groups(text_groups: npt.ArrayLike | None, num_examples: int) -> Numbers:
    """(rows,) the number, from 0 in the order of the first examples, of the group that each example is drawn with.

    Args:
        text_groups: (rows,) group of connected examples; None if they are not known, so each is a group of its own.
        num_examples: rows.
    """
    given = np.arange(num_examples) if text_groups is None else text_groups
    _, first, numbers = np.unique(given, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[numbers])


def fold_groups(groups: Numbers) -> Numbers:
    """(rows,) the group with which each example is dealt to a fold: its own, or alone if groups cannot be dealt."""
    sizes = np.bincount(groups)
    is_usable = are_usable(len(sizes), int(sizes.max()), len(groups))
    return groups if is_usable else np.arange(len(groups))


@dataclass(frozen=True, kw_only=True, eq=False)
class DrawnGroups:
    """The groups that examples were drawn in, and how well they show variances."""

    sizes: Numbers
    """(groups,) examples in each."""
    by_row: Floats
    """(models, models) products of two models' influences, summed over examples."""
    by_group: Floats
    """(models, models) products of their sums over groups."""

    @property
    def largest(self) -> int:
        """Examples in the largest group."""
        return int(self.sizes.max())

    @property
    def num_examples(self) -> int:
        """Examples in all groups."""
        return int(self.sizes.sum())

    @property
    def are_usable(self) -> bool:
        """Whether any difference can be claimed: groups are not too few, and none is too large."""
        return are_usable(len(self.sizes), self.largest, self.num_examples)

    def degrees_of_differences(self, models: Numbers) -> float:
        """Degrees of freedom of the variance over examples of differences between some models; see `degrees`."""
        weights = np.eye(len(models)) - 1 / len(models)
        return self.degrees_of_mean(models) if len(models) == 1 else self.degrees(models, weights)

    def degrees_of_mean(self, models: Numbers) -> float:
        """Degrees of freedom of the variance over examples of the mean score of some models; see `degrees`."""
        return self.degrees(models, np.full((len(models), len(models)), 1 / len(models) ** 2))

    def degrees(self, models: Numbers, weights: Floats) -> float:
        """Degrees of freedom of a variance over examples: infinite from `MANY_DEGREES` on, and 0 where groups are not
        usable. The correlation of two examples of a group is that of the sum of products of influences with `weights`,
        (models, models)."""
        if not self.are_usable:
            return 0.0
        rows, groups = (float((own[np.ix_(models, models)] * weights).sum()) for own in (self.by_row, self.by_group))
        pairs = float(self.sizes @ (self.sizes - 1.0)) / self.num_examples
        correlation = min(max((groups - rows) / (rows * pairs), 0.0), 1.0) if rows * pairs > 0 else 0.0
        found = degrees_of_variance(self.sizes, correlation)
        return math.inf if found >= MANY_DEGREES else found


def drawn_groups(influence: Floats, groups: Numbers) -> DrawnGroups:
    """Returns the groups of examples, and what models' influences have in common within them.

    Args:
        influence: (models, rows) of each example on the score, with mean 0 over examples.
        groups: (rows,) number of each example's group.
    """
    sums, sizes = sum_groups(influence, groups), np.unique(groups, return_counts=True)[1]
    return DrawnGroups(sizes=sizes, by_row=influence @ influence.T, by_group=sums @ sums.T)


def degrees_of_variance(sizes: Numbers, correlation: float) -> float:
    """Returns the degrees of freedom of the variance of a mean over examples in groups, as
    `results.stats.covariance.covariance_over_examples` estimates it: at most the number of groups less one.

    They are those of a chi-square distribution with the same mean and variance, where each two examples of a group have
    the given correlation.

    Args:
        sizes: (groups,) examples in each, at least two groups.
        correlation: from 0 to 1.

    Source: Bell and McCaffrey (2002), "Bias reduction in standard errors for linear regression with multi-stage
    samples"; Imbens and Kolesar (2016), "Robust standard errors in small samples: some practical advice", for the
    correlation.
    """
    sums = sizes * (1 + (sizes - 1) * correlation)  # variance of each group's sum
    shares = sizes / sizes.sum()
    scales = 1 / (1 - shares)
    # The covariance of the scaled deviations is diagonal plus a matrix of rank 2: no matrix over groups is needed.
    rank_two, vectors = np.array([[0.0, -1.0], [-1.0, sums.sum()]]), np.stack([sums, shares])
    diagonal = np.einsum("ag,ab,bg->g", vectors, rank_two, vectors)
    product = rank_two @ (vectors * scales) @ vectors.T
    trace = scales @ (sums + diagonal)
    squares = scales**2 @ (sums**2 + 2 * sums * diagonal) + np.trace(product @ product)
    return float(trace**2 / squares)


def score_interval(
    task: Task, values: Floats, labels: npt.ArrayLike, groups: Numbers, *, seed: int = 0
) -> tuple[float, ...]:
    """Returns low and high of the 95 % interval of a score, or of the difference of two, over examples.

    Args:
        task: whose metric.
        values: (1, rows) or (2, rows), as `results.stats.resampling.example_values`; of two the first less the second.
        labels: (rows,).
        groups: (rows,) as `results.stats.groups.independent_groups`.
        seed: of the resamples.

    Returns:
        Nothing where examples are in too few groups.
    """
    influence = task.metric_entry.influences(values, np.asarray(labels, dtype=np.float64))
    resampled = bootstrap_scores(task, values, labels, groups=groups, seed=seed)
    if len(values) == 2:
        influence, resampled = influence[:1] - influence[1:], resampled[:1] - resampled[1:]
    drawn = drawn_groups(influence, groups)
    degrees, number = drawn.degrees_of_mean(np.arange(1)), len(drawn.sizes)
    return percentile_interval(resampled[0], degrees, scale=(number / (number - 1)) ** 0.5) if degrees else ()


def text_groups_of(table: Table) -> Numbers:
    """Returns the number of the group that each row of a table is drawn with, (rows,): rows that texts or groups
    connect."""
    return independent_groups(group_rows(normalise_columns(connecting_columns(table))), len(table.ids))


def count_groups(groups: Numbers) -> int:
    """Returns the number of groups."""
    return len(np.unique(groups))


def sum_groups(values: Floats, groups: Numbers) -> Floats:
    """Sums over the examples of each group, (models, groups), of values, (models, rows)."""
    _, numbers = np.unique(groups, return_inverse=True)
    return np.stack([np.bincount(numbers, own) for own in values])


def scaled_sums(influence: Floats, groups: Numbers) -> Floats:
    """(models, groups) sums of influences, (models, rows), over the examples of each group, scaled so that the mean
    products of sums are unbiased for independent examples; the sum of a single group, which shows nothing, is not
    scaled.

    Source: Bell and McCaffrey (2002), for a mean.
    """
    shares = np.unique(groups, return_counts=True)[1] / len(groups)
    return np.asarray(sum_groups(influence, groups) / np.sqrt(np.where(shares < 1, 1 - shares, 1.0)))
