"""Estimates add up, and the margin of many comparisons holds for all of them together."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from results.analysis.comparison.bootstrap import Floats
from results.scoring.estimate import Estimate, simultaneous_quantile


def estimate(resampled: Floats, least_error: float = 0.0) -> Estimate:
    """An estimate whose resamples are given; its two repeats and its rows are drawn."""
    random = np.random.default_rng(len(resampled))
    scores, influences = random.normal(size=2), random.normal(size=(2, 30))
    return Estimate(scores=scores, influences=influences, resampled=resampled, least_error=least_error)


def draw(num_estimates: int, correlation: float, num_resamples: int = 20_000) -> list[Estimate]:
    """Estimates whose resamples are normal and equally correlated, each with a standard deviation of its own."""
    random = np.random.default_rng(num_estimates)
    common = random.normal(size=num_resamples)
    own = random.normal(size=(num_estimates, num_resamples))
    values = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own
    return [estimate(0.01 * (number + 1) * row + number) for number, row in enumerate(values)]


@pytest.mark.parametrize(("count", "correlation"), [(2, 0.0), (2, 0.7), (6, 0.5)])
def test_quantile_is_that_of_the_largest_of_several_normal_variables(count: int, correlation: float) -> None:
    found = simultaneous_quantile(draw(count, correlation))
    covariance = np.full((count, count), correlation) + (1 - correlation) * np.eye(count)
    inside = multivariate_normal(cov=covariance).cdf(np.full(count, found), lower_limit=np.full(count, -found))
    assert inside == pytest.approx(0.95, abs=0.006)


def test_quantile_is_not_below_that_of_one_comparison() -> None:
    assert simultaneous_quantile(draw(1, 0.0, 20)) >= norm.ppf(0.975)
    constant = estimate(np.full(50, 0.3))
    assert simultaneous_quantile([constant]) == pytest.approx(norm.ppf(0.975))
    alike = draw(1, 0.0) * 5
    assert simultaneous_quantile(alike) == pytest.approx(norm.ppf(0.975), abs=0.03)


def test_comparisons_that_nothing_changes_do_not_count() -> None:
    some = draw(3, 0.2)
    assert simultaneous_quantile([*some, estimate(np.zeros(20_000))]) == simultaneous_quantile(some)


def test_a_sum_has_the_larger_least_error_and_a_difference_none() -> None:
    first, second = estimate(np.zeros(5), 10.0), estimate(np.ones(5), 20.0)
    assert (first + second).standard_error == 20.0
    assert (first + (second - first)).standard_error == 10.0
    zero = first - first
    assert (zero.score, zero.standard_error, zero.interval) == (0, 0, (0, 0))
