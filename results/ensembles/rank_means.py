"""The mean of ranks instead of scores: for a correlation it does not matter how each model spaces its predictions."""

from dataclasses import replace

import numpy as np

from results.ensembles.best_k import Settings, best_candidates, choose_best_k
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Ensemble, find_knots, ranks_of
from results.ranking.bootstrap import Numbers


def choose_best_k_ranks(pool: Pool, rows: Numbers, settings: Settings) -> Ensemble:
    """As `choose_best_k`, of mean ranks among the predictions for these rows; for regression alone.

    Considered are twice as many trials as there may be members, the best by their scores.
    """
    considered = best_candidates(pool, rows)[: 2 * settings.max_models]
    knots = [find_knots(pool.values[number, rows]) for number in considered]
    ranked = rank_pool(pool.only(considered), knots)
    found = choose_best_k(ranked, rows, settings)
    members = tuple(int(considered[number]) for number in found.members)
    return Ensemble(members=members, weights=found.weights, knots=tuple(knots[number] for number in found.members))


def rank_pool(pool: Pool, knots: list[tuple[float, ...]]) -> Pool:
    """A pool whose candidates say their ranks, 0 to 1, among predictions with these quantiles, by candidate."""
    ranks = [ranks_of(own, values) for own, values in zip(knots, pool.outputs.astype(np.float64), strict=True)]
    return replace(pool, outputs=np.stack(ranks).astype(np.float32))
