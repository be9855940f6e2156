"""Trade-offs are cross-fitted at each limit of models; the Pareto front follows its definition."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from mtlib.tasks import TASKS, Task
from results.ensembles.best_k import choose_best_k, choose_single
from results.ensembles.greedy import choose_greedy
from results.ensembles.selection_method import Choose, Settings
from results.ensembles.stacking import choose_weights
from results.records.selection import TradeOff
from results.selection.cross_fitting import cross_fit
from results.selection.pareto import find_trade_offs, undominated
from tests.results.ensembles.simulated_pools import build_pool
from tests.results.selection.plain_selection import all_rows

BINARY = TASKS["qqp"]
METHODS: Mapping[str, Choose] = {
    "single": choose_single,
    "topk": choose_best_k,
    "weights": choose_weights,
    "greedy": choose_greedy,
}
FAST = Settings(bags=1, num_steps=6, max_models=4, num_folds=3)

each_task = pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))


def point(num_models: int, score: float) -> TradeOff:
    """A selection method with so many models and this score."""
    return TradeOff(
        name="topk",
        max_models=9,
        num_models=num_models,
        cross_fitted=score,
        standard_error=0.01,
        is_best=False,
    )


@pytest.mark.parametrize("seed", range(20))
def test_pareto_front_matches_a_sweep_along_the_cost(seed: int) -> None:
    random = np.random.default_rng(seed)
    costs, scores = np.sort(random.integers(1, 8, 25)), random.integers(0, 12, 25) / 12
    found = [point(int(cost), score) for cost, score in zip(costs, scores, strict=True)]
    expected, best = np.zeros(25, dtype=bool), -1.0
    for cost in range(1, 8):
        at_cost = np.flatnonzero(costs == cost)
        if len(at_cost) and scores[at_cost].max() > best:
            expected[at_cost[scores[at_cost].argmax()]] = True
            best = scores[at_cost].max()
    assert undominated(found) == expected.tolist()


def test_ties_go_to_the_first_and_equal_scores_to_the_cheaper() -> None:
    assert undominated([point(1, 0.5), point(1, 0.5), point(2, 0.5), point(3, 0.6), point(3, 0.6)]) == [
        *(True, False, False),
        *(True, False),
    ]


@each_task
def test_every_method_is_cross_fitted_at_every_number_of_models(task: Task) -> None:
    pool = build_pool(task, [0.5, 0.7, 0.6, 0.65, 0.4], num_rows=60, num_epochs=2, correlation=0.2)
    found = find_trade_offs(pool, pool, FAST, METHODS, num_repeats=2)
    tried = [(one.name, one.max_models) for one in found]
    expected = [("single", 1), *((name, size) for name in ("topk", "weights", "greedy") for size in (2, 3, 4))]
    assert sorted(tried) == sorted(expected)
    for one in found:
        settings = replace(FAST, max_models=one.max_models)
        fitted = cross_fit(pool, METHODS[one.name], settings, all_rows(pool), num_repeats=2)
        assert (one.cross_fitted, one.standard_error) == (fitted.score, fitted.standard_error)
        parts = [np.flatnonzero(folds != fold) for folds in fitted.folds for fold in range(3)]
        sizes = [len(METHODS[one.name](pool, rows, settings).members) for rows in (*parts, all_rows(pool))]
        assert one.num_models == max(sizes) <= one.max_models


@each_task
def test_points_are_ordered_by_cost_and_scores_rise_along_the_front(task: Task) -> None:
    pool = build_pool(task, [0.5, 0.7, 0.6, 0.65, 0.4], num_rows=60, correlation=0.2)
    found = find_trade_offs(pool, pool, FAST, METHODS)
    assert [one.num_models for one in found] == sorted(one.num_models for one in found)
    places = [list(METHODS).index(one.name) for one in found if one.num_models == 2]
    assert places == sorted(places)
    assert [one.is_best for one in found] == undominated(found)
    best = [(one.num_models, one.cross_fitted) for one in found if one.is_best]
    assert best == sorted(set(best))
    assert [score for _, score in best] == sorted({score for _, score in best})
    assert max(one.cross_fitted for one in found) == best[-1][1]


def test_members_have_weights_and_scores_cover_all_candidates() -> None:
    pool = build_pool(BINARY, [0.7] * 6, num_rows=200, correlation=0)
    kept = pool.only([1, 4])
    found = {(one.name, one.max_models): one for one in find_trade_offs(pool, kept, FAST, METHODS)}
    assert set(found) == {("single", 1), ("topk", 2), ("weights", 2), ("greedy", 2)}
    two = replace(FAST, max_models=2)
    assert found["topk", 2].cross_fitted == cross_fit(pool, choose_best_k, two, all_rows(pool)).score
    assert found["topk", 2].num_models == 2
