"""Standard errors against formulas and scipy; resamples are paired, and differences use them."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.stats

from mtlib.metrics.correlation import counted_pearson
from mtlib.tasks import TASKS
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


def test_error_of_pearson_matches_scipys_bootstrap() -> None:
    x, y = noisy_pair(150, 0.7)
    x = x**3  # far from normal

    def pearson(a: Floats, b: Floats, axis: int) -> Any:
        return scipy.stats.pearsonr(a, b, axis=axis).statistic

    settings: Any = {"n_resamples": 4000, "method": "percentile", "random_state": 1}  # `rng` since scipy 1.15
    reference = scipy.stats.bootstrap((x, y), pearson, paired=True, **settings)
    found = standard_error(bootstrap_scores(REGRESSION, x[None], y, num_resamples=4000))
    assert found == pytest.approx(reference.standard_error, rel=0.06)


def test_pearson_under_counts_is_pearson_of_the_repeated_examples() -> None:
    x, y = noisy_pair(40, 0.5)
    predictions = np.stack([x, -x, x**2])
    counts = np.concatenate(list(draw_counts(40, 20, (2,))))
    found = counted_pearson(predictions, y, counts)
    for column, count in enumerate(counts.astype(int)):
        rows = np.repeat(np.arange(40), count)
        expected = [scipy.stats.pearsonr(one[rows], y[rows]).statistic for one in predictions]
        np.testing.assert_allclose(found[:, column], expected, rtol=1e-9)


def test_resample_with_a_constant_side_has_a_correlation_of_zero() -> None:
    """Rounding leaves a variance of about 1e-17 there, which would make the correlation noise."""
    ups_and_downs, nearly_constant = np.linspace(0.3, 4.9, 7), np.array([0.1] * 6 + [4.7])
    counts = np.array([[1.0, 2, 1, 1, 1, 1, 0], [7.0, 0, 0, 0, 0, 0, 0]])
    assert counted_pearson(nearly_constant[None], ups_and_downs, counts).tolist() == [[0, 0]]
    assert counted_pearson(ups_and_downs[None], nearly_constant, counts).tolist() == [[0, 0]]


def test_error_over_replicates_is_that_of_a_mean() -> None:
    assert replicate_error([0.5, 0.6, 0.9]) == pytest.approx(scipy.stats.sem([0.5, 0.6, 0.9]))
    assert replicate_error([0.5]) is None


@pytest.mark.parametrize(("num_groups", "within"), [(12, 0.03), (400, 0.01)])
def test_percentile_interval_of_few_groups_covers_a_mean(num_groups: int, within: float) -> None:
    """Of 1,000 normal samples; the plain percentile interval of 12 covers 91 % only."""
    covered = np.zeros(2)
    for seed in range(1000):
        values = np.random.default_rng(seed).normal(size=num_groups)
        drawn = values[np.random.default_rng(seed + 5000).integers(num_groups, size=(1000, num_groups))].mean(axis=1)
        for at, degrees in enumerate((np.inf, num_groups - 1.0)):
            low, high = percentile_interval(drawn, degrees)
            covered[at] += low <= 0 <= high
    assert covered[1] / 1000 == pytest.approx(0.95, abs=0.02)
    assert abs(covered[0] - covered[1]) / 1000 < within + 0.03
