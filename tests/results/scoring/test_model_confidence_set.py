"""The set contains the best configuration at its nominal rate and excludes clearly worse ones."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from mtlib.tasks import TASKS, Task
from results.comparison.bootstrap import bootstrap_scores
from results.ensembles.candidates import Pool
from results.scoring.base_configuration import ConfigurationKey
from results.scoring.model_confidence_set import find_confidence_set, model_confidence_set
from tests.results.scoring.simulated_pools import build_pool

Floats = npt.NDArray[np.float64]

BINARY = TASKS["qqp"]
each_task = pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))


def draw(scores: Floats, resamples: int = 1000, seed: int = 0) -> Floats:
    """Resamples about scores, independent, of standard deviation 1."""
    return scores[:, None] + np.random.default_rng(seed).standard_normal((len(scores), resamples))


def numbers_in(found: list[ConfigurationKey]) -> list[int]:
    return [number for _, number in found]


def test_of_two_the_worse_is_excluded_by_a_two_sided_test() -> None:
    """The difference of two independent ones has standard deviation sqrt(2): the bound is at 1.96 sqrt(2) = 2.77."""
    noise = draw(np.zeros(2), 200_000)
    for difference, left in ((2.70, [True, True]), (2.84, [True, False])):
        scores = np.array([difference, 0.0])
        assert model_confidence_set(scores, scores[:, None] + noise).tolist() == left


def test_highest_is_always_included() -> None:
    for seed in range(20):
        scores = 10 * np.random.default_rng(seed).standard_normal(6)
        assert model_confidence_set(scores, draw(scores, seed=seed))[scores.argmax()]
    assert model_confidence_set(np.array([0.3]), np.full((1, 100), 0.3)).tolist() == [True]


def test_equal_scores_are_all_included() -> None:
    assert model_confidence_set(np.zeros(4), draw(np.zeros(4))).all()
    assert model_confidence_set(np.zeros(4), np.zeros((4, 50))).all()


@pytest.mark.parametrize("worse", [0.4, 0.499])
def test_lower_score_without_variance_is_excluded(worse: float) -> None:
    scores = np.array([0.5, worse, 0.5])
    assert model_confidence_set(scores, np.repeat(scores[:, None], 30, axis=1)).tolist() == [True, False, True]


@each_task
@pytest.mark.parametrize("num_copies", [2, 3, 6, 7])
def test_configurations_with_equal_outputs_stay_together(task: Task, num_copies: int) -> None:
    for seed in range(10):
        pool = build_pool(task, [0.8], num_rows=150, seed=seed)
        candidates = tuple(replace(pool.candidates[0], trial=f"{n:04d}-r0", number=n) for n in range(num_copies))
        same = replace(pool, candidates=candidates, outputs=np.repeat(pool.outputs, num_copies, axis=0))
        assert sorted(numbers_in(find_confidence_set(same))) == list(range(num_copies))


def test_copies_of_the_best_do_not_protect_others() -> None:
    pool = build_pool(BINARY, [1.0, 0.6], num_rows=400)
    numbers = [0, *[1] * 9]
    candidates = tuple(replace(pool.candidates[0], trial=f"{n:04d}-r0", number=n) for n in range(10))
    many = replace(pool, candidates=candidates, outputs=pool.outputs[numbers])
    assert numbers_in(find_confidence_set(many)) == numbers_in(find_confidence_set(pool))


def test_more_comparisons_exclude_less() -> None:
    """One of 2 that is 3 standard deviations lower is excluded; among 40 equal ones it may be chance."""
    alone, many = np.array([3.0, 0.0]), np.array([3.0, *[1.5] * 40, 0.0])
    assert not model_confidence_set(alone, draw(alone))[1]
    assert model_confidence_set(many, draw(many))[-1]


def test_higher_confidence_includes_more() -> None:
    scores = np.linspace(0, 6, 20)
    drawn = draw(scores)
    sizes = [int(model_confidence_set(scores, drawn, level).sum()) for level in (0.5, 0.8, 0.95, 0.999)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


@pytest.mark.parametrize("lead", [0.0, 0.02])
def test_best_configuration_is_included_in_95_percent_of_sweeps(lead: float) -> None:
    """Of 8 models one is better by the lead: 300 sweeps of 200 examples, so 93 % is 1.6 standard errors below."""
    left, truth = 0, np.full(8, 0.7)
    truth[3] += lead
    for seed in range(300):
        generator = np.random.default_rng(seed)
        is_right = (generator.random((8, 200)) < truth[:, None]).astype(float)
        drawn = bootstrap_scores(BINARY, is_right, np.ones(200), num_resamples=300, seed=seed)
        left += bool(model_confidence_set(is_right.mean(1), drawn)[3])
    assert left >= 0.93 * 300


@each_task
def test_far_worse_configurations_are_excluded_and_similar_ones_included(task: Task) -> None:
    found = find_confidence_set(build_pool(task, [1.0, 0.0, 1.02, 0.1, 0.98], num_rows=300))
    assert sorted(numbers_in(found)) == [0, 2, 4]


@each_task
def test_best_is_first_at_its_best_epoch(task: Task) -> None:
    pool = build_pool(task, [0.5, 0.9, 0.8], num_rows=200, num_epochs=3)
    best = max(range(9), key=lambda number: scores_of(pool)[number])
    assert numbers_in(find_confidence_set(pool))[0] == pool.candidates[best].number


def scores_of(pool: Pool) -> list[float]:
    """Scores on all examples, by numpy."""
    if pool.task.kind == "regression":
        return [float(np.corrcoef(values, pool.labels)[0, 1]) for values in pool.values]
    return [float(values.mean()) for values in pool.values]


def test_replicates_count_as_one_configuration_with_their_mean() -> None:
    """A good replicate with a poor one is no better than two average ones."""
    pool = build_pool(BINARY, [2.0, -2.0, 1.0, 1.0], num_rows=400, correlation=0.0)
    candidates = tuple(replace(one, number=number // 2) for number, one in enumerate(pool.candidates))
    found = find_confidence_set(replace(pool, candidates=candidates))
    assert numbers_in(found) == [1]


def test_configurations_of_two_sweeps_are_different() -> None:
    pool = build_pool(BINARY, [1.0, 1.0], num_rows=50, correlation=1.0)
    names = (replace(pool.candidates[0], sweep="a", number=0), replace(pool.candidates[1], sweep="b", number=0))
    found = find_confidence_set(replace(pool, candidates=names))
    assert found == [("a", 0), ("b", 0)]
