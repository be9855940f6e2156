"""The model confidence set of a task: the configurations that contain the best one with 95 % confidence."""

import numpy as np
import numpy.typing as npt

from results.comparison.bootstrap import CONFIDENCE, Floats, Numbers, bootstrap_scores, score_examples
from results.ensembles.candidates import Pool
from results.ensembles.selection_method import best_candidates
from results.scoring.base_configuration import ConfigurationKey

EQUAL_WITHIN = 1e-9
"""Largest difference of scores that count as equal."""


def find_confidence_set(pool: Pool, *, seed: int = 0) -> list[ConfigurationKey]:
    """The model confidence set of a task's configurations, the best first.

    A configuration's score is the mean over its replicates, each at its best epoch on these examples, which slightly
    favours those with more epochs. Examples are resampled, the same for all; the variance of training is left out. The
    pool includes copies, as two configurations may have equal outputs.
    """
    best = best_candidates(pool, np.arange(len(pool.labels)))
    found: dict[ConfigurationKey, list[int]] = {}
    for place, number in enumerate(best):
        candidate = pool.candidates[number]
        found.setdefault((candidate.sweep, candidate.number), []).append(place)
    scores, resampled = score_candidates(pool, best, seed)
    names = list(found)
    score = np.array([scores[places].mean() for places in found.values()])
    draws = np.stack([resampled[places].mean(0) for places in found.values()])
    _, first, equal = np.unique(draws, axis=0, return_index=True, return_inverse=True)  # equal ones count once
    may_be_best = model_confidence_set(score[first], draws[first])[equal.ravel()]
    return [names[number] for number in np.argsort(-score, kind="stable") if may_be_best[number]]


def score_candidates(pool: Pool, numbers: Numbers, seed: int) -> tuple[Floats, Floats]:
    """Scores of some candidates, and the same on resamples: (candidates,) and (candidates, resamples).

    Copies are scored once, so that rounding cannot make their scores differ.
    """
    known: dict[bytes, int] = {}
    same = [known.setdefault(pool.values[number].tobytes(), len(known)) for number in numbers]
    _, first = np.unique(same, return_index=True)
    values = pool.values[numbers[first]].astype(np.float64)
    resampled = bootstrap_scores(pool.task, values, pool.labels, groups=pool.groups, seed=seed)
    return score_examples(pool.task, values, pool.labels)[same], resampled[same]


def model_confidence_set(scores: Floats, resampled: Floats, confidence: float = CONFIDENCE) -> npt.NDArray[np.bool_]:
    """The model confidence set: which scores are left when the test no longer rejects that all are equal.

    With d_i the score of i minus the mean of those that are left, and s_i its standard deviation over resamples, the
    test statistic is max_i -d_i / s_i, and its distribution that of the resamples about the scores. While it is beyond
    the quantile, the one with the largest -d_i / s_i is eliminated.

    Args:
        scores: (models,), higher is better.
        resampled: the same on the same resamples of examples, (models, resamples).
        confidence: that the best one is left, above 0 and below 1.

    Returns:
        (models,): which are left; at least one, and always the highest.

    Source: Hansen, Lunde and Nason (2011), "The Model Confidence Set", sections 2.1 and 3.1.2, T_max and its
    elimination rule, for scores of examples instead of losses over time.
    """
    left = np.arange(len(scores))
    noise = resampled - resampled.mean(axis=1, keepdims=True)
    while len(left) > 1:
        behind = scores[left].mean() - scores[left]
        drawn = noise[left].mean(axis=0) - noise[left]  # (left, resamples)
        spread = drawn.std(axis=1, ddof=1)
        is_sure = spread <= EQUAL_WITHIN  # no resample moves it: the difference is certain, or 0
        statistic = np.where(is_sure, np.where(behind > EQUAL_WITHIN, np.inf, 0), behind / np.where(is_sure, 1, spread))
        largest = np.where(is_sure[:, None], 0, drawn / np.where(is_sure, 1, spread)[:, None]).max(axis=0)
        if statistic.max() <= np.quantile(largest, confidence):
            break
        left = np.delete(left, int(statistic.argmax()))
    found = np.zeros(len(scores), dtype=bool)
    found[left] = True
    return found
