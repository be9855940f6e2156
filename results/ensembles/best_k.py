"""The best single candidate, the mean of the best k, and what all selection methods share.

Every selection method starts from the best epoch of each trial, by its score on the given rows. What it has to tune (k,
the shrinkage of weights) it tunes by folds of the same rows, and never by other rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from results.comparison.bootstrap import Floats, Numbers, score_examples
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Ensemble, equal_ensemble, find_knots, ranks_of
from results.ensembles.folds import assign_folds, iter_folds
from results.ensembles.outputs import Outputs


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of selection methods; each uses those that concern it."""

    max_models: int = 10
    """Most members, at least 1."""
    num_considered: int = 50
    """Best trials that greedy selection considers."""
    bags: int = 5
    """Random subsets of these whose ensembles are averaged; 0: no bagging."""
    num_steps: int = 30
    """Most additions of greedy selection."""
    num_folds: int = 5
    """Folds by which a method tunes itself."""
    seed: int = 0


Method = Callable[[Pool, Numbers, Settings], Ensemble]
"""Chooses an ensemble by the labels of some rows of a pool."""


def choose_single(pool: Pool, rows: Numbers, _settings: Settings) -> Ensemble:
    """The candidate with the best score."""
    return equal_ensemble(best_candidates(pool, rows)[:1])


def choose_best_k(pool: Pool, rows: Numbers, settings: Settings) -> Ensemble:
    """The mean of the best k candidates; k, from 1 to `max_models`, is tuned by folds, the smallest of equals."""
    scores = np.zeros(min(settings.max_models, pool.trial_numbers.max() + 1))
    for outside, inside in inner_folds(pool, rows, settings):
        scores += len(inside) * path_scores(pool, best_candidates(pool, outside)[: len(scores)], inside)
    return equal_ensemble(best_candidates(pool, rows)[: int(scores.argmax()) + 1])


def choose_best_k_ranks(pool: Pool, rows: Numbers, settings: Settings) -> Ensemble:
    """As `choose_best_k`, for regression, of mean ranks among the predictions for these rows, whatever their scale.

    The best `2 * max_models` trials are considered.
    """
    considered = best_candidates(pool, rows)[: 2 * settings.max_models]
    knots = [find_knots(pool.values[number, rows]) for number in considered]
    shortlist = pool.only(considered)
    ranks = [ranks_of(own, values) for own, values in zip(knots, shortlist.outputs.astype(np.float64), strict=True)]
    found = choose_best_k(replace(shortlist, outputs=np.stack(ranks).astype(np.float32)), rows, settings)
    members = tuple(int(considered[number]) for number in found.members)
    return Ensemble(members=members, weights=found.weights, knots=tuple(knots[number] for number in found.members))


def candidate_scores(pool: Pool, rows: Numbers) -> Floats:
    """Each candidate's score on some rows, (candidates,)."""
    if pool.task.metric == "pearson":
        return score_examples(pool.task, pool.values[:, rows].astype(np.float64), pool.labels[rows])
    counts = np.bincount(rows, minlength=len(pool.labels)).astype(np.float32)
    return (pool.values @ counts).astype(np.float64) / len(rows)  # whole numbers: exact in single precision to 2^24


def best_candidates(pool: Pool, rows: Numbers) -> Numbers:
    """The best epoch of each trial by its score on some rows, the first of equals; the best trial first."""
    order = np.argsort(-candidate_scores(pool, rows), kind="stable")
    _, first = np.unique(pool.trial_numbers[order], return_index=True)
    return order[np.sort(first)]


def inner_folds(pool: Pool, rows: Numbers, settings: Settings) -> list[tuple[Numbers, Numbers]]:
    """Folds of some rows: pairs of rows outside and inside; none for a single row."""
    if len(rows) < 2:
        return []
    generator = np.random.default_rng((settings.seed, len(rows)))
    folds = assign_folds(pool.labels[rows], min(settings.num_folds, len(rows)), generator)
    return [(rows[outside], rows[inside]) for outside, inside in iter_folds(folds)]


def path_scores(pool: Pool, members: Numbers, rows: Numbers) -> Floats:
    """The scores on some rows of the mean of the first member, the first two, and so on, (members,)."""
    return sum_scores(pool, np.stack(list(accumulate(pool.margins[members][:, :, rows]))), rows)


def sum_scores(pool: Pool, sums: Outputs, rows: Numbers) -> Floats:
    """Scores of sums of margins on some rows: (sums, others, rows) -> (sums,). A tie counts as wrong."""
    if pool.task.metric == "pearson":
        return score_examples(pool.task, sums[:, 0].astype(np.float64), pool.labels[rows])
    return share_ahead(sums > 0)


def share_ahead(is_ahead: npt.NDArray[np.bool_]) -> Floats:
    """The share of rows on which the right answer is ahead of all others: (sums, others, rows) -> (sums,)."""
    is_right = np.asarray(is_ahead[:, 0] if is_ahead.shape[1] == 1 else is_ahead.all(axis=1))
    return np.asarray([np.count_nonzero(row) / len(row) for row in is_right])
