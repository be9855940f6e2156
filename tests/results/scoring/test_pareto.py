"""Trade-offs are those of cross-fitting at each limit; the Pareto set is that of its definition."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from mtlib.tasks import TASKS, Task
from results.ensembles.best_k import Method, Settings, choose_best_k, choose_single, within_latency
from results.ensembles.candidates import Pool
from results.ensembles.greedy import choose_greedy
from results.ensembles.stacking import choose_weights
from results.records.selection import TradeOff
from results.scoring.cross_fitting import cross_fit
from results.scoring.pareto import TOLERANCE, find_speeds, find_trade_offs, list_sizes, pareto_set
from tests.results.plain_selection import all_rows
from tests.results.simulated_pools import build_pool

BINARY = TASKS["qqp"]
METHODS: Mapping[str, Method] = {
    "single": choose_single,
    "topk": choose_best_k,
    "weights": choose_weights,
    "greedy": choose_greedy,
}
FEW: Mapping[str, Method] = {"single": choose_single, "topk": choose_best_k}
FAST = Settings(num_bags=1, num_steps=6, max_models=4, num_folds=3)

each_task = pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))


def point(cost: float, score: float, *, is_measured: bool = True) -> TradeOff:
    """A way to choose that costs so much and scores so well."""
    return TradeOff(
        name="topk",
        max_models=9,
        num_models=2 if is_measured else int(cost),
        latency_ms=cost if is_measured else None,
        cross_fitted=score,
        standard_error=0.01,
        is_best=False,
    )


def timed(pool: Pool, latencies: Sequence[float]) -> Pool:
    return replace(pool, latencies=np.array(latencies, dtype=np.float64))


@pytest.mark.parametrize(
    ("most", "sizes"),
    [
        (1, [1]),
        (2, [1, 2]),
        (4, [1, 2, 3, 4]),
        (5, [1, 2, 3, 5]),
        (10, [1, 2, 3, 5, 10]),
        (24, [1, 2, 3, 5, 10, 20, 24]),
        (1000, [1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000]),
    ],
)
def test_numbers_of_models_are_few_and_end_at_the_limit(most: int, sizes: list[int]) -> None:
    assert list_sizes(most) == sizes


@pytest.mark.parametrize(
    ("latencies", "speeds"),
    [
        ([10.0], [10]),
        ([10.0, 9.0, 5.1], [10]),
        ([5.0, 10.0, 4.0, 9.0], [10, 5]),
        ([80.0, 20.0, 21.0, 4.0, 70.0, 10.5], [80, 21, 10.5, 4]),
        ([0.0, 0.0], [0]),
        ([3.0, 0.0], [3, 0]),
    ],
)
def test_speeds_are_those_that_differ_by_half(latencies: list[float], speeds: list[float]) -> None:
    assert find_speeds(np.array(latencies)) == speeds


@pytest.mark.parametrize("seed", range(20))
def test_the_pareto_set_is_that_of_a_sweep_along_the_cost(seed: int) -> None:
    random = np.random.default_rng(seed)
    costs, scores = np.sort(random.integers(1, 8, 25)), random.integers(0, 12, 25) / 12
    found = [point(cost, score, is_measured=False) for cost, score in zip(costs, scores, strict=True)]
    expected, best = np.zeros(25, dtype=bool), -1.0
    for cost in range(1, 8):
        at_cost = np.flatnonzero(costs == cost)
        if len(at_cost) and scores[at_cost].max() > best:
            expected[at_cost[scores[at_cost].argmax()]] = True
            best = scores[at_cost].max()
    assert pareto_set(found) == expected.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_the_pareto_set_of_latencies_is_that_of_its_definition(seed: int) -> None:
    random = np.random.default_rng(seed)
    costs, scores = np.sort(random.uniform(10, 20, 25)), random.integers(0, 12, 25) / 12
    found = [point(cost, score) for cost, score in zip(costs.tolist(), scores.tolist(), strict=True)]
    steps = np.round(np.log(costs) / np.log(1 + TOLERANCE))

    def is_beaten(place: int) -> bool:
        rivals = np.flatnonzero(steps <= steps[place])
        is_worse = any(scores[other] > scores[place] for other in rivals)
        return is_worse or any(scores[other] == scores[place] for other in range(place))

    assert pareto_set(found) == [not is_beaten(place) for place in range(25)]
    assert any(pareto_set(found))


def test_the_cheapest_of_a_row_of_latencies_that_are_alike_is_not_lost() -> None:
    """Each is within 5 % of the next one, the last is three times the first."""
    found = [point(10 * 1.04**step, 0.5 + step / 100) for step in range(29)]
    marked = pareto_set(found)
    assert marked[0] or marked[1]
    assert sum(marked) > 15


def test_of_equals_the_first_is_marked_and_of_equal_scores_the_cheaper() -> None:
    assert pareto_set([point(1, 0.5), point(1, 0.5), point(2, 0.5), point(3, 0.6), point(3, 0.6)]) == [
        *(True, False, False),
        *(True, False),
    ]


def test_numbers_of_models_differ_however_little_and_latencies_as_far_as_they_can_be_measured() -> None:
    scores = [0.5, 0.6]
    for costs, expected in (([20.5, 21.0], [False, True]), ([20.5, 22.0], [True, True])):
        assert pareto_set([point(*own) for own in zip(costs, scores, strict=True)]) == expected
    counts = zip([40, 41], scores, strict=True)
    assert pareto_set([point(*own, is_measured=False) for own in counts]) == [True, True]


@each_task
def test_every_way_is_cross_fitted_at_every_number_of_models(task: Task) -> None:
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
        assert one.latency_ms is one.max_latency_ms is None


@each_task
def test_they_come_the_cheapest_first_and_scores_rise_along_the_pareto_set(task: Task) -> None:
    pool = build_pool(task, [0.5, 0.7, 0.6, 0.65, 0.4], num_rows=60, correlation=0.2)
    found = find_trade_offs(pool, pool, FAST, METHODS)
    assert [one.num_models for one in found] == sorted(one.num_models for one in found)
    places = [list(METHODS).index(one.name) for one in found if one.num_models == 2]
    assert places == sorted(places)
    assert [one.is_best for one in found] == pareto_set(found)
    best = [(one.num_models, one.cross_fitted) for one in found if one.is_best]
    assert best == sorted(set(best))
    assert [score for _, score in best] == sorted({score for _, score in best})
    assert max(one.cross_fitted for one in found) == best[-1][1]


def test_what_is_chosen_is_of_those_that_were_kept_and_scores_are_of_all() -> None:
    pool = build_pool(BINARY, [0.7] * 6, num_rows=200, correlation=0)
    kept = pool.only([1, 4])
    found = {(one.name, one.max_models): one for one in find_trade_offs(pool, kept, FAST, METHODS)}
    assert set(found) == {("single", 1), ("topk", 2), ("weights", 2), ("greedy", 2)}
    two = replace(FAST, max_models=2)
    assert found["topk", 2].cross_fitted == cross_fit(pool, choose_best_k, two, all_rows(pool)).score
    assert found["topk", 2].num_models == 2


@pytest.mark.parametrize("latencies", [None, [10.0]])
def test_one_candidate_is_the_whole_pareto_set(latencies: list[float] | None) -> None:
    pool = build_pool(BINARY, [0.7], num_rows=30)
    pool = pool if latencies is None else timed(pool, latencies)
    (found,) = find_trade_offs(pool, pool, FAST, METHODS)
    assert (found.name, found.max_models, found.num_models, found.is_best) == ("single", 1, 1, True)
    assert found.latency_ms == (None if latencies is None else 10)


@each_task
def test_latencies_that_are_alike_change_no_choice_and_are_those_of_all_members(task: Task) -> None:
    pool = build_pool(task, [0.5, 0.7, 0.6, 0.65, 0.4], num_rows=60, correlation=0.2)
    plain, found = (find_trade_offs(one, one, FAST, FEW) for one in (pool, timed(pool, [10.1] * 5)))
    assert [replace(one, latency_ms=None) for one in found] == list(plain)
    assert [one.latency_ms for one in found] == pytest.approx([10.1 * one.num_models for one in found])


def test_where_some_are_faster_they_are_tried_by_themselves() -> None:
    """Slow models that see more, and fast ones that see less."""
    pool = timed(build_pool(BINARY, [0.6] * 4 + [1.2] * 4, num_rows=400, correlation=0.2), [10.0] * 4 + [40.0] * 4)
    found = find_trade_offs(pool, pool, FAST, FEW)
    single = {one.latency_ms: one for one in found if one.name == "single"}
    assert set(single) == {10, 40}
    fast = within_latency(pool, Settings(max_latency_ms=10))
    assert single[10].cross_fitted == cross_fit(fast, choose_single, FAST, all_rows(pool)).score
    assert single[10].cross_fitted < single[40].cross_fitted
    assert single[40].is_best
    assert [one.latency_ms for one in found] == sorted(one.latency_ms or 0 for one in found)
    assert {one.latency_ms for one in found if one.name == "topk"} >= {20, 30}
    assert found[0].latency_ms == 10
    assert next(one.latency_ms for one in found if one.is_best) == 10


@pytest.mark.parametrize("seed", range(5))
def test_no_trade_off_is_beyond_the_limits(seed: int) -> None:
    random = np.random.default_rng(seed)
    pool = timed(build_pool(BINARY, [0.6] * 6, num_rows=50, correlation=0.2), random.uniform(2, 40, 6).tolist())
    settings = replace(FAST, max_latency_ms=float(random.uniform(10, 60)))
    fast = within_latency(pool, settings)
    found = find_trade_offs(fast, fast, settings, METHODS)
    assert all((one.latency_ms or 0) <= (one.max_latency_ms or 0) * (1 + 1e-9) for one in found)
    assert all((one.max_latency_ms or 0) <= settings.max_latency_ms for one in found)
    assert all(one.num_models <= one.max_models <= 4 for one in found)
    assert any(one.is_best for one in found)
