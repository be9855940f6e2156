"""Draws of training variances against chi-square distributions, and against variances that are known."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.linalg import null_space
from scipy.special import ndtr

from results.stats.resampling import Floats
from results.stats.training_variances import (
    GRID_STEP,
    LEVELS,
    LOGS,
    NUM_DRAWS,
    SPREAD_PROBS,
    SPREADS,
    FittedScores,
    draw_independent,
    draw_level,
    draw_variances,
    prior_of_logs,
)

DEGREES = np.full(7, 2.0)
SQUARES = 2 * np.array([0.4, 0.7, 0.9, 1.0, 1.2, 1.5, 2.1])
"""Of variances of about 1."""


@pytest.mark.parametrize("degrees", [1, 2, 5, 30])
def test_normal_errors_with_a_drawn_level_have_a_t_distribution(degrees: int) -> None:
    variances = draw_level(degrees)
    assert np.mean(1 / variances) == pytest.approx(1)
    for tail in (0.2, 0.05, 0.01):
        found = 2 * ndtr(-stats.t.isf(tail / 2, degrees) / np.sqrt(variances)).mean()
        assert found == pytest.approx(tail, rel=0.02)


@pytest.mark.parametrize("squares", [[3.0, 5.0], [3.0, 0.0, 5.0]])
def test_fewer_than_three_with_residuals_have_the_variance_that_these_have_together(squares: list[float]) -> None:
    degrees = np.array([2.0 * (own > 0) for own in squares])
    found = draw_independent(np.array(squares), degrees)
    assert found.shape == (NUM_DRAWS, len(squares))
    assert (found == found[:, :1]).all()
    tails = [0.05, 0.5, 0.95]
    assert np.quantile(found[:, 0], tails) == pytest.approx(8 / stats.chi2.isf(tails, 4), rel=0.02)


def test_variances_that_are_known_well_are_their_estimates() -> None:
    known = np.array([0.5, 1.0, 1.0, 2.0, 6.0])
    found = draw_independent(400 * known, np.full(5, 400.0))
    assert np.median(found, axis=0) == pytest.approx(known, rel=0.03)
    spread = np.std(np.log(found), axis=0)
    assert spread == pytest.approx(np.sqrt(2 / 400), rel=0.2)  # values of the grid are .125 apart


def test_residuals_of_0_have_variances_of_0() -> None:
    assert (draw_independent(np.zeros(4), np.full(4, 2.0)) == 0).all()


@pytest.mark.parametrize("factor", [2.0**-40, 4.0, 2.0**30])
def test_variances_have_the_scale_of_the_residuals(factor: float) -> None:
    assert (draw_independent(factor * SQUARES, DEGREES) == factor * draw_independent(SQUARES, DEGREES)).all()


def test_variances_that_are_about_equal_are_averaged() -> None:
    """Of two degrees of freedom alone the middle 90 % are a factor of 60 apart."""
    found = draw_independent(SQUARES, DEGREES)
    low, high = np.quantile(found, [0.05, 0.95], axis=0)
    assert (high / low < 25).all()
    assert np.median(found, axis=0) == pytest.approx(1.0, rel=0.5)


def test_far_larger_variance_stays_and_changes_the_others_little() -> None:
    plain = np.median(draw_independent(SQUARES, DEGREES), axis=0)
    found = np.median(draw_independent(np.append(SQUARES, 2 * 40.0), np.append(DEGREES, 2.0)), axis=0)
    assert found[-1] > 15
    assert found[:-1] == pytest.approx(plain, rel=0.25)


def test_configuration_that_was_trained_once_has_the_variances_of_the_others() -> None:
    plain = np.median(draw_independent(SQUARES, DEGREES), axis=0)
    found = draw_independent(np.append(SQUARES, 0.0), np.append(DEGREES, 0.0))
    assert np.median(found, axis=0)[:-1] == pytest.approx(plain, rel=0.1)
    assert np.median(found[:, -1]) == pytest.approx(np.median(plain), rel=0.2)


def draw_true(stream: np.random.Generator, number: int) -> Floats:
    """(number,) variances as they are thought to be before training, around a level of 1."""
    row = len(SPREADS) * int(np.abs(LEVELS).argmin()) + stream.choice(len(SPREADS), p=SPREAD_PROBS)
    logs = stream.choice(LOGS, number, p=prior_of_logs()[row]) + GRID_STEP * (stream.random(number) - 0.5)
    return np.asarray(np.exp(logs))


@pytest.mark.parametrize("degrees", [1.0, 4.0])
def test_true_variances_are_anywhere_among_the_draws(degrees: float) -> None:
    """The share of draws below the truth is uniform, if truths are drawn from the prior (Cook and others 2006)."""
    stream, shares = np.random.default_rng(0), []
    for _ in range(60):
        true = draw_true(stream, 7)
        found = draw_independent(true * stream.chisquare(degrees, 7), np.full(7, degrees))
        shares += (found < true).mean(axis=0).tolist()
    counts = np.histogram(shares, np.linspace(0, 1, 6))[0] / len(shares)
    assert counts == pytest.approx(0.2, abs=0.06)  # standard errors of .02, and those of one sweep are correlated


def fitted(table: Floats) -> FittedScores:
    """The scores of a table, (configurations, replicates), without those that are nan; effects of replicates are from
    the first one."""
    configurations, replicates = np.nonzero(~np.isnan(table))
    effects = np.eye(table.shape[1])[replicates][:, 1:]
    return FittedScores(scores=table[configurations, replicates], configurations=configurations, replicates=effects)


def reference_likelihood(table: Floats, variances: Floats) -> float:
    """The log density of all contrasts of the scores that neither means nor effects of replicates change."""
    configurations, replicates = np.nonzero(~np.isnan(table))
    design = np.concatenate([np.eye(len(table))[configurations], np.eye(table.shape[1])[replicates]], axis=1)
    contrasts = null_space(design.T)
    covariance = contrasts.T @ np.diag(variances[configurations]) @ contrasts
    return float(stats.multivariate_normal(cov=covariance).logpdf(contrasts.T @ table[configurations, replicates]))


COMPLETE = np.ones((4, 3), bool)
INCOMPLETE = np.array([[1, 1, 1, 0], [1, 1, 1, 1], [0, 1, 1, 1], [1, 0, 0, 0], [1, 1, 0, 0]], bool)
APART = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]], bool)


@pytest.mark.parametrize("trained", [COMPLETE, INCOMPLETE, APART], ids=["complete", "incomplete", "apart"])
def test_likelihood_is_that_of_what_no_mean_and_no_effect_changes(trained: NDArray[np.bool_]) -> None:
    """Up to a constant, as the contrasts of the reference have another scale."""
    stream = np.random.default_rng(0)
    table = np.where(trained, stream.normal(size=trained.shape), np.nan)
    variances = np.exp(2 * stream.normal(size=(6, len(table))))
    wanted = np.array([reference_likelihood(table, own) for own in variances])
    found = fitted(table).log_likelihood(variances)
    assert found - found[0] == pytest.approx(wanted - wanted[0])


def test_residuals_with_equal_weights_are_those_of_least_squares() -> None:
    table = np.random.default_rng(0).normal(size=(4, 3))
    squares, degrees = fitted(table).weighted_residuals(np.full(4, 7.0))
    residuals = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    assert squares == pytest.approx((residuals**2).sum(axis=1))
    assert degrees == pytest.approx(6 / 4)


def test_unstable_one_of_four_does_not_make_the_others_seem_unstable() -> None:
    """Residuals from plain means would: each then has a sixteenth of the variance of the unstable one, 400."""
    found = []
    for seed in range(40):
        stream = np.random.default_rng(seed)
        table = stream.normal(size=(4, 6)) * np.array([1.0, 1.0, 1.0, 20.0])[:, None] + stream.normal(size=6)
        found.append(np.median(draw_variances(fitted(table)), axis=0))
    typical = np.exp(np.log(found).mean(axis=0))
    assert typical[:3] == pytest.approx(1.0, rel=0.35)
    assert 100 < typical[3] < 500  # so large a variance is unlikely beforehand


def test_draws_do_not_depend_on_what_all_share() -> None:
    """Neither on the means of configurations nor on the effects of replicates."""
    table = np.random.default_rng(0).normal(size=(4, 3))
    moved = table + np.arange(4)[:, None] + 10 * np.arange(3)
    assert draw_variances(fitted(moved)) == pytest.approx(draw_variances(fitted(table)), rel=1e-6)


@pytest.mark.parametrize("num_replicates", [3, 5])
def test_true_variances_are_anywhere_among_the_draws_given_scores(num_replicates: int) -> None:
    """As `test_true_variances_are_anywhere_among_the_draws`, of four configurations with effects of replicates."""
    stream, shares = np.random.default_rng(1), []
    for _ in range(100):
        true = draw_true(stream, 4)
        errors = np.sqrt(true)[:, None] * stream.normal(size=(4, num_replicates))
        table = errors + 3 * stream.normal(size=num_replicates)
        shares += (draw_variances(fitted(table)) < true).mean(axis=0).tolist()
    counts = np.histogram(shares, np.linspace(0, 1, 6))[0] / len(shares)
    assert counts == pytest.approx(0.2, abs=0.06)


def test_equal_scores_have_variances_of_0() -> None:
    assert (draw_variances(fitted(np.ones((4, 3)))) == 0).all()
