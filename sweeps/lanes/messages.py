"""Messages between trials, lanes and the driver, which pass through the mailbox."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

FinalStatus = Literal["complete", "reused", "pruned", "failed", "interrupted"]
"""Status of a trial that has left its lane."""

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
"""`requeued`: the trial's lane is down. A lane that is down has no workers and opens again once resources are free; a
closed one was not needed any more; a lost one cannot open again."""

BEST_PREFIX = "best_"
"""With the name of a task, or `overall`: its highest score, as the columns of `trials.parquet` are named."""


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """A trial for a lane to train."""

    trial_id: str
    config: str
    """The configuration, as canonical JSON."""


@dataclass(frozen=True, kw_only=True)
class TrialEnd:
    """How a trial has ended."""

    status: FinalStatus
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
