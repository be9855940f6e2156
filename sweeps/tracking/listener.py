"""The driver's side of trackers: turns a sweep's events into messages for the process of each tracker."""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from mtlib.checkpoints.published import published
from mtlib.runtime.checksum import hash_of
from mtlib.runtime.program_names import PROJECT_FOLDER
from mtlib.tasks import Task, value_of
from results.records.trials import UNFINISHED, TrialRecord, read_sweep, sweep_encoders
from sweeps.driver.trials.table import Event
from sweeps.tracking.tracker import TrackedRun, TrackedSweep, curve_values

SHORT_SECONDS, REMINDER_SECONDS = 3.0, 15.0
"""The end of a sweep says that it waits for a tracker after so long, and again each time after so long."""
FINISH_SECONDS = 120.0
"""How long the end of a sweep waits for a tracker."""
INTERRUPTED_SECONDS = 10.0
"""Likewise after Ctrl-C."""


class Trackers:
    """The trackers of a sweep; without names it does nothing."""

    def __init__(
        self, names: Sequence[str], folder: str, tasks: Mapping[str, Task], known: Iterable[TrialRecord] = ()
    ) -> None:
        """Starts a process for each tracker.

        Args:
            names: of the trackers.
            folder: the sweep's, path or URI.
            tasks: the definitions of the sweep's tasks.
            known: trials of a resumed sweep; what a tracker lacks of those that have ended is logged now.
        """
        self._tasks = tasks
        self._notes: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._lines: list[TrackerLine] = []
        if not names:
            return
        self._sweep = tracked_sweep(folder)
        self._lines = [TrackerLine(name, self._sweep, self._notes) for name in names]
        for record in known:
            if record.status not in UNFINISHED:
                self._send("known", record, epochs=record.epochs, **self._end_of(record))

    def on_event(self, event: Event) -> list[str]:
        """Passes an event on; returns lines of trackers to show."""
        record = event.record
        if self._lines and record is not None:
            if event.kind in ("started", "resumed"):
                self._send("begin", record)
            elif event.kind == "starting_point":  # later epochs were given up
                self._send("known", record, epochs=event.facts["epochs"])
            elif event.kind == "report":
                facts = event.facts
                self._send(
                    "report", record, epoch=facts["epoch"], step=facts["step"], values=curve_values(facts["points"])
                )
            elif event.kind == "ended" and event.facts["was_started"]:
                self._send("end", record, **self._end_of(record))
        return list(self._take_notes())

    def finish(self, answer: Sequence[str], *, is_interrupted: bool) -> Iterator[str]:
        """Sends the answer, and waits until all is logged; yields lines to show."""
        if not is_interrupted:
            self._send_all({"kind": "finish", "answer": "\n\n".join(answer)})
        for line in self._lines:
            line.close()
        for line in self._lines:
            left, seconds = INTERRUPTED_SECONDS if is_interrupted else FINISH_SECONDS, SHORT_SECONDS
            while not line.wait(seconds):
                if left <= 0:
                    line.give_up()
                    break
                yield f"Waiting for {line.name} to take the rest, {left:.0f} s at most ..."
                yield from self._take_notes()
                seconds = min(REMINDER_SECONDS, left)
                left -= seconds
        yield from self._take_notes()

    def _end_of(self, record: TrialRecord) -> dict[str, Any]:
        """Status and best scores of a trial."""
        values = {f"best/{name}": value_of(name, score, self._tasks) for name, score in record.best.items()}
        return {"status": record.status, "values": values}

    def _send(self, kind: str, record: TrialRecord, **facts: Any) -> None:
        self._send_all({"kind": kind, "trial": asdict(tracked_trial(self._sweep, record)), **facts})

    def _send_all(self, message: Mapping[str, Any]) -> None:
        for line in self._lines:
            line.send(message)

    def _take_notes(self) -> Iterator[str]:
        while not self._notes.empty():
            yield self._notes.get()


class TrackerLine:
    """The process of one tracker, and the two threads that write to it and read from it."""

    def __init__(self, name: str, sweep: TrackedSweep, notes: "queue.SimpleQueue[str]") -> None:
        self.name = name
        self._messages: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._is_given_up = False
        path = os.pathsep.join(filter(None, (str(PROJECT_FOLDER), os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sweeps.tracking.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C of a terminal is for the sweep
            env={**os.environ, "PYTHONPATH": path},
        )
        self.send({"name": name, "sweep": asdict(sweep)})
        self._reader = threading.Thread(target=self._read, args=(notes,), daemon=True)
        self._reader.start()
        threading.Thread(target=self._write, daemon=True).start()

    def send(self, message: Mapping[str, Any]) -> None:
        """Queues a message."""
        self._messages.put(json.dumps(message))

    def close(self) -> None:
        """No further message will come."""
        self._messages.put(None)

    def wait(self, seconds: float) -> bool:
        """Waits until the process has ended; False after so many seconds."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        self._reader.join()
        return True

    def give_up(self) -> None:
        """Kills the process."""
        self._is_given_up = True
        self._process.kill()
        self.wait(FINISH_SECONDS)

    def _write(self) -> None:
        assert self._process.stdin is not None
        try:
            while (message := self._messages.get()) is not None:
                self._process.stdin.write(f"{message}\n")
                self._process.stdin.flush()
            self._process.stdin.close()
        except OSError:  # it has died, of which `_read` tells
            pass

    def _read(self, notes: "queue.SimpleQueue[str]") -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            notes.put(line.rstrip("\n"))
        if self._process.wait() != 0:
            why = "it was given up, as it did not answer" if self._is_given_up else "its process has died"
            notes.put(f"{self.name} does not have all of this sweep: {why}; a resumed sweep sends the rest")


def tracked_sweep(folder: str) -> TrackedSweep:
    """Returns a sweep as trackers get it, by its record."""
    info = read_sweep(folder)
    name, space = str(info["name"]), info.get("space") or {}
    return TrackedSweep(
        name=name,
        id=f"{name}-{hash_of([name, info['created']])[:8]}",
        question=str(space.get("question", "")),
        folder=folder,
        fingerprints={"data": (info.get("data") or {}).get("fingerprint", ""), **sweep_encoders(info)},
    )


def tracked_trial(sweep: TrackedSweep, record: TrialRecord) -> TrackedRun:
    """Returns a trial as trackers get it, by its record."""
    config = json.loads(record.config)
    settings = {
        "sweep": sweep.name,
        "question": sweep.question,
        "configuration": record.number,
        "replicate": record.replicate,
        "seed": record.seed,
        "data_fingerprint": sweep.fingerprints["data"],
        "encoder_fingerprint": sweep.fingerprints.get(config["encoder"]["name"], ""),
        **{key: published(value, key) for key, value in record.params.items()},
    }
    return TrackedRun(
        id=f"{sweep.id}-{record.trial_id}",
        name=record.trial_id,
        settings=settings,
        config=published(config),
    )
