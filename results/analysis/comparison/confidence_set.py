"""The configurations that may be the best, with 95 % confidence, where training again and other examples both vary."""

from dataclasses import dataclass

import numpy as np

from results.analysis.comparison.bootstrap import CONFIDENCE, Floats
from results.analysis.comparison.configuration_means import ConfigurationMeans, contrasts
from results.analysis.comparison.critical_values import Mask, margins_best


@dataclass(frozen=True, kw_only=True)
class ConfidenceSet:
    """All configurations, compared with the one of the highest mean."""

    below_best: Floats
    """(configurations,) difference of the highest mean from each."""
    margins: Floats
    """(configurations,) by which each must be below to be significantly worse; nan where training was not repeated."""

    @property
    def is_left(self) -> Mask:
        """(configurations,): which are in the set; all where training was not repeated, and always the best."""
        return ~(self.below_best > self.margins)


def confidence_set(means: ConfigurationMeans, *, confidence: float = CONFIDENCE) -> ConfidenceSet:
    """The model confidence set, by the range statistic: the largest difference, in standard errors, of all pairs.

    Configurations that are significantly below the best are eliminated, then the others are compared again with the
    margins of so many, until none is.

    Args:
        means: of the configurations.
        confidence: that no configuration which is as good as the best is eliminated.

    Source: Hansen, Lunde and Nason (2011), "The Model Confidence Set", section 3.1.2, T_R. Its distribution is that of
    `results.analysis.comparison.critical_values.margins_best` instead of a bootstrap's.
    """
    one, best = np.eye(len(means.means)), int(means.means.argmax())
    compared = contrasts(means, one[best] - one)
    margins, left = np.full(len(one), np.nan), np.ones(len(one), np.bool_)
    while True:
        margins[left] = margins_best(means, compared, left, confidence=confidence)[left]
        found = ConfidenceSet(below_best=compared.estimates, margins=margins)
        if np.array_equal(found.is_left, left) or found.is_left.sum() == 1:
            return found
        left = found.is_left
