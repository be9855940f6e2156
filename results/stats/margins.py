"""How many standard errors a difference must have, when many are compared at once and errors may be heavy-tailed.

Three answers are taken together, the largest counts. The first holds for normal errors with equal variances: Tukey's
studentised range where the best of several is compared with all, Dunnett's distribution where one is compared with all
others. The second allows for training variances that differ, each known from few replicates: the true ones are drawn
around their estimates. The third comes from the residuals: if configurations are equally good, their scores can be
exchanged within a replicate, so permutations show how large the largest difference becomes with errors as they are. The
second and third are about training errors only; the variance over examples is known well.

A sweep may be looked at after every round of replicates; then its margins are wider (`results.stats.error_spending`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.special import gammaln
from statsmodels.stats.libqsturng import qsturng

from results.stats.configuration_means import (
    MAX_DEGREES,
    ConfigurationMeans,
    Contrasts,
    contrasts,
    design_matrix,
    residual_degrees,
    standard_errors,
    training_covariance,
    training_variances,
)
from results.stats.error_spending import ERROR, Look, quantiles_at
from results.stats.resampling import CONFIDENCE, Floats, Numbers

NUM_PERMUTATIONS = 1000
FEWEST_PERMUTATIONS = 1000
"""Distinct ones that there must be: fewer give no 95 % quantile of the largest of several differences."""
NUM_DRAWS = 20_000
"""The draws of the multivariate t distribution: its 95 % quantile then has a standard error below 1 %."""
MOST_AT_ONCE = 200
"""Contrasts whose draws are in memory at once: 32 MB."""
NUM_VARIANCES = 5000
"""Draws of training variances: the quantile has a standard error of about 1 %."""
SINGLE_QUANTILE = float(stats.norm.ppf((1 + CONFIDENCE) / 2))
"""The 95 % quantile of one difference with a known variance."""
LARGE_DEGREES = 1000.0
"""Degrees of freedom beyond which the studentised range no longer changes in three digits."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Margins:
    """How large differences must be to be significant, and what decides it; all nan where training was not repeated."""

    compared: Contrasts
    """The differences."""
    training_factors: Floats
    """(contrasts,) by which standard errors over trainings are multiplied."""
    example_factor: float
    """By which standard errors over examples are multiplied."""

    @property
    def widths(self) -> Floats:
        """(contrasts,) half the widths of the intervals."""
        training = self.training_factors * self.compared.training_errors
        both = np.hypot(training, self.example_factor * self.compared.example_errors)
        return np.maximum(both, self.example_factor * self.compared.fixed_errors)


Largest = Callable[[Floats, Floats], Floats]
"""From means and their squared standard errors, (draws, distinct) each, to the largest difference in standard errors,
(draws,)."""


def margins_best(
    means: ConfigurationMeans, compared: Contrasts, among: Mask | None = None, *, look: Look | None = None
) -> Floats:
    """Returns how large differences from the best must be to be significant: (contrasts,), nan without replicates.

    They hold for all pairs of configurations at once, so the best may be picked by its score.

    Args:
        means: of the configurations.
        compared: differences of configurations.
        among: (configurations,): the pairs are of these, at least two; None for all.
        look: of a sweep that may be looked at again; None: the only one.
    """
    every = np.ones(len(means.means), np.bool_) if among is None else among
    own = np.bincount(means.distinct, every) > 0
    if means.has_replicates and own.sum() < 2:  # all trained the same
        return np.zeros(len(compared.estimates))

    def tukey(degrees: Floats) -> Floats:
        return range_quantile(int(own.sum()), degrees)

    def largest(drawn: Floats, squares: Floats) -> Floats:
        return largest_range(drawn[:, own], squares[:, own])

    return combine_margins(means, compared, tukey, largest, look).widths


def margins_control(
    means: ConfigurationMeans, coefficients: Floats, *, together: Floats | None = None, look: Look | None = None
) -> Margins:
    """Returns how large differences from a control must be to be significant, all at once.

    Args:
        means: of the configurations.
        coefficients: (contrasts, configurations), rows that sum to 0: 1 for a configuration and -1 for the control,
            parts of 1 where each is a mean over configurations, or any other contrast.
        together: (others, configurations) contrasts whose intervals hold at once, those above among them: all pairs
            where the control was picked by its mean; None for those above.
        look: as in `margins_best`.
    """
    every = coefficients if together is None else together
    own, compared = means.of_distinct(every), contrasts(means, coefficients)
    if means.has_replicates and not own.any():  # all trained the same
        return Margins(compared=compared, training_factors=np.zeros(len(coefficients)), example_factor=0)

    def largest(drawn: Floats, squares: Floats) -> Floats:
        return np.asarray(ratio(np.abs(drawn @ own.T), np.sqrt(squares @ (own**2).T)).max(axis=1))

    def dunnett(degrees: Floats) -> Floats:
        return np.full_like(degrees, dunnett_quantile(means, every, float(degrees.min())))

    return combine_margins(means, compared, dunnett, largest, look)


