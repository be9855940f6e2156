"""The effect of a number that was sampled from a range: a fitted curve with a band, and where its optimum lies.

Configurations were drawn at random or by TPE, and mostly trained once. The mean score is fitted by a sum of smooth
curves, one for each range, and of a level for each value of each choice. The scatter around the fit is the variance of
the means: it holds the variance of training, and what curves of this kind do not fit, which replicates alone would not
show.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np
from scipy import stats

from results.stats.configuration_means import ConfigurationMeans, training_covariance
from results.stats.effects.key_effects import ValueContrasts, value_contrasts
from results.stats.effects.searched_keys import NO_VALUE, SearchedKey, in_value_order
from results.stats.error_spending import ERROR, Look, adjusted_p_value
from results.stats.resampling import Floats
from results.stats.training_variances import draw_level
from search_spaces.domain import Float, Int

POINTS = 101
"""The points of a curve, from one end of the range to the other."""
CONFIGURATIONS_PER_TERM = 4
"""Fewest for each term of a fit with curves: with fewer, terms of the highest power are left out."""
CONFIGURATIONS_PER_LINEAR_TERM = 3
"""Fewest for each term of a fit with lines alone: with fewer there is none."""
MAX_POWER = 3
"""Highest power of a range in its curve: one maximum within the range, and one bend more; the configurations of a usual
search are too few to tell further ones from chance."""
NUM_CURVES = 20_000
"""Drawn around the fitted one, for the interval of the optimum: its 2.5 % ends then rest on 500 curves each."""
EDGE = 0.02
"""Share of the range (in the scale it was sampled on) within which an optimum counts as at its edge."""


@dataclass(frozen=True, kw_only=True)
class RangeEffect:
    """The curve of one key."""

    points: Floats
    """(points,) values of the key."""
    means: Floats
    """(points,) fitted score, at the mean of the other keys."""
    differences: Floats
    """(points,) from the curve's mean over the configurations."""
    errors: Floats
    """(points,) standard errors of the differences."""
    half_widths: Floats
    """(points,) of the differences' 95 % band, at each point alone and over all looks."""
    optimum: float
    optimum_interval: tuple[float, float]
    """95 %, over all looks."""
    p_value: float
    """The p-value of the hypothesis that the key has no effect, adjusted over all looks."""
    edge: str
    """`low` or `high` where the fitted optimum lies at that end of the range, else empty; of a line, whose optimum
    always does and says nothing, it is empty."""
    degrees: float
    """Of freedom of the errors, which hold the variance of training and of the examples."""
    is_linear: bool
    """Whether a line was fitted, which shows no optimum inside the range: too few configurations for a curve."""

    @property
    def is_significant(self) -> bool:
        """Whether the hypothesis is rejected."""
        return self.p_value < ERROR


@dataclass(frozen=True, kw_only=True)
class Fit:
    """An additive fit to configurations' means."""

    design: Floats
    """(configurations, terms), the first is constant. Configurations that trained the same are fitted as one, at the
    mean of their terms."""
    columns: dict[str, slice]
    """Terms of each key."""
    inverse: Floats
    """(terms, configurations): the coefficients are `inverse @ means`."""
    covariance: Floats
    """The covariance of the coefficients, over trainings and examples."""
    over_examples: Floats
    """The part of it over examples."""
    means: ConfigurationMeans
    """With the scatter around the fit as their variance."""


def fit_keys(keys: Sequence[SearchedKey], means: ConfigurationMeans, params: Sequence[Mapping[str, Any]]) -> Fit | None:
    """Fits a curve to each range and a level to each value of a choice.

    Args:
        keys: all searched keys.
        means: of the configurations.
        params: of each configuration.

    Returns:
        None where there are too few configurations (`CONFIGURATIONS_PER_LINEAR_TERM`).
    """
    for power in range(MAX_POWER, 0, -1):
        design, columns = build_design(keys, params, power)
        fewest = CONFIGURATIONS_PER_TERM if power > 1 else CONFIGURATIONS_PER_LINEAR_TERM
        num_terms = int(np.linalg.matrix_rank(means.average(design)))
        if len(means.weights) >= fewest * num_terms:
            return fit_design(design, columns, means, num_terms)
    return None


def build_design(
    keys: Sequence[SearchedKey], params: Sequence[Mapping[str, Any]], power: int
) -> tuple[Floats, dict[str, slice]]:
    """Returns the design matrix and each key's columns; 0 where a configuration has no value of a key."""
    parts, columns, start = [np.ones((len(params), 1))], {}, 1
    for key in keys:
        values = [key.value_of(own) for own in params]
        part = range_terms(key.range, values, power) if key.range else choice_terms(key, values)
        parts.append(part)
        columns[key.name] = slice(start, start + part.shape[1])
        start += part.shape[1]
    return np.concatenate(parts, axis=1), columns


def range_terms(domain: Float | Int, values: Sequence[Any], power: int) -> Floats:
    """(configurations, power) Legendre polynomials of the position in the range; 0 where there is no value."""
    has_value = np.array([value is not NO_VALUE for value in values])
    position = positions(domain, np.array([domain.low if own is NO_VALUE else own for own in values], dtype=float))
    return np.asarray(np.polynomial.legendre.legvander(position, power)[:, 1:] * has_value[:, None])


