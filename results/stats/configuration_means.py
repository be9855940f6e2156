"""Mean scores of configurations over their replicates, with both variances: of training, and of the examples.

The model of a score is `configuration + replicate + training error`: replicate r has the same random streams in every
configuration, so its effect, fitted by least squares, cancels in differences between configurations. What remains
within a configuration is its training variance. It also holds the part of the variance over examples that differs from
replicate to replicate; the part that all replicates of a configuration share is estimated from pairs of different
replicates, whose errors are independent.

Configurations that trained the same count once, as one distinct configuration.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, polygamma

from results.stats.resampling import Floats, Numbers

MAX_DEGREES = 1e6
"""Degrees of freedom that stand for infinitely many."""
LEAST_SPREAD = 0.1
"""Variance of the logarithms of training variances, up to which few replicates do not show that these differ: they are
taken to differ as much, by about a sixth in standard deviations."""
NO_COEFFICIENT = 1e-12
"""Coefficients that cancel but for this are 0."""
MOMENT = 0.25
"""Power of the variances, whose mean is squared and compared with the mean of its square."""
PRIOR_HALVES, NUM_PRIORS = (1e-3, 1e5), 400
"""Half the prior's degrees of freedom beyond the fewest at which these means exist, and how many are tabulated."""


@dataclass(frozen=True, kw_only=True)
class ModelScores:
    """Scores of trained models on one set of examples."""

    configurations: Numbers
    """(models,) number of each model's configuration, from 0, none left out."""
    replicates: Numbers
    """(models,) number of each model's replicate, from 0, none left out; no two models have the same of both."""
    scores: Floats
    """(models,)."""
    covariance: Floats
    """(models, models), of the scores over draws of examples."""
    trainings: Numbers
    """(models,) number of each model's training; models that trained the same have the same."""

    def select(self, models: Numbers) -> "ModelScores":
        """Returns those of some models, in this order; their configurations keep their numbers."""
        return ModelScores(
            configurations=self.configurations[models],
            replicates=self.replicates[models],
            scores=self.scores[models],
            covariance=self.covariance[np.ix_(models, models)],
            trainings=self.trainings[models],
        )


@dataclass(frozen=True, kw_only=True)
class ConfigurationMeans:
    """Means over replicates, their variances, and what a permutation test needs."""

    means: Floats
    """(configurations,) least-squares means: where no replicate is missing, the plain means."""
    num_models: Numbers
    """(configurations,) how many each has."""
    distinct: Numbers
    """(configurations,) number among the distinct ones; those that trained the same have the same."""
    weights: Floats
    """(distinct, models): the means are `weights @ scores`."""
    model_variances: Floats
    """(models,) training variance of each model: its configuration's."""
    degrees: Floats
    """(distinct,) degrees of freedom of each training variance apart from the level that all share; `MAX_DEGREES`
    where fewer than three are known and all are taken as equal, 0 if no configuration was trained twice."""
    total_degrees: float
    """Degrees of freedom of all residuals together."""
    examples: Floats
    """(distinct, distinct) covariance over examples of what a configuration's replicates share."""
    scores: ModelScores
    """The scores of the distinct configurations."""

    @property
    def has_replicates(self) -> bool:
        """Whether the variance of training is known: also where all trained the same, more than once."""
        return self.total_degrees > 0 or (len(self.distinct) > len(self.degrees) == 1 < len(self.scores.scores))

    @property
    def fixed_examples(self) -> Floats:
        """(distinct, distinct) covariance of the means over examples alone, for the models as they were trained.

        It is a floor of the variance over both: replicates may be equal by chance, as accuracies of two often are.
        """
        return np.asarray(self.weights @ self.scores.covariance @ self.weights.T)

    def of_distinct(self, coefficients: Floats) -> Floats:
        """(contrasts, distinct) the coefficients of distinct configurations, from (contrasts, configurations)."""
        found = coefficients @ np.eye(len(self.degrees))[self.distinct]
        return np.asarray(np.where(np.abs(found) < NO_COEFFICIENT, 0.0, found))

    def estimate(self, coefficients: Floats) -> Floats:
        """(contrasts,) of (contrasts, configurations); 0 between those that trained the same."""
        return self.of_distinct(coefficients) @ (self.weights @ self.scores.scores)

    def average(self, values: Floats) -> Floats:
        """(distinct, ...) the means of (configurations, ...) over those that trained the same."""
        members = np.eye(len(self.degrees))[self.distinct].T
        return np.asarray((members / members.sum(axis=1, keepdims=True)) @ values)


