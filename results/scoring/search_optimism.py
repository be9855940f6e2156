"""How much too high cross-fitted scores are because a search or a scheduler has used dev scores.

Cross-fitting takes trials as given, but TPE has proposed them, and ASHA has stopped them, by scores on all of dev.
"""

from collections.abc import Mapping
from dataclasses import dataclass

SEARCHES = ("grid", "tpe", "random")
SCHEDULERS = ("asha", "none")
FIRST_AT_RANDOM = 10
"""Trials that TPE draws at random before it uses scores: Optuna's default, which sweeps use."""

SIMULATED: Mapping[tuple[bool, bool], Mapping[int, tuple[float, float]]] = {
    (False, True): {10: (0.11, 0.16), 40: (0.12, 0.23), 160: (0.12, 0.28)},
    (True, False): {40: (0.14, 0.56), 160: (0.21, 0.73)},
    (True, True): {40: (0.21, 0.55), 160: (0.35, 0.92)},
}
"""Bias in standard errors of the dev score, by whether TPE proposed and ASHA stopped trials, and by number of trials.

The first figure is for errors that vary little with the hyper-parameters, the second for trials with similar
hyper-parameters that err alike. Measured once, on 100 simulated sweeps of each kind driven by the overall score, for
the mean of the best k; means over the three tasks, with standard errors of 0.03 to 0.07.
"""


@dataclass(frozen=True, kw_only=True)
class SearchBias:
    """How much too high cross-fitted scores of a sweep were in simulations like it."""

    is_proposed: bool
    """Whether TPE proposed trials by dev scores."""
    is_stopped: bool
    """Whether ASHA stopped trials by dev scores."""
    num_trials: int
    """Of the simulated sweeps: the smallest with at least as many trials, or the largest ones."""
    is_larger: bool
    """Whether the sweep has more trials."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The lower and the higher figure, in standard errors of the dev score."""
        return SIMULATED[self.is_proposed, self.is_stopped][self.num_trials]

    @property
    def causes(self) -> str:
        """E.g. `TPE proposed trials and ASHA stopped trials`."""
        return " and ".join(["TPE proposed trials"] * self.is_proposed + ["ASHA stopped trials"] * self.is_stopped)


def find_search_bias(search: str, scheduler: str, num_trials: int) -> SearchBias | None:
    """The bias from a sweep's search and scheduler; None if they used no scores, or are of an earlier version.

    Args:
        search, scheduler: of `SEARCHES` and `SCHEDULERS`.
        num_trials: configurations.
    """
    is_proposed, is_stopped = search == "tpe" and num_trials > FIRST_AT_RANDOM, scheduler == "asha"
    if num_trials == 0 or not (is_proposed or is_stopped):
        return None
    sizes = SIMULATED[is_proposed, is_stopped]
    size = min((size for size in sizes if size >= num_trials), default=max(sizes))
    return SearchBias(is_proposed=is_proposed, is_stopped=is_stopped, num_trials=size, is_larger=num_trials > size)


def optimism_sentence(bias: SearchBias, standard_error: float) -> str:
    """How much too high scores may be, in the units of the dev score, of which a standard error is given."""
    low, high = bias.bounds
    return (
        f"{bias.causes} by scores on these dev examples, which cross-fitting cannot undo: in simulated sweeps of "
        f"{'up to ' if bias.is_larger else ''}{bias.num_trials} trials scores were too high by {low:.1f} to {high:.1f} "
        f"standard errors (here {low * standard_error:.2g} to {high * standard_error:.2g}). The lower ends of 95 % "
        "intervals are lower by the higher figure."
    )
