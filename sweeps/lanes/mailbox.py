"""The mailbox between trials and lanes: assignments go out, reports come back, verdicts answer them.

One mailbox serves all lanes of a sweep. It is a plain asyncio class, which the sweep runs as a Ray actor without a
device; whoever waits, waits in one of its methods. It also remembers what has happened, for the sweep's records.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sweeps.lanes.messages import Assignment, Event, EventKind, FinalStatus, TrialEnd

MAX_KILLS = 2
"""A trial has failed once so many lanes have died while they trained it; a lost node is not held against it."""
DOUBT_SECONDS = 30.0
"""How long Ray may take to know that a node is lost, of which the lanes over it and others have died already."""
MAX_OPENINGS = 3
"""A lane that was opened so often in a row without asking for a trial is given up."""
IDLE_SECONDS = 60.0
"""How long a lane waits for a trial before it asks again: its other workers wait in a collective, which times out."""
UNEXPLAINED = "a worker process died, perhaps for want of memory"


def node_name(node: str, host: str) -> str:
    """A node for people: its host, and what Ray's tools call it."""
    return f"{host} ({node[:8]})"


@dataclass(kw_only=True)
class TrialState:
    """What the mailbox knows of one trial."""

    config: str
    lane: str | None = None
    attempt: int = 0
    """How often a lane has taken it."""
    kills: list[tuple[float, frozenset[str]]] = field(default_factory=list)
    """For each time that a lane has died while it trained this trial, when, and the nodes it was on, as yet alive."""
    best: float | None = None
    seen: set[int] = field(default_factory=set)
    """Epochs that were reported; a resumed trial reports some of them again."""
    outbox: deque[Mapping[str, Any]] = field(default_factory=deque)
    """Reports that the scheduler has not taken yet."""
    verdicts: dict[int, bool] = field(default_factory=dict)
    """By epoch, whether the trial must stop."""
    suspicion: str | None = None
    """What a worker said before its lane died."""
    withdrawn: str | None = None
    """Why nobody waits for this trial any more."""
    end: TrialEnd | None = None

    @property
    def is_unwanted(self) -> bool:
        return self.withdrawn is not None or self.end is not None


