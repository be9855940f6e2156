"""Methods are compared with the best single model and the base configuration, by intervals that hold at once."""

from collections.abc import Mapping

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from mtlib.tasks import TASKS, Task
from results.ensembles.best_k import choose_best_k, choose_single
from results.ensembles.selection_method import Choose, Settings
from results.records.selection import MethodScore
from results.selection.cross_fitting import CrossFitted, bootstrap, cross_fit
from results.selection.method_scores import method_scores, paired_difference, simultaneous_quantile
from results.stats.resampling import Floats
from tests.results.ensembles.simulated_pools import build_pool
from tests.results.selection.plain_selection import all_rows

FAST = Settings(max_models=3, num_folds=4)
METHODS: Mapping[str, Choose] = {"single": choose_single, "topk": choose_best_k}
each_task = pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))


def fit_all(task: Task) -> dict[str, CrossFitted]:
    """Two methods, and a weak model as the base configuration."""
    pool = build_pool(task, (0.3, 0.9, 0.7, 0.8), num_rows=300)
    fitted = {name: cross_fit(pool, own, FAST, all_rows(pool), num_repeats=2) for name, own in METHODS.items()}
    return fitted | {"base": cross_fit(pool.only([0]), choose_single, FAST, all_rows(pool), num_repeats=2)}


def scores_of(fitted: Mapping[str, CrossFitted], base: str | None = None) -> dict[str, MethodScore]:
    return method_scores(fitted, dict.fromkeys(fitted, 0.75), dict.fromkeys(fitted, 2), base=base, seed=0)


@each_task
def test_scores_and_leads_are_paired_and_cross_fitted(task: Task) -> None:
    fitted = fit_all(task)
    found = scores_of(fitted, "base")
    assert list(found) == ["single", "topk", "base"]
    score = found["topk"]
    assert (score.name, score.in_sample, score.num_models) == ("topk", 0.75, 2)
    assert score.cross_fitted == pytest.approx(fitted["topk"].score)
    assert score.standard_error == fitted["topk"].standard_error
    assert score.mean_absolute_error == fitted["topk"].mean_absolute_error
    assert (found["single"].lead, found["base"].base_lead) == (0, 0)
    assert score.base_lead is not None
    for lead, bounds, other in (
        (score.lead, score.lead_interval, "single"),
        (score.base_lead, score.base_lead_interval, "base"),
    ):
        expected, error = paired_difference(fitted["topk"], fitted[other])
        assert lead == expected == pytest.approx(fitted["topk"].score - fitted[other].score)
        assert np.mean(bounds) == pytest.approx(lead)
        assert 2 * 1.96 * error <= bounds[1] - bounds[0] <= 2 * 2.5 * error  # several comparisons at once


def test_interval_of_a_nearly_perfect_score_does_not_exceed_1() -> None:
    pool = build_pool(TASKS["qqp"], [2.5, 2.5, 2.5], num_rows=60)
    score = scores_of({"single": cross_fit(pool, choose_single, FAST, all_rows(pool))})["single"]
    assert score.cross_fitted > 0.9
    assert score.interval[1] == 1.0


@each_task
def test_difference_has_the_error_of_the_paired_bootstrap(task: Task) -> None:
    pool = build_pool(task, (0.3, 0.9, 0.8), num_rows=800)
    better, worse = (cross_fit(pool.only([one]), choose_single, FAST, all_rows(pool)) for one in (1, 0))
    difference, error = paired_difference(better, worse)
    resampled = bootstrap(better, num_resamples=3000) - bootstrap(worse, num_resamples=3000)
    assert difference == pytest.approx(better.score - worse.score)
    assert error == pytest.approx(resampled.std(ddof=1), rel=0.05)
    assert paired_difference(worse, better) == pytest.approx((-difference, error))
    assert paired_difference(better, better) == (0, 0)


def draw(num_estimates: int, correlation: float, num_resamples: int = 20_000) -> Floats:
    """Normal, equally correlated resamples, (estimates, resamples), each row with a standard deviation of its own."""
    random = np.random.default_rng(num_estimates)
    common, own = random.normal(size=num_resamples), random.normal(size=(num_estimates, num_resamples))
    values = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own
    numbers = np.arange(num_estimates)[:, None]
    return np.asarray(0.01 * (numbers + 1) * values + numbers)


@pytest.mark.parametrize(("count", "correlation"), [(2, 0.0), (6, 0.5)])
def test_quantile_is_that_of_the_largest_of_several_normal_variables(count: int, correlation: float) -> None:
    found = simultaneous_quantile(draw(count, correlation))
    covariance = np.full((count, count), correlation) + (1 - correlation) * np.eye(count)
    inside = multivariate_normal(cov=covariance).cdf(np.full(count, found), lower_limit=np.full(count, -found))
    assert inside == pytest.approx(0.95, abs=0.006)


def test_quantile_is_not_below_that_of_one_comparison() -> None:
    assert simultaneous_quantile(draw(1, 0.0, 20)) >= norm.ppf(0.975)
    assert simultaneous_quantile(np.full((1, 50), 0.3)) == pytest.approx(norm.ppf(0.975))
    alike = np.repeat(draw(1, 0.0), 5, axis=0)
    assert simultaneous_quantile(alike) == pytest.approx(norm.ppf(0.975), abs=0.03)
