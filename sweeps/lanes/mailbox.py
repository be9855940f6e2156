"""The mailbox: passes assignments from trials to lanes, reports back, and the scheduler's decisions to the lanes.

One mailbox serves all lanes of a sweep. It is a plain asyncio class, which the sweep runs as a Ray actor without
devices; trials and lanes wait inside its methods. It also collects events for the sweep's records.
"""

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sweeps.lanes.messages import Assignment, Event, EventKind, FinalStatus, TrialEnd

MAX_KILLS = 2
"""A trial fails after so many lanes have died while they trained it; lost nodes do not count."""
DOUBT_SECONDS = 30.0
"""How long Ray may take to notice a lost node after lanes with workers there have died."""
MAX_OPENINGS = 3
"""A lane is closed after so many starts in a row without a request for a trial."""
IDLE_SECONDS = 60.0
"""Time limit of a request for a trial: the lane's other workers wait in a collective, which times out."""
UNEXPLAINED = "a worker process died, possibly out of memory"


def node_name(node: str, host: str) -> str:
    """A node in messages: its host, and the start of its id, as Ray's tools show it."""
    return f"{host} ({node[:8]})"


@dataclass(kw_only=True)
class TrialState:
    """The mailbox's state of one trial."""

    config: str
    lane: str | None = None
    attempt: int = 0
    """How often a lane has started it."""
    kills: list[tuple[float, frozenset[str]]] = field(default_factory=list)
    """Deaths of lanes that trained it: time, and the lane's nodes, which are still alive."""
    best: float = -math.inf
    """Highest score by what the search maximises, of epochs with an overall score."""
    bests: dict[str, float] = field(default_factory=dict)
    """Highest score of each task and overall, of all epochs."""
    reported: set[int] = field(default_factory=set)
    """Reported epochs; a resumed trial reports some of them again."""
    outbox: deque[Mapping[str, Any]] = field(default_factory=deque)
    """Reports that Tune has not fetched yet."""
    decisions: dict[int, bool] = field(default_factory=dict)
    """By epoch, whether the trial must stop."""
    worker_error: str | None = None
    """What a worker reported before its lane died."""
    cancelled: str | None = None
    """Why it was cancelled."""
    end: TrialEnd | None = None

    @property
    def is_unwanted(self) -> bool:
        return self.cancelled is not None or self.end is not None


def may_be_lost_node(trial: TrialState, nodes: frozenset[str]) -> bool:
    """Whether a lane over several nodes may have died of a node loss that Ray has not noticed, like one just before."""
    recent = [at for at, others in trial.kills if others & nodes and time.monotonic() - at < DOUBT_SECONDS]
    return len(nodes) > 1 and bool(recent)


