"""Cross-fitted scores: each example is scored by the ensemble that a selection method chose without its fold.

Epochs, trials, their number and weights are all chosen without the fold. The score is that of a choice by fewer
examples, so it is slightly too low. It does not correct for a search or a scheduler that used all examples.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.stats import norm

from mtlib.tasks import Task
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import ensemble_outputs
from results.ensembles.folds import assign_folds, count_folds, iter_folds
from results.ensembles.outputs import values_of
from results.ensembles.selection_method import Choose, Settings
from results.stats.covariance import influence_values
from results.stats.groups import count_groups, sum_groups
from results.stats.resampling import (
    CONFIDENCE,
    NUM_RESAMPLES,
    Floats,
    Numbers,
    draw_counts,
    percentile_interval,
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
    """Each example's contribution to the score of an ensemble that was chosen without it."""

    task: Task
    labels: Floats
    """(rows,)."""
    values: Floats
    """(repeats, rows), from `results.ensembles.outputs.values_of`."""
    folds: Numbers
    """(repeats, rows): each example's fold."""
    groups: Numbers
    """(rows,): the number of the group of examples that each one is drawn with."""

    @property
    def score(self) -> float:
        """Over all examples, or where the metric is scored by fold in each fold, averaged by size; over repeats."""
        parts = list(self.parts())
        return float(np.average([part.score for part in parts], weights=[len(part.rows) for part in parts]))

    @property
    def mean_absolute_error(self) -> float | None:
        """Of a regression's predictions, in the unit of its labels, over all examples and repeats; None of classes."""
        return float(np.abs(self.values - self.labels).mean()) if self.task.kind == "regression" else None

    @property
    def repeats(self) -> "list[CrossFitted]":
        """Each repeat by itself."""
        pairs = zip(self.values[:, None], self.folds[:, None], strict=True)
        return [replace(self, values=values, folds=folds) for values, folds in pairs]

    @cached_property
    def influences(self) -> Floats:
        """Each group's influence on the score of each repeat, (repeats, groups); a repeat's mean is 0.

        It is the sum over its examples, times the number of groups, divided by that of examples. That of an example is
        the metric's, in its fold for metrics that are scored by fold; for a correlation times the root of n / (n - 4)
        for n groups. With that, the estimated variance of the correlation of two normal variables is within 5 % of the
        truth from 20 examples on, without it up to 22 % too low: two means and two variances are fitted.
        """
        total = np.zeros(self.values.shape)
        for own, repeat in zip(total, self.repeats, strict=True):
            for part in repeat.parts():
                own[part.rows] = part.influences
        found = sum_groups(total, self.groups)
        return np.asarray(found * (found.shape[1] / len(self.labels)))

    @property
    def standard_error(self) -> float:
        """Of the score, over examples and over the choice of the ensemble."""
        found = total_error(self.influences, np.array([repeat.score for repeat in self.repeats]))
        return max(found, self.least_error)

    @property
    def least_error(self) -> float:
        """Of classification, where few are wrong: of 2 right ones of n + 4, for n groups (Agresti and Coull 1998)."""
        num_groups = count_groups(self.groups)
        share = 2 / (num_groups + 4)
        return 0.0 if self.task.kind == "regression" else float(np.sqrt(share * (1 - share) / num_groups))

    def parts(self) -> Iterator["ScoredRows"]:
        """Every fold of every repeat where the metric is scored by fold; else every repeat whole."""
        for values, folds in zip(self.values, self.folds, strict=True):
            for fold in range(int(folds.max()) + 1) if self.task.metric_entry.is_scored_by_fold else [None]:
                rows = np.arange(len(folds)) if fold is None else np.flatnonzero(folds == fold)
                own = {"values": values[rows], "labels": self.labels[rows], "groups": self.groups[rows]}
                yield ScoredRows(task=self.task, rows=rows, **own)


def total_error(influences: Floats, scores: Floats) -> float:
    """The standard error of a cross-fitted score, or of the difference of two, as an estimate for the final ensemble.

    The variance over examples is that of a single repeat, as the final ensemble is one, not the mean over repeats. The
    choice of the ensemble varies too: `CHOICE_FACTOR` times the variance between repeats is added.

    Args:
        influences: (repeats, groups), of which each repeat's mean is 0.
        scores: (repeats,).
    """
    choice = CHOICE_FACTOR * scores.var(ddof=1) if len(scores) > 1 else 0.0
    return float(np.sqrt(example_error(influences) ** 2 + choice))


def example_error(influences: Floats) -> float:
    """The standard error over examples alone, of a single repeat, from influences, (repeats, groups)."""
    return float(np.sqrt((influences**2).mean() / influences.shape[1]))


@dataclass(frozen=True, kw_only=True)
class ScoredRows:
    """Examples that are scored together."""

    task: Task
    rows: Numbers
    values: Floats
    labels: Floats
    groups: Numbers

    @property
    def score(self) -> float:
        """Of the task."""
        return float(score_examples(self.task, self.values[None], self.labels)[0])

    @property
    def influences(self) -> Floats:
        """Of each example, as in `CrossFitted.influences`."""
        found = influence_values(self.task, self.values[None], self.labels)[0]
        count, num_fitted = count_groups(self.groups), self.task.metric_entry.num_fitted
        return np.asarray(found * np.sqrt(count / max(1, count - num_fitted))) if num_fitted else found


