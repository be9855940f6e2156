"""The best single candidate, and the mean of the best k."""

from itertools import accumulate

import numpy as np

from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Ensemble, equal_ensemble
from results.ensembles.selection_method import Settings, best_candidates, inner_folds, sum_scores
from results.stats.resampling import Numbers


def choose_single(pool: Pool, rows: Numbers, _settings: Settings) -> Ensemble:
    """Returns the candidate with the best score."""
    return equal_ensemble(best_candidates(pool, rows)[:1])


def choose_best_k(pool: Pool, rows: Numbers, settings: Settings) -> Ensemble:
    """Returns the mean of the best k candidates;
    k, from 1 to `max_models`, is tuned by folds, the smallest of equals."""
    scores = np.zeros(min(settings.max_models, pool.trial_numbers.max() + 1))
    for outside, inside in inner_folds(pool, rows, settings):
        members = best_candidates(pool, outside)[: len(scores)]
        sums = np.stack(list(accumulate(pool.margins(members, inside))))  # the first member, the first two, and so on
        found = sum_scores(pool, sums, inside, np.arange(1, len(members) + 1))
        scores += len(inside) * np.pad(found, (0, len(scores) - len(found)), mode="edge")  # fewer than k: all of them
    return equal_ensemble(best_candidates(pool, rows)[: int(scores.argmax()) + 1])
