"""The mailbox between trials and lanes: assignments go out, reports come back, verdicts answer them.

One mailbox serves all lanes of a sweep. It is a plain asyncio class, which the sweep runs as a Ray actor without a
device; whoever waits, waits in one of its methods. It also remembers what has happened, for the sweep's records.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sweeps.messages import Assignment, End, Ended, Event, EventKind

MAX_ATTEMPTS = 2
"""A trial whose lane has died is handed back until it has had so many attempts."""
MAX_OPENINGS = 3
"""A lane that was opened so often in a row without asking for a trial is given up."""
IDLE_SECONDS = 60.0
"""How long a lane waits for a trial before it asks again: its other workers wait in a collective, which times out."""
UNEXPLAINED = "a worker process died, perhaps for want of memory"


@dataclass(kw_only=True)
class TrialState:
    """What the mailbox knows of one trial."""

    config: str
    lane: str | None = None
    attempt: int = 0
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
    end: Ended | None = None

    @property
    def is_unwanted(self) -> bool:
        return self.withdrawn is not None or self.end is not None


class Mailbox:
    """Hands trials to lanes and reports to trials."""

    def __init__(self) -> None:
        self._trials: dict[str, TrialState] = {}
        self._queue: deque[str] = deque()
        self._openings: dict[str, int] = {}
        self._calls: dict[str, int] = {}
        self._events: list[Event] = []
        self._is_closed = False
        self._is_interrupted = False
        self._changed = asyncio.Event()

    # What lanes call.

    async def open_lane(self, lane: str) -> bool:
        """A lane's workers are about to load; False if they did so too often in vain and must not go on."""
        self._openings[lane] = self._openings.get(lane, 0) + 1
        return self._openings[lane] <= MAX_OPENINGS and not self._is_closed

    async def refuse_lane(self, lane: str, why: str) -> None:
        """A lane cannot load what the sweep asks for, and closes."""
        self._happened(Event(kind="lane_refused", lane=lane, facts={"why": why}))

    async def say_trouble(self, lane: str, why: str) -> None:
        """A lane's worker fails while it loads; the lane will be restarted."""
        self._happened(Event(kind="lane_trouble", lane=lane, facts={"why": why}))

    async def next_trial(self, lane: str, host: str, pid: int) -> Assignment | Literal["wait", "close"]:
        """Waits for the lane's next trial; `wait` means ask again, `close` that the lane is not needed any more.

        A lane that already has a trial was restarted: it gets the trial back, or that trial has failed.

        `host` and `pid` say where the lane's first worker is.
        """
        if self._openings.pop(lane, 0):
            self._happened(Event(kind="lane_open", lane=lane, facts={"host": host, "pid": pid}))
        call = self._calls[lane] = self._calls.get(lane, 0) + 1
        held = self._held_by(lane)
        if held is not None and self._may_go_on(held):
            return self._assign(held, lane, host, pid)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(IDLE_SECONDS):
                await self._until(lambda: self._is_closed or bool(self._queue) or self._calls[lane] != call)
        # The call of a lane that has died while it waited must not take a trial.
        if self._is_closed or self._calls[lane] != call:
            return "close"
        return self._assign(self._queue.popleft(), lane, host, pid) if self._queue else "wait"

    async def begins(self, trial_id: str, facts: Mapping[str, Any]) -> None:
        """Says where a trial begins: what it had done before, and what it takes over."""
        self._happened(Event(kind="begins", lane=self._trials[trial_id].lane, trial_id=trial_id, facts=facts))

    async def stage_ends(self, trial_id: str, facts: Mapping[str, Any]) -> None:
        """A trial has finished a stage, which others may wait for."""
        self._happened(Event(kind="stage_ends", lane=self._trials[trial_id].lane, trial_id=trial_id, facts=facts))

    async def waits(self, trial_id: str, what: str) -> None:
        """A trial waits on its lane, and for what."""
        self._happened(Event(kind="waits", lane=self._trials[trial_id].lane, trial_id=trial_id, facts={"what": what}))

    async def is_wanted(self, trial_id: str) -> bool:
        """Whether a trial that waits on its lane should still do so."""
        return not (self._is_interrupted or self._trials[trial_id].is_unwanted)

    async def progress(self, trial_id: str, facts: Mapping[str, Any]) -> bool:
        """Says where a trial is; answers whether it must stop at its next step."""
        trial = self._trials[trial_id]
        self._happened(Event(kind="progress", lane=trial.lane, trial_id=trial_id, facts=facts))
        return self._is_interrupted or trial.withdrawn is not None

    async def report(self, trial_id: str, report: Mapping[str, Any]) -> bool | None:
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

    async def suspect(self, trial_id: str, why: str) -> None:
        """A worker fails while it trains this trial, so its lane will be restarted; perhaps the trial is to blame."""
        self._trials[trial_id].suspicion = why

    async def ended(self, trial_id: str, how: End, error: str | None, facts: Mapping[str, Any]) -> None:
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

    async def next_report(self, trial_id: str) -> Mapping[str, Any] | Ended:
        """Waits for the trial's next scored report, or its end."""
        trial = self._trials[trial_id]
        await self._until(lambda: bool(trial.outbox) or trial.end is not None)
        if trial.outbox:
            return trial.outbox.popleft()
        assert trial.end is not None
        return trial.end

    # What the sweep calls.

    async def verdict(self, trial_id: str, epoch: int, stop: bool) -> None:
        """The scheduler's answer to the report of an epoch."""
        self._trials[trial_id].verdicts.setdefault(epoch, stop)
        self._wake()

    async def withdraw(self, trial_id: str, why: str) -> None:
        """Nobody waits for this trial any more: it fails, at its next step if a lane has it."""
        trial = self._trials.get(trial_id)
        if trial is None or trial.end is not None:
            return
        trial.withdrawn = why
        if trial_id in self._queue:
            self._queue.remove(trial_id)
            self._finish(trial_id, "failed", why)
        self._wake()

    async def lose_lane(self, lane: str, why: str) -> None:
        """A lane will not come back; its trial goes to another one, unless it may not go on."""
        self._happened(Event(kind="lane_lost", lane=lane, facts={"why": why}))
        held = self._held_by(lane)
        if held is not None and self._may_go_on(held):
            self._trials[held].lane = None
            self._queue.appendleft(held)
        self._wake()

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

    def _may_go_on(self, trial_id: str) -> bool:
        """Whether a trial whose lane has died may be tried again; ends it otherwise."""
        trial = self._trials[trial_id]
        if self._is_interrupted or trial.withdrawn is not None:
            self._finish(trial_id, "interrupted", None)
        elif trial.attempt >= MAX_ATTEMPTS:
            self._finish(trial_id, "failed", f"killed its lane twice: {trial.suspicion or UNEXPLAINED}")
        return trial.end is None

    def _assign(self, trial_id: str, lane: str, host: str, pid: int) -> Assignment:
        trial = self._trials[trial_id]
        trial.lane, trial.attempt = lane, trial.attempt + 1
        facts = {"host": host, "pid": pid, "attempt": trial.attempt, "why": trial.suspicion}
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

    def _finish(self, trial_id: str, how: End, error: str | None, facts: Mapping[str, Any] | None = None) -> None:
        """Sets a trial's end; the first one counts."""
        trial = self._trials[trial_id]
        if trial.end is not None:
            return
        if trial.withdrawn is not None and how != "complete":
            how, error = "failed", trial.withdrawn
        trial.end = Ended(how=how, error=error)
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
