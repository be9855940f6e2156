"""What happens to the trials and lanes of a sweep, for displays, trackers, metrics and the driver."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from results.records.trials import TrialRecord

EventKind = Literal[
    "note",
    "tick",
    "failed",
    "started",
    "resumed",
    "starting_point",
    "stage_finished",
    "progress",
    "report",
    "requeued",
    "ended",
    "lane_open",
    "lane_failed",
    "lane_down",
    "lane_closed",
]
"""`tick`: a second has passed without another event. `failed`: the sweep cannot go on. `requeued`: the trial's lane is
down. A lane that is down has no workers, and opens again once Ray has restarted them; a closed one was not needed any
more; a failed one cannot load what the sweep needs, or is on a node that does not share the storage.
"""


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that has happened to a trial, a lane or the sweep."""

    kind: EventKind
    lane: str | None = None
    trial_id: str | None = None
    record: TrialRecord | None = None
    """The trial's, after it."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    time: float = field(default_factory=time.time)
    """Seconds since 1970."""
