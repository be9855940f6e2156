"""Cross-fitted scores, their sums and differences, with standard errors and intervals that hold for one or for all."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from results.analysis.comparison.bootstrap import CONFIDENCE, Floats
from results.scoring.cross_fitting import ZERO_SPREAD, CrossFitted, interval, total_error, widened


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A cross-fitted score, or sums and differences of several, of the same examples and folds."""

    scores: Floats
    """(repeats,)."""
    influences: Floats
    """(repeats, groups), as `results.scoring.cross_fitting.CrossFitted.influences`."""
    resampled: Floats
    """(resamples,)."""
    least_error: float = 0.0
    """The standard error is at least this."""

    def __add__(self, other: "Estimate") -> "Estimate":
        return Estimate(
            scores=self.scores + other.scores,
            influences=self.influences + other.influences,
            resampled=self.resampled + other.resampled,
            least_error=max(self.least_error, other.least_error),
        )

    def __neg__(self) -> "Estimate":
        return Estimate(scores=-self.scores, influences=-self.influences, resampled=-self.resampled)

    def __sub__(self, other: "Estimate") -> "Estimate":
        return -(-self + other)  # of a difference no least error is known

    @property
    def score(self) -> float:
        """Mean over repeats."""
        return float(self.scores.mean())

    @property
    def standard_error(self) -> float:
        """Of the score."""
        return max(total_error(self.influences, self.scores), self.least_error)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the score."""
        return interval(widened(self.resampled, self.score, self.standard_error))


def estimate_score(fitted: CrossFitted, resampled: Floats) -> Estimate:
    """The score of one selection method, from it and its scores on resampled examples."""
    return Estimate(
        scores=np.array([repeat.score for repeat in fitted.repeats]),
        influences=fitted.influences,
        resampled=resampled,
        least_error=fitted.least_error,
    )


def simultaneous_quantile(estimates: Sequence[Estimate]) -> float:
    """By how many standard errors one of several estimates is off at most, with a probability of 95 %.

    It is the quantile over resamples of the largest deviation from the mean, in standard deviations, and not below that
    of a single normal variable. Estimates that no resample changes do not count.

    Source: Romano and Wolf (2005), "Exact and approximate stepdown methods for multiple hypothesis testing", section
    4.2, without the steps.
    """
    draws = np.stack([estimate.resampled for estimate in estimates])
    spread = draws.std(axis=1, ddof=1, keepdims=True)
    varied = (spread > ZERO_SPREAD)[:, 0]
    single = float(norm.ppf((1 + CONFIDENCE) / 2))
    if not varied.any():
        return single
    deviations = np.abs(draws - draws.mean(axis=1, keepdims=True))[varied] / spread[varied]
    return max(single, float(np.quantile(deviations.max(axis=0), CONFIDENCE)))
