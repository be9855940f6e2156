"""Whether the effect of one key depends on the value of another: an F test of their interaction contrasts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy import stats
from statsmodels.stats.multitest import multipletests

from results.stats.configuration_means import ConfigurationMeans, contrasts, training_covariance
from results.stats.effects.searched_keys import SearchedKey, other_params
from results.stats.error_spending import ERROR, Look, adjusted_p_value
from results.stats.margins import SINGLE_QUANTILE, level_of
from results.stats.resampling import Floats
from results.stats.training_variances import ROOT_OF_TWO, draw_level


@dataclass(frozen=True, kw_only=True)
class Interaction:
    """Two keys."""

    keys: tuple[str, str]
    p_value: float
    """The p-value of the hypothesis that neither key's effect depends on the other; adjusted over all pairs of keys
    (Holm) and over all looks."""

    @property
    def is_significant(self) -> bool:
        """Whether the hypothesis is rejected."""
        return self.p_value < ERROR


def find_interactions(
    keys: Sequence[SearchedKey],
    means: ConfigurationMeans,
    params: Sequence[Mapping[str, Any]],
    look: Look | None = None,
) -> list[Interaction]:
    """Returns the interactions of all pairs of keys; empty where training was not repeated, or rows are in few groups.

    A pair is left out where its values were not crossed: no two values of each were trained in all four combinations
    with all else equal.

    Args:
        keys: those with listed values.
        means: of the configurations.
        params: of each configuration.
        look: at the sweep; None: the only one.
    """
    if not means.can_be_compared:
        return []
    found = {}
    for first, second in combinations(keys, 2):
        coefficients = interaction_contrasts(first, second, params)
        if len(coefficients):
            p_value, compared = wald_test(means, coefficients), contrasts(means, coefficients)
            level = ERROR if look is None else level_of(look, means.total_degrees, compared, SINGLE_QUANTILE)
            found[first.name, second.name] = adjusted_p_value(p_value, level)
    if not found:
        return []
    adjusted = multipletests(list(found.values()), method="holm")[1]
    return [Interaction(keys=pair, p_value=float(p)) for pair, p in zip(found, adjusted, strict=True)]


def interaction_contrasts(first: SearchedKey, second: SearchedKey, params: Sequence[Mapping[str, Any]]) -> Floats:
    """(contrasts, configurations): how the differences from the first key's base change with the second key's value."""
    cells: dict[Any, dict[tuple[Any, Any], int]] = {}
    for number, own in enumerate(params):
        cells.setdefault(other_params(own, first, second), {})[first.value_of(own), second.value_of(own)] = number
    rows = []
    a0, b0 = first.coded_base, second.coded_base
    for a in (value for value in first.values if value != a0):
        for b in (value for value in second.values if value != b0):
            corners = ((a, b, 1.0), (a0, b, -1.0), (a, b0, -1.0), (a0, b0, 1.0))
            complete = [cell for cell in cells.values() if all((one, other) in cell for one, other, _ in corners)]
            row = np.zeros(len(params))
            for cell in complete:
                for one, other, sign in corners:
                    row[cell[one, other]] += sign / len(complete)
            rows.append(row)
    kept = [row for row in rows if row.any()]
    return np.array(kept) if kept else np.zeros((0, len(params)))


def wald_test(means: ConfigurationMeans, coefficients: Floats) -> float:
    """p-value of the hypothesis that all contrasts are 0: how often their errors are drawn as far from 0.

    It is at least the p-value of a test with the variance over examples alone, as intervals have that floor: by
    chi-square, or where that variance is an estimate from few groups by Hotelling (1931), "The generalization of
    Student's ratio", with whose distribution the errors over examples are drawn, too.
    """
    estimates = means.estimate(coefficients)
    own = means.of_distinct(coefficients)
    covariance = own @ (training_covariance(means) + means.examples) @ own.T
    statistic, rank = wald_statistic(estimates, covariance)
    (training, examples), degrees = means.error_draws, means.scores.degrees - rank + 1
    if degrees < 1:
        return 1.0
    scales = np.sqrt(draw_level(degrees, ROOT_OF_TWO) * (1.0 if np.isinf(degrees) else means.scores.degrees / degrees))
    drawn = (training + examples * scales[: len(examples), None]) @ own.T
    squares = ((drawn @ np.linalg.pinv(covariance)) * drawn).sum(axis=1)
    fixed, fixed_rank = wald_statistic(estimates, own @ means.fixed_examples @ own.T)
    over_both = (1 + np.count_nonzero(squares >= statistic)) / (1 + len(squares)) if rank else 1.0
    over_examples = stats.chi2.sf(fixed, fixed_rank) if fixed_rank else 0.0
    if fixed_rank and np.isfinite(degrees):
        left = means.scores.degrees - fixed_rank + 1
        over_examples = stats.f.sf(fixed * left / (means.scores.degrees * fixed_rank), fixed_rank, left)
    return float(max(over_both, over_examples))


def wald_statistic(estimates: Floats, covariance: Floats) -> tuple[float, int]:
    """Returns the estimates' squared length in standard errors, and the rank of their covariance."""
    return float(estimates @ np.linalg.pinv(covariance) @ estimates), int(np.linalg.matrix_rank(covariance))
