"""What residuals show of each configuration's training variance: draws from its posterior distribution.

Two or three replicates say little about a variance. What is known besides: configurations of a sweep mostly train about
equally stably, and a few far less so. Logarithms of variances are taken as normal around a level that all share, with a
spread that the residuals decide as far as they can; any configuration may also be one of the few, with a small prior
probability. So a variance that is far above the others stays nearly as it is, and the others are averaged.

Residuals of a plain least-squares fit would not do: through the fitted effects of replicates each has a part of the
errors of all others, so that one unstable configuration among four would make the others seem unstable, too. So
variances are drawn by the likelihood of all scores together, without the effects that were fitted (Patterson and
Thompson 1971, "Recovery of inter-block information when block sizes are unequal").
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from results.stats.resampling import Floats, Numbers

NUM_DRAWS = 8000
"""Draws: the 95 % quantile of a largest difference has a standard error of 1 to 3 %, as not all weigh alike."""
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
NUM_FITS = 4
"""Fits with weights, each by the variances that the residuals of the one before show: more change little."""
LEAST_DEGREES, LEAST_PROB, LEAST_RESIDUAL = 1e-9, 1e-12, 1e-13
"""Degrees of freedom, probabilities, and residuals of scores of 1, that are rounding errors."""
INFORMATION_AT_ONCE = 2**20
"""Numbers of the draws' matrices over replicates that are in memory at once."""
FEWEST_VARIANCES = 3
"""Configurations with residuals: those of two are the same but for their sign."""
GOLDEN_RATIO, ROOT_OF_TWO = (5**0.5 - 1) / 2, 2**0.5
"""Steps of each, modulo 1, are spread evenly, however many there are, and pairs of both over the square."""
UNSTABLE_SHARES = (0.01, 0.03, 0.1, 0.3)
"""Shares of configurations whose variance is far larger: all are equally likely before, as far as the residuals do not
decide (see `docs/decisions.md`)."""
LEAST_UNSTABLE, UNSTABLE_SCALE = 2.5, 1.0
"""The logarithm of such a variance is above the level by at least so much, and by more with an exponential
distribution of this mean: standard deviations are 3.5 times as large at least, or any larger, as after a collapse."""


@dataclass(frozen=True, kw_only=True)
class FittedScores:
    """Scores of models, and what was fitted to them."""

    scores: Floats
    """(models,)."""
    configurations: Numbers
    """(models,) number of each model's configuration, from 0, none left out."""
    replicates: Floats
    """(models, replicates - 1): columns of the design for the effects of replicates."""

    def weighted_residuals(self, variances: Floats) -> tuple[Floats, Floats]:
        """Returns the sum of squares of each configuration's residuals, and their degrees of freedom, of a fit that
        weights models by the inverse of their training variances, (configurations,)."""
        number = len(variances)
        design = np.concatenate([np.eye(number)[self.configurations], self.replicates], axis=1)
        scales = 1 / np.sqrt(variances[self.configurations])
        weighted = design * scales[:, None]
        inverse = np.asarray(np.linalg.pinv(weighted), dtype=np.float64)
        residuals = self.scores - design @ (inverse @ (self.scores * scales))
        residuals[np.abs(residuals) < LEAST_RESIDUAL * np.abs(self.scores).max()] = 0.0
        leverage = np.einsum("mp,pm->m", weighted, inverse)
        squares = np.bincount(self.configurations, residuals**2, number)
        degrees = np.bincount(self.configurations, 1 - leverage, number)
        return np.asarray(squares), np.where(degrees < LEAST_DEGREES, 0.0, degrees)

    def log_likelihood(self, variances: Floats) -> Floats:
        """(draws,) of training variances, (draws, configurations): of all that does not depend on the means of
        configurations and the effects of replicates.

        Means are integrated out first, so that what is left of each configuration is a matrix over replicates.
        """
        own = [np.flatnonzero(self.configurations == number) for number in range(variances.shape[1])]
        centred = [(self.replicates[at] - self.replicates[at].mean(axis=0)) for at in own]
        deviations = [self.scores[at] - self.scores[at].mean() for at in own]
        values, vectors = np.linalg.eigh(sum(part.T @ part for part in centred))
        basis = vectors[:, values > 1e-9]  # replicates that no configuration has in common have no effect to fit
        parts = np.stack([basis.T @ part.T @ part @ basis for part in centred])  # (configurations, effects, effects)
        products = np.stack([basis.T @ part.T @ own for part, own in zip(centred, deviations, strict=True)])
        squares, counts = np.array([own @ own for own in deviations]), np.array(list(map(len, own)))
        found = []
        for some in np.array_split(variances, math.ceil(len(variances) * parts[0].size / INFORMATION_AT_ONCE) or 1):
            weights = 1 / some
            information = np.tensordot(weights, parts, 1)  # (draws, effects, effects)
            shared = weights @ products  # (draws, effects)
            effects = np.linalg.solve(information, shared[..., None])[..., 0]
            left = weights @ squares - (shared * effects).sum(axis=1)
            found.append((np.log(weights) @ (counts - 1) - np.linalg.slogdet(information)[1] - left) / 2)
        return np.concatenate(found)


