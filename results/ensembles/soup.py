"""Weight soups: one model, whose weights are the mean of those of several trials, selected by its scores.

All candidates of a pool here have their weights still; only those of one shape can be averaged.

Source: Wortsman et al. (2022), "Model soups: averaging weights of multiple fine-tuned models improves accuracy without
increasing inference time".
"""

from collections.abc import Callable, Sequence

import numpy as np

from results.analysis.comparison.bootstrap import Floats, Numbers
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Ensemble, equal_ensemble, score_rows
from results.ensembles.folds import count_folds
from results.ensembles.outputs import Outputs
from results.ensembles.selection_method import Choose, Settings, best_candidates

PredictSoup = Callable[[tuple[int, ...]], Outputs]
"""Outputs for all rows of a pool, (rows, width), of the model with the mean weights of some of its candidates, which
are numbers in ascending order."""


def predict_once(pool: Pool, predict: PredictSoup) -> PredictSoup:
    """As `predict`, but no soup is computed twice; outputs of a single candidate come from the pool."""
    known: dict[tuple[int, ...], Outputs] = {}

    def look_up(members: tuple[int, ...]) -> Outputs:
        if len(members) == 1:
            return np.asarray(pool.outputs[members[0]])
        if members not in known:
            known[members] = predict(members)
        return known[members]

    return look_up


def soup_outputs(predict: PredictSoup) -> Callable[[Pool, Ensemble, Numbers], Floats]:
    """A function that gives the outputs on some rows, (rows, width), of an ensemble's members averaged to one model."""

    def combine(_pool: Pool, ensemble: Ensemble, rows: Numbers) -> Floats:
        return predict(tuple(sorted(ensemble.members)))[rows].astype(np.float64)

    return combine


def uniform_soup(shapes: Numbers) -> Choose:
    """The selection method that averages the best `max_models` trials.

    Args:
        shapes: (candidates,): equal where weights can be averaged.

    Source: Wortsman et al. (2022), table 2, "uniform soup"; theirs is of all models.
    """

    def choose(pool: Pool, rows: Numbers, settings: Settings) -> Ensemble:
        return equal_ensemble(list_ingredients(pool, rows, shapes)[: settings.max_models])

    return choose


def greedy_soup(predict: PredictSoup, shapes: Numbers) -> Choose:
    """The selection method that adds trials in the order of their scores, each if the soup is at least as good with it.

    The best `num_considered` trials are tried, and at most `max_models` kept. It begins with the best one, so that on
    the rows that it is chosen by no soup is worse than that.

    Args:
        predict: of soups of the pool.
        shapes: (candidates,): equal where weights can be averaged.

    Source: Wortsman et al. (2022), algorithm 1, "GreedySoup"; theirs considers all models and may keep all of them.
    """

    def choose(pool: Pool, rows: Numbers, settings: Settings) -> Ensemble:
        first, *others = list_ingredients(pool, rows, shapes)[: settings.num_considered].tolist()
        kept, best = [first], score_soup(pool, predict, [first], rows)
        for number in others:
            if len(kept) == settings.max_models:
                break
            score = score_soup(pool, predict, [*kept, number], rows)
            if score >= best:
                kept, best = [*kept, number], score
        return equal_ensemble(np.array(kept))

    return choose


def score_soup(pool: Pool, predict: PredictSoup, members: Sequence[int], rows: Numbers) -> float:
    """The task's main metric of a soup on some rows."""
    return score_rows(pool, predict(tuple(sorted(members)))[rows], rows)


def list_ingredients(pool: Pool, rows: Numbers, shapes: Numbers) -> Numbers:
    """The candidates that can be averaged with the best one: the best epoch of each trial by its score on some rows.

    Args:
        pool: the candidates.
        rows: examples to score by.
        shapes: (candidates,): equal where weights can be averaged.

    Returns:
        Numbers of candidates that have the best one's shape, the best trial first.
    """
    best = best_candidates(pool, rows)
    return np.asarray(best[shapes[best] == shapes[best[0]]])


def most_soups(pool: Pool, shapes: Numbers, settings: Settings, num_repeats: int) -> int:
    """The most soups that are computed where both methods, and choosing between them, are cross-fitted.

    Soups that several folds share are computed once, so that it may be far fewer.
    """
    sizes = [len(set(pool.trial_numbers[shapes == shape])) for shape in np.unique(shapes)]
    most, folds = min(max(sizes), settings.num_considered), count_folds(pool.task, len(pool.labels), settings.num_folds)
    if most == 1 or settings.max_models == 1:
        return 0
    num_choices = 1 + num_repeats * folds * (1 + folds)  # by all examples, without each fold, and without a fold more
    return num_choices * most  # a uniform soup, and one for each trial that may be added to the first