def cross_fit(
    pool: Pool,
    method: Choose,
    settings: Settings,
    rows: Numbers,
    *,
    num_repeats: int = 1,
) -> CrossFitted:
    """Scores a method by cross-fitting on some rows of a pool.

    Args:
        settings: of the method; `num_folds` and `seed` are those of this cross-fitting too.
        rows: (rows,) numbers of examples, each once.
        num_repeats: at least 1, with other folds each time.

    Raises:
        ValueError: fewer than 2 groups of examples, or folds.
    """
    generator = np.random.default_rng((settings.seed, len(rows), 1))
    labels, groups, values, folds = pool.labels[rows], pool.groups[rows], [], []
    num_folds = count_folds(pool.task, count_groups(groups), settings.num_folds)
    for _ in range(num_repeats):
        folds.append(assign_folds(labels, num_folds, generator, groups))
        found = np.empty(len(rows))
        for outside, inside in iter_folds(folds[-1]):
            chosen = method(pool, rows[outside], settings)
            outputs = ensemble_outputs(pool, chosen, rows[inside])
            found[inside] = values_of(pool.task, outputs, labels[inside])
        values.append(found)
    return CrossFitted(task=pool.task, labels=labels, values=np.stack(values), folds=np.stack(folds), groups=groups)


def bootstrap(found: CrossFitted, *, num_resamples: int = NUM_RESAMPLES, seed: int = 0) -> Floats:
    """The score on resampled examples, (resamples,); for a task, equal seeds and rows give equal resamples."""
    key = (seed, zlib.crc32(found.task.name.encode()), 2)
    blocks = draw_counts(len(found.labels), num_resamples, key, found.groups)
    return np.concatenate([score_resamples(found, counts) for counts in blocks])


def score_resamples(found: CrossFitted, counts: Floats) -> Floats:
    """The score on resamples, given as counts of examples, (resamples, rows) -> (resamples,)."""
    if found.task.metric_entry.is_mean:
        return np.asarray(counts @ found.values.mean(0) / counts.sum(1))
    total, weights = np.zeros(len(counts)), np.zeros(len(counts))
    for part in found.parts():
        own = counts[:, part.rows]
        held = own.sum(1)
        some = held > 0  # a resample may hold no example of a small fold
        total[some] += held[some] * score_counts(found.task, own[some], part.values[None], part.labels)[0]
        weights += held
    return total / weights


def interval(resampled: Floats) -> tuple[float, float]:
    """The percentile interval of resampled scores, (resamples,)."""
    low, high = percentile_interval(resampled)
    return float(low), float(high)


def widened(resampled: Floats, score: float, error: float) -> Floats:
    """Resampled scores shifted to a score and scaled to a standard error, which includes the variance of the choice.

    Where they are constant, quantiles of a normal distribution take their place.
    """
    around, spread = resampled - resampled.mean(), resampled.std(ddof=1)
    if spread <= ZERO_SPREAD:
        around = norm.ppf((np.arange(len(resampled)) + 0.5) / len(resampled))
        spread = around.std(ddof=1)
    return np.asarray(score + around * (error / spread))


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A cross-fitted score, or sums and differences of several, of the same examples and folds."""

    scores: Floats
    """(repeats,)."""
    influences: Floats
    """(repeats, groups), as `results.selection.cross_fitting.CrossFitted.influences`."""
    resampled: Floats
    """(resamples,)."""
    least_error: float = 0.0
    """The standard error is at least this."""

    def __add__(self, other: "Estimate") -> "Estimate":
        return Estimate(
            scores=self.scores + other.scores,
            influences=self.influences + other.influences,
            resampled=self.resampled + other.resampled,
            least_error=max(self.least_error, other.least_error),
        )

    def __neg__(self) -> "Estimate":
        return Estimate(scores=-self.scores, influences=-self.influences, resampled=-self.resampled)

    def __sub__(self, other: "Estimate") -> "Estimate":
        return -(-self + other)  # of a difference no least error is known

    @property
    def score(self) -> float:
        """Mean over repeats."""
        return float(self.scores.mean())

    @property
    def standard_error(self) -> float:
        """Of the score."""
        return max(total_error(self.influences, self.scores), self.least_error)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the score."""
        return interval(widened(self.resampled, self.score, self.standard_error))


def estimate_score(fitted: CrossFitted, resampled: Floats) -> Estimate:
    """The score of one selection method, from it and its scores on resampled examples."""
    return Estimate(
        scores=np.array([repeat.score for repeat in fitted.repeats]),
        influences=fitted.influences,
        resampled=resampled,
        least_error=fitted.least_error,
    )


def simultaneous_quantile(estimates: Sequence[Estimate]) -> float:
    """By how many standard errors one of several estimates is off at most, with a probability of 95 %.

    It is the quantile over resamples of the largest deviation from the mean, in standard deviations, and not below that
    of a single normal variable. Estimates that no resample changes do not count.

    Source: Romano and Wolf (2005), "Exact and approximate stepdown methods for multiple hypothesis testing", section
    4.2, without the steps.
    """
    draws = np.stack([estimate.resampled for estimate in estimates])
    spread = draws.std(axis=1, ddof=1, keepdims=True)
    varied = (spread > ZERO_SPREAD)[:, 0]
    single = float(norm.ppf((1 + CONFIDENCE) / 2))
    if not varied.any():
        return single
    deviations = np.abs(draws - draws.mean(axis=1, keepdims=True))[varied] / spread[varied]
    return max(single, float(np.quantile(deviations.max(axis=0), CONFIDENCE)))