def combine_margins(
    means: ConfigurationMeans,
    compared: Contrasts,
    normal: Callable[[Floats], Floats],
    largest: Largest,
    look: Look | None,
) -> Margins:
    """Margins of differences whose variance is the sum of an estimated and of a known part.

    Each part has its own quantile, and the squares are added. This keeps the confidence also where an estimate from
    few replicates is far too small by chance; Satterthwaite's approximation does not. Where replicates are nearly equal
    by chance, the margin is the known one of these very models over examples.

    Args:
        means: of the configurations.
        compared: differences of these means.
        normal: quantiles for normal errors of equal variances, from degrees of freedom, (contrasts,) both.
        largest: the largest difference.
        look: as in `margins_best`.

    Source: Banerjee (1960), "Approximate confidence interval for linear functions of means of k populations when the
    population variances are not equal".
    """
    if not compared.degrees.any():
        unknown = np.full(len(compared.estimates), np.nan)
        return Margins(compared=compared, training_factors=unknown, example_factor=np.nan)
    found = max(permuted_quantile(means, largest), drawn_quantile(means, largest))
    known = normal(np.full_like(compared.degrees, MAX_DEGREES))
    estimated = np.maximum(normal(compared.degrees), found)
    if look is not None:
        level = level_of(look, means, compared, float(known.max()))
        known, estimated = quantiles_at(known, MAX_DEGREES, level), quantiles_at(estimated, compared.degrees, level)
    factor = float(known.max())  # the same for all
    return Margins(compared=compared, training_factors=estimated, example_factor=factor)


def level_of(look: Look, means: ConfigurationMeans, compared: Contrasts, quantile: float) -> float:
    """Returns the error that a look may make by these contrasts.

    Args:
        look: with its number of rounds.
        means: of the configurations.
        compared: with both variances, of which the means over contrasts count.
        quantile: of the largest of the contrasts, for normal errors of known variances.
    """
    examples, training = np.mean(compared.example_errors**2), np.mean(compared.training_errors**2)
    ratio = float(examples / max(float(training * look.num_rounds), np.finfo(float).tiny))
    return look.level(means.total_degrees, ratio, ERROR / (2 * float(stats.norm.sf(quantile))))


def drawn_quantile(means: ConfigurationMeans, largest: Largest) -> float:
    """Quantile of the largest difference in standard errors over training, where variances differ.

    The true variances are drawn around their estimates: one factor for the level that all share, with the degrees of
    freedom of all residuals, and one for each configuration.

    Returns:
        0 where all variances are taken as equal.
    """
    degrees, total = means.degrees, means.total_degrees
    if degrees.min() >= MAX_DEGREES:
        return 0.0
    stream, size = np.random.default_rng(0), (NUM_VARIANCES, len(degrees))
    squares = np.broadcast_to(np.diag(training_covariance(means)), size)
    level = total / stream.chisquare(total, size=(NUM_VARIANCES, 1))
    true = squares * level * degrees / stream.chisquare(degrees, size=size)
    return float(np.quantile(largest(stream.normal(size=size) * np.sqrt(true), squares), CONFIDENCE))


def range_quantile(number: int, degrees: Floats) -> Floats:
    """Quantiles of the studentised range of so many means, in standard errors of a difference, as `degrees`."""
    return np.asarray(qsturng(CONFIDENCE, number, np.clip(degrees, 1.0, LARGE_DEGREES)) / math.sqrt(2))


def dunnett_quantile(means: ConfigurationMeans, coefficients: Floats, degrees: float) -> float:
    """Quantile of the largest absolute value of a multivariate t distribution with the contrasts' correlations."""
    if len(coefficients) == 1:
        return float(stats.t.ppf((1 + CONFIDENCE) / 2, degrees))
    own = means.of_distinct(coefficients)
    own = own[np.lexsort(own.T)]  # the draws do not depend on the order in which values were typed
    errors = training_covariance(means) + means.examples
    if len(own) > own.shape[1]:  # of all pairs there are far more than of configurations, whose errors are drawn then
        scaled = ratio(own, np.broadcast_to(standard_errors(own, errors)[:, None], own.shape))
        draws = draw_errors(errors)
        parts = np.array_split(scaled, math.ceil(len(scaled) / MOST_AT_ONCE))
        largest = np.max([np.abs(draws @ part.T).max(axis=1) for part in parts], axis=0)
    else:
        covariance = own @ errors @ own.T
        scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        largest = np.abs(draw_errors(ratio(covariance, np.outer(scale, scale)))).max(axis=1)
    squares = np.random.default_rng(1).chisquare(degrees, size=NUM_DRAWS) / degrees
    return float(np.quantile(largest / np.sqrt(squares), CONFIDENCE))


