"""Power: how large a difference a sweep would find, with the replicates that it has or with more."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from results.stats.configuration_means import ConfigurationMeans, contrasts
from results.stats.error_spending import ERROR, Look, quantiles_at
from results.stats.margins import MAX_DEGREES, SINGLE_QUANTILE, distributions_of, largest_score
from results.stats.resampling import Floats

POWER = 0.8
"""Probability with which a forecast finds the difference: the convention since Cohen 1988."""
MAX_REPLICATES = 200
"""More than anyone trains."""


@dataclass(frozen=True, kw_only=True)
class Precision:
    """What decides how large a difference is found: of the contrasts' mean variances and mean squared margin, as the
    estimates for single ones vary by chance."""

    training_error: float
    """Standard error over trainings with one replicate."""
    example_error: float
    """Standard error over examples, which no number of replicates reduces."""
    num_replicates: float
    """Mean over configurations."""
    degrees_per_replicate: float
    """Degrees of freedom of the training variance that a further replicate of all configurations adds: as many as the
    contrasts have now for each but the first."""
    quantile_ratio: float
    """The ratio of the quantile for all contrasts at once to the one for a single contrast, with infinitely many
    degrees of freedom."""
    margin: float
    """How large a difference must be to be significant, with the present replicates."""
    look: Look | None = None
    """The present one; later ones may make less error. None: each is the only one."""

    def detectable(self, num_replicates: float) -> float:
        """Returns the true difference that is found with the probability `POWER`, with so many replicates.

        What other replicates will show of the training variance differs from what the present ones show: the variance
        of an estimated standard deviation, of s^2 / (2 degrees), counts for the degrees of freedom that are added.
        """
        training = self.training_error / np.sqrt(num_replicates)
        present, degrees = self.degrees(self.num_replicates), self.degrees(num_replicates)
        unsure = self.quantile(num_replicates) * training * np.sqrt(max(0.0, 1 - present / degrees) / (2 * present))
        error = np.sqrt(training**2 + self.example_error**2 + unsure**2)
        return float(self.expected_margin(num_replicates) + stats.t.ppf(POWER, degrees) * error)

    def of_contrast(self, margin: float) -> "Precision":
        """That of one contrast, whose error over trainings follows from its margin.

        Where the margin is wide as one configuration trains unstably, forecasts for more replicates are optimistic.
        """
        examples = self.quantile(self.num_replicates, is_known=True) * self.example_error
        own, mean = margin**2 - examples**2, self.margin**2 - examples**2
        share = np.sqrt(max(0.0, own) / mean) if mean > 0 else 1.0
        return replace(self, training_error=float(self.training_error * share), margin=margin)

    def expected_margin(self, num_replicates: float) -> float:
        """Returns the margin with so many replicates: the present one, with `normal_margin` as a guide to others.

        How much the present one is wider, as its quantile also allows for unequal variances and heavy tails, falls
        with the degrees of freedom.
        """
        excess = self.margin / self.normal_margin(self.num_replicates) - 1
        share = self.degrees(self.num_replicates) / self.degrees(num_replicates)
        return float(self.normal_margin(num_replicates) * (1 + excess * share))

    def normal_margin(self, num_replicates: float) -> float:
        """Returns the margin for normal errors of equal variances, with an approximate quantile."""
        training = self.quantile(num_replicates) * self.training_error / np.sqrt(num_replicates)
        return float(np.hypot(training, self.quantile(num_replicates, is_known=True) * self.example_error))

    def degrees(self, num_replicates: float) -> float:
        """Degrees of freedom of the training variance."""
        return max(1.0, self.degrees_per_replicate * (num_replicates - 1))

    def quantile(self, num_replicates: float, *, is_known: bool = False) -> float:
        """Approximate quantile for all contrasts at once, with the error of the look after so many replicates.

        `is_known` says whether the variance is, as that over examples; that over trainings has its degrees of freedom.
        """
        own = self.degrees(num_replicates)
        ratio = (self.example_error / self.training_error) ** 2 if self.training_error > 0 else np.inf
        comparisons = ERROR / (2 * stats.norm.sf(self.quantile_ratio * SINGLE_QUANTILE))
        level = ERROR
        if self.look is not None:
            level = self.look.at(round(num_replicates)).level(own, ratio, comparisons)
        degrees = MAX_DEGREES if is_known else own
        return float(quantiles_at(self.quantile_ratio * stats.t.isf(ERROR / 2, degrees), degrees, level))

    @property
    def finest(self) -> float:
        """The difference that is found with very many replicates: the dev examples allow no smaller one."""
        return float((self.quantile(MAX_REPLICATES, is_known=True) + stats.norm.ppf(POWER)) * self.example_error)

    def replicates_needed(self, difference: float) -> int | None:
        """Returns the fewest replicates with which a difference is found; None if `MAX_REPLICATES` do not suffice."""
        if difference <= self.finest:
            return None
        counts = range(2, MAX_REPLICATES + 1)
        return next((count for count in counts if self.detectable(count) <= difference), None)


def precision_of(
    means: ConfigurationMeans,
    coefficients: Floats,
    margins: Floats,
    look: Look | None = None,
    *,
    together: Floats | None = None,
) -> Precision | None:
    """Returns the precision of the contrasts;
    None where all trained the same, or the variance of training is not known.

    It is not known without replicates, and with a single degree of freedom, as two values with two replicates have, it
    is known too badly for a forecast.

    Args:
        means: of the configurations.
        coefficients: (contrasts, configurations), at least one.
        margins: (contrasts,) from `margins_control`.
        look: the present one; None: the only one.
        together: as given to `margins_control`.
    """
    own = means.of_distinct(coefficients)
    differs = own.any(axis=1)
    if round(means.total_degrees) <= 1 or not differs.any():
        return None
    compared = contrasts(means, coefficients)
    shared = np.einsum("ki,ij,kj->k", own, means.examples, own)  # averaged before it is cut at 0
    num_configurations = len(means.weights)
    num_replicates = len(means.scores.scores) / num_configurations
    found = distributions_of(means, own)
    every, of_all = own, found
    if together is not None:
        every = means.of_distinct(together)
        of_all = distributions_of(means, every)
    quantile = largest_score(means, every, of_all, is_two_sided=True)
    return Precision(
        training_error=float(np.sqrt((compared.training_errors[differs] ** 2).mean() * num_replicates)),
        example_error=float(np.sqrt(max(0.0, shared[differs].mean()))),
        num_replicates=num_replicates,
        degrees_per_replicate=float(np.median(found.degrees[differs])) / max(1.0, num_replicates - 1),
        quantile_ratio=max(1.0, quantile / SINGLE_QUANTILE),
        margin=float(np.sqrt((margins[differs] ** 2).mean())),
        look=look,
    )
