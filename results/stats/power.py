"""Power: how large a difference a sweep would find, with the replicates that it has or with more."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from results.stats.configuration_means import ConfigurationMeans
from results.stats.error_spending import Look
from results.stats.margins import Margins

POWER = 0.8
"""Probability with which a forecast finds the difference: the convention since Cohen 1988."""
MAX_REPLICATES, VERY_MANY = 200, 1e12
"""Replicates: more than anyone trains, and so many that their errors are 0."""


@dataclass(frozen=True, kw_only=True)
class Precision:
    """How large a difference some contrasts find: the margins that they have, with as many replicates as are asked for,
    if variances are what is known of them now."""

    margins: Margins
    """Of the contrasts, all of which differ."""
    values: Sequence[Any]
    """What each compares with the base."""
    num_replicates: float
    """Mean over configurations."""

    def of_value(self, value: Any) -> "Precision":
        """Returns that of the one contrast of a value."""
        row = self.values.index(value)
        return replace(self, margins=self.margins.select(np.array([row])), values=[value])

    def detectable(self, num_replicates: float) -> float:
        """Returns the true difference that is found with the probability `POWER`, with so many replicates: the root
        of the mean square over the contrasts."""
        look = self.margins.look
        return self.found_at(None if look is None else look.at(round(num_replicates)), num_replicates)

    @property
    def finest(self) -> float:
        """The difference that is found with very many replicates: the dev examples allow no smaller one."""
        look = self.margins.look
        return self.found_at(None if look is None else look.at(MAX_REPLICATES), VERY_MANY)

    def found_at(self, look: Look | None, num_replicates: float) -> float:
        """Like `detectable`, at a given look.

        Margins then follow from variances that more replicates will show better: the variance of an estimated standard
        deviation, of s^2 / (2 degrees), counts for the degrees of freedom that are added.
        """
        growth = num_replicates / self.num_replicates
        widths, (training, examples) = self.margins.widths_at(look, growth), self.margins.compared.errors_after(growth)
        degrees = self.margins.training_degrees
        share = training**2 / np.maximum(training**2 + examples**2, np.finfo(float).tiny)
        unsure = widths * share * np.sqrt(max(0.0, 1 - 1 / growth) / (2 * degrees))
        errors = np.sqrt(training**2 + examples**2 + unsure**2)
        found = widths + stats.t.ppf(POWER, self.margins.degrees_after(growth)) * errors
        return float(np.sqrt(np.mean(found**2)))

    def replicates_needed(self, difference: float) -> int | None:
        """Returns the fewest replicates with which a difference is found; None if `MAX_REPLICATES` do not suffice."""
        if difference <= self.finest:
            return None
        counts = range(2, MAX_REPLICATES + 1)
        return next((count for count in counts if self.detectable(count) <= difference), None)


def precision_of(means: ConfigurationMeans, margins: Margins, values: Sequence[Any]) -> Precision | None:
    """Returns the precision of the contrasts that differ;
    None where all trained the same, or one of both variances is not known.

    It is not known without replicates, and with a single degree of freedom, as two values with two replicates have, it
    is known too badly for a forecast.

    Args:
        means: of the configurations.
        margins: of the contrasts, at least one.
        values: what each contrast compares with the base.
    """
    differs = margins.found.scales > 0
    if not means.can_be_compared or round(means.total_degrees) <= 1 or not differs.any():
        return None
    own, num_replicates = margins.select(np.flatnonzero(differs)), len(means.scores.scores) / len(means.weights)
    return Precision(margins=own, values=list(itertools.compress(values, differs)), num_replicates=num_replicates)