def is_doubtful(trial: TrialState, nodes: frozenset[str]) -> bool:
    """Whether a death over several nodes may be of a node, not known to be lost, that another lane has just died of."""
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
        """Lanes that have workers: by lane, the host of each node that they are on, by the node's id."""
        self._closed: set[str] = set()
        """Lanes that were told that they are not needed any more."""
        self._most_lanes: int | None = None
        """How many lanes the sweep has work for; None: not said yet."""
        self._events: list[Event] = []
        self._is_closed = False
        self._is_interrupted = False
        self._changed = asyncio.Event()

    # What lanes call.

    async def register_lane(self, lane: str, nodes: Mapping[str, str]) -> bool:
        """A lane's workers are about to load; False if they must not: they did so too often in vain, or are not needed.

        Args:
            lane: the lane.
            nodes: the host of each node that its workers are on, by the node's id.
        """
        self._openings[lane] = self._openings.get(lane, 0) + 1
        # A trial that it still has goes to the front of the queue: it was restarted without a word.
        self._give_back(lane, UNEXPLAINED, kill=self._open.pop(lane, {}))
        if self._openings[lane] > MAX_OPENINGS or lane in self._closed:
            return False
        self._open[lane] = nodes
        return not self._closes(lane)

    async def report_load_error(self, lane: str, why: str) -> None:
        """A lane cannot load what the sweep asks for, and closes."""
        self._happened(Event(kind="lane_load_error", lane=lane, facts={"why": why}))

    async def report_load_crash(self, lane: str, why: str) -> None:
        """A lane's worker fails while it loads; the lane will be restarted."""
        self._happened(Event(kind="lane_load_crash", lane=lane, facts={"why": why}))

    async def next_trial(self, lane: str, host: str, pid: int) -> Assignment | Literal["wait", "close"]:
        """Waits for the lane's next trial; `wait` means ask again, `close` that the lane is not needed any more.

        `host` and `pid` say where the lane's first worker is.
        """
        if self._openings.pop(lane, 0):
            self._happened(Event(kind="lane_open", lane=lane, facts={"host": host, "pid": pid}))
        call = self._count_call(lane)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(IDLE_SECONDS):
                await self._until(lambda: bool(self._queue) or self._is_surplus(lane) or self._calls[lane] != call)
        # The call of a lane that has died while it waited must not take a trial.
        if self._calls[lane] != call or self._closes(lane):
            return "close"
        return self._assign(self._queue.popleft(), lane, host, pid) if self._queue else "wait"

    async def report_starting_point(self, trial_id: str, facts: Mapping[str, Any]) -> None:
        """Says where a trial begins: what it had done before, and what it takes over."""
        self._happened(Event(kind="starting_point", lane=self._trials[trial_id].lane, trial_id=trial_id, facts=facts))

    async def report_stage_finished(self, trial_id: str, facts: Mapping[str, Any]) -> None:
        """A trial has finished a stage, which others may wait for."""
        self._happened(Event(kind="stage_finished", lane=self._trials[trial_id].lane, trial_id=trial_id, facts=facts))

    async def report_waiting(self, trial_id: str, what: str) -> None:
        """A trial waits on its lane, and for what."""
        self._happened(Event(kind="waiting", lane=self._trials[trial_id].lane, trial_id=trial_id, facts={"what": what}))

    async def is_wanted(self, trial_id: str) -> bool:
        """Whether a trial that waits on its lane should still do so."""
        return not (self._is_interrupted or self._trials[trial_id].is_unwanted)

    async def report_progress(self, trial_id: str, facts: Mapping[str, Any]) -> bool:
        """Says where a trial is; answers whether it must stop at its next step."""
        trial = self._trials[trial_id]
        if trial.lane is not None and trial.end is None:  # else it is said by a worker that has outlived its lane
            self._happened(Event(kind="progress", lane=trial.lane, trial_id=trial_id, facts=facts))
        return self._is_interrupted or trial.is_unwanted

    async def report_epoch(self, trial_id: str, report: Mapping[str, Any]) -> bool | None:
        """Passes an epoch's scores on and waits for the scheduler; an epoch told again gets its first answer.

        Args:
            trial_id: the trial.
            report: `epoch` (1-based, over all stages), `scored_epoch` (0 while overall scores have not begun: such a
                report is recorded and asks no scheduler), `score` (what the search maximises), and more to record.

        Returns:
            Whether the trial must stop; None if the sweep was interrupted before anybody has said so: the trial must
            not go on as if it had been judged. Behind its last epoch there is nothing to judge.
        """
        trial, epoch = self._trials[trial_id], report["epoch"]
        if epoch not in trial.seen:
            self._take_report(trial_id, report)
        await self._until(lambda: epoch in trial.verdicts or self._is_interrupted or trial.is_unwanted)
        if epoch in trial.verdicts or trial.is_unwanted:
            return trial.verdicts.get(epoch, True)
        return False if report["is_last"] else None

    async def report_worker_error(self, trial_id: str, why: str) -> None:
        """A worker fails while it trains this trial, so its lane will be restarted; perhaps the trial is to blame."""
        self._trials[trial_id].suspicion = why

    async def report_end(self, trial_id: str, how: FinalStatus, error: str | None, facts: Mapping[str, Any]) -> None:
        """A trial has left its lane."""
        self._finish(trial_id, how, error, facts)

    # What trials call.

    async def submit(self, trial_id: str, config: str) -> None:
        """Queues a trial."""
        assert trial_id not in self._trials, trial_id
        self._trials[trial_id] = TrialState(config=config)
        if self._is_closed:
            self._finish(trial_id, "interrupted", None)
        else:
            self._queue.append(trial_id)
            self._wake()

    async def next_report(self, trial_id: str) -> Mapping[str, Any] | TrialEnd:
        """Waits for the trial's next scored report, or its end."""
        trial = self._trials[trial_id]
        await self._until(lambda: bool(trial.outbox) or trial.end is not None)
        if trial.outbox:
            return trial.outbox.popleft()
        assert trial.end is not None
        return trial.end

    # What Ray Train's controllers call.

    async def lane_down(self, lane: str, why: str, alive: Collection[str]) -> None:
        """A lane's workers have died; Ray Train starts them again as soon as there is room. Its trial is queued again.

        Args:
            lane: the lane.
            why: what Ray Train met.
            alive: ids of the cluster's nodes that are alive.
        """
        nodes = self._open.pop(lane, None)
        if nodes is None:
            return
        self._count_call(lane)
        lost = sorted(node_name(node, host) for node, host in nodes.items() if node not in alive)
        if lost:
            why = f"{'nodes' if len(lost) > 1 else 'node'} {', '.join(lost)} died"
        self._happened(Event(kind="lane_down", lane=lane, facts={"why": why}))
        self._give_back(lane, why, kill=None if lost else nodes)

    # What the sweep calls.

    async def set_max_lanes(self, number: int) -> None:
        """Says how many lanes there is work for: others close as soon as they are idle."""
        self._most_lanes = number
        self._wake()

    async def set_alive_nodes(self, alive: Collection[str]) -> None:
        """Says which nodes are alive. A peer's node may be known to be lost only after a lane has died of it."""
        for trial in self._trials.values():
            trial.kills = [(at, nodes) for at, nodes in trial.kills if nodes <= set(alive)]

    async def set_decision(self, trial_id: str, epoch: int, stop: bool) -> None:
        """The scheduler's answer to the report of an epoch."""
        self._trials[trial_id].verdicts.setdefault(epoch, stop)
        self._wake()

    async def cancel_trial(self, trial_id: str, why: str) -> None:
        """Nobody waits for this trial any more: it fails, at its next step if a lane has it."""
        trial = self._trials.get(trial_id)
        if trial is None or trial.end is not None:
            return
        trial.withdrawn = why
        if trial_id in self._queue:
            self._finish(trial_id, "failed", why)
        self._wake()

    async def remove_lane(self, lane: str, why: str) -> bool:
        """A lane's run is over. Unless it was told to close, its trial goes to another lane, and the answer is True."""
        nodes, was_told = self._open.pop(lane, {}), lane in self._closed
        self._count_call(lane)
        if not was_told:
            self._happened(Event(kind="lane_lost", lane=lane, facts={"why": why}))
        self._give_back(lane, why, kill=nodes)
        return not was_told

    async def take_events(self, timeout: float) -> list[Event]:
        """What has happened since the last call; waits up to `timeout` seconds for something."""
        try:
            async with asyncio.timeout(timeout):
                await self._until(lambda: bool(self._events))
        except TimeoutError:
            return []
        events, self._events = self._events, []
        return events

    async def interrupt(self) -> None:
        """Stops everything: queued trials end, running ones are stopped at their next step, lanes close."""
        self._is_interrupted = True
        await self.close()

    async def close(self) -> None:
        """Lanes that ask for a trial are told to close; nothing queued is started."""
        self._is_closed = True
        while self._queue:
            self._finish(self._queue.popleft(), "interrupted", None)
        self._wake()

    # How.

    def _held_by(self, lane: str) -> str | None:
        """The trial that is on this lane."""
        return next((name for name, trial in self._trials.items() if trial.lane == lane and trial.end is None), None)

    def _count_call(self, lane: str) -> int:
        """Numbers a lane's call for a trial; calls with a lower number do not count any more."""
        self._calls[lane] = self._calls.get(lane, 0) + 1
        self._wake()
        return self._calls[lane]

    def _is_surplus(self, lane: str) -> bool:
        """Whether an idle lane should close."""
        has_work = self._most_lanes is None or lane not in self._open or len(self._open) <= self._most_lanes
        return self._is_closed or not (has_work or self._queue)

    def _closes(self, lane: str) -> bool:
        """Closes a lane if it is spare; whether it is."""
        if not self._is_surplus(lane):
            return False
        self._open.pop(lane, None)
        self._closed.add(lane)
        if not self._is_closed:
            self._happened(Event(kind="lane_closed", lane=lane))
        return True

    def _give_back(self, lane: str, why: str, *, kill: Collection[str] | None) -> None:
        """Queues the trial of a lane whose workers have died again, before all others, unless it may not go on.

        Args:
            lane: the lane.
            why: what became of its workers.
            kill: the nodes that they were on, if this counts among the trial's kills.
        """
        trial_id = self._held_by(lane)
        if trial_id is None:
            return
        trial = self._trials[trial_id]
        trial.lane = None
        if kill is not None and not is_doubtful(trial, frozenset(kill)):
            trial.kills.append((time.monotonic(), frozenset(kill)))
        trial.suspicion = why if kill is None else trial.suspicion or why
        if self._is_interrupted or trial.withdrawn is not None:
            self._finish(trial_id, "interrupted", None)
        elif len(trial.kills) >= MAX_KILLS:
            self._finish(trial_id, "failed", f"killed its lane twice: {trial.suspicion}")
        else:
            self._queue.appendleft(trial_id)
            self._happened(Event(kind="requeued", lane=lane, trial_id=trial_id))

    def _assign(self, trial_id: str, lane: str, host: str, pid: int) -> Assignment:
        trial = self._trials[trial_id]
        trial.lane, trial.attempt = lane, trial.attempt + 1
        facts = {"host": host, "pid": pid, "attempt": trial.attempt, "why": trial.suspicion}
        trial.suspicion = None
        kind: EventKind = "started" if trial.attempt == 1 else "resumed"
        self._happened(Event(kind=kind, lane=lane, trial_id=trial_id, facts=facts))
        return Assignment(trial_id=trial_id, config=trial.config, attempt=trial.attempt)

    def _take_report(self, trial_id: str, report: Mapping[str, Any]) -> None:
        """Records an epoch reported for the first time, and passes it on if it is scored."""
        trial = self._trials[trial_id]
        trial.seen.add(report["epoch"])
        if report["scored_epoch"] == 0:
            trial.verdicts[report["epoch"]] = False
        else:
            trial.best = max(report["score"], report["score"] if trial.best is None else trial.best)
            report = {**report, "best": trial.best}
            trial.outbox.append(report)
        self._happened(Event(kind="report", lane=trial.lane, trial_id=trial_id, facts=report))

    def _finish(
        self, trial_id: str, how: FinalStatus, error: str | None, facts: Mapping[str, Any] | None = None
    ) -> None:
        """Sets a trial's end; the first one counts."""
        trial = self._trials[trial_id]
        if trial.end is not None:
            return
        if trial_id in self._queue:  # said by a worker that has outlived its lane
            self._queue.remove(trial_id)
        if trial.withdrawn is not None and how != "complete":
            how, error = "failed", trial.withdrawn
        trial.end = TrialEnd(how=how, error=error)
        told = {"how": how, "error": error, "was_started": trial.attempt > 0, **(facts or {})}
        self._happened(Event(kind="ended", lane=trial.lane, trial_id=trial_id, facts=told))

    def _happened(self, event: Event) -> None:
        self._events.append(event)
        self._wake()

    def _wake(self) -> None:
        """Lets everybody who waits look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Waits until `holds()`; what the caller does next, without waiting, still finds it so."""
        while not holds():
            await self._changed.wait()
