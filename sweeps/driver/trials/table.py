"""The table of a sweep's trials while it runs: the one place that knows which there are, where they are, and how far.

It is changed by messages (`sweeps.driver.trials.changes`), by the searcher, which adds what it draws, and by the
decisions of a race. What lanes and Tune are answered, which trial is tried next, what a scheduler and Optuna hear, the
display, the metrics and the limits are functions of it.
Ray Tune, Optuna and trackers have threads of their own: `lock` is held by whoever reads more than one thing or writes.
"""

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from results.records.expected_trials import status_counts
from results.records.race import RaceRecord
from results.records.trials import UNFINISHED, TrialRecord
from search_spaces.space import grid_trials
from sweeps.driver.trials.messages import ErrorCause, Message, TrialStatus
from sweeps.driver.trials.trial import make_trial, num_left_to_run
from sweeps.options import SweepPlan

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


@dataclass(frozen=True, kw_only=True)
class ScoredEpoch:
    """An epoch with an overall score, for Tune's scheduler and for Optuna."""

    epoch: int
    """Over all stages, from 1."""
    best: float
    """Highest score so far by what the search maximises."""
    is_last: bool = False


@dataclass(kw_only=True)
class TrialRow:
    """A trial."""

    record: TrialRecord
    """What is on record, and in `trials.parquet` at the end."""
    past: Sequence[tuple[int, float]] = ()
    """Of a resumed sweep: the scored epochs that the scheduler had decided on before, and the best score at each."""

    has_process: bool = False
    """Whether a process in Tune has asked for its first report."""
    reports: list[ScoredEpoch] = field(default_factory=list)
    """Scored epochs for Tune, from the first one on, those from before that its lane has read again among them."""
    verdicts: dict[int, bool] = field(default_factory=dict)
    """By reported epoch whether the trial stops; missing until the scheduler has decided."""
    num_recorded: int = 0
    """The newest scored epoch that Optuna knows."""

    lane: str | None = None
    attempt: int = 0
    """How often a lane has begun it."""
    state: str | None = None
    """The state from which it last started."""
    past_epochs: int = 0
    """Epochs from before its starting point."""
    num_stages: int = 0
    """Stages that it has finished in this run: no other trial waits for them."""
    progress: Mapping[str, Any] | None = None
    """While it runs: `since`, as in `driver.json`, and the facts of its newest step."""
    step: int | None = None
    """The newest known optimizer step since it last started."""
    constant: Mapping[str, bool] = field(default_factory=dict)
    """By task, whether nearly all dev rows get one prediction, at the epoch of the highest overall score."""
    points: Sequence[Mapping[str, Any]] = ()
    """While it runs, the points of its newest epoch's curves on train rows."""
    seen: float = field(default_factory=time.monotonic)
    """When its lane was last heard of, on the monotonic clock."""

    needs_gpu_alone: bool = False
    kills: list[frozenset[str]] = field(default_factory=list)
    """Nodes of the workers at each death since the trial last started from another state."""
    cause: ErrorCause = "trial"
    """What ended its worker, where that has said so."""
    why: str | None = None
    """Why its last lane died."""
    nodes: frozenset[str] = frozenset()
    """Nodes of the workers of its last lane that died."""
    end: TrialStatus | None = None
    """How it has ended in this run; `interrupted` also where it was queued as the sweep ended."""

    @property
    def trial_id(self) -> str:
        return self.record.trial_id

    @property
    def description(self) -> dict[str, Any]:
        """The trial as plain data, for Tune, lanes and `trial.json`."""
        names = ("trial_id", "number", "replicate", "seed", "params", "config", "config_hash")
        return {name: getattr(self.record, name) for name in names}

    @property
    def runs(self) -> bool:
        """Whether a lane has it."""
        return self.lane is not None and self.end is None


