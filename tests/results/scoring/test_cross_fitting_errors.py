"""Influences, standard errors, resamples and intervals of cross-fitted scores."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import pearsonr

from mtlib.metrics.correlation import standardise, weighted_pearson
from mtlib.tasks import Task
from results.analysis.comparison.bootstrap import draw_counts
from results.ensembles.best_k import choose_best_k, choose_single
from results.ensembles.greedy import choose_greedy
from results.scoring.cross_fitting import (
    CHOICE_FACTOR,
    CrossFitted,
    ScoredRows,
    bootstrap,
    cross_fit,
    interval,
    score_resamples,
    widened,
)
from tests.results.scoring.plain_selection import all_rows, compare
from tests.results.scoring.simulated_pools import build_pool, pool_of
from tests.results.scoring.test_cross_fitting import BINARY, CLASSES, FAST, REGRESSION, SKILLS, Floats, each_task


def build_fitted(task: Task, *, num_rows: int = 600, num_repeats: int = 1, seed: int = 0) -> CrossFitted:
    """Cross-fitted result of the best of three similar candidates."""
    pool = build_pool(task, [0.9, 0.9, 0.9], num_rows=num_rows, seed=seed)
    return cross_fit(pool, choose_single, replace(FAST, seed=seed), all_rows(pool), num_repeats=num_repeats)


def numeric_influences(values: Floats, labels: Floats) -> Floats:
    """Change of the correlation per weight added to one example."""
    size, step = len(values), 1e-6
    counts = np.full((size, size), (1 - step) / size) + step * np.eye(size)
    whole = weighted_pearson(np.ones((1, size)), values[None], labels)[0]
    return np.asarray((weighted_pearson(counts, values[None], labels)[0] - whole) / step)


@pytest.mark.parametrize("skill", [0.0, 0.5, 3.0])
def test_influences_on_a_correlation_are_its_derivatives(skill: float) -> None:
    pool = build_pool(REGRESSION, [skill], num_rows=40)
    part = ScoredRows(
        task=REGRESSION,
        rows=np.arange(40),
        values=pool.values[0].astype(np.float64) ** 3,
        labels=pool.labels,
        groups=np.arange(40),
    )
    wanted = numeric_influences(part.values, part.labels) * np.sqrt(len(part.labels) / (len(part.labels) - 4))
    np.testing.assert_allclose(part.influences, wanted, rtol=1e-4, atol=1e-4)


def test_influences_on_a_correlation_are_close_to_leave_one_out() -> None:
    pool = build_pool(REGRESSION, [0.8], num_rows=400)
    part = ScoredRows(
        task=REGRESSION,
        rows=np.arange(400),
        values=pool.values[0].astype(np.float64),
        labels=pool.labels,
        groups=np.arange(400),
    )
    jackknife = 399 * (part.score - weighted_pearson(1 - np.eye(400), part.values[None], part.labels)[0])
    np.testing.assert_allclose(part.influences, jackknife, atol=0.03 * np.abs(jackknife).max())


@pytest.mark.parametrize(("num_rows", "least"), [(20, 0.9), (60, 0.95), (173, 0.96)])
def test_variance_of_a_correlation_of_few_examples_is_not_too_small(num_rows: int, least: float) -> None:
    """Without the correction it is 0.78, 0.92 and 0.97 of the true one; over 3,000 samples, so within 3 %."""
    generator = np.random.default_rng(0)
    scores, variances = [], []
    for _ in range(3000):
        labels = generator.standard_normal(num_rows)
        values = labels + generator.standard_normal(num_rows)
        rows = np.arange(num_rows)
        part = ScoredRows(task=REGRESSION, rows=rows, values=values, labels=labels, groups=rows)
        scores.append(part.score)
        variances.append((part.influences**2).mean() / num_rows)
    assert least < np.mean(variances) / np.var(scores) < 1.07


def test_influences_on_an_accuracy_are_correctness_minus_accuracy() -> None:
    rows, values = np.arange(4), np.array([1.0, 0, 1, 1])
    part = ScoredRows(task=BINARY, rows=rows, values=values, labels=np.ones(4), groups=rows)
    assert part.score == 0.75
    assert part.influences.tolist() == [0.25, -0.75, 0.25, 0.25]


@each_task
def test_influences_are_computed_per_fold_and_repeat_with_mean_zero(task: Task) -> None:
    found = build_fitted(task, num_rows=53, num_repeats=2)
    expected = np.zeros((2, 53))
    for wanted, values, folds in zip(expected, found.values, found.folds, strict=True):
        for fold in range(5):
            rows = folds == fold
            wanted[rows] = values[rows]
            if task is REGRESSION:
                more = np.sqrt(rows.sum() / (rows.sum() - 4))
                wanted[rows] = more * numeric_influences(values[rows], found.labels[rows])
    if task is not REGRESSION:
        expected -= expected.mean(1, keepdims=True)
    np.testing.assert_allclose(found.influences, expected, rtol=1e-3, atol=1e-4)
    assert found.influences.mean() == pytest.approx(0, abs=1e-12)


@each_task
def test_standard_error_of_one_repeat_matches_the_bootstrap(task: Task) -> None:
    pool = build_pool(task, SKILLS, num_rows=800)
    found = cross_fit(pool, choose_best_k, FAST, all_rows(pool))
    assert found.standard_error == pytest.approx(bootstrap(found, num_resamples=3000).std(ddof=1), rel=0.05)


@each_task
def test_variance_between_repeats_adds_to_the_standard_error(task: Task) -> None:
    pool = build_pool(task, SKILLS, num_rows=800)
    found = cross_fit(pool, choose_best_k, FAST, all_rows(pool), num_repeats=3)
    alone = np.array([repeat.standard_error for repeat in found.repeats])
    scores = np.array([repeat.score for repeat in found.repeats])
    expected = np.sqrt((alone**2).mean() + CHOICE_FACTOR * scores.var(ddof=1))
    assert found.standard_error == pytest.approx(expected)
    assert expected >= alone.min()
    assert found.score == pytest.approx(scores.mean())


def test_equal_repeats_add_nothing() -> None:
    found = build_fitted(CLASSES, num_rows=100, num_repeats=1)
    twice = replace(found, values=np.repeat(found.values, 2, axis=0), folds=np.repeat(found.folds, 2, axis=0))
    assert twice.standard_error == pytest.approx(found.standard_error)


def test_resampled_scores_are_stretched_about_the_score() -> None:
    resampled = np.random.default_rng(0).normal(0.5, 0.01, size=1000)
    wide = widened(resampled, 0.6, 0.03)
    assert (wide.mean(), wide.std(ddof=1)) == (pytest.approx(0.6), pytest.approx(0.03))
    assert np.corrcoef(resampled, wide)[0, 1] == pytest.approx(1)
    assert widened(np.full(5, 0.7), 0.7, 0.0).tolist() == [0.7] * 5
    assert interval(widened(np.full(4000, 0.7), 0.7, 0.1)) == pytest.approx((0.7 - 0.196, 0.7 + 0.196), abs=0.001)


def test_standard_error_of_an_accuracy_is_that_of_a_proportion() -> None:
    found = build_fitted(CLASSES)
    assert found.standard_error == pytest.approx(np.sqrt(found.score * (1 - found.score) / 600), rel=1e-9)


def test_standard_error_of_a_correlation_matches_normal_theory() -> None:
    """(1 - r^2) / sqrt(n) for a bivariate normal pair."""
    found = build_fitted(REGRESSION, num_rows=4000)
    assert found.standard_error == pytest.approx((1 - found.score**2) / np.sqrt(4000), rel=0.06)


@each_task
def test_resample_is_scored_as_its_repeated_examples(task: Task) -> None:
    found = build_fitted(task, num_rows=30, num_repeats=2)
    counts = np.concatenate(list(draw_counts(30, 8, (1,))))
    for own, score in zip(counts.astype(int), score_resamples(found, counts), strict=True):
        scores, sizes = [], []
        for values, folds in zip(found.values, found.folds, strict=True):
            for fold in range(5):
                rows = np.repeat(np.flatnonzero(folds == fold), own[folds == fold])
                if task is REGRESSION:
                    is_constant = len(set(rows)) < 2
                    scores.append(0.0 if is_constant else pearsonr(values[rows], found.labels[rows]).statistic)
                else:
                    scores.append(values[rows].mean())
                sizes.append(len(rows))
        assert score == pytest.approx(np.average(scores, weights=sizes), rel=1e-9)


@each_task
def test_counts_of_one_give_the_score(task: Task) -> None:
    found = build_fitted(task, num_rows=60, num_repeats=2)
    assert score_resamples(found, np.ones((1, 60)))[0] == pytest.approx(found.score, rel=1e-12)


@pytest.mark.filterwarnings("error")
def test_resample_without_examples_of_a_fold_is_scored_on_the_others() -> None:
    found = build_fitted(REGRESSION, num_rows=10)
    assert np.isfinite(bootstrap(found)).all()
    counts = np.where(found.folds[0] == 2, 0.0, 1.0)[None]
    others = [part.score for part in list(found.parts())[:2] + list(found.parts())[3:]]
    assert score_resamples(found, counts)[0] == pytest.approx(np.mean(others))


@each_task
def test_equal_seeds_give_equal_resamples(task: Task) -> None:
    found = build_fitted(task, num_rows=100)
    first, again, other = (bootstrap(found, num_resamples=200, seed=seed) for seed in (0, 0, 1))
    assert first.shape == (200,)
    np.testing.assert_array_equal(first, again)
    assert abs(np.corrcoef(first, other)[0, 1]) < 0.3
    assert first.mean() == pytest.approx(found.score, abs=4 * found.standard_error / np.sqrt(200) + 0.01)


def test_tasks_have_different_resamples_and_methods_share_them() -> None:
    found = build_fitted(BINARY, num_rows=100)
    resampled = bootstrap(found, num_resamples=400)
    assert abs(np.corrcoef(resampled, bootstrap(replace(found, task=CLASSES), num_resamples=400))[0, 1]) < 0.2
    opposite = replace(found, values=1 - found.values)
    np.testing.assert_allclose(bootstrap(opposite, num_resamples=400), 1 - resampled)


def test_interval_is_that_of_the_quantiles() -> None:
    resampled = np.random.default_rng(0).normal(size=999)
    assert interval(resampled) == pytest.approx(tuple(np.quantile(resampled, (0.025, 0.975))))
    assert interval(np.arange(1001.0)) == pytest.approx((25, 975))
    assert interval(np.full(10, 0.5)) == (0.5, 0.5)


@each_task
def test_difference_has_the_error_of_the_paired_bootstrap(task: Task) -> None:
    pool = build_pool(task, (0.3, 0.9, 0.8), num_rows=800)
    better, worse = (cross_fit(pool.only([one]), choose_single, FAST, all_rows(pool)) for one in (1, 0))
    difference, error = compare(better, worse)
    resampled = bootstrap(better, num_resamples=3000) - bootstrap(worse, num_resamples=3000)
    assert difference == pytest.approx(better.score - worse.score)
    assert error == pytest.approx(resampled.std(ddof=1), rel=0.05)
    assert compare(worse, better) == pytest.approx((-difference, error))
    assert compare(better, better) == (0, 0)


def test_pairing_reduces_the_error_of_a_difference() -> None:
    pool = build_pool(BINARY, (0.8, 0.9), num_rows=500, correlation=0.9)
    first, second = (cross_fit(pool.only([one]), choose_single, FAST, all_rows(pool)) for one in (0, 1))
    assert compare(first, second)[1] < 0.6 * np.hypot(first.standard_error, second.standard_error)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("constant", [0.1, 2.2, 5.0])
def test_constant_side_has_a_correlation_of_zero_and_no_influence(constant: float) -> None:
    labels = np.linspace(0, 5, 33)
    for pool in (
        pool_of(REGRESSION, np.full((2, 33), constant), labels),
        pool_of(REGRESSION, np.stack([labels, labels**2 / 5]), np.full(33, constant)),
    ):
        found = cross_fit(pool, choose_greedy, FAST, all_rows(pool))
        assert found.score == found.standard_error == 0
        assert interval(bootstrap(found, num_resamples=50)) == (0, 0)


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e6 + 0.1])
def test_constant_values_are_standardized_to_zeros(constant: float) -> None:
    assert standardise(np.full((1, 33), constant)).tolist() == [[0.0] * 33]


def test_standardized_values_have_mean_0_and_variance_1() -> None:
    values = standardise(1e4 + np.random.default_rng(0).normal(size=(1, 50)))[0]
    assert values.mean() == pytest.approx(0, abs=1e-9)
    assert values.var() == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("label", [0.0, 1.0])
@pytest.mark.parametrize("num_rows", [13, 20, 200])
def test_perfect_or_failing_candidate_has_an_interval(label: float, num_rows: int) -> None:
    """With n observations of one outcome, the other may have probability 3 / n at 95 %: the interval reaches so far."""
    pool = pool_of(BINARY, np.full((1, num_rows), 0.5), np.full(num_rows, label))
    found = cross_fit(pool, choose_single, FAST, all_rows(pool))
    assert found.score == label
    low, high = interval(widened(bootstrap(found, num_resamples=2000), found.score, found.standard_error))
    reach = label - low if label else high
    assert 0.7 * 3 / num_rows < reach < 1.2 * 3 / num_rows


def test_larger_errors_are_unchanged() -> None:
    found = build_fitted(CLASSES, num_rows=100, num_repeats=1)
    assert found.standard_error == pytest.approx(np.sqrt(found.score * (1 - found.score) / 100))
