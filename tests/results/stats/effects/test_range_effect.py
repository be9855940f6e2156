"""Curves over a range: the optimum, its interval, the edge, and how often an effect is claimed where there is none."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

from results.stats.configuration_means import configuration_means
from results.stats.effects.key_effects import key_effects
from results.stats.effects.range_effect import (
    RangeEffect,
    choice_contrasts,
    fit_keys,
    range_effect,
)
from results.stats.effects.searched_keys import SearchedKey
from results.stats.resampling import Floats
from search_spaces.domain import Float
from tests.results.stats.effects.test_key_effects import half_width
from tests.results.stats.test_configuration_means import model_scores, with_trainings

RATE = SearchedKey(name="rate", values=(), base=2e-5, range=Float(low=1e-6, high=1e-3, log=True))
WEIGHT = SearchedKey(name="weight", values=(), base=0.0, range=Float(low=0.0, high=4.0, log=False))
LOSS = SearchedKey(name="loss", values=("a", "b"), base="a")


def draw(
    number: int, score: Callable[[dict[str, Any]], float], seed: int, noise: float
) -> tuple[Floats, list[dict[str, Any]]]:
    """Scores of configurations drawn at random, each trained once."""
    stream = np.random.default_rng(seed)
    params = [
        {"rate": 10 ** stream.uniform(-6, -3), "weight": stream.uniform(0, 4), "loss": stream.choice(["a", "b"])}
        for _ in range(number)
    ]
    return np.array([[score(own) + noise * stream.normal()] for own in params]), params


def effect_of(key: SearchedKey, table: Floats, params: list[dict[str, Any]]) -> RangeEffect:
    fit = fit_keys([RATE, WEIGHT, LOSS], configuration_means(model_scores(table)), params)
    assert fit is not None
    return range_effect(key, fit)


def peak(own: dict[str, Any]) -> float:
    """Best at a rate of 3e-5; the weight has no effect, loss b is better by .02."""
    return float(0.7 - 0.02 * (np.log10(own["rate"]) - np.log10(3e-5)) ** 2 + 0.02 * (own["loss"] == "b"))


def test_optimum_is_found_with_its_interval_on_a_logarithmic_scale() -> None:
    found = effect_of(RATE, *draw(50, peak, 0, 0.005))
    low, high = found.optimum_interval
    assert low < 3e-5 < high
    assert high / low < 3
    assert found.p_value < 0.001
    assert found.edge == ""


def test_optimum_interval_holds_the_truth_in_most_searches() -> None:
    inside = 0
    for seed in range(100):
        low, high = effect_of(RATE, *draw(40, peak, seed, 0.02)).optimum_interval
        inside += low <= 3e-5 <= high
    assert inside >= 0.9 * 100


def test_effect_is_claimed_in_one_search_of_twenty_where_there_is_none() -> None:
    claims = [effect_of(WEIGHT, *draw(30, peak, seed, 0.01)).p_value < 0.05 for seed in range(150)]
    assert 0.0 < np.mean(claims) < 0.1


@pytest.mark.parametrize(("sign", "edge", "optimum"), [(1, "high", 4.0), (-1, "low", 0.0)])
def test_optimum_at_an_end_of_the_range_is_reported(sign: int, edge: str, optimum: float) -> None:
    found = effect_of(WEIGHT, *draw(40, lambda own: sign * 0.05 * float(own["weight"]), 1, 0.01))
    assert found.edge == edge
    assert found.optimum == pytest.approx(optimum, abs=0.1)


def test_choices_are_compared_as_by_least_squares() -> None:
    table, params = draw(40, peak, 2, 0.01)
    means = configuration_means(model_scores(table))
    fit = fit_keys([RATE, WEIGHT, LOSS], means, params)
    assert fit is not None
    reference = sm.OLS(table[:, 0], fit.design).fit()
    column = fit.columns["loss"].start
    _, b = key_effects(choice_contrasts(LOSS, fit, params), fit.means)
    assert b.difference == pytest.approx(reference.params[column])
    low, high = reference.conf_int()[column]
    assert half_width(b) == pytest.approx((high - low) / 2, rel=0.005)
    assert b.num_trials == sum(own["loss"] == "b" for own in params)


def repeat(table: Floats, number: int, noise: float) -> Floats:
    """Scores of replicates around those of single trainings."""
    return table + noise * np.random.default_rng(0).normal(size=(len(table), number))


def test_errors_are_those_of_least_squares_on_the_means_of_replicates() -> None:
    table, params = draw(30, peak, 3, 0.01)
    means = configuration_means(model_scores(repeat(table, 2, 0.001)))
    fit = fit_keys([RATE, WEIGHT, LOSS], means, params)
    assert fit is not None
    reference = sm.OLS(means.means, fit.design).fit()
    np.testing.assert_allclose(fit.covariance, reference.cov_params())
    assert fit.means.total_degrees == reference.df_resid


def test_no_effect_is_claimed_because_replicates_differ_less_than_the_fit_is_off() -> None:
    """The rate has a peak too sharp for a cubic curve; the weight has no effect."""

    def sharp(own: dict[str, Any]) -> float:
        return float(0.05 * np.exp(-(((np.log10(own["rate"]) + 4) / 0.25) ** 2)))

    drawn = [draw(30, sharp, seed, 0.0) for seed in range(60)]
    claims = [effect_of(WEIGHT, repeat(table, 3, 0.01), params).p_value < 0.05 for table, params in drawn]
    assert np.mean(claims) < 0.15


def test_few_configurations_are_fitted_by_lines_which_claim_no_more() -> None:
    """One search in twenty claims an effect where there is none, though the rate's curve is no line."""
    table, params = draw(12, peak, 0, 0.01)
    fit = fit_keys([RATE, WEIGHT, LOSS], configuration_means(model_scores(table)), params)
    assert fit is not None
    assert fit.design.shape == (12, 4)
    claims = [effect_of(WEIGHT, *draw(12, peak, seed, 0.01)).p_value < 0.05 for seed in range(300)]
    assert 0.0 < np.mean(claims) < 0.1
    rate = effect_of(RATE, table, params)
    assert rate.is_linear, "the optimum of a line is at an end and says nothing"
    assert rate.edge == ""
    assert not effect_of(RATE, *draw(50, peak, 0, 0.005)).is_linear


