"""The channel between Tune's trials, the lanes that train them, and the driver.

One for each sweep: a plain asyncio class, which runs as a Ray actor without a device on the driver's node. Tune submits
trials and fetches their reports; lanes ask for trials, report epochs and wait for verdicts; the driver passes verdicts
on, takes events, and says when to stop. Every call may be made again by a process that was restarted: a repeated report
gets the first verdict, and what a dead process waited for is not taken from the living.
"""

import asyncio
import contextlib
import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

MAX_ERRORS, MAX_UNEXPLAINED = 2, 3
"""A trial fails after its workers have ended so often from one state on, on nodes that live on: by an error of their
own, or unexplained. What kills a process, for example to free memory, may have chosen the wrong one."""
IDLE_SECONDS = 60.0
"""Time limit of a request for a trial: the lane's other workers wait in a collective, which times out."""
UNEXPLAINED = "a worker process died, possibly out of memory"

BEST_PREFIX = "best_"
"""With the name of a task, or `overall`: its highest score, as the columns of `trials.parquet` are named."""

TrialStatus = Literal["complete", "reused", "pruned", "failed", "interrupted"]
"""Status of a trial that has left its lane."""

ErrorCause = Literal["trial", "storage", "shared_gpu"]
"""What an error that ends a worker comes from: perhaps the trial, a disk, or memory of a GPU that others use too."""

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
    """Something that happened, for the driver."""

    kind: EventKind
    lane: str | None = None
    trial_id: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    time: float = field(default_factory=time.time)
    """Seconds since 1970."""


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """A trial for a lane to train."""

    trial: Mapping[str, Any]
    """As `sweeps.search.trial.Trial` describes itself in plain data."""
    attempt: int
    """How often a lane has begun it; calls of an earlier attempt are void."""
    has_gpu_alone: bool = False
    """Whether no other trial of the sweep is on its GPU."""

    @property
    def trial_id(self) -> str:
        return str(self.trial["trial_id"])


@dataclass(kw_only=True)
class TrialState:
    """What the channel knows of a trial."""

    trial: Mapping[str, Any]
    lane: str | None = None
    attempt: int = 0
    kills: list[frozenset[str]] = field(default_factory=list)
    """Nodes of the workers at each death since the trial last started from another state."""
    state: str | None = None
    """From which it last started."""
    cause: ErrorCause = "trial"
    """What ended its worker, where that has said so."""
    why: str | None = None
    """Why its last lane died."""
    nodes: frozenset[str] = frozenset()
    """Nodes of the workers of its last lane that died."""
    best: float = -math.inf
    """Highest score by what the search maximises, of epochs with an overall score."""
    bests: dict[str, float] = field(default_factory=dict)
    """Highest score of each task and overall, of all epochs."""
    reports: list[Mapping[str, Any]] = field(default_factory=list)
    """Scored epochs, for Tune."""
    verdicts: dict[int, bool] = field(default_factory=dict)
    """By reported epoch whether the trial stops; missing until the scheduler has decided."""
    reported: set[int] = field(default_factory=set)
    seen: float = field(default_factory=time.monotonic)
    """When its lane was last heard of, on the monotonic clock."""
    end: Mapping[str, Any] | None = None
    """`status` and `error`."""


@dataclass(kw_only=True)
class Lane:
    """What the channel knows of a lane."""

    call: int = 0
    """Number of its newest request for a trial; earlier requests are void."""
    place: Mapping[str, Any] = field(default_factory=dict)
    """`host` of its first worker; empty while it loads."""
    nodes: frozenset[str] = frozenset()
    workers: tuple[tuple[str, int], ...] = ()
    """Node and process id of each."""
    gpus: frozenset[tuple[str, str]] = frozenset()
    """Node and id of each GPU that they use, perhaps with other lanes."""
    seen: float = field(default_factory=time.monotonic)
    """When it was last heard of without a trial, on the monotonic clock."""


def channel_name(sweep: str) -> str:
    """Returns the actor's name in Ray, by the sweep's."""
    return f"{sweep}-channel"


