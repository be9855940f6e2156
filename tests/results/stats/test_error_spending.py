"""Levels of looks against the multivariate normal distribution, and against random walks that are watched."""

import itertools

import numpy as np
import pytest
from scipy import stats

from results.stats.error_spending import (
    ERROR,
    WIDER_AT_FIRST,
    Look,
    continuation,
    rounds_looked_at,
    spent,
)


@pytest.mark.parametrize("degrees", [1.0, 2.0, 12.0, 1e6])
def test_margin_of_one_difference_is_wider_by_the_stated_factor_at_the_declared_look(degrees: float) -> None:
    quantile = stats.t.ppf(0.975, degrees)
    level = Look(num_rounds=8, declared=8).level(degrees)
    assert stats.t.isf(level / 2, degrees) == pytest.approx(WIDER_AT_FIRST * quantile, rel=0.02)


@pytest.mark.parametrize("ratio", [0.0, 0.5, 4.0])
@pytest.mark.parametrize("comparisons", [1.0, 8.0])
def test_looks_make_the_error_together_that_is_spent(ratio: float, comparisons: float) -> None:
    """The statistics of looks are normal; two of them have the correlation of sums with a common part."""
    looks = rounds_looked_at(5, 3)
    levels = [continuation(number, 3, 0.035, ratio, comparisons).level for number in looks]
    bounds = stats.norm.isf(np.array(levels) / comparisons / 2)
    variances = {number: ratio + 1 / number for number in looks}
    correlation = np.eye(len(looks))
    for (row, first), (column, second) in itertools.combinations(enumerate(looks), 2):
        correlation[row, column] = correlation[column, row] = np.sqrt(variances[second] / variances[first])
    inside = stats.multivariate_normal.cdf(bounds, cov=correlation, lower_limit=-bounds, abseps=1e-6, maxpts=10**6)
    assert (1 - inside) * comparisons == pytest.approx(spent(5, 3, 0.035), rel=0.02)


@pytest.mark.parametrize(("declared", "ratio"), [(2, 0.0), (3, 0.3), (8, 2.0)])
def test_whoever_looks_after_every_round_is_wrong_once_in_twenty_at_most(declared: int, ratio: float) -> None:
    num_rounds, stream = 24, np.random.default_rng(0)
    looks = np.arange(2, num_rounds + 1)
    walks = stream.normal(size=(20_000, num_rounds)).cumsum(axis=1)[:, 1:] / looks
    statistics = (walks + np.sqrt(ratio) * stream.normal(size=(20_000, 1))) / np.sqrt(ratio + 1 / looks)
    own = [Look(num_rounds=int(number), declared=declared).level(1e6, ratio) for number in looks]
    is_called = np.abs(statistics) > stats.norm.isf(np.array(own) / 2)
    assert 0.04 < is_called.any(axis=1).mean() < ERROR + 0.003  # standard error .0015
    assert (np.abs(statistics) > stats.norm.isf(ERROR / 2)).any(axis=1).mean() > 1.15 * ERROR, "looks at 5 % each"


def test_examples_that_are_the_same_at_every_look_are_not_paid_again() -> None:
    shares = [Look(num_rounds=12, declared=3).level(1e6, ratio) for ratio in (0.0, 0.5, 5.0, 500.0)]
    assert shares[:3] == sorted(shares[:3])
    assert min(shares[2:]) > 0.034 > 6 * shares[0]


def test_error_is_spent_without_end_and_never_exceeded() -> None:
    totals = [spent(number, 4, 0.036) for number in range(2, 2000)]
    assert totals == sorted(set(totals))
    assert totals[2] == 0.036
    assert totals[-1] < ERROR