def draw_errors(covariance: Floats) -> Floats:
    """(draws, errors): normal errors with a covariance, the same ones each time."""
    mean = np.zeros(len(covariance))
    stream = np.random.default_rng(0)
    return stream.multivariate_normal(mean, covariance, size=NUM_DRAWS, method="eigh", check_valid="ignore")


def permuted_quantile(means: ConfigurationMeans, largest: Largest) -> float:
    """Quantile of the largest difference in standard errors over training, where residuals are permuted in replicates.

    The standard error of a difference is taken from both configurations' own variances, without the small part that
    missing replicates add.

    Args:
        means: of the configurations.
        largest: the largest difference.

    Returns:
        0 where there are fewer distinct permutations than `FEWEST_PERMUTATIONS`.
    """
    scores = means.scores
    sizes = np.bincount(scores.replicates)
    if gammaln(sizes + 1).sum() - gammaln(len(means.degrees) + 1) < math.log(FEWEST_PERMUTATIONS):
        return 0.0
    design = design_matrix(scores)
    fitted = design @ np.linalg.pinv(design)  # (models, models)
    draws = permute_within(scores.scores - fitted @ scores.scores, scores.replicates, NUM_PERMUTATIONS)
    residuals = draws - draws @ fitted.T
    variances, _ = training_variances(residuals, scores.configurations, residual_degrees(scores))
    own = means.weights[scores.configurations, np.arange(len(scores.scores))] ** 2  # (models,)
    squares = variances * np.bincount(scores.configurations, own)
    return float(np.quantile(largest(draws @ means.weights.T, squares), CONFIDENCE))


def largest_range(permuted: Floats, squares: Floats) -> Floats:
    """Largest difference from the best in standard errors, (permutations, configurations) twice -> (permutations,)."""
    best = permuted.argmax(axis=1)[:, None]
    difference = np.take_along_axis(permuted, best, axis=1) - permuted
    return np.asarray(ratio(difference, np.sqrt(np.take_along_axis(squares, best, axis=1) + squares)).max(axis=1))


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Returns the quotient, and 0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def permute_within(values: Floats, groups: Numbers, number: int) -> Floats:
    """(number, values): copies with the values of each group in another order."""
    stream = np.random.default_rng(0)
    found = np.broadcast_to(values, (number, len(values))).copy()
    for group in range(int(groups.max()) + 1):
        found[:, groups == group] = stream.permuted(found[:, groups == group], axis=1)
    return found


@dataclass(frozen=True, kw_only=True)
class ConfidenceSet:
    """All configurations, compared with the one of the highest mean."""

    below_best: Floats
    """(configurations,) difference of the highest mean from each."""
    margins: Floats
    """(configurations,) by which each must be below to be significantly worse; nan where training was not repeated."""
    is_left: Mask
    """(configurations,): which are in the set; all where training was not repeated, and always the best."""


def confidence_set(means: ConfigurationMeans, among: Mask | None = None, *, look: Look | None = None) -> ConfidenceSet:
    """Returns the model confidence set, by the range statistic:
    the largest difference, in standard errors, of all pairs.

    Configurations that are significantly below the best are eliminated, then the others are compared again with the
    margins of so many, until none is.

    Args:
        means: of the configurations.
        among: (configurations,): those that may be the best, as nothing has eliminated them before; None for all.
        look: as in `margins_best`.

    Returns:
        Those that are not among these have no margin, and are not in the set.

    Source: Hansen, Lunde and Nason (2011), "The Model Confidence Set", section 3.1.2, T_R. Its distribution is taken
    from `margins_best` instead of a bootstrap.
    """
    left = np.ones(len(means.means), np.bool_) if among is None else among
    one, best = np.eye(len(left)), int(np.where(left, means.means, -np.inf).argmax())
    compared = contrasts(means, one[best] - one)
    margins = np.full(len(one), np.nan)
    while left.sum() > 1:
        margins[left] = margins_best(means, compared, left, look=look)[left]
        is_left = left & ~(compared.estimates > margins)
        if np.array_equal(is_left, left):
            break
        left = is_left
    return ConfidenceSet(below_best=compared.estimates, margins=margins, is_left=left)