class Channel:
    """Hands trials to lanes, reports to Tune, verdicts to lanes, and events to the driver."""

    def __init__(self) -> None:
        self._trials: dict[str, TrialState] = {}
        self._queue: deque[str] = deque()
        self._alone: set[str] = set()
        """Trials that have not ended and need a GPU alone."""
        self._lanes: dict[str, Lane] = {}
        self._calls = itertools.count(1)
        self._max_lanes: int | None = None
        self._alive: frozenset[str] = frozenset()
        self._events: list[Event] = []
        self._is_stopped = False
        self._is_winding_down = False
        self._changed = asyncio.Event()

    # Lanes

    async def open_lane(
        self,
        lane: str,
        nodes: Collection[str],
        workers: Sequence[tuple[str, int]] = (),
        gpus: Sequence[tuple[str, str]] = (),
    ) -> bool:
        """A lane has workers on these nodes, which are about to load; False if it must close.

        `workers` has node and process id of each, `gpus` node and id of each GPU that they use.
        """
        self._free(lane, UNEXPLAINED)  # it had workers before, whose death nobody has reported
        if self._takes_no_trials:
            self._emit(Event(kind="lane_closed", lane=lane, facts={"why": None}))
            return False
        self._lanes[lane] = Lane(nodes=frozenset(nodes), workers=tuple(workers), gpus=frozenset(gpus))
        self._notify()
        return True

    async def next_trial(self, lane: str, place: Mapping[str, Any]) -> Assignment | Literal["wait", "close"]:
        """Waits for the lane's next trial; `wait` means ask again, `close` that the lane is not needed any more."""
        own = self._lanes.setdefault(lane, Lane())
        if not own.place:
            self._emit(Event(kind="lane_open", lane=lane, facts=place))
        own.place, own.call, own.seen = dict(place), next(self._calls), time.monotonic()
        call = own.call
        self._notify()

        def is_void() -> bool:
            return lane not in self._lanes or self._lanes[lane].call != call

        def is_answered() -> bool:
            return is_void() or self._is_surplus() or self._next_for(lane) is not None

        await self._wait_until(is_answered, IDLE_SECONDS)
        if is_void():
            return "close"
        if self._is_surplus():
            del self._lanes[lane]
            self._emit(Event(kind="lane_closed", lane=lane, facts={"why": None}))
            return "close"
        trial_id = self._next_for(lane)
        return "wait" if trial_id is None else self._assign(trial_id, lane)

    async def has_file(self, path: str) -> bool:
        """Whether a file is there on the driver's node."""
        return Path(path).exists()

    async def report_lane_failure(self, lane: str, why: str, refused: Collection[str]) -> None:
        """A lane cannot load what the sweep needs, or has workers on nodes that no lane can use (their ids)."""
        own = self._lanes.pop(lane, Lane())
        facts = {"why": why, "refused": list(refused), "nodes": sorted(own.nodes)}
        self._emit(Event(kind="lane_failed", lane=lane, facts=facts))

    async def report_event(self, kind: EventKind, trial_id: str, facts: Mapping[str, Any]) -> None:
        """Records an event of a trial on its lane: `starting_point` or `stage_finished`."""
        trial = self._hear(trial_id)
        if kind == "starting_point" and facts["state"] != trial.state:
            trial.state, trial.kills = facts["state"], []
        self._emit(Event(kind=kind, lane=trial.lane, trial_id=trial_id, facts=facts))

    async def report_progress(self, trial_id: str, attempt: int, facts: Mapping[str, Any]) -> bool:
        """Records a trial's progress; returns whether it must stop at its next step, with its state saved."""
        trial = self._hear(trial_id)
        if not self._is_unwanted(trial, attempt):
            self._emit(Event(kind="progress", lane=trial.lane, trial_id=trial_id, facts=facts))
        return self._is_stopped or self._is_unwanted(trial, attempt)

    async def report_epoch(
        self, trial_id: str, attempt: int, report: Mapping[str, Any]
    ) -> Literal["go", "stop", "end"]:
        """Passes an epoch on and waits for the verdict.

        Args:
            trial_id: of the trial.
            attempt: the worker's.
            report: `epoch` (1-based, over all stages), `scored_epoch` (0 without an overall score: the scheduler is not
                asked), `score` (what the search maximises), `scores`, `is_last`, `points` of the curves, and more to
                record.

        Returns:
            `stop` by the scheduler's verdict; `end` if the sweep ended before it, or the trial is another lane's now:
            then no state after this epoch may be saved, as the resumed trial would skip the verdict.
        """
        trial, epoch = self._hear(trial_id), report["epoch"]
        if self._is_unwanted(trial, attempt):
            return "end"
        if epoch not in trial.reported:
            self._record(trial, trial_id, report)
        if report["is_last"] or report["scored_epoch"] == 0:
            return "go"
        await self._wait_until(lambda: epoch in trial.verdicts or self._is_stopped or self._is_unwanted(trial, attempt))
        trial.seen = time.monotonic()
        if self._is_unwanted(trial, attempt) or epoch not in trial.verdicts:
            return "end"
        return "stop" if trial.verdicts[epoch] else "go"

    async def is_ending(self) -> bool:
        """Whether trials end after the epoch that they have just reported."""
        return self._takes_no_trials

    async def report_error(self, trial_id: str, attempt: int, why: str, cause: ErrorCause) -> None:
        """The error of a worker that is about to end."""
        trial = self._hear(trial_id)
        if trial.attempt == attempt:  # of several workers the first says why; the others lose their peers
            trial.why = trial.why or why
            trial.cause = cause if trial.cause == "trial" else trial.cause

    async def report_end(
        self, trial_id: str, attempt: int, status: TrialStatus, error: str | None, facts: Mapping[str, Any]
    ) -> None:
        """A trial has left its lane."""
        if not self._is_unwanted(self._hear(trial_id), attempt):
            self._end(trial_id, status, error, facts)

    # Ray Train's controllers

    async def report_dead_workers(self, lane: str, why: str) -> None:
        """The workers of a lane have died; Ray Train restarts them once there are resources."""
        self._emit(Event(kind="lane_down", lane=lane, facts={"why": why}))
        self._free(lane, why)

    # Tune's trials

    async def submit(self, trial: Mapping[str, Any]) -> None:
        """Queues a trial, unless it is here: Tune may have restarted the process that submits it."""
        trial_id = str(trial["trial_id"])
        if trial_id in self._trials:
            text = f"{trial_id} goes on: only its process in Ray Tune died, and was started again"
            self._emit(Event(kind="note", facts={"text": text}))
            return
        self._trials[trial_id] = TrialState(trial=dict(trial))
        if self._takes_no_trials:
            self._end(trial_id, "interrupted", None, {})
        else:
            self._queue.append(trial_id)
            self._notify()

    async def next_report(self, trial_id: str, num_seen: int) -> Mapping[str, Any]:
        """Waits for the trial's report after the first `num_seen`, or its end, which has `status`."""
        trial = self._trials[trial_id]
        await self._wait_until(lambda: len(trial.reports) > num_seen or trial.end is not None)
        if len(trial.reports) > num_seen:
            return trial.reports[num_seen]
        assert trial.end is not None
        return {**(trial.reports[-1] if trial.reports else {}), **trial.end}

    async def report_tune_failure(self, why: str) -> None:
        """Tune cannot keep a process for a trial."""
        self._emit(Event(kind="failed", facts={"why": why}))

    # The driver

    async def decide(self, trial_id: str, epoch: int, stop: bool) -> None:
        """Sets the scheduler's verdict on the report of an epoch; the first one stays."""
        self._trials[trial_id].verdicts.setdefault(epoch, stop)
        self._notify()

    async def set_places(self, max_lanes: int, alive: Collection[str]) -> None:
        """Sets how many lanes there is work for, and which nodes live; idle lanes beyond that close."""
        self._max_lanes, self._alive = max_lanes, frozenset(alive)
        self._notify()

    async def lane_ended(self, lane: str, why: str) -> None:
        """The run of a lane has ended, asked or not, which is not its trial's doing; the trial is queued again."""
        self._free(lane, why, is_innocent=True)

    async def silent_lanes(self, seconds: float) -> list[tuple[str, str | None, tuple[tuple[str, int], ...]]]:
        """Lanes of which nothing was heard for so long, with their trial, None while they load, and their workers."""
        now = time.monotonic()
        trials = {trial.lane: name for name, trial in self._trials.items() if trial.lane and trial.end is None}
        seen = {
            name: self._trials[trials[name]].seen if name in trials else lane.seen for name, lane in self._lanes.items()
        }
        return [
            (name, trials.get(name), lane.workers)
            for name, lane in self._lanes.items()
            if now - seen[name] > seconds and (name in trials or not lane.place)
        ]

    async def note_kill(self, trial_id: str, why: str) -> None:
        """The driver kills the workers of a trial, which is how they will die."""
        self._trials[trial_id].why = why

    async def has_running(self) -> bool:
        """Whether some trial is on a lane."""
        return any(trial.lane in self._lanes and trial.end is None for trial in self._trials.values())

    async def take_events(self, timeout: float) -> list[Event]:
        """Events since the last call; waits up to `timeout` seconds for one that is more than a trial's progress."""
        await self._wait_until(lambda: any(event.kind != "progress" for event in self._events), timeout)
        events, self._events = self._events, []
        return events

    async def stop(self) -> None:
        """Stops everything: queued trials end, running ones at their next step, lanes close."""
        self._is_stopped = True
        self._end_queued()

    async def wind_down(self) -> None:
        """Lets the sweep end: queued trials end, running ones after their next epoch, idle lanes close."""
        self._is_winding_down = True
        self._end_queued()

    @property
    def _takes_no_trials(self) -> bool:
        return self._is_stopped or self._is_winding_down

    def _is_surplus(self) -> bool:
        """Returns whether an idle lane is one too many:
        no trial waits, and there is work for fewer lanes than are open."""
        num_open = sum(bool(lane.place) for lane in self._lanes.values())
        has_work = self._max_lanes is None or num_open <= self._max_lanes
        return self._takes_no_trials or not (self._queue or has_work)

    def _next_for(self, lane: str) -> str | None:
        """Returns the queued trial that a lane may begin now.

        A trial that needs a GPU alone waits for the one with the fewest others, where no lane takes another meanwhile.
        """
        if not self._alone:
            return next(iter(self._queue), None)
        beside = self._running_beside(lane)
        if beside & self._alone:
            return None
        first_alone = next((trial_id for trial_id in self._queue if trial_id in self._alone), None)
        if first_alone is not None:
            opened = [name for name, other in self._lanes.items() if other.place]
            freest = min(opened, key=lambda name: (len(self._running_beside(name)), sorted(self._lanes[name].gpus)))
            if self._lanes[freest].gpus & self._lanes[lane].gpus:
                return None if beside else first_alone
        return next((trial_id for trial_id in self._queue if trial_id not in self._alone), None)

    def _running_beside(self, lane: str) -> set[str]:
        """Trials on the GPUs of a lane, its own included."""
        lanes = {name for name, other in self._lanes.items() if other.gpus & self._lanes[lane].gpus}
        return {name for name, trial in self._trials.items() if trial.lane in lanes and trial.end is None}

    def _is_unwanted(self, trial: TrialState, attempt: int) -> bool:
        """Returns whether the trial has ended, or is another lane's: its worker has outlived its own."""
        return trial.end is not None or trial.attempt != attempt or trial.lane is None

    def _hear(self, trial_id: str) -> TrialState:
        """Returns a trial, of whose lane something was heard now."""
        trial = self._trials[trial_id]
        trial.seen = time.monotonic()
        return trial

    def _assign(self, trial_id: str, lane: str) -> Assignment:
        self._queue.remove(trial_id)
        trial = self._hear(trial_id)
        trial.lane, trial.attempt = lane, trial.attempt + 1
        why = None if trial.why is None else self._explain_death(trial.nodes, trial.why)
        own = self._lanes[lane]
        facts = {**own.place, "workers": own.workers, "attempt": trial.attempt, "why": why}
        trial.why, trial.cause = None, "trial"
        kind: EventKind = "started" if trial.attempt == 1 else "resumed"
        self._emit(Event(kind=kind, lane=lane, trial_id=trial_id, facts=facts))
        return Assignment(trial=trial.trial, attempt=trial.attempt, has_gpu_alone=trial_id in self._alone)

    def _record(self, trial: TrialState, trial_id: str, report: Mapping[str, Any]) -> None:
        """Records the first report of an epoch, for Tune if it is scored."""
        trial.reported.add(report["epoch"])
        trial.bests |= {name: max(score, trial.bests.get(name, score)) for name, score in report["scores"].items()}
        if report["scored_epoch"] > 0:
            trial.best = max(report["score"], trial.best)
            kept = {name: value for name, value in report.items() if name != "points"}  # Tune needs no curves
            trial.reports.append({**kept, "best": trial.best, "bests": dict(trial.bests)})
        self._emit(Event(kind="report", lane=trial.lane, trial_id=trial_id, facts=report))

    def _free(self, lane: str, why: str, *, is_innocent: bool = False) -> None:
        """Queues the trial of a lane without workers again, before all others, unless it has killed them too often."""
        own = self._lanes.pop(lane, None)
        trial_id = next((name for name, trial in self._trials.items() if trial.lane == lane and not trial.end), None)
        self._notify()
        if own is None or trial_id is None:
            return
        trial = self._trials[trial_id]
        trial.lane, trial.nodes = None, own.nodes
        max_kills = MAX_ERRORS if trial.why else MAX_UNEXPLAINED
        trial.why = self._explain_death(own.nodes, trial.why or why)
        if trial.cause == "shared_gpu" and trial_id not in self._alone:
            self._alone.add(trial_id)
            is_innocent, trial.why = True, f"{trial.why}; it is tried again alone on a GPU"
        kills = trial.kills if is_innocent else [*trial.kills, own.nodes]
        trial.kills = [nodes for nodes in kills if nodes <= self._alive or not self._alive]
        if self._takes_no_trials:
            self._end(trial_id, "interrupted", None, {})
        elif trial.cause == "storage":
            self._end(trial_id, "interrupted", trial.why, {})
        elif len(trial.kills) >= max_kills:
            self._end(trial_id, "failed", f"its workers died {max_kills} times at one place: {trial.why}", {})
        else:
            self._queue.appendleft(trial_id)
            self._emit(Event(kind="requeued", lane=lane, trial_id=trial_id, facts={"why": trial.why}))

    def _explain_death(self, nodes: frozenset[str], why: str) -> str:
        """Returns why workers on these nodes died: with a node, as far as that is known by now, or as was reported."""
        lost = nodes - self._alive if self._alive else frozenset()
        return f"node {', '.join(node[:8] for node in sorted(lost))} died" if lost else why

    def _end(self, trial_id: str, status: TrialStatus, error: str | None, facts: Mapping[str, Any]) -> None:
        """Ends a trial; only the first end counts."""
        trial = self._trials[trial_id]
        if trial.end is not None:
            return
        if trial_id in self._queue:
            self._queue.remove(trial_id)
        trial.end = {"status": status, "error": error}
        self._alone.discard(trial_id)
        known = {"how": status, "error": error, "was_started": trial.attempt > 0}
        self._emit(Event(kind="ended", lane=trial.lane, trial_id=trial_id, facts={**facts, **known}))

    def _end_queued(self) -> None:
        """Ends the trials that no lane has."""
        while self._queue:
            self._end(self._queue.popleft(), "interrupted", None, {})
        self._notify()

    def _emit(self, event: Event) -> None:
        self._events.append(event)
        self._notify()

    def _notify(self) -> None:
        """Wakes all waiting calls, which check their conditions again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait_until(self, holds: Callable[[], bool], timeout: float | None = None) -> None:
        """Waits until `holds()`, which then still holds for the caller until its next await, or so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not holds():
                    await self._changed.wait()
