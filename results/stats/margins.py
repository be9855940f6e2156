"""How far apart means must be, when many are compared at once and training variances are known from few replicates.

Errors of all means are drawn: training variances from what is known of them, given these the errors of training, and
errors over examples. The draws show how large the largest of several differences becomes by chance. Each difference
counts in units of its own distribution, so that one configuration that trains unstably widens the margins of its own
comparisons, and those of the others less (Beran 1988, "Balanced simultaneous confidence sets").

Two kinds of claims are made. An effect is a two-sided interval of a difference; all intervals that are shown together
hold at once. Whether a configuration may be the best is one-sided: it is left out if it is shown to be below some
other one, compared with all others at once. So the best one, whichever it is, is left out in 5 % of sweeps at most, and
so are all of several equally good ones.

A sweep may be looked at after every round of replicates; then its margins are wider (`results.stats.error_spending`).
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.special import ndtr

from results.stats.configuration_means import ConfigurationMeans, Contrasts, contrasts
from results.stats.error_spending import ERROR, Look
from results.stats.resampling import CONFIDENCE, Floats, Numbers
from results.stats.training_variances import ROOT_OF_TWO, draw_level

SINGLE_QUANTILE = float(stats.norm.ppf((1 + CONFIDENCE) / 2))
"""The 95 % quantile of one difference with a known variance."""
MAX_DEGREES, LARGEST_DEGREES = 1e6, 1e15
"""Degrees of freedom that stand for infinitely many: of a fit, and where they must be finite."""
NUM_DEVIATIONS = 1000
"""Draws of which the distribution of a difference is taken."""
LEVEL_EDGES = 1 - np.concatenate([np.linspace(1, 0.1, 25), np.geomspace(0.1, 0.0005, 16)[1:], [0.0]])
"""Between which shares of the draws, from the smallest on, one quantile stands for all. The few largest decide the
tails: with 32 even steps margins of two configurations with 3 replicates are 4 % too narrow."""
MOST_SCORES, FEWEST_DRAWS = 2**21, 1000
"""Errors of contrasts that are drawn to compare many at once, and how many of each at least."""
SCORES_AT_ONCE = 2**20
"""Errors of contrasts that are in memory at once."""
FITTED_TAILS = (0.2, 0.01)
"""Two-sided tail probabilities at which a t distribution is fitted to that of a difference."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Distributions:
    """The distributions of some differences' errors: nearly t distributions with a scale."""

    scales: Floats
    """(contrasts,) 0 for those that trained the same."""
    degrees: Floats
    """(contrasts,)."""

    def normal_scores(self, errors: Floats) -> Floats:
        """(draws, contrasts) errors as the normal values with nearly the same tail probability.

        Source: Wallace (1959), "Bounds on normal approximations to Student's and the chi-square distributions".
        """
        standard = ratio(errors, np.broadcast_to(self.scales, errors.shape))
        size = np.sqrt(self.degrees * np.log1p(standard**2 / self.degrees))
        return np.asarray(np.sign(standard) * size * (8 * self.degrees + 1) / (8 * self.degrees + 3))

    def quantiles(self, score: float) -> Floats:
        """(contrasts,) errors with the tail probability of a normal score: the inverse of `normal_scores`."""
        degrees = np.minimum(self.degrees, LARGEST_DEGREES)
        size = score * (8 * degrees + 3) / (8 * degrees + 1)
        return np.asarray(self.scales * np.sqrt(degrees * np.expm1(size**2 / degrees)))

    def select(self, rows: Numbers) -> "Distributions":
        """Returns some of them, in this order."""
        return Distributions(scales=self.scales[rows], degrees=self.degrees[rows])


