"""Cross-fitted scores: each example is scored by the ensemble that a selection method chose without its fold.

Epochs, trials, their number and weights are all chosen without the fold. The score is that of a choice by fewer
examples, so it is slightly too low. It does not correct for a search or a scheduler that used all examples.
"""

import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import norm

from mtlib.tasks import Task
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import ensemble_outputs
from results.ensembles.folds import assign_folds, count_folds, iter_folds
from results.ensembles.outputs import values_of
from results.ensembles.selection_method import Choose, Settings
from results.stats.groups import count_groups, drawn_groups, scaled_sums
from results.stats.resampling import (
    NUM_RESAMPLES,
    Floats,
    Numbers,
    draw_counts,
    score_counts,
    score_examples,
)

CHOICE_FACTOR = 2.0
"""Factor of the variance between repeats. With it 95 % intervals covered the true score of the automatic choice in 93
to 95 % of simulated sweeps, of the best single model in 92 to 95 %, of other methods' choices in 94 to 97 %
(`benchmarks/selection.py`: 9 kinds, 2,000 of each, two repeats); without it in as few as 87 % (20 kinds, 300 of each),
where one of many similar candidates is chosen."""

ZERO_SPREAD = 1e-12
"""Resampled scores with at most this standard deviation are constant."""


@dataclass(frozen=True, kw_only=True)
class CrossFitted:
    """What the metric reads of each example's prediction by an ensemble that was chosen without it, and the score."""

    task: Task
    labels: Floats
    """(rows,), or (rows, num_classes) of several labels."""
    values: Floats
    """(repeats, rows), or (repeats, rows, num_classes), from `results.ensembles.outputs.values_of`."""
    folds: Numbers
    """(repeats, rows): each example's fold."""
    groups: Numbers
    """(rows,): the number of the group of examples that each one is drawn with."""

    @cached_property
    def parts(self) -> list[list[Numbers]]:
        """The rows that are scored together, by repeat: every fold where the metric is scored by fold, else all."""
        if not self.task.metric_entry.is_scored_by_fold:
            return [[np.arange(len(self.labels))] for _ in self.folds]
        return [[inside for _, inside in iter_folds(folds)] for folds in self.folds]

    @cached_property
    def part_scores(self) -> Floats:
        """(repeats, parts)."""
        pairs = zip(self.values, self.parts, strict=True)
        found = [
            [score_examples(self.task, own[None, rows], self.labels[rows])[0] for rows in parts] for own, parts in pairs
        ]
        return np.array(found)

    @cached_property
    def part_sizes(self) -> Floats:
        """The number of examples in each part, (repeats, parts)."""
        return np.array([[len(rows) for rows in parts] for parts in self.parts], dtype=np.float64)

    @property
    def scores(self) -> Floats:
        """The score of each repeat, (repeats,): the mean over its parts, weighted by size."""
        return np.asarray(np.average(self.part_scores, axis=1, weights=self.part_sizes))

    @property
    def score(self) -> float:
        """The mean over all parts of all repeats, weighted by size."""
        return float(np.average(self.part_scores, weights=self.part_sizes))

    @property
    def mean_absolute_error(self) -> float | None:
        """The mean absolute error of a regression, in the unit of its labels, over all examples and repeats; else
        None."""
        return float(np.abs(self.values - self.labels).mean()) if self.task.is_regression else None

    @cached_property
    def row_influences(self) -> Floats:
        """Each example's influence on the score of each repeat, (repeats, rows); a repeat's mean is 0."""
        total = np.zeros(self.folds.shape)
        for own, values, parts in zip(total, self.values, self.parts, strict=True):
            for rows in parts:
                own[rows] = example_influences(self.task, values[rows], self.labels[rows], self.groups[rows])
        return total

    @cached_property
    def influences(self) -> Floats:
        """Each group's influence on the score of each repeat, (repeats, groups).

        It is the scaled sum over its examples, times the number of groups, divided by the number of examples.
        """
        sums = scaled_sums(self.row_influences, self.groups)
        return np.asarray(sums * (sums.shape[1] / len(self.labels)))

    def degrees_over(self, other: "CrossFitted | None" = None) -> float:
        """Degrees of freedom of the variance over examples of the score, or of its difference from another one; 0 where
        examples are in too few groups for any difference to be claimed."""
        influence = self.row_influences[:1] - (0.0 if other is None else other.row_influences[:1])
        return drawn_groups(influence, self.groups).degrees_of_mean(np.arange(1))

    @property
    def standard_error(self) -> float:
        """The standard error of the score, over examples and over the choice of the ensemble.

        For classification, where few predictions may be wrong, it is at least the error of a share of 2 among n + 4,
        for n groups (Agresti and Coull 1998).
        """
        found, num_groups = total_error(self.influences, self.scores), count_groups(self.groups)
        share = 0.0 if self.task.is_regression else 2 / (num_groups + 4)
        return max(found, float(np.sqrt(share * (1 - share) / num_groups)))


