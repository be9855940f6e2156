"""What a selection method is: the entry of one, its function and settings, and what these functions share.

Every selection method starts from the best epoch of each trial, by its score on the given rows; of a regression, only
epochs on the scale of the labels count. What a method has to tune (k, the shrinkage of weights) it tunes by folds of
the same rows, and never by other rows.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from results.ensembles.candidates import Pool, array_digest
from results.ensembles.ensemble import Ensemble
from results.ensembles.folds import assign_folds, iter_folds
from results.ensembles.outputs import Outputs, values_behind
from results.stats.groups import count_groups
from results.stats.resampling import Floats, Numbers, score_examples

BLOCK = 100
"""Candidates that are scored at once: in double precision all would take several times the memory of their values."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of all selection methods; a method reads those that it needs.

    Source of bagged greedy selection: Caruana et al. 2004. docs/measurements/sweeps.md has what a selection costs.
    """

    max_models: int = 10
    """Most members, at least 1."""
    num_considered: int = 50
    """Best trials that greedy selection considers."""
    bags: int = 5
    """Random subsets of the considered trials whose greedy ensembles are averaged; 0: no bagging."""
    num_steps: int = 30
    """Most additions of greedy selection."""
    num_folds: int = 5
    """Folds by which a method tunes itself, and folds of cross-fitting."""
    seed: int = 0


Choose = Callable[[Pool, Numbers, Settings], Ensemble]
"""The function of a selection method: chooses an ensemble by the labels of some rows of a pool, and by no others."""


@dataclass(frozen=True, kw_only=True)
class SelectionMethod:
    """An entry of the table of selection methods (`results.ensembles.methods`)."""

    title: str
    """Shown in tables and verdicts."""
    choose: Choose
    before: str | None = None
    """The built-in method that a user's own one is simpler than; None: it is the least simple of all. Of methods
    within one standard error of the best, the simplest is taken."""


def candidate_scores(pool: Pool, rows: Numbers) -> Floats:
    """Returns each candidate's score on some rows, each once: (candidates,)."""
    if pool.task.metric_entry.reads == "right":
        is_counted = np.bincount(rows, minlength=len(pool.labels)).astype(np.float32)
        return np.asarray(
            (pool.values @ is_counted).astype(np.float64) / len(rows)
        )  # the numbers of right ones are exact
    labels = pool.labels[rows]
    return np.concatenate([score_examples(pool.task, values, labels) for values in blocks(pool, rows)])


def blocks(pool: Pool, rows: Numbers) -> Iterator[Floats]:
    """Yields the values of all candidates on some rows, `BLOCK` candidates at a time, (candidates, rows)."""
    for start in range(0, len(pool.candidates), BLOCK):
        yield pool.values[start : start + BLOCK, rows].astype(np.float64)


def best_candidates(pool: Pool, rows: Numbers) -> Numbers:
    """Returns the candidates that a method may choose from: the best epoch of each trial by its score on some rows.

    The first of equals counts; the best trial is first. A regression's candidates that are off the scale of the
    labels are left out (`is_on_scale`): a correlation does not show this, and a mean with others would be off it too.
    """
    key = array_digest(rows)
    if key not in pool.rankings:
        order = np.argsort(-candidate_scores(pool, rows), kind="stable")
        if pool.task.is_regression:
            order = order[is_on_scale(pool, rows, order[0])[order]]
        _, first_of_trials = np.unique(pool.trial_numbers[order], return_index=True)
        pool.rankings[key] = order[np.sort(first_of_trials)]
    return pool.rankings[key]


def is_on_scale(pool: Pool, rows: Numbers, best: int) -> npt.NDArray[np.bool_]:
    """Returns whether a regression's candidates have the scale of the labels about as the best one has it,
    (candidates,).

    A mean squared error is the squared mean error, plus (c - 1)^2 times the variance of the labels, where c is the
    slope of the predictions on the labels, plus noise, which a mean of several candidates reduces. The first part may
    be above the best one's by two standard errors of its mean squared error; the second may be as large as that error.
    """
    labels = pool.labels[rows]
    shifts, stretches = np.concatenate([scale_errors(values, labels) for values in blocks(pool, rows)], axis=1)
    squares = (pool.values[best, rows].astype(np.float64) - labels) ** 2
    is_shifted = shifts > shifts[best] + 2 * squares.std() / np.sqrt(len(rows))
    return np.asarray(~is_shifted & (stretches <= max(stretches[best], squares.mean())))


def scale_errors(predictions: Floats, labels: Floats) -> Floats:
    """Returns the first two parts of `is_on_scale`, (2, candidates);
    predictions are (candidates, rows), labels (rows,)."""
    errors, centred = predictions - labels, labels - labels.mean()
    spread = np.sqrt((centred * centred).sum())
    stretches = errors @ centred / spread if spread > 0 else np.zeros(len(errors))
    return np.stack([errors.mean(1) ** 2, stretches**2 / len(labels)])


def inner_folds(pool: Pool, rows: Numbers, settings: Settings) -> list[tuple[Numbers, Numbers]]:
    """Folds of some rows: pairs of rows outside and inside; none for a single group of rows."""
    groups = pool.fold_groups[rows]
    num_folds = min(settings.num_folds, count_groups(groups))
    if num_folds < 2:
        return []
    generator = np.random.default_rng((settings.seed, len(rows)))
    folds = assign_folds(pool.labels[rows], num_folds, generator, groups)
    return [(rows[outside], rows[inside]) for outside, inside in iter_folds(folds)]


def sum_scores(pool: Pool, sums: Outputs, rows: Numbers, sizes: npt.ArrayLike = 1) -> Floats:
    """Scores of sums of margins on some rows. A tie counts as wrong.

    Args:
        sums: (sums, others, rows).
        rows: (rows,).
        sizes: the sum of the weights in each sum, or in all: what makes it a mean.

    Returns:
        (sums,).
    """
    metric, labels = pool.task.metric_entry, pool.labels[rows]
    if metric.reads == "right":
        return np.asarray((sums.min(axis=1) > 0).mean(axis=1))
    if metric.has_scale:
        sums = sums / np.reshape(sizes, (-1, 1, 1))
    return score_examples(pool.task, values_behind(pool.task, sums, labels), labels)