class Mailbox:
    """Hands trials to lanes and reports to trials."""

    def __init__(self) -> None:
        self._trials: dict[str, TrialState] = {}
        self._queue: deque[str] = deque()
        self._openings: dict[str, int] = {}
        self._calls: dict[str, int] = {}
        self._open: dict[str, Mapping[str, str]] = {}
        """Lanes that have workers: the hosts of their nodes, by node id."""
        self._groups: dict[str, str] = {}
        """Ids of the placement groups that lanes have registered."""
        self._closed: set[str] = set()
        """Lanes that were asked to close."""
        self._max_lanes: int | None = None
        """Lanes that the sweep has work for; None until that is known."""
        self._events: list[Event] = []
        self._is_interrupted = False
        self._is_winding_down = False
        """Whether trials end after their next epoch, and no further ones start."""
        self._changed = asyncio.Event()

    # Called by lanes.

    async def register_lane(self, lane: str, nodes: Mapping[str, str], group: str | None = None) -> bool:
        """Registers a lane whose workers are about to load; False if it must close: it failed too often, or is surplus.

        `nodes` are the hosts of its workers' nodes, by node id; `group` is the id of its placement group.
        """
        if group is not None:
            self._groups[lane] = group
        self._openings[lane] = self._openings.get(lane, 0) + 1
        # If it still has a trial, its workers were restarted without `report_dead_workers`.
        self._requeue_trial_of(lane, UNEXPLAINED, kill=self._open.pop(lane, {}))
        if self._openings[lane] > MAX_OPENINGS or lane in self._closed:
            return False
        self._open[lane] = nodes
        return not self._close_if_surplus(lane)

    async def report_load_failure(self, lane: str, why: str, *, can_retry: bool) -> None:
        """Records that a lane's workers cannot load; Ray Train restarts the lane if `can_retry`, else it closes."""
        self._emit(Event(kind="lane_load_crash" if can_retry else "lane_load_error", lane=lane, facts={"why": why}))

    async def next_trial(self, lane: str, host: str, pid: int) -> Assignment | Literal["wait", "close"]:
        """Waits for the lane's next trial; `wait` means ask again, `close` that the lane is not needed any more.

        `host` and `pid` are those of the lane's rank 0.
        """
        if self._openings.pop(lane, 0):
            self._emit(Event(kind="lane_open", lane=lane, facts={"host": host, "pid": pid}))
        call = self._count_call(lane)
        await self._wait_until(
            lambda: bool(self._queue) or self._is_surplus(lane) or self._calls[lane] != call, IDLE_SECONDS
        )
        # A pending call of a dead lane must not take a trial.
        if self._calls[lane] != call or self._close_if_surplus(lane):
            return "close"
        return self._assign(self._queue.popleft(), lane, host, pid) if self._queue else "wait"

    async def report_event(self, kind: EventKind, trial_id: str, facts: Mapping[str, Any]) -> None:
        """Records an event of a trial on its lane: `starting_point`, `stage_finished` or `waiting`."""
        self._emit(Event(kind=kind, lane=self._trials[trial_id].lane, trial_id=trial_id, facts=facts))

    async def is_wanted(self, trial_id: str) -> bool:
        """Whether a trial that waits on its lane, or has just reported an epoch, should continue."""
        return not (self._takes_no_trials or self._trials[trial_id].is_unwanted)

    async def report_progress(self, trial_id: str, facts: Mapping[str, Any]) -> bool:
        """Records a trial's progress; returns whether it must stop at its next step."""
        trial = self._trials[trial_id]
        if trial.lane is not None and trial.end is None:  # else the worker has outlived its lane
            self._emit(Event(kind="progress", lane=trial.lane, trial_id=trial_id, facts=facts))
        return self._is_interrupted or trial.is_unwanted

    async def report_epoch(self, trial_id: str, report: Mapping[str, Any]) -> bool | None:
        """Passes an epoch's scores on and waits for the scheduler's decision; a repeated report gets the first one.

        Args:
            trial_id: of the trial.
            report: `epoch` (1-based, over all stages), `scored_epoch` (0 without an overall score: the report is
                recorded, and the scheduler not asked), `score` (what the search maximises), and more to record.

        Returns:
            Whether the trial must stop; None if the sweep was interrupted before the decision, after which the trial
            must not continue. After the last epoch there is nothing to decide.
        """
        trial, epoch = self._trials[trial_id], report["epoch"]
        if epoch not in trial.reported:
            self._record_report(trial_id, report)
        await self._wait_until(lambda: epoch in trial.decisions or self._is_interrupted or trial.is_unwanted)
        if epoch in trial.decisions or trial.is_unwanted:
            return trial.decisions.get(epoch, True)
        return False if report["is_last"] else None

    async def report_worker_error(self, trial_id: str, why: str) -> None:
        """Records the error of a worker that trains this trial and is about to end; the trial may be its cause."""
        self._trials[trial_id].worker_error = why

    async def report_end(self, trial_id: str, status: FinalStatus, error: str | None, facts: Mapping[str, Any]) -> None:
        """Records that a trial has left its lane."""
        self._end_trial(trial_id, status, error, facts)

    # Called by Tune's trials.

    async def submit(self, trial_id: str, config: str) -> None:
        """Queues a trial."""
        assert trial_id not in self._trials, trial_id
        self._trials[trial_id] = TrialState(config=config)
        if self._takes_no_trials:
            self._end_trial(trial_id, "interrupted", None)
        else:
            self._queue.append(trial_id)
            self._notify()

    async def next_report(self, trial_id: str) -> Mapping[str, Any] | TrialEnd:
        """Waits for the trial's next scored report, or its end."""
        trial = self._trials[trial_id]
        await self._wait_until(lambda: bool(trial.outbox) or trial.end is not None)
        if trial.outbox:
            return trial.outbox.popleft()
        assert trial.end is not None
        return trial.end

    # Called by Ray Train's controllers.

    async def report_dead_workers(self, lane: str, why: str, alive: Collection[str]) -> None:
        """Requeues the trial of a lane whose workers have died; Ray Train restarts them once there are resources.

        `why` is Ray Train's error; `alive` are ids of nodes.
        """
        nodes = self._open.pop(lane, None)
        if nodes is None:
            return
        self._count_call(lane)
        lost = sorted(node_name(node, host) for node, host in nodes.items() if node not in alive)
        if lost:
            why = f"{'nodes' if len(lost) > 1 else 'node'} {', '.join(lost)} died"
        self._emit(Event(kind="lane_down", lane=lane, facts={"why": why}))
        self._requeue_trial_of(lane, why, kill=None if lost else nodes)

    # Called by the driver.

    async def set_max_lanes(self, number: int) -> None:
        """Sets how many lanes there is work for; others close as soon as they are idle."""
        self._max_lanes = number
        self._notify()

    async def set_alive_nodes(self, alive: Collection[str]) -> None:
        """Sets the ids of the alive nodes. A node loss may become known only after a lane has died of it."""
        for trial in self._trials.values():
            trial.kills = [(at, nodes) for at, nodes in trial.kills if nodes <= set(alive)]

    async def set_decision(self, trial_id: str, epoch: int, stop: bool) -> None:
        """Sets the scheduler's decision on the report of an epoch."""
        self._trials[trial_id].decisions.setdefault(epoch, stop)
        self._notify()

    async def cancel_trial(self, trial_id: str, why: str) -> None:
        """Fails a trial that Tune has given up, at its next step if a lane has it."""
        trial = self._trials.get(trial_id)
        if trial is None or trial.end is not None:
            return
        trial.cancelled = why
        if trial_id in self._queue:
            self._end_trial(trial_id, "failed", why)
        self._notify()

    async def remove_lane(self, lane: str, why: str) -> bool:
        """Removes a lane whose run has ended, and requeues its trial; returns whether it ended unasked."""
        nodes, is_lost = self._open.pop(lane, {}), lane not in self._closed
        self._count_call(lane)
        if is_lost:
            self._emit(Event(kind="lane_lost", lane=lane, facts={"why": why}))
        self._requeue_trial_of(lane, why, kill=nodes)
        return is_lost

    async def group_of(self, lane: str) -> str | None:
        """The id of the placement group that a lane last registered; None if it never did."""
        return self._groups.get(lane)

    async def take_events(self, timeout: float) -> list[Event]:
        """Events since the last call; waits up to `timeout` seconds for one that is more than a trial's progress."""
        await self._wait_until(lambda: any(event.kind != "progress" for event in self._events), timeout)
        events, self._events = self._events, []
        return events

    async def interrupt(self) -> None:
        """Stops everything: queued trials end, running ones are stopped at their next step, lanes close."""
        self._is_interrupted = True
        self._end_queued()

    async def wind_down(self) -> None:
        """Lets the sweep end: queued trials end, running ones after their next epoch, idle lanes close."""
        self._is_winding_down = True
        self._end_queued()

    @property
    def _takes_no_trials(self) -> bool:
        """Whether no trial may start or wait any more."""
        return self._is_interrupted or self._is_winding_down

    def _end_queued(self) -> None:
        """Ends the trials that no lane has."""
        while self._queue:
            self._end_trial(self._queue.popleft(), "interrupted", None)
        self._notify()

    def _count_call(self, lane: str) -> int:
        """Numbers a lane's request for a trial; requests with a lower number become void."""
        self._calls[lane] = self._calls.get(lane, 0) + 1
        self._notify()
        return self._calls[lane]

    def _is_surplus(self, lane: str) -> bool:
        """Whether an idle lane should close."""
        has_work = self._max_lanes is None or lane not in self._open or len(self._open) <= self._max_lanes
        return self._takes_no_trials or not (has_work or self._queue)

    def _close_if_surplus(self, lane: str) -> bool:
        """Closes a lane if it is surplus; returns whether it is."""
        if not self._is_surplus(lane):
            return False
        self._open.pop(lane, None)
        self._closed.add(lane)
        if not self._takes_no_trials:
            self._emit(Event(kind="lane_closed", lane=lane))
        return True

    def _requeue_trial_of(self, lane: str, why: str, *, kill: Collection[str] | None) -> None:
        """Requeues the trial of a lane whose workers have died, before all others, unless it must end.

        `kill` are the workers' nodes, if this counts among the trial's kills.
        """
        trial_id = next((name for name, trial in self._trials.items() if trial.lane == lane and not trial.end), None)
        if trial_id is None:
            return
        trial = self._trials[trial_id]
        trial.lane = None
        if kill is not None and not may_be_lost_node(trial, frozenset(kill)):
            trial.kills.append((time.monotonic(), frozenset(kill)))
        trial.worker_error = why if kill is None else trial.worker_error or why
        if self._takes_no_trials or trial.cancelled is not None:
            self._end_trial(trial_id, "interrupted", None)
        elif len(trial.kills) >= MAX_KILLS:
            self._end_trial(trial_id, "failed", f"killed its lane twice: {trial.worker_error}")
        else:
            self._queue.appendleft(trial_id)
            self._emit(Event(kind="requeued", lane=lane, trial_id=trial_id))

    def _assign(self, trial_id: str, lane: str, host: str, pid: int) -> Assignment:
        trial = self._trials[trial_id]
        trial.lane, trial.attempt = lane, trial.attempt + 1
        facts = {"host": host, "pid": pid, "attempt": trial.attempt, "why": trial.worker_error}
        trial.worker_error = None
        kind: EventKind = "started" if trial.attempt == 1 else "resumed"
        self._emit(Event(kind=kind, lane=lane, trial_id=trial_id, facts=facts))
        return Assignment(trial_id=trial_id, config=trial.config)

    def _record_report(self, trial_id: str, report: Mapping[str, Any]) -> None:
        """Records the first report of an epoch, and passes it on if it is scored."""
        trial = self._trials[trial_id]
        trial.reported.add(report["epoch"])
        scores = report["scores"].items()
        trial.bests |= {name: max(score, trial.bests.get(name, score)) for name, score in scores}
        if report["scored_epoch"] == 0:
            trial.decisions[report["epoch"]] = False
        else:
            trial.best = max(report["score"], trial.best)
            report = {**report, "best": trial.best, "bests": dict(trial.bests)}
            trial.outbox.append(report)
        self._emit(Event(kind="report", lane=trial.lane, trial_id=trial_id, facts=report))

    def _end_trial(
        self, trial_id: str, status: FinalStatus, error: str | None, facts: Mapping[str, Any] | None = None
    ) -> None:
        """Ends a trial; only the first end counts."""
        trial = self._trials[trial_id]
        if trial.end is not None:
            return
        if trial_id in self._queue:  # its worker has outlived its lane
            self._queue.remove(trial_id)
        if trial.cancelled is not None and status != "complete":
            status, error = "failed", trial.cancelled
        trial.end = TrialEnd(status=status, error=error)
        facts = {"how": status, "error": error, "was_started": trial.attempt > 0, **(facts or {})}
        self._emit(Event(kind="ended", lane=trial.lane, trial_id=trial_id, facts=facts))

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