def draw_variances(fitted: FittedScores) -> Floats:
    """Draws training variances from their posterior distribution, (draws, configurations).

    They are drawn from nearly the right distribution, that of the residuals of a fit with weights, and drawn again with
    probabilities in proportion to the ratio of both likelihoods. No ratio counts as more than a limit that few reach
    (Ionides 2008, "Truncated importance sampling").
    """
    squares, degrees = fitted.weighted_residuals(np.ones(int(fitted.configurations.max()) + 1))
    if np.count_nonzero(degrees) < FEWEST_VARIANCES or not squares.any():
        return draw_independent(squares, degrees)
    for _ in range(NUM_FITS):
        squares, degrees = fitted.weighted_residuals(typical_variances(squares, degrees))
    found = draw_independent(squares, degrees)
    known = degrees > 0
    drawn_by = -(np.log(found[:, known]) @ degrees[known] + (1 / found[:, known]) @ squares[known]) / 2
    logs = fitted.log_likelihood(found) - drawn_by
    ratios = np.exp(logs - logs.max())
    ratios = np.minimum(ratios, ratios.mean() * np.sqrt(len(ratios)))
    places = np.searchsorted(np.cumsum(ratios) / ratios.sum(), (np.arange(NUM_DRAWS) + 0.5) / NUM_DRAWS)
    return np.asarray(found[np.random.default_rng(2).permutation(np.minimum(places, len(found) - 1))])


def draw_independent(squares: Floats, degrees: Floats) -> Floats:
    """Draws training variances from their posterior distribution, if residuals of configurations are independent.

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

    # Draws of the share, level and spread, then of each variance given them, evenly within a step of the grid.
    prior, (median, likelihood, probs) = prior_of_logs(), posterior_on_grid(squares, degrees)
    drawn = np.sort(stream.choice(len(prior), NUM_DRAWS, p=probs))
    found = np.empty(size)
    for number in np.unique(drawn):
        rows = np.flatnonzero(drawn == number)
        summed = np.cumsum(prior[number] * likelihood, axis=1)
        below = summed / summed[:, -1:] + np.arange(len(summed))[:, None]  # of all configurations in one row
        places = np.searchsorted(below.ravel(), stream.random((len(rows), len(summed))) + np.arange(len(summed)))
        found[rows] = LOGS[places % len(LOGS)]
    found += GRID_STEP * (stream.random(size) - 0.5)
    return np.asarray(median * np.exp(stream.permutation(found)))


def posterior_on_grid(squares: Floats, degrees: Floats) -> tuple[float, Floats, Floats]:
    """Returns the median variance, the likelihoods of each variance's logarithm relative to it, (configurations, logs),
    and the probability of each share, level and spread; arguments as of `draw_independent`."""
    known = (degrees > 0) & (squares > 0)
    median = float(np.median(squares[known] / degrees[known]))  # the mean may be that of one unstable configuration
    logs = -(degrees[:, None] * LOGS + squares[:, None] / median * np.exp(-LOGS)) / 2
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    prior = prior_of_logs()
    with np.errstate(divide="ignore"):  # of many residuals some levels are impossible
        spreads = np.log(np.tile(SPREAD_PROBS, len(prior) // len(SPREAD_PROBS)))
        posterior = np.log(prior @ likelihood.T).sum(axis=1) + spreads
    probs = np.exp(posterior - posterior.max())
    return median, likelihood, probs / probs.sum()


def typical_variances(squares: Floats, degrees: Floats) -> Floats:
    """(configurations,) the exponential of the mean logarithm of each variance; arguments as of `draw_independent`."""
    median, likelihood, probs = posterior_on_grid(squares, degrees)
    prior = prior_of_logs()[probs > LEAST_PROB]
    shares = probs[probs > LEAST_PROB, None] / (prior @ likelihood.T)  # (shares * levels * spreads, configurations)
    marginal = (shares.T @ prior) * likelihood
    return np.asarray(median * np.exp(marginal @ LOGS / marginal.sum(axis=1)))


def draw_level(degrees: float, step: float = GOLDEN_RATIO) -> Floats:
    """(draws,) of a variance whose estimate is 1, with so many degrees of freedom; the mean of their inverses is 1.

    Draws with another `step` are independent of these.

    They are quantiles at even steps, in an order in which the first thousand are nearly even, too: a few extreme draws
    would decide how wide the intervals of two configurations are.
    """
    if math.isinf(degrees):
        return np.ones(NUM_DRAWS)
    shares = (np.arange(NUM_DRAWS) + 0.5) * step % 1
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
