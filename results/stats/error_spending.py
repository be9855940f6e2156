"""The share of error that a sweep may make at each look, so that all its looks together make 5 %.

A look is a comparison of configurations after some number of complete rounds; in a round each configuration is trained
once more. Every complete round counts as a look, whether anybody looked or not: a page, a data frame or a colleague may
show any of them at any moment, and the claims hold whichever were read and whenever training stopped.

The error is spent over rounds (Lan and DeMets 1983). At the first look that was declared, `--replicates` of the first
command, so much is spent that margins are `WIDER_AT_FIRST` times as wide as with this look alone; the little that is
left goes to earlier rounds and, evenly over their logarithm, to later ones. A race (`results.stats.race`) decides after
every round and declares none: it spends evenly over the logarithm from its second round on.

Training errors of rounds are independent. The dev examples are the same at every look: their part of a difference is
drawn once, so the more it weighs, the more alike are the statistics of two looks, and the less error a further look
makes.
"""

import functools
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtr

from results.stats.resampling import CONFIDENCE, Floats

ERROR = 1 - CONFIDENCE
"""The probability of an error at any of all looks together."""
WIDER_AT_FIRST = 1.12
"""How many times as wide the margins of the declared look may be because of the other looks."""
SPENT_BEFORE = 0.05
"""Share of what the declared look leaves that is spent at the rounds before it."""
LATE, SPENT_LATE = 6.0, 0.05
"""A look is late if it has more than `LATE` times the declared rounds. Error is spent evenly over the logarithm of
rounds before, and `SPENT_LATE` of what the declared look leaves is spent at late looks."""
RACE_ROUNDS = 20
"""Rounds up to which a race spends evenly over their logarithm; at later ones it spends `SPENT_LATE` of the error."""
DENSE_ROUNDS, COARSE_STEP = 20, 1.05
"""Each of the first `DENSE_ROUNDS` rounds is a look; after these, looks grow by the factor `COARSE_STEP`."""
LEAST_DEVIATION = 0.05
"""Two looks count as one if the standard deviation of the second statistic, given the first, is below this."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(160)
"""The nodes and weights of Gauss-Legendre quadrature over the statistics that are not significant: errors of levels are
below 1 %."""
RATIOS = 2.0 ** np.arange(-7, 7.5, 0.5)
"""Ratios of variances that are told apart, so that equal computations are made once."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """A comparison after some rounds."""

    num_rounds: int
    """Complete ones, at least 2."""
    declared: int | None
    """Rounds of the look that was declared, at least 2; None for a race, which looks after each round."""

    def at(self, num_rounds: int) -> "Look":
        """Another look at the same sweep."""
        return replace(self, num_rounds=max(2, num_rounds))

    def level(self, degrees: float, ratio: float = 0.0, comparisons: float = 1.0) -> float:
        """Returns the error that this look may make, all its comparisons together: `ERROR` of a fixed number of rounds.

        Args:
            degrees: of freedom of the training variance at this look, which decide those at the declared one.
            ratio: of the variance of a difference over examples to that over one round of trainings; 0 is safe.
            comparisons: how many independent ones would need as wide margins, at least 1.
        """
        first = 0.0
        if self.declared is not None:
            own = round(max(1.0, degrees * (self.declared - 1) / (self.num_rounds - 1)), 1)
            first = float(2 * stats.t.sf(WIDER_AT_FIRST * stats.t.ppf(1 - ERROR / 2, own), own))
        known = RATIOS[ratio >= RATIOS]
        rounded = float(known[-1]) if len(known) else 0.0
        more = 2.0 ** (np.ceil(2 * np.log2(max(1.0, comparisons))) / 2)
        return continuation(self.num_rounds, self.declared, first, rounded, float(more)).level


def adjusted_p_value(p_value: float, level: float) -> float:
    """Returns the p-value over all looks: below `ERROR` where that of this look is below its level."""
    return min(1.0, p_value * ERROR / level)


def spent(num_rounds: int, declared: int | None, first: float) -> float:
    """Returns the error that all looks up to this round make together; `first` is that up to the declared one."""
    if declared is None:
        near = (1 - SPENT_LATE) * min(np.log(num_rounds) / np.log(RACE_ROUNDS), 1.0)
        return float(ERROR * (near + SPENT_LATE * max(0.0, 1 - RACE_ROUNDS / num_rounds)))
    left = ERROR - first
    if num_rounds < declared:
        return float(SPENT_BEFORE * left * np.log(num_rounds) / np.log(declared))
    times = num_rounds / declared
    near = (1 - SPENT_LATE) * min(np.log(times) / np.log(LATE), 1.0)
    return float(first + left * (near + SPENT_LATE * max(0.0, 1 - LATE / times)))


def rounds_looked_at(num_rounds: int, declared: int | None) -> list[int]:
    """Returns the rounds that count as looks, the last one included."""
    found, number = [], 2
    while number < num_rounds:
        found.append(number)
        number = number + 1 if number < DENSE_ROUNDS else int(np.ceil(number * COARSE_STEP))
    return sorted({*found, *([declared] if declared is not None and declared < num_rounds else []), num_rounds})


@dataclass(frozen=True, kw_only=True)
class ContinuationDensity:
    """The density of a statistic after a look, where it was not significant at this and all earlier looks."""

    level: float
    """The level of the look."""
    total: float
    """Error that all looks so far make."""
    information: float
    """The inverse of the variance of the difference, where that over one round of trainings is 1."""
    values: Floats
    """(nodes,) absolute values of the statistic."""
    probs: Floats
    """(nodes,) their probabilities."""


@functools.cache
def continuation(
    num_rounds: int, declared: int | None, first: float, ratio: float, comparisons: float
) -> ContinuationDensity:
    """Returns the statistic after the look at a round, whose level is `Look.level`.

    The density of a statistic that was not significant so far is carried from look to look. Two looks have the
    correlation of sums of independent parts, one of which, over examples, is the same in both.

    Source: Armitage, McPherson and Rowe (1969), "Repeated significance tests on accumulating data".
    """
    total, information = spent(num_rounds, declared, first), 1 / (ratio + 1 / num_rounds)
    earlier = rounds_looked_at(num_rounds, declared)[:-1]
    if not earlier:
        bound = float(stats.norm.isf(total / comparisons / 2))
        values = (NODES + 1) / 2 * bound
        probs = WEIGHTS * bound * stats.norm.pdf(values)  # of the absolute value
    else:
        last = continuation(earlier[-1], declared, first, ratio, comparisons)
        correlation = np.sqrt(last.information / information)
        deviation = np.sqrt(1 - correlation**2)
        if deviation < LEAST_DEVIATION:
            return last
        bound = boundary(last, correlation, deviation, (total - last.total) / comparisons)
        values = (NODES + 1) / 2 * bound
        apart = np.stack([values[:, None] - correlation * last.values, values[:, None] + correlation * last.values])
        reached = np.exp(-((apart / deviation) ** 2) / 2).sum(axis=0) @ last.probs
        probs = reached * WEIGHTS * bound / deviation / np.sqrt(8 * np.pi)
    level = float(2 * stats.norm.sf(bound) * comparisons)
    return ContinuationDensity(level=level, total=total, information=information, values=values, probs=probs)


def boundary(last: ContinuationDensity, correlation: float, deviation: float, share: float) -> float:
    """Returns the absolute value that the next statistic exceeds with the probability `share`,
    not having been significant.

    Args:
        last: the density after the last look.
        correlation: of the next statistic with the last.
        deviation: standard deviation of the next statistic given the last.
        share: above 0.
    """

    def excess(bound: float) -> float:
        beyond = ndtr((correlation * last.values - bound) / deviation)
        beyond += ndtr((-correlation * last.values - bound) / deviation)
        return float(last.probs @ beyond) - share

    return float(brentq(excess, 0.0, 40.0, xtol=1e-9))
