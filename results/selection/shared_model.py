"""The best single model for all tasks together, and its cross-fitted score: predicting costs one model."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from mtlib.runtime.errors import require
from mtlib.tasks import overall_score
from results.ensembles.candidates import Candidate, Pool
from results.ensembles.folds import assign_folds, count_folds
from results.ensembles.selection_method import Settings, candidate_scores
from results.selection.cross_fitting import CrossFitted
from results.stats.groups import count_groups
from results.stats.resampling import Floats, Numbers

Pools = Mapping[str, Pool]
"""By task; in each, the same candidates at the same places."""


@dataclass(frozen=True, kw_only=True)
class SharedModel:
    """The chosen candidate and its scores."""

    candidate: Candidate
    in_sample: Mapping[str, float]
    """Dev score by task, which is too high."""
    fitted: Mapping[str, CrossFitted]
    """By task."""


def choose_shared_model(pools: Pools, settings: Settings, *, num_repeats: int = 1) -> SharedModel:
    """Chooses the candidate with the best overall score, and cross-fits that choice over all tasks at once.

    Raises:
        ValueError: no candidate was scored on all tasks, or the weights of none of them were kept.
    """
    shared = with_common_candidates(pools)
    everything = {task: np.arange(len(pool.labels)) for task, pool in shared.items()}
    scores = overall_scores(shared, everything)
    candidates = next(iter(shared.values())).candidates
    has_weights = np.array([candidate.has_weights for candidate in candidates])
    require(bool(has_weights.any()), "some candidate for all tasks must have its weights still", "none")
    best = int(np.where(has_weights, scores, -np.inf).argmax())
    in_sample = {task: float(candidate_scores(pool, everything[task])[best]) for task, pool in shared.items()}
    fitted = cross_fit_shared(shared, settings, num_repeats)
    return SharedModel(candidate=candidates[best], in_sample=in_sample, fitted=fitted)


def with_common_candidates(pools: Pools) -> dict[str, Pool]:
    """Returns the pools restricted to candidates that all of them have, in one order."""
    places = {
        task: {(one.sweep, one.trial, one.epoch): place for place, one in enumerate(pool.candidates)}
        for task, pool in pools.items()
    }
    first, *others = places.values()
    ordered = [key for key in first if all(key in other for other in others)]
    require(bool(ordered), f"some candidate must have been scored on {', '.join(pools)}", "none")
    return {task: pool.only([places[task][key] for key in ordered]) for task, pool in pools.items()}


def overall_scores(pools: Pools, rows: Mapping[str, Numbers]) -> Floats:
    """Returns the overall score of each candidate on some rows of each task, (candidates,)."""
    scores = {task: candidate_scores(pool, rows[task]) for task, pool in pools.items()}
    tasks = {task: pool.task for task, pool in pools.items()}
    by_candidate = (dict(zip(scores, own, strict=True)) for own in zip(*scores.values(), strict=True))
    return np.array([overall_score(own, tasks) for own in by_candidate])


def cross_fit_shared(pools: Pools, settings: Settings, num_repeats: int) -> dict[str, CrossFitted]:
    """Scores inside a fold of every task the candidate that was chosen outside these folds; by task."""
    generator = np.random.default_rng((settings.seed, 3))
    most, groups = settings.num_folds, {task: pool.fold_groups for task, pool in pools.items()}
    num_folds = min(count_folds(pool.task, count_groups(groups[task]), most) for task, pool in pools.items())
    drawn = [
        {task: assign_folds(pool.labels, num_folds, generator, groups[task]) for task, pool in pools.items()}
        for _ in range(num_repeats)
    ]
    folds = {task: np.stack([own[task] for own in drawn]) for task in pools}
    values = {task: np.empty((*own.shape, *pools[task].values.shape[2:])) for task, own in folds.items()}
    for repeat, fold in product(range(num_repeats), range(num_folds)):
        is_inside = {task: own[repeat] == fold for task, own in folds.items()}
        best = int(overall_scores(pools, {task: np.flatnonzero(~own) for task, own in is_inside.items()}).argmax())
        for task, own in is_inside.items():
            values[task][repeat, own] = pools[task].values[best, own]
    return {
        task: CrossFitted(
            task=pool.task, labels=pool.labels, values=values[task], folds=folds[task], groups=pool.groups
        )
        for task, pool in pools.items()
    }
