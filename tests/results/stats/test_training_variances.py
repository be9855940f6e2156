"""Draws of training variances against chi-square distributions, and against variances that are known."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from results.stats.resampling import Floats
from results.stats.training_variances import (
    GRID_STEP,
    LEVELS,
    LOGS,
    NUM_DRAWS,
    SPREAD_PROBS,
    SPREADS,
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
    found = draw_variances(np.array(squares), degrees)
    assert found.shape == (NUM_DRAWS, len(squares))
    assert (found == found[:, :1]).all()
    tails = [0.05, 0.5, 0.95]
    assert np.quantile(found[:, 0], tails) == pytest.approx(8 / stats.chi2.isf(tails, 4), rel=0.02)


def test_variances_that_are_known_well_are_their_estimates() -> None:
    known = np.array([0.5, 1.0, 1.0, 2.0, 6.0])
    found = draw_variances(400 * known, np.full(5, 400.0))
    assert np.median(found, axis=0) == pytest.approx(known, rel=0.03)
    spread = np.std(np.log(found), axis=0)
    assert spread == pytest.approx(np.sqrt(2 / 400), rel=0.2)  # values of the grid are .125 apart


def test_residuals_of_0_have_variances_of_0() -> None:
    assert (draw_variances(np.zeros(4), np.full(4, 2.0)) == 0).all()


@pytest.mark.parametrize("factor", [2.0**-40, 4.0, 2.0**30])
def test_variances_have_the_scale_of_the_residuals(factor: float) -> None:
    assert (draw_variances(factor * SQUARES, DEGREES) == factor * draw_variances(SQUARES, DEGREES)).all()


def test_variances_that_are_about_equal_are_averaged() -> None:
    """Of two degrees of freedom alone the middle 90 % are a factor of 60 apart."""
    found = draw_variances(SQUARES, DEGREES)
    low, high = np.quantile(found, [0.05, 0.95], axis=0)
    assert (high / low < 25).all()
    assert np.median(found, axis=0) == pytest.approx(1.0, rel=0.5)


def test_far_larger_variance_stays_and_changes_the_others_little() -> None:
    plain = np.median(draw_variances(SQUARES, DEGREES), axis=0)
    found = np.median(draw_variances(np.append(SQUARES, 2 * 40.0), np.append(DEGREES, 2.0)), axis=0)
    assert found[-1] > 15
    assert found[:-1] == pytest.approx(plain, rel=0.25)


def test_configuration_that_was_trained_once_has_the_variances_of_the_others() -> None:
    plain = np.median(draw_variances(SQUARES, DEGREES), axis=0)
    found = draw_variances(np.append(SQUARES, 0.0), np.append(DEGREES, 0.0))
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
        found = draw_variances(true * stream.chisquare(degrees, 7), np.full(7, degrees))
        shares += (found < true).mean(axis=0).tolist()
    counts = np.histogram(shares, np.linspace(0, 1, 6))[0] / len(shares)
    assert counts == pytest.approx(0.2, abs=0.06)  # standard errors of .02, and those of one sweep are correlated
