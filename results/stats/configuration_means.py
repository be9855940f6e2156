"""Mean scores of configurations over their replicates, with both variances: of training, and of the examples.

The model of a score is `configuration + replicate + training error`: replicate r has the same random streams in every
configuration, so its effect, fitted by least squares, cancels in differences between configurations. What remains
within a configuration is its training variance. It also holds the part of the variance over examples that differs from
replicate to replicate; the part that all replicates of a configuration share is estimated from pairs of different
replicates, whose errors are independent.

Configurations that trained the same count once, as one distinct configuration.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from results.stats.resampling import Floats, Numbers
from results.stats.training_variances import FEWEST_VARIANCES, FittedScores, draw_variances

NO_COEFFICIENT = 1e-12
"""Coefficients that cancel but for this are 0."""
MOST_SUMMED = 100
"""Draws of errors whose squares are summed to draw an estimated variance, at most."""


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
    degrees: float = math.inf
    """Degrees of freedom of the covariance; 0 if examples are in too few groups for any difference to be claimed."""

    def select(self, models: Numbers) -> "ModelScores":
        """Returns those of some models, in this order; their configurations keep their numbers."""
        return ModelScores(
            configurations=self.configurations[models],
            replicates=self.replicates[models],
            scores=self.scores[models],
            covariance=self.covariance[np.ix_(models, models)],
            trainings=self.trainings[models],
            degrees=self.degrees,
        )


@dataclass(frozen=True, kw_only=True)
class ConfigurationMeans:
    """Means over replicates, and their variances."""

    means: Floats
    """(configurations,) least-squares means: where no replicate is missing, the plain means."""
    num_models: Numbers
    """(configurations,) how many each has."""
    distinct: Numbers
    """(configurations,) number among the distinct ones; those that trained the same have the same."""
    weights: Floats
    """(distinct, models): the means are `weights @ scores`."""
    variances: Floats
    """(draws, distinct) training variances of a model of each, as far as they are known (`draw_variances`); none if no
    configuration was trained twice."""
    has_common_variance: bool
    """Whether they differ by known factors alone: of fewer than three configurations with replicates they are equal."""
    total_degrees: float
    """Degrees of freedom of all residuals together."""
    examples: Floats
    """(distinct, distinct) covariance over examples of what a configuration's replicates share."""
    scores: ModelScores
    """The scores of the distinct configurations."""

    @property
    def has_replicates(self) -> bool:
        """Whether the variance of training is known: also where all trained the same, more than once."""
        return self.total_degrees > 0 or (len(self.distinct) > len(self.weights) == 1 < len(self.scores.scores))

    @property
    def can_be_compared(self) -> bool:
        """Whether both variances are known, so that differences can be claimed."""
        return self.has_replicates and self.scores.degrees > 0

    @property
    def fixed_examples(self) -> Floats:
        """(distinct, distinct) covariance of the means over examples alone, for the models as they were trained.

        It is a floor of the variance over both: replicates may be equal by chance, as accuracies of two often are.
        """
        return np.asarray(self.weights @ self.scores.covariance @ self.weights.T)

    @cached_property
    def model_variances(self) -> Floats:
        """(models,) the training variance of each model, its configuration's; 0 where none is known.

        It is the median of the draws, which is right on average within 2.5 % (as a standard deviation, 4 to 24
        configurations with 2 to 6 replicates); of one common variance its usual estimate, the harmonic mean.
        """
        if not len(self.variances) or not self.variances.any():
            return np.zeros(len(self.scores.scores))
        typical = np.median(self.variances, axis=0)
        if self.has_common_variance:
            typical = 1 / np.mean(1 / np.maximum(self.variances, np.finfo(float).tiny), axis=0)
        return np.asarray(typical[self.scores.configurations])

    @cached_property
    def error_draws(self) -> tuple[Floats, Floats]:
        """(draws, distinct) errors of the means over trainings, and over examples with the covariance as estimated."""
        stream, order = np.random.default_rng(1), canonical_order(self.scores)
        ranks = np.argsort(order)
        models = np.lexsort((self.scores.replicates, ranks[self.scores.configurations]))
        deviations = np.sqrt(self.variances)[:, self.scores.configurations[models]]
        training = (stream.standard_normal(deviations.shape) * deviations) @ self.weights[:, models].T
        values, vectors = np.linalg.eigh(self.examples[np.ix_(order, order)])
        factors = vectors * np.sqrt(np.maximum(values, 0.0))  # averages for near copies may be no covariance
        examples = stream.standard_normal((len(training), len(order))) @ factors.T
        return np.asarray(training), np.asarray(examples[:, ranks])

    def draw_errors(self, own: Floats, rows: Numbers) -> Floats:
        """(rows, contrasts) errors of contrasts, (contrasts, distinct), of some draws that follow each other.

        The variance of each contrast over examples was estimated from few groups, perhaps too low: its error counts in
        units of an estimate from other errors of the same distribution. Sums of the squares of the draws that follow
        are such estimates, whose correlations are right: each contrast has one of its own, and copies have the same.
        """
        training, examples = self.error_draws
        if math.isinf(self.scores.degrees):
            return np.asarray((training[rows] + examples[rows]) @ own.T)
        number = max(1, round(min(self.scores.degrees, MOST_SUMMED)))
        following = np.arange(rows[0] + 1, rows[-1] + 1 + number)
        squares = (examples.take(following, axis=0, mode="wrap") @ own.T) ** 2
        summed = np.cumsum(np.concatenate([np.zeros((1, len(own))), squares]), axis=0)
        known = np.maximum(((own @ self.examples) * own).sum(axis=1), np.finfo(float).tiny)
        estimates = (summed[number:] - summed[:-number]) / (number * known)
        estimates = 1 + (estimates - 1) * np.sqrt(number / max(self.scores.degrees, number))
        errors = (examples[rows] @ own.T) / np.sqrt(np.maximum(estimates, np.finfo(float).eps))
        return np.asarray(training[rows] @ own.T + errors)

    def of_distinct(self, coefficients: Floats) -> Floats:
        """(contrasts, distinct) the coefficients of distinct configurations, from (contrasts, configurations)."""
        found = coefficients @ np.eye(len(self.weights))[self.distinct]
        return np.asarray(np.where(np.abs(found) < NO_COEFFICIENT, 0.0, found))

    def estimate(self, coefficients: Floats) -> Floats:
        """(contrasts,) of (contrasts, configurations); 0 between those that trained the same."""
        return self.of_distinct(coefficients) @ (self.weights @ self.scores.scores)

    def average(self, values: Floats) -> Floats:
        """(distinct, ...) the means of (configurations, ...) over those that trained the same."""
        members = np.eye(len(self.weights))[self.distinct].T
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
    example_degrees: Floats
    """(contrasts,) degrees of freedom of the variance over examples, infinite if it is known; nan where they are 0."""

    @property
    def errors(self) -> Floats:
        """(contrasts,) standard errors over both."""
        return np.maximum(np.hypot(self.training_errors, self.example_errors), self.fixed_errors)

    def errors_after(self, growth: float) -> tuple[Floats, Floats]:
        """(contrasts,) standard errors over trainings, of which there are `growth` times as many, and over examples."""
        return self.training_errors / np.sqrt(growth), self.example_errors

    def example_parts(self, growth: float) -> Floats:
        """(contrasts,) what not knowing the variance over examples adds to the inverse of the degrees of freedom of the
        errors, with `growth` times as many trainings.

        Source: Satterthwaite (1946), "An approximate distribution of estimates of variance components".
        """
        training, examples = self.errors_after(growth)
        total = np.maximum(training**2 + examples**2, np.finfo(float).tiny)
        return np.asarray((examples**2 / total) ** 2 / self.example_degrees)

    def select(self, rows: Numbers) -> "Contrasts":
        """Returns some of them, in this order."""
        return Contrasts(**{name: values[rows] for name, values in vars(self).items()})


