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
STEP = 0.125
"""Between the values of a variance's logarithm on the grid."""
LOGS = np.arange(-12, 12 + STEP / 2, STEP)
"""Logarithms of variances on the grid, relative to the pooled variance."""
LEVELS = np.arange(-4, 4.01, 2 * STEP)
"""Logarithms of the level that the configurations share: all are equally likely before."""
SPREADS = (0.0, 0.15, 0.3, 0.5, 0.75, 1.0, 1.4, 2.0)
"""Standard deviations of the logarithms around the level. Equally stable configurations have 0; standard deviations of
training that differ by a factor of up to 3 have about 0.6."""
SPREAD_PROBS = np.array([3, 2, 2, 2, 1.5, 1, 0.5, 0.25]) / 12.25
"""Prior probabilities of the spreads. Of three replicates the residuals decide little between them."""
UNSTABLE_PROB = 0.1
"""Prior probability that a configuration is one of the few whose variance is far larger."""
UNSTABLE_LOGS = (2.0, 4.0)
"""Between which numbers the logarithm of such a variance is above the level, each equally likely: standard deviations
are 2.7 to 7.4 times as large. With a prior probability of .05 margins of 7 configurations with 3 replicates are a tenth
narrower, and false differences from a base that trains five times as unstably are 14 % in place of 11 %."""
GOLDEN_RATIO = (5**0.5 - 1) / 2
"""Multiples of it, without their integers, are spread evenly, however many there are."""


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
    if np.count_nonzero(degrees) < 3:
        return np.broadcast_to(pooled * draw_level(total)[:, None], size)

    # The likelihood of each variance on the grid, and by it the probability of each level and spread.
    logs = -(degrees[:, None] * LOGS + squares[:, None] / pooled * np.exp(-LOGS)) / 2
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))  # (configurations, logs)
    prior = prior_of_logs()  # (levels * spreads, logs)
    posterior = np.log(prior @ likelihood.T).sum(axis=1) + np.log(np.tile(SPREAD_PROBS, len(LEVELS)))
    probs = np.exp(posterior - posterior.max())

    # Draws of both, then of each variance given them, evenly within a step of the grid.
    drawn = np.sort(stream.choice(len(prior), NUM_DRAWS, p=probs / probs.sum()))
    found = np.empty(size)
    for number in np.unique(drawn):
        rows = np.flatnonzero(drawn == number)
        summed = np.cumsum(prior[number] * likelihood, axis=1)
        for one, below in enumerate(summed / summed[:, -1:]):
            found[rows, one] = LOGS[np.searchsorted(below, stream.random(len(rows)))]
    found += STEP * (stream.random(size) - 0.5)
    return np.asarray(pooled * np.exp(stream.permutation(found)))


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
    """(levels * spreads, logs): prior probabilities of a variance's logarithm for each level and spread in turn."""
    rows = []
    for level in LEVELS:
        above = LOGS - level
        is_unstable = (above >= UNSTABLE_LOGS[0]) & (above <= UNSTABLE_LOGS[1])
        for spread in SPREADS:
            usual = np.exp(-((above / spread) ** 2) / 2) if spread else (np.abs(above) < STEP / 2).astype(float)
            rows.append(
                (1 - UNSTABLE_PROB) * usual / usual.sum() + UNSTABLE_PROB * is_unstable / max(1, is_unstable.sum())
            )
    return np.array(rows)
