"""The decisions of a race between configurations, in `sweep.json`: which of them left after which round, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mtlib.config.schema import from_dict
from search_spaces.claim import Claim, read_claim

RACE_KEY = "race"
"""Key of `sweep.json`: the decisions after each round so far; absent of a sweep that is no race."""

DECIDED, UNDECIDABLE, LAST_ROUND, FEW_GROUPS = "decided", "undecidable", "last round", "few groups"
"""Why a race ended: one configuration is left, the rounds left are not likely to decide, there are no more, or dev
examples are in too few groups for any difference to be claimed."""
SHOWN_CLAIM, EXCLUDED_CLAIM, OPEN_CLAIM = "shown", "excluded", "open"
"""What is known of a claim. A race about one ends with the first or second of these, or as any other."""


@dataclass(frozen=True, kw_only=True)
class ClaimEstimate:
    """By how much one configuration is better than another, after a round."""

    difference: float | None = None
    """In score; None where the two have no trainings to compare."""
    margin: float | None = None
    """The true difference is more than this above `difference` with 5 % probability at most, over all rounds, and as
    much below it with 5 % at most; None as `difference`."""
    needed: int | None = None
    """Replicates after which the claim is expected to be decided, if the difference stays as it is; None where it is
    decided, or where no number of them up to 200 decides it."""

    @property
    def limits(self) -> tuple[float, float] | None:
        """Low and high of the difference; None where it is not known."""
        if self.difference is None or self.margin is None:
            return None
        return self.difference - self.margin, self.difference + self.margin


@dataclass(frozen=True, kw_only=True)
class RoundDecision:
    """What was decided after a round. Configurations are given by their numbers."""

    num_rounds: int
    """Complete rounds, with this one."""
    open: tuple[int, ...]
    """Which may still be the best: they go on, unless the race ended."""
    worse: tuple[int, ...] = ()
    """Which left as some other one is above them by more than its margin: they are not the best."""
    worse_than_base: tuple[int, ...] = ()
    """Which left as significantly worse than the base configuration."""
    equal: tuple[int, ...] = ()
    """Which left as no more than the margin below the best."""
    expected_rounds: tuple[int, ...] = ()
    """For each that goes on, the rounds after which it is expected to be decided."""
    end: str = ""
    """Why the race ended after this round; empty if it goes on."""
    claimed: ClaimEstimate | None = None
    """What is known of the claim that the race is about, if it is about one."""


@dataclass(frozen=True, kw_only=True)
class RaceRecord:
    """All decisions so far, in order."""

    decisions: tuple[RoundDecision, ...] = ()

    @property
    def raced(self) -> frozenset[int]:
        """The configurations that were decided on, those that have left among them; empty before any decision."""
        return frozenset(self.left_at) | frozenset(self.decisions[-1].open if self.decisions else ())

    @property
    def left_at(self) -> dict[int, int]:
        """Rounds after which each configuration that has left did so."""
        return {
            number: own.num_rounds
            for own in self.decisions
            for number in (*own.worse, *own.worse_than_base, *own.equal)
        }

    @property
    def expected_at(self) -> dict[int, int]:
        """Rounds after which each configuration has left, or is expected to be decided; empty before any decision."""
        if not self.decisions:
            return {}
        last = self.decisions[-1]
        return (
            dict(zip(last.open, last.expected_rounds or [last.num_rounds] * len(last.open), strict=True)) | self.left_at
        )

    @property
    def worse_at(self) -> dict[int, int]:
        """Rounds after which each configuration was shown not to be the best, by some other one or by the base."""
        return {number: own.num_rounds for own in self.decisions for number in (*own.worse, *own.worse_than_base)}

    @property
    def end(self) -> str:
        """Why it ended; empty if it goes on."""
        return self.decisions[-1].end if self.decisions else ""

    @property
    def is_final(self) -> bool:
        """Whether it ended with a decision, which further rounds do not change."""
        return self.end in (DECIDED, SHOWN_CLAIM, EXCLUDED_CLAIM)

    @property
    def verdict(self) -> str:
        """What is known of the claim that it is about: `shown`, `excluded` or `open`."""
        return self.end if self.end in (SHOWN_CLAIM, EXCLUDED_CLAIM) else OPEN_CLAIM

    @property
    def estimated(self) -> RoundDecision | None:
        """The last decision about a claim after which a difference is known; None before."""
        known = [own for own in self.decisions if own.claimed is not None and own.claimed.limits is not None]
        return known[-1] if known else None

    @property
    def num_rounds(self) -> int:
        """Rounds that were decided on."""
        return self.decisions[-1].num_rounds if self.decisions else 0


def race_of(info: Mapping[str, Any]) -> RaceRecord | None:
    """Returns the race of a sweep by the content of its `sweep.json`; None if it is none."""
    kept = info.get(RACE_KEY)
    if kept is None:
        return None
    return RaceRecord(decisions=tuple(from_dict(RoundDecision, own, RACE_KEY) for own in kept))


def claim_of(info: Mapping[str, Any]) -> Claim | None:
    """Returns the claim that a sweep checks, by the content of its `sweep.json`; None if it checks none."""
    text = (info.get("options") or {}).get("claim")
    return None if text is None else read_claim(text)


def race_to_json(decisions: Sequence[RoundDecision]) -> list[dict[str, Any]]:
    """Returns the decisions as `sweep.json` keeps them."""
    return [asdict(decision) for decision in decisions]