@dataclass(frozen=True, kw_only=True)
class Contrasts:
    """Linear combinations of configurations' means whose coefficients sum to 0, such as differences."""

    estimates: Floats
    """(contrasts,)."""
    training_errors: Floats
    """(contrasts,) standard errors over trainings; nan where no configuration was trained twice."""
    example_errors: Floats
    """(contrasts,) standard errors over examples: the part that no number of replicates removes."""
    fixed_errors: Floats
    """(contrasts,) standard errors over examples of these very models, which no error over both is below."""
    degrees: Floats
    """(contrasts,) degrees of freedom of the training errors; 0 where these are nan."""

    @property
    def errors(self) -> Floats:
        """(contrasts,) standard errors over both."""
        return np.maximum(np.hypot(self.training_errors, self.example_errors), self.fixed_errors)


def configuration_means(scores: ModelScores) -> ConfigurationMeans:
    """Least-squares means of configurations, and their variances; those that trained the same count once."""
    standing = representatives(scores)
    distinct = number_equal(standing.tolist())
    kept = scores.select(np.flatnonzero(np.isin(scores.configurations, standing)))
    found = distinct_means(replace(kept, configurations=distinct[kept.configurations]))
    counts = np.bincount(scores.configurations)
    return replace(found, means=found.means[distinct], distinct=distinct, num_models=counts)


def representatives(scores: ModelScores) -> Numbers:
    """(configurations,) number of the one that stands for each: the first with the most replicates that is the same.

    One is the same as another with as many replicates or more if all of its own trained the same there.
    """
    own: list[set[tuple[int, int]]] = [set() for _ in range(int(scores.configurations.max()) + 1)]
    models = zip(scores.configurations.tolist(), scores.replicates.tolist(), scores.trainings.tolist(), strict=True)
    for configuration, replicate, training in models:
        own[configuration].add((replicate, training))
    holders: dict[tuple[int, int], list[int]] = defaultdict(list)
    standing = np.arange(len(own))
    for configuration in sorted(range(len(own)), key=lambda number: -len(own[number])):
        found = [first for first in holders[min(own[configuration])] if own[configuration] <= own[first]]
        if found:
            standing[configuration] = found[0]
        else:
            for model in own[configuration]:
                holders[model].append(configuration)
    return standing


def number_equal(keys: Sequence[Hashable]) -> Numbers:
    """(keys,) a number for each, from 0 in the order in which they come first; equal keys have the same."""
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], dtype=np.int64)


def distinct_means(scores: ModelScores) -> ConfigurationMeans:
    """Least-squares means of configurations that are all distinct, and their variances."""
    num_configurations = int(scores.configurations.max()) + 1
    design = design_matrix(scores)
    inverse = np.asarray(np.linalg.pinv(design), dtype=np.float64)
    weights = inverse[:num_configurations]
    own_degrees = residual_degrees(scores)
    residuals = scores.scores - design @ (inverse @ scores.scores)
    variances, degrees = training_variances(residuals, scores.configurations, own_degrees)
    return ConfigurationMeans(
        means=weights @ scores.scores,
        num_models=np.bincount(scores.configurations),
        distinct=np.arange(num_configurations),
        weights=weights,
        model_variances=variances[scores.configurations],
        degrees=degrees,
        total_degrees=float(own_degrees.sum()),
        examples=shared_covariance(scores, num_configurations),
        scores=scores,
    )


