"""Lanes that say nothing: their workers are killed if they are stopped or hang, and Ray Train starts them again."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import ray

from sweeps.cluster.placement import on_node
from sweeps.driver.trials.messages import Message
from sweeps.driver.trials.table import TrialTable

SILENT_SECONDS = 30.0
"""After so long without a word from a trial's lane its workers are inspected; an evaluation may take as long."""


@dataclass(kw_only=True)
class SilentWorkers:
    """Watches the lanes of a sweep."""

    table: TrialTable
    tell: Callable[[Message], None]
    """Changes the table."""
    longest: float
    """A trial whose lane says nothing for so many seconds has its workers killed."""
    inspections: dict["ray.ObjectRef[bool]", str] = field(default_factory=dict)
    """Inspections of a worker whose answer is awaited, with the line to print if it is yes."""
    next_inspection: float = 0.0
    """On the monotonic clock."""

    def watch(self) -> Iterator[str]:
        """Inspects workers from time to time, without waiting; yields a line for each that was killed."""
        if self.inspections:
            ready, _ = ray.wait(list(self.inspections), num_returns=len(self.inspections), timeout=0)
            for inspection in ready:
                line, was_killed = self.inspections.pop(inspection), False
                with contextlib.suppress(ray.exceptions.RayError):  # its node has died
                    was_killed = ray.get(inspection)
                if was_killed:
                    yield line
        if time.monotonic() < self.next_inspection:
            return
        self.next_inspection = time.monotonic() + min(SILENT_SECONDS, self.longest) / 2
        hanging = {lane for lane, _, _ in silent_lanes(self.table, self.longest)}
        for lane, trial, workers in silent_lanes(self.table, min(SILENT_SECONDS, self.longest)):
            self.inspect(lane, trial, workers, hangs=lane in hanging)

    def inspect(self, lane: str, trial: str | None, workers: Sequence[tuple[str, int]], *, hangs: bool) -> None:
        """Starts an inspection of each worker of a lane, from its node."""
        why = f"has said nothing for {self.longest / 60:g} minutes (--silent-minutes)" if hangs else "is stopped"
        if hangs and trial is not None:
            self.tell(Message(kind="kill", trial_id=trial, facts={"why": f"it {why}"}))
        for node, pid in workers:
            ask = on_node(kill_stopped, node, max_retries=0)
            line = f"process {pid} of {lane} {why} and is killed"
            self.inspections[ask.remote(pid, hangs)] = line if trial is None else f"{trial}: {line}"


def silent_lanes(table: TrialTable, seconds: float) -> list[tuple[str, str | None, tuple[tuple[str, int], ...]]]:
    """Returns lanes of which nothing was heard for so long, with their trial, None while they load, and their workers.

    A lane says nothing while it is idle, or waits for a verdict.
    """
    now, found = time.monotonic(), []
    with table.lock:
        asking = {own.trial_id for own in table.waiting.values() if own.kind in ("epoch", "past_epochs")}
        running = {row.lane: row for row in table.rows.values() if row.runs}
        for name, lane in table.lanes.items():
            row = running.get(name)
            is_expected = lane.host is None if row is None else row.trial_id not in asking
            if is_expected and now - (lane if row is None else row).seen > seconds:
                found.append((name, None if row is None else row.trial_id, lane.workers))
    return found


def kill_stopped(pid: int, hangs: bool) -> bool:
    """Kills a process that is stopped, or `hangs`; whether it did."""
    import psutil  # here: on the worker's node

    try:
        if not hangs and psutil.Process(pid).status() != psutil.STATUS_STOPPED:
            return False
        os.kill(pid, signal.SIGKILL)
    except (psutil.Error, ProcessLookupError):
        return False
    return True
