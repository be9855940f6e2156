"""Power: how large a difference a sweep would find, with the replicates that it has or with more."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from results.comparison.bootstrap import CONFIDENCE, Floats
from results.comparison.configuration_means import ConfigurationMeans, contrasts
from results.comparison.critical_values import dunnett_quantile

POWER = 0.8
MAX_REPLICATES = 200
"""More than anyone trains."""


@dataclass(frozen=True, kw_only=True)
class Precision:
    """What decides how large a difference is found: of the least precise of some contrasts."""

    training_error: float
    """Standard error over trainings with one replicate."""
    example_error: float
    """Standard error over examples, which no number of replicates reduces."""
    num_replicates: float
    """Mean over configurations."""
    degrees_per_replicate: int
    """Degrees of freedom of the training variance that a further replicate of all configurations adds."""
    quantile_ratio: float
    """Of the quantile for all contrasts at once to that for one alone, with infinitely many degrees of freedom."""

    def detectable(self, num_replicates: float) -> float:
        """The true difference that is found with the probability `POWER`, with so many replicates."""
        degrees = max(1.0, self.degrees_per_replicate * (num_replicates - 1))
        training = self.training_error / np.sqrt(num_replicates)
        margin = np.hypot(self.quantile(degrees) * training, self.quantile(np.inf) * self.example_error)
        return float(margin + stats.t.ppf(POWER, degrees) * np.hypot(training, self.example_error))

    def quantile(self, degrees: float) -> float:
        """Approximate quantile for all contrasts at once."""
        return float(self.quantile_ratio * stats.t.ppf((1 + CONFIDENCE) / 2, degrees))

    @property
    def finest(self) -> float:
        """The difference that is found with infinitely many replicates: the dev examples allow no smaller one."""
        return float((self.quantile(np.inf) + stats.norm.ppf(POWER)) * self.example_error)

    def replicates_needed(self, difference: float) -> int | None:
        """The fewest replicates with which a difference is found; None if `MAX_REPLICATES` do not suffice."""
        if difference <= self.finest:
            return None
        counts = range(2, MAX_REPLICATES + 1)
        return next((count for count in counts if self.detectable(count) <= difference), None)


def precision_of(means: ConfigurationMeans, coefficients: Floats) -> Precision | None:
    """The precision of the least precise contrast; None where training was not repeated.

    Args:
        means: of the configurations.
        coefficients: (contrasts, configurations), at least one.
    """
    if not means.has_replicates:
        return None
    compared = contrasts(means, coefficients)
    worst, num_configurations = int(np.argmax(compared.errors)), len(means.means)
    num_replicates = len(means.scores.scores) / num_configurations
    together = dunnett_quantile(means, coefficients, 1e6, CONFIDENCE)
    return Precision(
        training_error=float(compared.training_errors[worst] * np.sqrt(num_replicates)),
        example_error=float(compared.example_errors[worst]),
        num_replicates=num_replicates,
        degrees_per_replicate=num_configurations - 1,
        quantile_ratio=max(1.0, together / float(stats.norm.ppf((1 + CONFIDENCE) / 2))),
    )