def canonical_order(scores: ModelScores) -> Numbers:
    """(configurations,) an order that does not depend on how configurations are numbered, so that draws do not either:
    by their scores in each replicate."""
    own: list[list[tuple[int, float]]] = [[] for _ in range(int(scores.configurations.max()) + 1)]
    models = zip(scores.configurations.tolist(), scores.replicates.tolist(), scores.scores.tolist(), strict=True)
    for configuration, replicate, score in models:
        own[configuration].append((replicate, score))
    return np.array(sorted(range(len(own)), key=lambda number: sorted(own[number])), dtype=np.int64)


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
    examples = shared_covariance(scores, num_configurations)
    variances, order = np.zeros((0, num_configurations)), canonical_order(scores)
    if own_degrees.any():
        ranks = np.argsort(order)
        models = np.lexsort((scores.replicates, ranks[scores.configurations]))
        fitted = FittedScores(
            scores=scores.scores[models],
            configurations=ranks[scores.configurations[models]],
            replicates=design[models, num_configurations:],
        )
        floor = example_variances(scores, np.eye(len(design)) - design @ inverse, own_degrees)
        variances = np.maximum(draw_variances(fitted)[:, ranks], floor)
    return ConfigurationMeans(
        means=weights @ scores.scores,
        num_models=np.bincount(scores.configurations),
        distinct=np.arange(num_configurations),
        weights=weights,
        variances=variances,
        has_common_variance=bool(np.count_nonzero(own_degrees) < FEWEST_VARIANCES),
        total_degrees=float(own_degrees.sum()),
        examples=examples,
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


def example_variances(scores: ModelScores, maker: Floats, degrees: Floats) -> Floats:
    """(configurations,) what examples alone add to the mean square of the residuals: no variance of training is seen
    without it.

    Replicates may be equal by chance, as accuracies of two often are. What models have in common, those of one
    configuration or of one replicate, is fitted and so no part of it.

    Args:
        scores: of models.
        maker: (models, models), which makes residuals of scores.
        degrees: (configurations,) of freedom of the residuals, some above 0; a configuration with 0 gets the mean of
            the others.
    """
    squares = np.bincount(scores.configurations, ((maker @ scores.covariance) * maker).sum(axis=1))
    return np.where(degrees > 0, squares / np.where(degrees > 0, degrees, 1.0), squares.sum() / degrees.sum())


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
    training = np.full(len(coefficients), np.nan)
    if means.has_replicates:
        training = np.sqrt((own @ means.weights) ** 2 @ means.model_variances)
    return Contrasts(
        estimates=means.estimate(coefficients),
        training_errors=training,
        example_errors=standard_errors(own, means.examples),
        fixed_errors=standard_errors(own, means.fixed_examples),
        example_degrees=np.full(len(own), means.scores.degrees or np.nan),
    )


def standard_errors(coefficients: Floats, covariance: Floats) -> Floats:
    """(contrasts,) standard errors of combinations, (contrasts, distinct), of means with this covariance."""
    return np.asarray(np.sqrt(np.maximum(((coefficients @ covariance) * coefficients).sum(axis=1), 0.0)))