def positions(domain: Float | Int, values: Floats) -> Floats:
    """Values as positions from -1 to 1, on the scale that they were sampled on."""
    low, high, at = (np.log(v) if domain.log else np.asarray(v, dtype=float) for v in (domain.low, domain.high, values))
    return np.asarray(2 * (at - low) / (high - low) - 1)


def choice_terms(key: SearchedKey, values: Sequence[Any]) -> Floats:
    """(configurations, values - 1) indicators of the values other than the base."""
    others = [value for value in in_value_order(key.values) if value != key.coded_base]
    return np.array([[float(value == other) for other in others] for value in values]).reshape(len(values), len(others))


def fit_design(design: Floats, columns: dict[str, slice], means: ConfigurationMeans, num_terms: int) -> Fit:
    """Least squares, with the scatter around the fit as the variance of each mean.

    The scatter is at least the variance over examples that each configuration has alone.
    """
    rows, scores = means.average(design), means.average(means.means)
    inverse = np.asarray(np.linalg.pinv(rows), dtype=np.float64)
    degrees = float(len(rows) - num_terms)
    scatter = float(np.sum((scores - rows @ (inverse @ scores)) ** 2) / degrees)
    squares = (means.weights**2).sum(axis=1)  # variance of each mean, where that of a training is 1
    scatter = max(scatter, float(np.mean(np.diag(means.fixed_examples - means.examples))))
    means = replace(
        means,
        variances=scatter / squares * draw_level(degrees)[:, None],
        has_common_variance=True,
        total_degrees=degrees,
    )
    over_examples = inverse @ means.examples @ inverse.T
    return Fit(
        design=design,
        columns=columns,
        inverse=inverse @ means.average(np.eye(len(design))),
        covariance=inverse @ training_covariance(means) @ inverse.T + over_examples,
        over_examples=over_examples,
        means=means,
    )


def range_effect(key: SearchedKey, fit: Fit, look: Look | None = None) -> RangeEffect:
    """Returns the curve of a key with a range, at a look at the sweep; None: the only one."""
    assert key.range is not None
    own = fit.columns[key.name]
    of_examples = np.trace(fit.over_examples[own, own]) / max(np.trace(fit.covariance[own, own]), np.finfo(float).tiny)
    degrees = 1 / (1 / fit.means.total_degrees + of_examples**2 / fit.means.scores.degrees)  # Satterthwaite's
    level = ERROR if look is None else look.level(degrees)
    power = own.stop - own.start
    is_linear = power == 1
    scale = np.linspace(-1, 1, POINTS)
    terms = np.polynomial.legendre.legvander(scale, power)[:, 1:]
    centred = terms - fit.design[:, own].mean(axis=0)
    coefficients, covariance = (fit.inverse @ fit.means.means)[own], fit.covariance[own, own]
    curve = centred @ coefficients
    errors = np.sqrt(np.maximum(np.einsum("pi,ij,pj->p", centred, covariance, centred), 0.0))
    draws = draw_coefficients(coefficients, covariance, degrees)
    best = scale[(draws @ terms.T).argmax(axis=1)]
    low, high = np.quantile(best, (level / 2, 1 - level / 2))
    optimum = scale[curve.argmax()]
    statistic = coefficients @ np.linalg.pinv(covariance) @ coefficients / power
    return RangeEffect(
        points=values_at(key.range, scale),
        means=fit.design.mean(axis=0) @ (fit.inverse @ fit.means.means) + curve,
        differences=curve,
        errors=errors,
        half_widths=errors * stats.t.isf(level / 2, degrees),
        optimum=float(values_at(key.range, optimum)),
        optimum_interval=(float(values_at(key.range, low)), float(values_at(key.range, high))),
        p_value=adjusted_p_value(float(stats.f.sf(statistic, power, degrees)), level),
        edge="" if is_linear else "low" if optimum <= -1 + 2 * EDGE else "high" if optimum >= 1 - 2 * EDGE else "",
        degrees=degrees,
        is_linear=is_linear,
    )


def choice_contrasts(key: SearchedKey, fit: Fit, params: Sequence[Mapping[str, Any]]) -> ValueContrasts:
    """Returns the contrasts of a choice: the fitted levels of its values, with all other keys at their mean."""
    own = fit.columns[key.name]
    at_mean = np.tile(fit.design.mean(axis=0), (len(key.values), 1))
    at_mean[:, own] = choice_terms(key, key.values)
    values = [key.value_of(config) for config in params]
    levels = dict(zip(key.values, at_mean @ fit.inverse, strict=True))
    pairs = {(one, other): levels[one] - levels[other] for one, other in permutations(key.values, 2)}
    numbers = {value: np.flatnonzero([found == value for found in values]) for value in key.values}
    return value_contrasts(key, levels, pairs, numbers, fit.means)


def draw_coefficients(coefficients: Floats, covariance: Floats, degrees: float) -> Floats:
    """(draws, terms) from the multivariate t distribution around the estimates."""
    generator = np.random.default_rng(0)
    normal = generator.multivariate_normal(np.zeros(len(coefficients)), covariance, size=NUM_CURVES, method="eigh")
    scale = np.sqrt(generator.chisquare(degrees, size=NUM_CURVES) / degrees)
    return np.asarray(coefficients + normal / scale[:, None])


def values_at(domain: Float | Int, position: Any) -> Any:
    """Values of the key at positions from -1 to 1."""
    share = (np.asarray(position) + 1) / 2
    if domain.log:
        return domain.low * (domain.high / domain.low) ** share
    return domain.low + (domain.high - domain.low) * share
