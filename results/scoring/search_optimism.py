"""How much too high cross-fitted scores are because a search or a scheduler has used dev scores.

Cross-fitting takes trials as given, but TPE has proposed them, and ASHA has stopped them, by scores on all of dev.
"""

from collections.abc import Mapping

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


def optimism_sentence(search: str, scheduler: str, num_trials: int, standard_error: float) -> str | None:
    """How much too high scores are because of a sweep's search and scheduler; None if they used no scores.

    The figures are those of the smallest simulated sweeps with at least as many trials, or of the largest ones.

    Args:
        search, scheduler: of `SEARCHES` and `SCHEDULERS`.
        num_trials: configurations, at least 1.
        standard_error: of the dev score.
    """
    is_proposed, is_stopped = search == "tpe" and num_trials > FIRST_AT_RANDOM, scheduler == "asha"
    if not (is_proposed or is_stopped):
        return None
    sizes = SIMULATED[is_proposed, is_stopped]
    size = min((size for size in sizes if size >= num_trials), default=max(sizes))
    low, high = sizes[size]
    causes = " and ".join(["TPE proposed trials"] * is_proposed + ["ASHA stopped trials"] * is_stopped)
    return (
        f"{causes} by scores on these dev examples, which cross-fitting cannot undo: in simulated sweeps of "
        f"{'up to ' if num_trials > size else ''}{size} trials scores were too high by {low:.1f} to {high:.1f} "
        f"standard errors (here {low * standard_error:.2g} to {high * standard_error:.2g})."
    )