def design_matrix(scores: ModelScores) -> Floats:
    """(models, configurations + replicates - 1): a column per configuration; replicates' effects sum to 0."""
    configurations = np.eye(int(scores.configurations.max()) + 1)[scores.configurations]
    replicates = np.eye(int(scores.replicates.max()) + 1)[scores.replicates]
    return np.concatenate([configurations, replicates[:, :-1] - replicates[:, -1:]], axis=1)


def residual_degrees(scores: ModelScores) -> Floats:
    """(configurations,) degrees of freedom of each configuration's residuals; their sum is the whole fit's."""
    design = design_matrix(scores)
    leverage = np.einsum("mp,pm->m", design, np.linalg.pinv(design))
    found = np.bincount(scores.configurations, 1 - leverage).astype(np.float64)
    return np.where(found < 1e-9, 0.0, found)


def training_variances(residuals: Floats, configurations: Numbers, degrees: Floats) -> tuple[Floats, Floats]:
    """Training variance of each configuration, raised towards the common one if smaller, and its degrees of freedom.

    Args:
        residuals: (..., models) of the least-squares fit.
        configurations: (models,) number of each model's configuration.
        degrees: (configurations,) residual degrees of freedom; a configuration that was trained once may have 0.

    Returns:
        Variances and degrees of freedom, (..., configurations) each; both 0 where no configuration has any. Fewer than
        three configurations with replicates have equal variances, with `MAX_DEGREES`.

    Source: Smyth (2004), "Linear models and empirical Bayes methods", equation 6, as in limma. The prior variance is
    the pooled one, which is larger than limma's where variances differ. A variance above it stays, unlike limma's,
    which reduces it too far where one configuration trains far less stably than the others. Such a configuration has as
    many degrees of freedom as the others: with its own alone, simulated margins are 4 % wider, and false differences
    from an unstable configuration hardly rarer.
    """
    num_configurations, total = len(degrees), degrees.sum()
    squares = residuals**2 @ np.eye(num_configurations)[configurations]
    if total <= 0:
        return np.zeros_like(squares), np.zeros_like(squares)
    pooled = squares.sum(axis=-1, keepdims=True) / total
    known = degrees > 0
    if known.sum() < 3:
        return np.broadcast_to(pooled, squares.shape).copy(), np.full_like(squares, MAX_DEGREES)
    weight = prior_degrees(squares[..., known] / degrees[known], degrees[known])[..., None]
    moderated = (weight * pooled + squares) / (weight + degrees)
    own = np.divide(squares, degrees, out=np.zeros_like(squares), where=known)
    return np.maximum(moderated, own), weight + degrees


def prior_degrees(variances: Floats, degrees: Floats) -> Floats:
    """Returns the degrees of freedom of the prior, by which single variances are moderated.

    Variances are taken as `prior * F(degrees, prior_degrees)`. The ratio of the mean standard deviation to the squared
    mean of its root, beyond what their own degrees of freedom explain, gives the prior's. The variance of the
    true ones' logarithms is taken to be at least `LEAST_SPREAD`, or its standard error if smaller.

    Args:
        variances: (..., configurations), of at least three.
        degrees: (configurations,) above 0.

    Returns:
        (...), above 1: with fewer degrees the mean standard deviation does not exist.

    Source: the model of Smyth (2004), section 6.2, which compares logarithms instead. Of few replicates these tell
    mostly how near to 0 the smallest variances happen to be, and accuracies of two replicates are often equal.
    """
    roots = variances**MOMENT / chi_square_moment(degrees, MOMENT)
    deviations = variances ** (2 * MOMENT) / chi_square_moment(degrees, 2 * MOMENT)
    number = len(degrees)
    squared_mean = (roots.sum(axis=-1) ** 2 - (roots**2).sum(axis=-1)) / (number * (number - 1))  # over pairs
    tiny = np.finfo(float).tiny
    excess = np.log(np.maximum(deviations.mean(axis=-1), tiny)) - np.log(np.maximum(squared_mean, tiny))
    halves = 2 * MOMENT + np.geomspace(*PRIOR_HALVES, NUM_PRIORS)
    expected = gammaln(halves - 2 * MOMENT) + gammaln(halves) - 2 * gammaln(halves - MOMENT)  # falls
    found = 2 * np.exp(np.interp(-excess, -expected, np.log(halves)))
    least = min(LEAST_SPREAD, polygamma(1, degrees / 2).mean() * np.sqrt(2 / (number - 1)))
    return np.asarray(np.minimum(found, 2 * inverse_trigamma(float(least))))