@dataclass(frozen=True, kw_only=True)
class Margins:
    """How large differences must be to be significant; all nan where training was not repeated."""

    compared: Contrasts
    """The differences."""
    found: Distributions
    """Of their errors."""
    quantile: float
    """Of the largest of them all at `ERROR`, as that of a normal variable with a known variance."""
    look: Look | None = None
    """At which they are compared; None: the only one."""

    @cached_property
    def widths(self) -> Floats:
        """(contrasts,) half the widths of their intervals."""
        return self.widths_at(self.look)

    @property
    def factors(self) -> Floats:
        """(contrasts,) the widths in standard errors over trainings and examples together."""
        return ratio(self.widths, np.hypot(self.compared.training_errors, self.compared.example_errors))

    def widths_at(self, look: Look | None, growth: float = 1.0) -> Floats:
        """(contrasts,) the widths at another look, with `growth` times as many trainings, of which variances are as
        now."""
        errors, score = self.compared.errors_after(growth), self.quantile
        shrinkage = ratio(np.hypot(*errors), np.hypot(*self.compared.errors_after(1.0)))
        found = Distributions(scales=self.found.scales * shrinkage, degrees=self.degrees_after(growth))
        assert (look is None) == (self.look is None)
        if look is not None and self.look is not None:
            # Scaled to the look that is asked about, so that they are the same ones at the declared look.
            degrees = float(np.median(self.training_degrees)) * (look.num_rounds - 1) / (self.look.num_rounds - 1)
            score = score_at(look, degrees, replace(self.compared, training_errors=errors[0]), self.quantile)
        fixed = Distributions(scales=self.compared.fixed_errors, degrees=self.compared.example_degrees)
        return np.maximum(found.quantiles(score), fixed.quantiles(score) if growth == 1 else 0.0)

    @property
    def training_degrees(self) -> Floats:
        """(contrasts,) degrees of freedom of the errors, as far as training variances are not known."""
        of_examples = self.compared.example_parts(1.0)
        return np.asarray(1 / np.maximum(1 / self.found.degrees - of_examples, 1 / MAX_DEGREES))

    def degrees_after(self, growth: float) -> Floats:
        """(contrasts,) degrees of freedom of the errors with `growth` times as many trainings: groups of examples do
        not grow in number."""
        return np.asarray(1 / (1 / (self.training_degrees * growth) + self.compared.example_parts(growth)))

    def select(self, rows: Numbers) -> "Margins":
        """Returns those of some contrasts, in this order, whose intervals hold together with those of all."""
        return replace(self, compared=self.compared.select(rows), found=self.found.select(rows))


def margins_control(
    means: ConfigurationMeans, coefficients: Floats, *, together: Floats | None = None, look: Look | None = None
) -> Margins:
    """Returns how large differences must be to be significant in either direction, all at once.

    Args:
        means: of the configurations.
        coefficients: (contrasts, configurations), rows that sum to 0: 1 for a configuration and -1 for the control,
            parts of 1 where each is a mean over configurations, or any other contrast.
        together: (others, configurations) contrasts whose intervals hold at once, those above among them: all pairs
            where the control was picked by its mean; None for those above.
        look: of a sweep that may be looked at again; None: the only one.
    """
    own, compared = means.of_distinct(coefficients), contrasts(means, coefficients)
    every = own if together is None else means.of_distinct(together)
    if not means.can_be_compared:
        unknown = np.full(len(own), np.nan)
        found = Distributions(scales=unknown, degrees=unknown)
        return Margins(compared=compared, found=found, quantile=np.nan, look=look)
    found = distributions_of(means, own)
    of_all = found if together is None else distributions_of(means, every)
    quantile = largest_score(means, every, of_all, is_two_sided=True)
    return Margins(compared=compared, found=found, quantile=quantile, look=look)


def largest_score(means: ConfigurationMeans, own: Floats, of_own: Distributions, *, is_two_sided: bool) -> float:
    """Returns the 95 % quantile of the largest of the errors of several contrasts, (contrasts, distinct), with these
    distributions, as a normal score; of contrasts of those that trained the same it is 0."""
    differs = np.flatnonzero(own.any(axis=1))
    if not len(differs):
        return 0.0
    differing, found = own[differs], of_own.select(differs)
    if len(differing) == 1:  # as the draws would say
        error = found.scales * stats.t.isf(ERROR / (2 if is_two_sided else 1), found.degrees)
        return float(found.normal_scores(error[None])[0, 0])
    largest = []
    for rows in drawn_parts(means, len(differing)):
        scores = found.normal_scores(means.draw_errors(differing, rows))
        largest.append((np.abs(scores) if is_two_sided else scores).max(axis=1))
    return float(np.quantile(np.concatenate(largest), CONFIDENCE))