def example_influences(task: Task, values: Floats, labels: Floats, groups: Numbers) -> Floats:
    """Returns the influence of each example on the score of examples that are scored together, (rows,).

    For a correlation it is the metric's times the root of n / (n - 4) for n groups. With that, the estimated variance
    of the correlation of two normal variables is within 5 % of the truth from 20 examples on, without it up to 22 % too
    low: two means and two variances are fitted.
    """
    count = count_groups(groups)
    factor = np.sqrt(count / max(1, count - task.metric_entry.num_fitted))
    return np.asarray(task.metric_entry.influences(values[None], labels)[0] * factor)


def total_error(influences: Floats, scores: Floats) -> float:
    """Returns the standard error of a cross-fitted score, or of the difference of two,
    as an estimate for the final ensemble.

    The variance over examples is that of a single repeat, as the final ensemble is one, not the mean over repeats. The
    choice of the ensemble varies too: `CHOICE_FACTOR` times the variance between repeats is added.

    Args:
        influences: (repeats, groups).
        scores: (repeats,).
    """
    choice = CHOICE_FACTOR * scores.var(ddof=1) if len(scores) > 1 else 0.0
    return float(np.sqrt(example_error(influences) ** 2 + choice))


def example_error(influences: Floats) -> float:
    """Returns the standard error over examples alone, of a single repeat, from influences, (repeats, groups)."""
    return float(np.sqrt((influences**2).mean() / influences.shape[1]))


def cross_fit(pool: Pool, method: Choose, settings: Settings, rows: Numbers, *, num_repeats: int = 1) -> CrossFitted:
    """Scores a method by cross-fitting on some rows of a pool.

    Args:
        settings: of the method; `num_folds` and `seed` are those of this cross-fitting too.
        rows: (rows,) numbers of examples, each once.
        num_repeats: at least 1, with other folds each time.

    Raises:
        ValueError: fewer than 2 groups of examples, or folds.
    """
    generator = np.random.default_rng((settings.seed, len(rows), 1))
    labels, groups = pool.labels[rows], pool.fold_groups[rows]
    num_folds = count_folds(pool.task, count_groups(groups), settings.num_folds)
    folds = np.stack([assign_folds(labels, num_folds, generator, groups) for _ in range(num_repeats)])
    values = np.empty((*folds.shape, *pool.values.shape[2:]))
    for found, own in zip(values, folds, strict=True):
        for outside, inside in iter_folds(own):
            chosen = method(pool, rows[outside], settings)
            found[inside] = values_of(pool.task, ensemble_outputs(pool, chosen, rows[inside]), labels[inside])
    return CrossFitted(task=pool.task, labels=labels, values=values, folds=folds, groups=pool.groups[rows])


def bootstrap(found: CrossFitted, *, num_resamples: int = NUM_RESAMPLES, seed: int = 0) -> Floats:
    """Returns the score on resampled examples, (resamples,); for a task, equal seeds and rows give equal resamples."""
    key = (seed, zlib.crc32(found.task.name.encode()), 2)
    blocks = draw_counts(len(found.labels), num_resamples, key, found.groups)
    return np.concatenate([score_resamples(found, counts) for counts in blocks])


def score_resamples(found: CrossFitted, counts: Floats) -> Floats:
    """Returns the score on resamples, given as counts of examples, (resamples, rows) -> (resamples,)."""
    if found.task.metric_entry.is_mean:
        return np.asarray(counts @ found.values.mean(0) / counts.sum(1))
    total, weights = np.zeros(len(counts)), np.zeros(len(counts))
    for values, rows in ((own, rows) for own, parts in zip(found.values, found.parts, strict=True) for rows in parts):
        own = counts[:, rows]
        held = own.sum(1)
        some = held > 0  # a resample may hold no example of a small fold
        total[some] += held[some] * score_counts(found.task, own[some], values[None, rows], found.labels[rows])[0]
        weights += held
    return total / weights


def widened(resampled: Floats, score: float, error: float) -> Floats:
    """Resampled scores shifted to a score and scaled to a standard error, which includes the variance of the choice.

    Where they are constant, quantiles of a normal distribution take their place.
    """
    around, spread = resampled - resampled.mean(), resampled.std(ddof=1)
    if spread <= ZERO_SPREAD:
        around = norm.ppf((np.arange(len(resampled)) + 0.5) / len(resampled))
        spread = around.std(ddof=1)
    return np.asarray(score + around * (error / spread))