def chi_square_moment(degrees: Floats, power: float) -> Floats:
    """Returns the mean of (chi-square / degrees)^power."""
    halves = degrees / 2
    return np.asarray(np.exp(gammaln(halves + power) - gammaln(halves) - power * np.log(halves)))


def inverse_trigamma(value: float) -> float:
    """y with trigamma(y) = value, above 0, which lies between 1 / value and 1 + 1 / value."""
    return float(brentq(lambda y: polygamma(1, y) - value, 1 / value, 1 + 1 / value, xtol=1e-14))


def shared_covariance(scores: ModelScores, num_configurations: int) -> Floats:
    """(configurations, configurations) covariance over examples, averaged over pairs of different replicates.

    Two models of one replicate share random streams: their covariance also holds what their training errors share,
    which the residuals measure. A configuration with one replicate has the covariance of its only model.
    """
    membership = np.eye(num_configurations)[scores.configurations]
    differ = (scores.replicates[:, None] != scores.replicates[None]).astype(np.float64)
    counts = membership.T @ differ @ membership
    every = membership.T @ np.ones_like(differ) @ membership
    between = membership.T @ (scores.covariance * differ) @ membership
    whole = membership.T @ scores.covariance @ membership
    return np.asarray(np.where(counts > 0, between / np.where(counts > 0, counts, 1), whole / every))


def training_covariance(means: ConfigurationMeans) -> Floats:
    """(distinct, distinct) covariance of the means over trainings, without what replicates share."""
    return (means.weights * means.model_variances) @ means.weights.T


def contrasts(means: ConfigurationMeans, coefficients: Floats) -> Contrasts:
    """Estimates and standard errors of linear combinations of the means.

    Args:
        means: of at least two configurations.
        coefficients: (contrasts, configurations); each row sums to 0.
    """
    own = means.of_distinct(coefficients)
    membership = np.eye(len(means.degrees))[means.scores.configurations]
    parts = ((own @ means.weights) ** 2 * means.model_variances) @ membership  # (contrasts, distinct)
    training, degrees = np.full(len(coefficients), np.nan), np.zeros(len(coefficients))
    if means.has_replicates:
        training = np.sqrt(parts.sum(axis=1))
        degrees = satterthwaite(parts, means)
    return Contrasts(
        estimates=means.estimate(coefficients),
        training_errors=training,
        example_errors=standard_errors(own, means.examples),
        fixed_errors=standard_errors(own, means.fixed_examples),
        degrees=degrees,
    )


def standard_errors(coefficients: Floats, covariance: Floats) -> Floats:
    """(contrasts,) standard errors of combinations, (contrasts, distinct), of means with this covariance."""
    return np.asarray(np.sqrt(np.maximum(np.einsum("ki,ij,kj->k", coefficients, covariance, coefficients), 0.0)))


def satterthwaite(parts: Floats, means: ConfigurationMeans) -> Floats:
    """Degrees of freedom of sums of configurations' training variances, (contrasts, distinct) -> (contrasts,).

    Variances share their prior, so a sum has at most as many as all residuals together.
    """
    spread = np.divide(parts**2, means.degrees, out=np.zeros_like(parts), where=means.degrees > 0).sum(axis=1)
    total = means.total_degrees
    found = np.divide(parts.sum(axis=1) ** 2, spread, out=np.full_like(spread, total), where=spread > 0)
    return np.asarray(np.minimum(found, total))
