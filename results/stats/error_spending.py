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
import numpy.typing as npt
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtr

from results.records.race import RACE
from results.stats.resampling import CONFIDENCE, Floats

ERROR = 1 - CONFIDENCE
"""Of all looks together."""
WIDER_AT_FIRST = 1.08
"""How many times as wide the margins of the declared look may be because of the other looks."""
SPENT_BEFORE = 0.1
"""Share of what the declared look leaves that is spent at the rounds before it."""
FAR, SPENT_FAR = 8.0, 0.1
"""Rounds, in multiples of the declared ones, up to which error is spent evenly over their logarithm, and the share of
what the declared look leaves that is kept for those beyond."""
RACE_ROUNDS = 20
"""Up to which a race spends evenly over the logarithm of rounds, but for the share that is kept."""
DENSE_ROUNDS, COARSE_STEP = 20, 1.05
"""Up to so many rounds each is a look; beyond, those at which there are so many times as many as at the last."""
LEAST_STEP = 0.05
"""Standard deviation of a statistic given that of the last look, below which the two looks count as one."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(160)
"""Of Gauss and Legendre's quadrature over the statistics that are not significant: errors of levels are below 1 %."""
RATIOS = 2.0 ** np.arange(-7, 7.5, 0.5)
"""Ratios of variances that are told apart, so that equal computations are made once."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """A comparison after some rounds."""

    num_rounds: int
    """Complete ones, at least 2."""
    declared: int
    """Rounds of the look that was declared, at least 2; `RACE` where a decision follows each round."""

    def at(self, num_rounds: int) -> "Look":
        """Another look at the same sweep."""
        return replace(self, num_rounds=max(2, num_rounds))

    def level(self, degrees: float, ratio: float = 0.0, comparisons: float = 1.0) -> float:
        """The error that this look may make, all its comparisons together: `ERROR` of a fixed number of rounds.

        Args:
            degrees: of freedom of the training variance at this look, which decide those at the declared one.
            ratio: of the variance of a difference over examples to that over one round of trainings; 0 is safe.
            comparisons: how many independent ones would need as wide margins, at least 1.
        """
        first = 0.0
        if self.declared != RACE:
            own = round(max(1.0, degrees * (self.declared - 1) / (self.num_rounds - 1)), 1)
            first = float(2 * stats.t.sf(WIDER_AT_FIRST * stats.t.ppf(1 - ERROR / 2, own), own))
        known = RATIOS[ratio >= RATIOS]
        rounded = float(known[-1]) if len(known) else 0.0
        more = 2.0 ** (np.ceil(2 * np.log2(max(1.0, comparisons))) / 2)
        return watched(self.num_rounds, self.declared, first, rounded, float(more)).level


def deepen(quantiles: npt.ArrayLike, degrees: npt.ArrayLike, level: float) -> Floats:
    """Quantiles of the largest of several differences at another level than `ERROR`: that of one look.

    The probability that the largest exceeds a high quantile is proportional to that of a single difference, which has
    a t distribution.

    Args:
        quantiles: at `ERROR`, in standard errors.
        degrees: of freedom, of the same shape.
        level: of the look.
    """
    values, freedom = np.asarray(quantiles, dtype=np.float64), np.asarray(degrees, dtype=np.float64)
    return np.asarray(np.where(values > 0, stats.t.isf(stats.t.sf(values, freedom) * level / ERROR, freedom), 0.0))


def adjusted_p_value(p_value: float, level: float) -> float:
    """The p-value over all looks: below `ERROR` where that of this look is below its level."""
    return min(1.0, p_value * ERROR / level)


def spent(num_rounds: int, declared: int, first: float) -> float:
    """The error that all looks up to this round make together; `first` is that up to the declared one."""
    if declared == RACE:
        near = (1 - SPENT_FAR) * min(np.log(num_rounds) / np.log(RACE_ROUNDS), 1.0)
        return float(ERROR * (near + SPENT_FAR * max(0.0, 1 - RACE_ROUNDS / num_rounds)))
    left = ERROR - first
    if num_rounds < declared:
        return float(SPENT_BEFORE * left * np.log(num_rounds) / np.log(declared))
    times = num_rounds / declared
    near = (1 - SPENT_FAR) * min(np.log(times) / np.log(FAR), 1.0)
    return float(first + left * (near + SPENT_FAR * max(0.0, 1 - FAR / times)))


def rounds_looked_at(num_rounds: int, declared: int) -> list[int]:
    """The rounds that count as looks, the last one included."""
    found, number = [], 2
    while number < num_rounds:
        found.append(number)
        number = number + 1 if number < DENSE_ROUNDS else int(np.ceil(number * COARSE_STEP))
    return sorted({*found, *([declared] if RACE < declared < num_rounds else []), num_rounds})


@dataclass(frozen=True, kw_only=True)
class WatchedStatistic:
    """A statistic after a look, if it was not significant at this and all earlier looks."""

    level: float
    """Of the look."""
    total: float
    """Error that all looks so far make."""
    information: float
    """The inverse of the variance of the difference, where that over one round of trainings is 1."""
    places: Floats
    """(nodes,) absolute values of the statistic."""
    density: Floats
    """(nodes,) their probabilities."""


@functools.cache
def watched(num_rounds: int, declared: int, first: float, ratio: float, comparisons: float) -> WatchedStatistic:
    """The statistic after the look at a round; its level is that of `Look.level`.

    The density of a statistic that was not significant so far is carried from look to look. Two looks have the
    correlation of sums of independent parts, one of which, over examples, is the same in both.

    Source: Armitage, McPherson and Rowe (1969), "Repeated significance tests on accumulating data".
    """
    total, information = spent(num_rounds, declared, first), 1 / (ratio + 1 / num_rounds)
    earlier = rounds_looked_at(num_rounds, declared)[:-1]
    if not earlier:
        bound = float(stats.norm.isf(total / comparisons / 2))
        places = (NODES + 1) / 2 * bound
        density = WEIGHTS * bound * stats.norm.pdf(places)  # of the absolute value
    else:
        last = watched(earlier[-1], declared, first, ratio, comparisons)
        kept = np.sqrt(last.information / information)
        step = np.sqrt(1 - kept**2)
        if step < LEAST_STEP:
            return last
        bound = boundary(last.places, last.density, kept, step, (total - last.total) / comparisons)
        places = (NODES + 1) / 2 * bound
        apart = np.stack([places[:, None] - kept * last.places, places[:, None] + kept * last.places])
        reached = np.exp(-((apart / step) ** 2) / 2).sum(axis=0) @ last.density
        density = reached * WEIGHTS * bound / step / np.sqrt(8 * np.pi)
    level = float(2 * stats.norm.sf(bound) * comparisons)
    return WatchedStatistic(level=level, total=total, information=information, places=places, density=density)


def boundary(places: Floats, density: Floats, kept: float, step: float, share: float) -> float:
    """The absolute value that the next statistic exceeds with the probability `share`, not having been significant.

    Args:
        places: (nodes,) absolute values of the last statistic.
        density: (nodes,) their probabilities.
        kept: correlation of the two statistics.
        step: standard deviation of the next one given the last.
        share: above 0.
    """

    def excess(bound: float) -> float:
        beyond = ndtr((kept * places - bound) / step) + ndtr((-kept * places - bound) / step)
        return float(density @ beyond) - share

    return float(brentq(excess, 0.0, 40.0, xtol=1e-9))
