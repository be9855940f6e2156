"""What trials, lanes and the sweep tell one another through the mailbox."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

FinalStatus = Literal["complete", "reused", "pruned", "failed", "interrupted"]
"""How a trial can end."""

EventKind = Literal[
    "note",
    "started",
    "resumed",
    "waiting",
    "starting_point",
    "stage_finished",
    "progress",
    "report",
    "requeued",
    "ended",
    "lane_open",
    "lane_load_crash",
    "lane_load_error",
    "lane_down",
    "lane_closed",
    "lane_lost",
]
"""`returned`: a trial is queued again, as its lane is down. A lane that is `down` has no workers; it opens again once
there is room for them. One that is `closed` had nothing left to do, one that is `lost` cannot open any more."""


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """A trial for a lane to train."""

    trial_id: str
    config: str
    """The configuration, as canonical JSON."""
    attempt: int
    """From 1; above 1 the trial goes on from its last state."""


@dataclass(frozen=True, kw_only=True)
class TrialEnd:
    """A trial's end."""

    how: FinalStatus
    error: str | None = None
    """Why it failed, in one line."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened, for the sweep's records and display."""

    kind: EventKind
    lane: str | None = None
    trial_id: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    time: float = field(default_factory=time.time)
    """Seconds since 1970."""
