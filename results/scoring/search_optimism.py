"""How much too high cross-fitted scores are because the search or the scheduler has seen dev, as simulations found it.

Cross-fitting takes trials as given. TPE has proposed them, and ASHA has stopped them, by scores on all of dev.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mtlib.errors import require, require_name

SEARCHES = ("grid", "tpe", "random")
SCHEDULERS = ("asha", "none")
FIRST_AT_RANDOM = 10
"""Trials that TPE draws at random before it looks at scores: Optuna's default, which sweeps use."""
SMALLEST = 0.0005
"""Difference of scores that is shown as 0.001."""
CONFIDENT = 1.96
"""Standard errors of a simulated size within which it cannot be told from 0."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """By how much scores are too high beyond those of random search, in standard errors of the dev score."""

    size: float
    error: float
    """Standard error of the size, over simulated sweeps."""

    @property
    def is_told(self) -> bool:
        """Whether it can be told from 0."""
        return self.size > CONFIDENT * self.error

    @property
    def bound(self) -> float:
        """What it is surely no larger than."""
        return max(0.0, self.size) + CONFIDENT * self.error


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """What simulated sweeps came to, by how errors vary with hyper-parameters."""

    apart: Seen
    """A tenth of the noise varies smoothly with them, most is shared by all trials: those with like hyper-parameters
    err little more alike than others."""
    alike: Seen
    """Half of it does: they err much more alike."""


SIMULATED: Mapping[tuple[bool, bool], Mapping[int, Simulated]] = {
    (False, True): {
        10: Simulated(apart=Seen(size=0.11, error=0.03), alike=Seen(size=0.16, error=0.05)),
        40: Simulated(apart=Seen(size=0.12, error=0.03), alike=Seen(size=0.23, error=0.04)),
        160: Simulated(apart=Seen(size=0.12, error=0.03), alike=Seen(size=0.28, error=0.05)),
    },
    (True, False): {
        40: Simulated(apart=Seen(size=0.14, error=0.05), alike=Seen(size=0.56, error=0.05)),
        160: Simulated(apart=Seen(size=0.21, error=0.05), alike=Seen(size=0.73, error=0.07)),
    },
    (True, True): {
        40: Simulated(apart=Seen(size=0.21, error=0.04), alike=Seen(size=0.55, error=0.06)),
        160: Simulated(apart=Seen(size=0.35, error=0.05), alike=Seen(size=0.92, error=0.07)),
    },
}
"""By whether TPE proposed and whether ASHA stopped trials, then by number of trials: means over the three tasks.

Measured by `python benchmarks/search_optimism.py`: 100 simulated sweeps of each kind, driven by the overall score, one
trial after the other; of the mean of the best k, where sizes are as large as of the best single model or larger. They
are largest for SST (0.8 where 40 trials of TPE have 0.56) and smallest for STS (0.3); where one task's score alone
drives the sweep they are about twice as large (1.0). The one real sweep that was looked at, of 4 configurations with 3
replicates, had even less of this than `apart`: two trials were no more often wrong on the same examples where they were
replicates than where they were not.
"""


def seen_sentence(search: str, scheduler: str, num_trials: int, standard_error: float) -> str | None:
    """What people should be told of what a sweep's search and scheduler have seen of dev; None if that is nothing.

    Told is the size in the smallest simulated sweeps with at least as many trials, or in the largest ones.

    Args:
        search: `grid`, `tpe` or `random`, as in `sweep.json`.
        scheduler: `asha` or `none`.
        num_trials: configurations that were tried, at least 1; TPE draws its first ten at random.
        standard_error: of the dev score, at least 0.

    Raises:
        ValueError: a name is unknown, or a number is out of range.
    """
    require_name(search, SEARCHES, "search")
    require_name(scheduler, SCHEDULERS, "scheduler")
    require(num_trials >= 1, "the number of trials must be at least 1", num_trials)
    require(standard_error >= 0, "a standard error must be at least 0", standard_error)
    proposed, stopped = search == "tpe" and num_trials > FIRST_AT_RANDOM, scheduler == "asha"
    if not (proposed or stopped):
        return None
    sizes = SIMULATED[proposed, stopped]
    size = min((size for size in sizes if size >= num_trials), default=max(sizes))
    how_many = f"{'up to ' if num_trials > size else ''}{size} trials"
    return f"{cause(proposed, stopped)} {effect(sizes[size], how_many, standard_error)}"


def cause(proposed: bool, stopped: bool) -> str:
    """Who has seen dev."""
    parts = [*(["TPE proposed trials"] if proposed else []), *(["ASHA stopped trials"] if stopped else [])]
    return f"{' and '.join(parts)} by scores on these dev examples, which cross-fitting cannot undo."


def effect(found: Simulated, how_many: str, standard_error: float) -> str:
    """What that came to in simulated sweeps."""
    if not (found.apart.is_told or found.alike.is_told):
        most = max((found.apart, found.alike), key=lambda seen: seen.bound)
        return f"In simulated sweeps of {how_many} scores came out too high {amount(most, standard_error)}."
    return (
        f"In simulated sweeps of {how_many} scores came out too high {amount(found.apart, standard_error)}, and "
        f"{amount(found.alike, standard_error)} where trials with like hyper-parameters err much alike."
    )


def amount(seen: Seen, standard_error: float) -> str:
    """A size in standard errors and as a difference of scores."""
    size = seen.size if seen.is_told else seen.bound
    told = f"{size:.1f} standard errors"
    score = size * standard_error
    here = f"here {score:.3f}" if score >= SMALLEST else "here less than 0.001"
    return (
        f"by {told} ({here})" if seen.is_told else f"by an amount that cannot be told from 0 (at most {told}, {here})"
    )