def drawn_parts(means: ConfigurationMeans, num_contrasts: int) -> list[Numbers]:
    """Returns as many numbers of draws of errors as there is time for, in parts that fit in memory."""
    draws = np.arange(len(means.variances))[: max(FEWEST_DRAWS, MOST_SCORES // num_contrasts)]
    return np.array_split(draws, math.ceil(len(draws) * num_contrasts / SCORES_AT_ONCE))


def distributions_of(means: ConfigurationMeans, own: Floats) -> Distributions:
    """Returns the distributions of the errors of contrasts, (contrasts, distinct).

    Given the variances of training and over examples an error is normal. Its distribution is that over all their draws,
    for which quantiles of the draws stand; a t distribution has the same tail probabilities at two places.
    """
    if not own.any():  # all trained the same
        return Distributions(scales=np.zeros(len(own)), degrees=np.full(len(own), MAX_DEGREES))
    membership = np.eye(len(means.weights))[means.scores.configurations]
    parts = (own @ means.weights) ** 2 @ membership  # (contrasts, distinct)
    examples = np.maximum(((own @ means.examples) * own).sum(axis=1), 0.0)
    drawn = draw_level(means.scores.degrees, ROOT_OF_TWO)[:NUM_DEVIATIONS, None] * examples
    deviations = np.sqrt(means.variances[:NUM_DEVIATIONS] @ parts.T + drawn)  # (draws, contrasts)
    deviations = np.quantile(deviations, (LEVEL_EDGES[1:] + LEVEL_EDGES[:-1]) / 2, axis=0)  # (levels, contrasts)
    inner, outer = (quantile_of_mixture(deviations, tail) for tail in FITTED_TAILS)
    tried = 1 / np.linspace(1.0, 1e-6, 500)
    ratios = stats.t.isf(FITTED_TAILS[1] / 2, tried) / stats.t.isf(FITTED_TAILS[0] / 2, tried)  # falls
    known = ratio(outer, inner)
    degrees = 1 / np.interp(-known, -ratios, 1 / tried)
    degrees = np.where(inner > 0, degrees, MAX_DEGREES)
    return Distributions(scales=inner / stats.t.isf(FITTED_TAILS[0] / 2, degrees), degrees=degrees)


def quantile_of_mixture(deviations: Floats, tail: float) -> Floats:
    """(contrasts,) absolute values that normal variables exceed with this probability, averaged over their standard
    deviations, (levels, contrasts), at `LEVEL_EDGES`."""
    low, high = 0 * deviations[-1], 10 * deviations[-1]
    for _ in range(22):  # halvings: to a millionth of the interval
        middle = (low + high) / 2
        exceeded = 2 * np.diff(LEVEL_EDGES) @ ndtr(-ratio(np.broadcast_to(middle, deviations.shape), deviations))
        low, high = np.where(exceeded > tail, middle, low), np.where(exceeded > tail, high, middle)
    return np.asarray((low + high) / 2)


def score_at(look: Look, degrees: float, compared: Contrasts, quantile: float) -> float:
    """Returns the normal score of a look, whose error is not `ERROR`, from that of `ERROR`.

    The probability that the largest of several exceeds a high value is proportional to that of a single one. Arguments
    as of `level_of`.
    """
    level = level_of(look, degrees, compared, quantile)
    return float(stats.norm.isf(stats.norm.sf(quantile) * level / ERROR)) if quantile else 0.0


def level_of(look: Look, degrees: float, compared: Contrasts, quantile: float) -> float:
    """Returns the error that a look may make by these contrasts.

    Args:
        look: with its number of rounds.
        degrees: of freedom of the contrasts' training variances.
        compared: with both variances, of which the means over contrasts count.
        quantile: of the largest of the contrasts, as a normal score.
    """
    examples, training = np.mean(compared.example_errors**2), np.mean(compared.training_errors**2)
    examples_ratio = float(examples / max(float(training * look.num_rounds), np.finfo(float).tiny))
    return look.level(degrees, examples_ratio, ERROR / (2 * float(stats.norm.sf(quantile))))


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Returns the quotient, and 0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


@dataclass(frozen=True, kw_only=True)
class BestSet:
    """Which configurations may be the best."""

    below_best: Floats
    """(configurations,) difference of the highest mean from each."""
    margins: Floats
    """(configurations,) by which each must be below the highest mean not to be the best; nan where training was not
    repeated."""
    at_most_below: Floats
    """(configurations,) by how much the true mean of each is below the best one's at most; nan as `margins`."""
    is_left: Mask
    """(configurations,) which may be the best; all where training was not repeated."""
    pairs: "Pairs | None" = None
    """The comparisons that were made; None where training was not repeated, or there is one configuration."""


def best_set(means: ConfigurationMeans, among: Mask | None = None, *, look: Look | None = None) -> BestSet:
    """Returns which configurations may be the best.

    Each is compared with all others at once, one-sided: it is left out if some other one is above it by more than the
    margin of this comparison. The margins of the true best one's comparisons, whichever it is, hold at once in 95 % of
    sweeps: then it is not left out, and no other one is farther below it than the same margins say.

    Args:
        means: of the configurations.
        among: (configurations,): those that may be the best, as nothing has eliminated them before; None for all.
        look: as in `margins_control`.

    Returns:
        Those that are not among these have no margin, and are not in the set.

    Source: Gupta (1965), "On some multiple decision (selection and ranking) rules"; Hsu (1984), "Constrained
    simultaneous confidence intervals for multiple comparisons with the best".
    """
    left = np.ones(len(means.means), np.bool_) if among is None else among
    places = np.flatnonzero(left)
    best = means.means[places].max()
    limits = np.full((len(left), len(left)), np.nan)  # by which the second may be above the first by chance
    pairs = compare_pairs(means, places) if len(places) > 1 and means.can_be_compared else None
    if pairs is not None:
        limits[np.ix_(places, places)] = pairs.limits(look)
    above = means.means - means.means[:, None]  # (first, second): by which the second is above
    with np.errstate(invalid="ignore"):
        is_below = (above > limits).any(axis=1)
    is_left = left & ~is_below
    margins, at_most = np.full(len(left), np.nan), np.full(len(left), np.nan)
    for place in places if len(places) > 1 else ():
        others = places[places != place]
        differing = others[means.distinct[others] != means.distinct[place]]
        compared = differing if len(differing) else others  # a copy is never above it
        margins[place] = np.min(limits[place, compared] + best - means.means[compared])
        rivals = others[is_left[others]]
        at_most[place] = np.max([0.0, *(above[place, rivals] + limits[rivals, place])])
    return BestSet(below_best=best - means.means, margins=margins, at_most_below=at_most, is_left=is_left, pairs=pairs)


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Comparisons of all pairs of some configurations, the second against the first one."""

    first: Numbers
    """(pairs,) place of the first among the configurations."""
    second: Numbers
    compared: Contrasts
    """By how much the second is above the first."""
    found: Distributions
    """Of the errors."""
    quantiles: Floats
    """(configurations,) of the largest error of all others against each, as a normal score."""

    def limits(self, look: Look | None, growth: float = 1.0) -> Floats:
        """(configurations, configurations) by which the second may be above the first by chance; nan for one itself.

        With each first one, whichever it is, all others are above it by more with 5 % probability at most.

        Args:
            look: as in `margins_control`.
            growth: factor of the number of trainings, of which variances are as now.
        """
        number, now = len(self.quantiles), None if look is None else look.at(round(look.num_rounds / growth))
        limits = np.full((number, number), np.nan)
        for place, quantile in enumerate(self.quantiles.tolist()):
            pairs = np.flatnonzero((self.first == place) | (self.second == place))
            own = Margins(
                compared=self.compared.select(pairs), found=self.found.select(pairs), quantile=quantile, look=now
            )
            others = np.where(self.first[pairs] == place, self.second[pairs], self.first[pairs])
            limits[place, others] = own.widths_at(look, growth)
        return limits


def compare_pairs(means: ConfigurationMeans, places: Numbers) -> Pairs:
    """Returns the comparisons of all pairs of configurations with replicates, at least two, given by their places.

    Each pair is drawn once: in the other direction its errors have the other sign.
    """
    number, one = len(places), np.eye(len(means.means))
    first, second = np.triu_indices(number, 1)
    coefficients = one[places[second]] - one[places[first]]
    own = means.of_distinct(coefficients)
    found, quantiles = distributions_of(means, own), np.zeros(number)
    if number == 2:
        quantiles[:] = largest_score(means, own, found, is_two_sided=False)
    elif own.any():  # not all trained the same
        largest = []
        for rows in drawn_parts(means, len(own)):
            scores, above = np.zeros((len(rows), number, number)), found.normal_scores(means.draw_errors(own, rows))
            scores[:, first, second], scores[:, second, first] = above, -above
            largest.append(scores.max(axis=2))
        quantiles = np.quantile(np.concatenate(largest), CONFIDENCE, axis=0)
    compared = contrasts(means, coefficients)
    return Pairs(first=first, second=second, compared=compared, found=found, quantiles=quantiles)
