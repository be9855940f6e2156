"""Standard errors against formulas and scipy; resamples are paired, and differences use them."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.stats

from mtlib.metrics.correlation import weighted_pearson
from mtlib.tasks import TASKS, Task
from mtlib.training.evaluation import task_metrics
from results.stats import resampling as stats
from results.stats.resampling import (
    bootstrap_scores,
    draw_counts,
    example_values,
    percentile_interval,
    replicate_error,
    score_examples,
)

CLASSES, BINARY, REGRESSION = TASKS["sst"], TASKS["qqp"], TASKS["sts"]
Floats = npt.NDArray[np.float64]


def noisy_pair(rows: int, correlation: float, seed: int = 0) -> tuple[Floats, Floats]:
    """Predictions and labels, bivariate normal with this correlation, well inside the label range of STS."""
    x, noise = np.random.default_rng(seed).normal(size=(2, rows))
    y = correlation * x + np.sqrt(1 - correlation**2) * noise
    return 2.5 + 0.3 * x, 2.5 + 0.3 * y


def standard_error(resampled: Floats) -> Floats:
    return np.asarray(resampled.std(axis=-1, ddof=1))


def test_classes_are_right_where_the_highest_logit_is_the_label() -> None:
    logits = np.array([[0.1, 0.9, 0.3, 0, 0], [5, 1, 1, 1, 1], [0, 0, 0, 0, 1]])
    assert example_values(CLASSES, logits, [1, 0, 3]).tolist() == [1, 1, 0]


def test_binary_task_predicts_1_where_its_logit_is_positive() -> None:
    logits = np.array([[1e-6], [0.0], [-1e-6], [3.0]])
    assert example_values(BINARY, logits, [1, 1, 0, 0]).tolist() == [1, 0, 1, 0]


def test_regression_predictions_are_clipped_to_the_label_range() -> None:
    assert example_values(REGRESSION, np.array([[-1.0], [0.0], [2.5], [9.0]]), [0, 0, 0, 0]).tolist() == [0, 0, 2.5, 5]


@pytest.mark.parametrize("name", TASKS)
def test_scores_equal_those_of_training(name: str) -> None:
    task, random = TASKS[name], np.random.default_rng(0)
    labels = random.integers(0, int(task.label_range[1]) + 1, 200).astype(np.float32)
    logits = random.normal(size=(3, 200, task.num_logits)).astype(np.float32)
    found = score_examples(task, example_values(task, logits, labels), labels)
    expected = [task_metrics(task, one, labels)[task.metric] for one in logits]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_each_resample_has_the_number_of_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "BLOCK_CELLS", 7 * 3)
    blocks = list(draw_counts(7, 10, (0,)))
    assert [block.shape for block in blocks] == [(3, 7), (3, 7), (3, 7), (1, 7)]
    counts = np.concatenate(blocks)
    assert (counts.sum(axis=1) == 7).all()
    assert counts.min() == 0
    assert len({tuple(row) for row in counts}) == 10


def test_counts_follow_the_multinomial_distribution() -> None:
    counts = np.concatenate(list(draw_counts(5, 20000, (1,))))
    np.testing.assert_allclose(counts.mean(axis=0), 1, atol=0.03)
    np.testing.assert_allclose(counts.var(axis=0), 1 - 1 / 5, atol=0.03)
    np.testing.assert_allclose(np.cov(counts[:, 0], counts[:, 1])[0, 1], -1 / 5, atol=0.03)


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_error_of_accuracy_is_that_of_a_proportion(share: float) -> None:
    values = (np.arange(1000) < share * 1000).astype(np.float64)[None]
    resampled = bootstrap_scores(BINARY, values, np.zeros(1000), num_resamples=4000)
    np.testing.assert_allclose(standard_error(resampled), np.sqrt(share * (1 - share) / 1000), rtol=0.05)
    np.testing.assert_allclose(resampled.mean(), share, atol=0.002)


@pytest.mark.parametrize("correlation", [0.0, 0.6, 0.9])
def test_error_of_pearson_matches_normal_theory(correlation: float) -> None:
    """Fisher 1915: for a bivariate normal pair, (1 - r^2) / sqrt(n - 1) to first order."""
    x, y = noisy_pair(1500, correlation)
    found = standard_error(bootstrap_scores(REGRESSION, x[None], y, num_resamples=3000))
    assert found == pytest.approx((1 - np.corrcoef(x, y)[0, 1] ** 2) / np.sqrt(1499), rel=0.1)


def test_error_of_pearson_matches_scipys_bootstrap() -> None:
    x, y = noisy_pair(150, 0.7)
    x = x**3  # far from normal

    def pearson(a: Floats, b: Floats, axis: int) -> Any:
        return scipy.stats.pearsonr(a, b, axis=axis).statistic

    reference = scipy.stats.bootstrap((x, y), pearson, paired=True, n_resamples=4000, method="percentile", rng=1)
    found = standard_error(bootstrap_scores(REGRESSION, x[None], y, num_resamples=4000))
    assert found == pytest.approx(reference.standard_error, rel=0.06)


def test_pearson_under_counts_is_pearson_of_the_repeated_examples() -> None:
    x, y = noisy_pair(40, 0.5)
    predictions = np.stack([x, -x, x**2])
    counts = np.concatenate(list(draw_counts(40, 20, (2,))))
    found = weighted_pearson(counts, predictions, y)
    for column, count in enumerate(counts.astype(int)):
        rows = np.repeat(np.arange(40), count)
        expected = [scipy.stats.pearsonr(one[rows], y[rows]).statistic for one in predictions]
        np.testing.assert_allclose(found[:, column], expected, rtol=1e-9)


@pytest.mark.parametrize("shift", [0, 1e3])
def test_pearson_is_stable_under_a_shift(shift: float) -> None:
    x, y = noisy_pair(300, 0.8)
    ones = np.ones((1, 300))
    np.testing.assert_allclose(weighted_pearson(ones, x[None] + shift, y), np.corrcoef(x, y)[0, 1], rtol=1e-9)


def test_constant_predictions_have_a_correlation_of_zero_by_convention() -> None:
    labels = np.linspace(0, 5, 33)
    constant = np.full((1, 33), np.float64(np.float32(0.1)))
    assert score_examples(REGRESSION, constant, labels).tolist() == [0]
    assert (bootstrap_scores(REGRESSION, constant, labels, num_resamples=50) == 0).all()
    assert standard_error(bootstrap_scores(REGRESSION, constant, labels, num_resamples=50)) == 0
    assert score_examples(REGRESSION, np.linspace(0, 5, 33)[None], np.full(33, 2.2)).tolist() == [0]


def test_resample_with_a_constant_side_has_a_correlation_of_zero() -> None:
    """Rounding leaves a variance of about 1e-17 there, which would make the correlation noise."""
    ups_and_downs, nearly_constant = np.linspace(0.3, 4.9, 7), np.array([0.1] * 6 + [4.7])
    counts = np.array([[1.0, 2, 1, 1, 1, 1, 0], [7.0, 0, 0, 0, 0, 0, 0]])
    assert weighted_pearson(counts, nearly_constant[None], ups_and_downs).tolist() == [[0, 0]]
    assert weighted_pearson(counts, ups_and_downs[None], nearly_constant).tolist() == [[0, 0]]


@pytest.mark.parametrize("task", [CLASSES, REGRESSION])
def test_any_number_of_trials_shares_resamples(task: Task) -> None:
    x, y = noisy_pair(50, 0.5)
    values = np.stack([x, y, x]) if task is REGRESSION else (np.stack([x, y, x]) > 2.5).astype(np.float64)
    together = bootstrap_scores(task, values, y, num_resamples=30)
    np.testing.assert_array_equal(together[0], together[2])
    np.testing.assert_allclose(bootstrap_scores(task, values[:1], y, num_resamples=30)[0], together[0], rtol=1e-12)


def test_block_size_does_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = noisy_pair(50, 0.5)
    whole = bootstrap_scores(REGRESSION, x[None], y, num_resamples=30)
    monkeypatch.setattr(stats, "BLOCK_CELLS", 50 * 7)
    np.testing.assert_allclose(bootstrap_scores(REGRESSION, x[None], y, num_resamples=30), whole, rtol=1e-12)


def test_tasks_and_seeds_have_different_resamples() -> None:
    values = (np.arange(50) < 25).astype(np.float64)[None]
    first, again = (bootstrap_scores(CLASSES, values, np.zeros(50)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert abs(np.corrcoef(first, bootstrap_scores(BINARY, values, np.zeros(50)))[0, 1]) < 0.15
    assert abs(np.corrcoef(first, bootstrap_scores(CLASSES, values, np.zeros(50), seed=1))[0, 1]) < 0.15


def test_one_example_has_no_error() -> None:
    assert standard_error(bootstrap_scores(CLASSES, np.ones((1, 1)), [0], num_resamples=10)).tolist() == [0]
    assert (bootstrap_scores(REGRESSION, np.ones((1, 1)), [2], num_resamples=10) == 0).all()


def test_error_over_replicates_is_that_of_a_mean() -> None:
    assert replicate_error([0.5, 0.6, 0.9]) == pytest.approx(scipy.stats.sem([0.5, 0.6, 0.9]))
    assert replicate_error([0.5]) is None


@pytest.mark.parametrize(("below", "holds_zero"), [(0.026, True), (0.024, False)])
def test_interval_has_a_confidence_of_95_percent(below: float, holds_zero: bool) -> None:
    low, high = percentile_interval(np.linspace(-below, 1 - below, 1001))
    assert (low <= 0 <= high) == holds_zero
