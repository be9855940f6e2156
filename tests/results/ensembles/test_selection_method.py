"""Scores against scikit-learn and scipy; inner folds partition the given rows."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from mtlib.metrics.table import METRICS
from mtlib.tasks import TASKS, Task
from results.ensembles.selection_method import Settings, best_candidates, candidate_scores, inner_folds, sum_scores
from tests.results.ensembles.simulated_pools import SKILLS, Floats, build_pool, pool_of
from tests.results.selection.plain_selection import all_margins, all_rows, mean_score

CLASSES, BINARY, REGRESSION = TASKS["sst"], TASKS["qqp"], TASKS["sts"]

each_task = pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))


@each_task
def test_candidate_scores_match_scikit_learn_and_scipy(task: Task) -> None:
    pool, rows = build_pool(task, SKILLS), np.array([3, 5, 8, 40, 41, 99, 100, 7])
    expected = [mean_score(pool, own, rows) for own in np.eye(len(SKILLS))]
    np.testing.assert_allclose(candidate_scores(pool, rows), expected, rtol=1e-9, atol=1e-12)


def test_best_epochs_are_ordered_by_score_with_ties_to_the_first() -> None:
    is_right = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [1, 1, 0, 0], [0, 1, 1, 0]])
    pool = pool_of(BINARY, 0.5 * (2 * is_right - 1), np.ones(4), num_epochs=2)
    assert best_candidates(pool, all_rows(pool)).tolist() == [2, 1, 4]
    assert best_candidates(pool, np.array([3])).tolist() == [3, 0, 4]


@pytest.mark.parametrize("metric", [name for name, metric in METRICS.items() if "regression" in metric.kinds])
@pytest.mark.parametrize(
    ("change", "is_left"),
    [
        (lambda values: values + 0.01, True),
        (lambda values: values - 1, False),
        (lambda values: 0.95 * values, True),
        (lambda values: 0.3 * (values - 2.5) + 2.5, False),
        (lambda values: 3 * (values - 2.5) + 2.5, False),
    ],
)
def test_a_regression_keeps_candidates_on_the_scale_of_the_best_one(
    metric: str, change: Callable[[Floats], Floats], is_left: bool
) -> None:
    random = np.random.default_rng(0)
    labels = random.uniform(1, 4, 500)
    best, other = (labels + random.normal(0, noise, 500) for noise in (0.5, 0.55))
    pool = pool_of(replace(REGRESSION, metric=metric), np.stack([change(other), best]), labels)
    assert best_candidates(pool, all_rows(pool)).tolist() == ([1, 0] if is_left else [1])


@each_task
def test_scores_of_sums_are_those_of_the_mean_output(task: Task) -> None:
    pool, rows = build_pool(task, SKILLS), np.arange(10, 90)
    counts = np.random.default_rng(0).integers(0, 4, size=(20, len(SKILLS))).astype(np.float64) + np.eye(20, 6)
    sums = np.tensordot(counts, pool.margins(np.arange(len(pool.candidates)), rows), axes=1).astype(np.float32)
    expected = [mean_score(pool, own, rows) for own in counts]
    np.testing.assert_allclose(sum_scores(pool, sums, rows), expected, atol=1e-6)


def test_tie_counts_as_wrong() -> None:
    pool = pool_of(BINARY, np.zeros((1, 3)), [0, 1, 1])
    assert sum_scores(pool, all_margins(pool), all_rows(pool)).tolist() == [0]
    even = pool_of(CLASSES, np.full((1, 2, 5), 0.2), [0, 4])
    assert sum_scores(even, all_margins(even), all_rows(even)).tolist() == [0]


@each_task
def test_inner_folds_partition_the_given_rows(task: Task) -> None:
    pool, rows = build_pool(task, SKILLS), np.arange(7, 60, 2)
    folds = inner_folds(pool, rows, Settings(num_folds=4))
    assert len(folds) == 4
    assert sorted(np.concatenate([inside for _, inside in folds])) == rows.tolist()
    assert all(sorted(np.concatenate(pair)) == rows.tolist() for pair in folds)
