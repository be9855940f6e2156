"""What residuals show of each configuration's training variance: draws from its posterior distribution.

Two or three replicates say little about a variance. What is known besides: configurations of a sweep mostly train about
equally stably, and a few far less so. Logarithms of variances are taken as normal around a level that all share, with a
spread that the residuals decide as far as they can; any configuration may also be one of the few, with a small prior
probability. So a variance that is far above the others stays nearly as it is, and the others are averaged.
"""

import functools

import numpy as np
from scipy import stats

from results.stats.resampling import Floats

NUM_DRAWS = 8000
"""Draws: the 95 % quantile of a largest difference has a standard error of about 1 %."""
GRID_STEP = 0.125
"""Between the values of a variance's logarithm on the grid."""
LOGS = np.arange(-12, 12 + GRID_STEP / 2, GRID_STEP)
"""Logarithms of variances on the grid, relative to the median one."""
LEVELS = np.arange(-4, 4 + GRID_STEP / 2, GRID_STEP)
"""Logarithms of the level that the configurations share: all are equally likely before."""
SPREADS = (0.0, 0.15, 0.3, 0.5, 0.75, 1.0, 1.4, 2.0)
"""Standard deviations of the logarithms around the level. Equally stable configurations have 0; standard deviations of
training that differ by a factor of up to 3 have about 0.6."""
SPREAD_PROBS = np.array([3, 2, 2, 2, 1.5, 1, 0.5, 0.25]) / 12.25
"""Prior probabilities of the spreads. Of three replicates the residuals decide little between them."""
FEWEST_VARIANCES = 3
"""Configurations with residuals: those of two are the same but for their sign."""
GOLDEN_RATIO = (5**0.5 - 1) / 2
"""Steps of it, modulo 1, are spread evenly, however many there are."""
UNSTABLE_SHARES = (0.01, 0.03, 0.1, 0.3)
"""Shares of configurations whose variance is far larger: all are equally likely before, as far as the residuals do not
decide (see `docs/decisions.md`)."""
LEAST_UNSTABLE, UNSTABLE_SCALE = 2.5, 1.0
"""The logarithm of such a variance is above the level by at least so much, and by more with an exponential
distribution of this mean: standard deviations are 3.5 times as large at least, or any larger, as after a collapse."""


def draw_variances(squares: Floats, degrees: Floats) -> Floats:
    """Draws training variances from their posterior distribution.

    Args:
        squares: (configurations,) sums of squared residuals.
        degrees: (configurations,) their degrees of freedom, some above 0; a configuration with 0 gets what the others
            show.

    Returns:
        (draws, configurations). Fewer than three configurations with residuals have equal variances.
    """
    stream, total = np.random.default_rng(0), float(degrees.sum())
    pooled, size = squares.sum() / total, (NUM_DRAWS, len(squares))
    if pooled == 0:
        return np.zeros(size)
    if np.count_nonzero(degrees) < FEWEST_VARIANCES:
        return np.broadcast_to(pooled * draw_level(total)[:, None], size)

    # The likelihood of each variance on the grid, and by it the probability of each share, level and spread.
    known = (degrees > 0) & (squares > 0)
    median = np.median(squares[known] / degrees[known])  # the mean may be that of one unstable configuration
    logs = -(degrees[:, None] * LOGS + squares[:, None] / median * np.exp(-LOGS)) / 2
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))  # (configurations, logs)
    prior = prior_of_logs()  # (shares * levels * spreads, logs)
    with np.errstate(divide="ignore"):  # of many residuals some levels are impossible
        spreads = np.log(np.tile(SPREAD_PROBS, len(prior) // len(SPREAD_PROBS)))
        posterior = np.log(prior @ likelihood.T).sum(axis=1) + spreads
    probs = np.exp(posterior - posterior.max())

    # Draws of these, then of each variance given them, evenly within a step of the grid.
    drawn = np.sort(stream.choice(len(prior), NUM_DRAWS, p=probs / probs.sum()))
    found = np.empty(size)
    for number in np.unique(drawn):
        rows = np.flatnonzero(drawn == number)
        summed = np.cumsum(prior[number] * likelihood, axis=1)
        below = summed / summed[:, -1:] + np.arange(len(summed))[:, None]  # of all configurations in one row
        places = np.searchsorted(below.ravel(), stream.random((len(rows), len(summed))) + np.arange(len(summed)))
        found[rows] = LOGS[places % len(LOGS)]
    found += GRID_STEP * (stream.random(size) - 0.5)
    return np.asarray(median * np.exp(stream.permutation(found)))


def draw_level(degrees: float) -> Floats:
    """(draws,) of a variance whose estimate is 1, with so many degrees of freedom; the mean of their inverses is 1.

    They are quantiles at even steps, in an order in which the first thousand are nearly even, too: a few extreme draws
    would decide how wide the intervals of two configurations are.
    """
    shares = (np.arange(NUM_DRAWS) + 0.5) * GOLDEN_RATIO % 1
    precisions = stats.chi2.ppf(shares, degrees)
    return np.asarray(precisions.mean() / precisions)


@functools.cache
def prior_of_logs() -> Floats:
    """(shares * levels * spreads, logs): prior probabilities of a variance's logarithm for each of these in turn."""
    above = LOGS - LEVELS[:, None, None]  # (levels, 1, logs)
    spreads = np.maximum(np.array(SPREADS), GRID_STEP / 4)[:, None]  # the least one is that of equal variances
    usual = np.exp(-((above / spreads) ** 2) / 2)
    rare = np.exp(-(above - LEAST_UNSTABLE) / UNSTABLE_SCALE) * (above >= LEAST_UNSTABLE)
    usual, rare = (values / values.sum(axis=-1, keepdims=True) for values in (usual, rare))
    shares = np.array(UNSTABLE_SHARES)[:, None, None, None]
    return np.asarray((1 - shares) * usual + shares * rare).reshape(-1, len(LOGS))