def test_key_that_some_configurations_lack_is_fitted_from_the_others() -> None:
    table, params = draw(60, peak, 4, 0.005)
    for number in range(0, 60, 3):
        del params[number]["rate"]
        table[number] = 0.6
    with_rate = SearchedKey(name="has_rate", values=(True, False), base=True)
    params = [{**own, "has_rate": "rate" in own} for own in params]
    fit = fit_keys([RATE, with_rate], configuration_means(model_scores(table)), params)
    assert fit is not None
    low, high = range_effect(RATE, fit).optimum_interval
    assert low < 3e-5 < high


def test_trainings_that_something_else_made_the_same_show_no_effect() -> None:
    """With loss b the rate changes nothing: these trainings are the same, and count once in the fit."""
    claims = []
    for seed in range(150):
        stream = np.random.default_rng(seed)
        params = [{"rate": 10 ** stream.uniform(-6, -3), "loss": "ab"[number % 2]} for number in range(30)]
        table = stream.normal(size=(30, 1))
        table[1::2] = table[1]
        scores = with_trainings(model_scores(table), [0 if number % 2 else number + 1 for number in range(30)])
        fit = fit_keys([RATE, LOSS], configuration_means(scores), params)
        assert fit is not None
        claims.append(range_effect(RATE, fit).p_value < 0.05)
    assert np.mean(claims) < 0.1


def test_scatter_is_at_least_the_one_of_the_examples() -> None:
    """Scores that lie on the fit by chance, though each mean of two trainings has an error over examples."""
    table, params = draw(30, lambda _: 0.5, 0, 0.0)
    means = configuration_means(model_scores(np.repeat(table, 2, axis=1), 0.0004 * np.eye(60)))
    fit = fit_keys([RATE], means, params)
    assert fit is not None
    design = np.asarray(fit.design)
    expected = 0.0002 * np.linalg.inv(design.T @ design)
    assert np.allclose(fit.covariance, expected)