@dataclass(kw_only=True)
class LaneRow:
    """A lane that has workers."""

    nodes: frozenset[str] = frozenset()
    workers: tuple[tuple[str, int], ...] = ()
    """Node and process id of each."""
    gpus: frozenset[tuple[str, str]] = frozenset()
    """Node and id of each GPU that they use, perhaps with other lanes."""
    host: str | None = None
    """Of its first worker; None while it loads."""
    request: int | None = None
    """Number of its newest request for a trial; earlier ones are void."""
    seen: float = field(default_factory=time.monotonic)
    """When it was last heard of without a trial, on the monotonic clock."""


@dataclass(kw_only=True)
class TrialTable:
    """The trials and the lanes of a sweep while it runs."""

    plan: SweepPlan
    rows: dict[str, TrialRow] = field(default_factory=dict)
    """By trial id, those of a grid or on record first, then in order of suggestion."""
    race: RaceRecord | None = None
    """What a race has decided so far."""
    queue: deque[TrialRow] = field(default_factory=deque)
    """Trials that wait for a lane, the next one first."""
    lanes: dict[str, LaneRow] = field(default_factory=dict)
    waiting: dict[int, Message] = field(default_factory=dict)
    """Messages whose senders wait for an answer, by number, the oldest first."""
    max_lanes: int | None = None
    """How many lanes there is work for."""
    alive: frozenset[str] = frozenset()
    """Nodes that live; empty as long as that is not known."""
    is_stopped: bool = False
    """Whether running trials end at their next step."""
    is_winding_down: bool = False
    """Whether running trials end after their next epoch."""
    trained_steps: int = 0
    """Optimizer steps that were trained in this run."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def takes_no_trials(self) -> bool:
        """Whether no trial begins any more."""
        return self.is_stopped or self.is_winding_down

    @property
    def records(self) -> dict[str, TrialRecord]:
        """The records of all trials, by trial id."""
        with self.lock:
            return {name: row.record for name, row in self.rows.items()}

    @property
    def progress(self) -> dict[str, Mapping[str, Any]]:
        """The progress of running trials, as in `driver.json` (`results.records.driver_file.Progress`)."""
        with self.lock:
            return {name: row.progress for name, row in self.rows.items() if row.progress is not None}

    @property
    def counts(self) -> dict[str, int]:
        """Trials by status; those not suggested yet count as queued."""
        return dict(status_counts(self.plan.facts, list(self.records.values()), self.race))

    @property
    def num_left(self) -> int:
        """The number of trials that are left to run, or run; of a race, in all rounds that it may still have."""
        counts = self.counts
        num_unfinished = sum(counts.get(status, 0) for status in UNFINISHED)
        return max(num_unfinished, num_left_to_run(self.plan, list(self.records.values()), self.race))

    @property
    def open_lanes(self) -> list[str]:
        """The lanes that have loaded what they need."""
        with self.lock:
            return [name for name, lane in self.lanes.items() if lane.host is not None]

    def running_on(self, lane: str | None) -> TrialRow | None:
        """Returns the trial that a lane has."""
        return next((row for row in self.rows.values() if row.lane == lane and row.runs), None)

    def add(self, record: TrialRecord) -> TrialRow:
        """Returns the row of a trial, which is added unless it is there."""
        with self.lock:
            return self.rows.setdefault(record.trial_id, TrialRow(record=record))


def open_table(
    plan: SweepPlan, known: Iterable[TrialRecord] = (), past: Mapping[str, Sequence[tuple[int, float]]] | None = None
) -> TrialTable:
    """Returns a table of the trials of a resumed sweep, with the scored epochs that were decided on, and of the points
    of a grid."""
    before = past or {}
    rows = {record.trial_id: TrialRow(record=record, past=before.get(record.trial_id, ())) for record in known}
    table = TrialTable(plan=plan, rows=rows, race=plan.race)
    points = grid_trials(plan.space) if plan.options.search == "grid" else []
    for number, params in enumerate(points):
        table.add(make_trial(plan.space, number, 0, params))
    return table
