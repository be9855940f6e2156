"""The process of one tracker: it gets a sweep's messages on standard input, so that nothing of a tracker, neither its
output, its threads, its memory nor its failure, touches the sweep.

What fails is tried again until it succeeds or the sweep ends. How far each trial was logged is kept in the sweep's
folder, and written before the tracker gets an epoch: a kill between the two loses that epoch's points there, and no
resumed sweep logs a point twice. A trial that goes on from an earlier epoch than was logged gets another run.
"""

import json
import os
import queue
import re
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

import pyarrow.fs as fs

from mtlib.checkpoints.published import PLACE, without_places
from mtlib.runtime.errors import first_line
from mtlib.runtime.storage import is_file, open_folder, read_bytes, split_location
from results.records.epochs import read_epochs
from results.records.files import read_json, write_json
from results.records.trials import read_sweep
from sweeps.tracking.tracker import SERVER_VARIABLES, TrackedRun, TrackedSweep, Tracker, curve_values, make_tracker

ATTEMPT_SECONDS = 20.0
"""Between two attempts while a tracker is down."""
NO_ANSWER_SECONDS = 20.0
"""A tracker that has not done for so long what it is asked does not answer."""
NO_ANSWER = re.compile("timed out|max retries|refused|unreachable|resolve", re.IGNORECASE)
"""In the message of an error of a library whose request got no answer."""
TRACKED_FILES = ("report.html", "selection.json")
"""Files of a sweep that trackers keep, where they are there."""


@dataclass(kw_only=True)
class Logged:
    """How far a trial was logged."""

    epochs: int = 0
    has_ended: bool = False
    discarded: int = 0
    """Runs that were taken back."""


@dataclass(kw_only=True)
class TrackerProcess:
    """Passes messages on to the tracker, each as often as needed."""

    name: str
    sweep: TrackedSweep
    note: Callable[[str], None]
    """Shows a line."""
    is_closing: threading.Event
    """Set once no further message will come."""
    make: Callable[[str, TrackedSweep, Callable[[str], None]], Tracker] = make_tracker
    trials: dict[str, TrackedRun] = field(default_factory=dict)
    """By name, those whose run is open, with the run's id."""
    is_down: bool = False

    @cached_property
    def tracker(self) -> Tracker:
        """Made when it is first needed, and tried again where that fails."""
        return self.make(self.name, self.sweep, self.note)

    @cached_property
    def logged(self) -> dict[str, Logged]:
        """How far each trial was logged, by its name."""
        found = read_json(self.root, self.path) if is_file(self.root, self.path) else {}
        return {name: Logged(**own) for name, own in found.items()}

    @property
    def root(self) -> fs.SubTreeFileSystem:
        """The sweep's folder."""
        return open_folder(self.sweep.folder)

    @property
    def path(self) -> str:
        """The path of the file that says how far each trial was logged."""
        return f"trackers/{self.name}.json"

    def handle(self, message: Mapping[str, Any]) -> bool:
        """Handles a message, again while the tracker is down; False if the sweep ended before it could be."""
        while True:
            is_last_attempt = self.is_closing.is_set()
            silence = threading.Timer(NO_ANSWER_SECONDS, self.note_down, ("does not answer",))
            silence.daemon = True
            silence.start()
            try:
                self.try_to_handle(message)
            except Exception as error:  # a tracker may raise anything
                has_no_answer = NO_ANSWER.search(str(error)) is not None
                self.note_down("does not answer" if has_no_answer else f"fails: {first_line(error)}")
                if is_last_attempt:
                    return False
                self.is_closing.wait(ATTEMPT_SECONDS)
            else:
                if self.is_down:
                    self.note(f"{self.name} works again")
                self.is_down = False
                return True
            finally:
                silence.cancel()

    def note_down(self, what: str) -> None:
        """Shows once that the tracker is down, with the address of its server where it is known."""
        if not self.is_down:
            address = without_places(os.environ.get(SERVER_VARIABLES.get(self.name, ""), ""), ())
            server = f"the server of {self.name} at {address}" if address else self.name
            self.note(f"{server} {what}; it is tried again while the sweep goes on")
        self.is_down = True

    def try_to_handle(self, message: Mapping[str, Any]) -> None:
        """Handles a message: the kind of event of a trial, or `finish`."""
        if message["kind"] == "finish":
            self.finish(message["answer"])
            return
        trial = TrackedRun(**message["trial"])
        handlers = {"begin": self.begin, "known": self.match, "report": self.report, "end": self.end}
        handlers[message["kind"]](trial, message)

    def begin(self, trial: TrackedRun, _message: Mapping[str, Any]) -> None:
        """Opens the run of a trial, or continues it."""
        if trial.name not in self.trials:
            logged = self.logged.setdefault(trial.name, Logged())
            logged.has_ended = False
            run = replace(trial, id=f"{trial.id}-{logged.discarded + 1}") if logged.discarded else trial
            if self.tracker.begin(run):
                logged.epochs = 0
            self.trials[trial.name] = run

    def report(self, trial: TrackedRun, message: Mapping[str, Any]) -> None:
        """Logs an epoch, unless it was logged before."""
        logged, epoch = self.logged.setdefault(trial.name, Logged()), int(message["epoch"])
        if epoch <= logged.epochs:
            return
        self.begin(trial, message)
        self.write_logged({trial.name: replace(logged, epochs=epoch)})
        self.tracker.log(self.trials[trial.name], message["step"], message["values"])
        logged.epochs = epoch

    def end(self, trial: TrackedRun, message: Mapping[str, Any]) -> None:
        """Ends the run of a trial."""
        is_over = message["status"] != "interrupted"
        logged = self.logged.setdefault(trial.name, Logged())
        if (logged.has_ended and is_over) or (trial.name not in self.trials and not is_over):
            return
        self.begin(trial, message)
        self.tracker.end(self.trials[trial.name], message["status"], message["values"])
        del self.trials[trial.name]
        logged.has_ended = is_over
        self.write_logged({})

    def match(self, trial: TrackedRun, message: Mapping[str, Any]) -> None:
        """Makes a trial's run hold the epochs that the sweep's records have, which may be fewer than were logged;
        ends it if the trial has ended."""
        logged = self.logged.setdefault(trial.name, Logged())
        if logged.has_ended and logged.epochs == message["epochs"]:
            return
        self.begin(trial, message)
        if logged.epochs > message["epochs"]:
            self.tracker.discard(self.trials[trial.name])
            del self.trials[trial.name]
            logged = self.logged[trial.name] = Logged(discarded=logged.discarded + 1)
            self.write_logged({})
        if logged.epochs < message["epochs"]:
            for epoch in read_epochs(self.root, trial.name)[0][logged.epochs : message["epochs"]]:
                point = epoch.points[0]
                one = {"epoch": point["epoch"], "step": point["step"], "values": curve_values(epoch.points)}
                if any(own["metric"] == "loss" for own in epoch.points):  # else the epoch took no step
                    self.report(trial, one)
            logged.epochs = message["epochs"]
        if "status" in message:
            self.end(trial, message)

    def finish(self, answer: str) -> None:
        """Closes all runs, and keeps the answer and the files of the sweep."""
        self.close()
        own = self.sweep.folder
        places = [own, split_location(own)[0], *PLACE.findall(json.dumps(read_sweep(own), ensure_ascii=False))]
        with TemporaryDirectory() as scratch:
            paths = []
            for name in TRACKED_FILES:
                if is_file(self.root, name):
                    paths.append(Path(scratch, name))
                    text = read_bytes(self.root, name).decode()
                    if name.endswith(".json"):  # in which a path has \u escapes
                        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
                        places += PLACE.findall(text)
                    paths[-1].write_text(without_places(text, places), encoding="utf-8")
            self.tracker.finish(without_places(answer, places), paths)

    def close(self) -> None:
        """Closes the runs that are open: their trials were interrupted."""
        for trial in list(self.trials.values()):
            self.end(trial, {"status": "interrupted", "values": {}})

    def write_logged(self, changes: Mapping[str, Logged]) -> None:
        """Writes how far each trial was logged, or will be by `changes`."""
        write_json(self.root, self.path, {name: vars(one) for name, one in {**self.logged, **changes}.items()})


def main() -> None:
    """Reads the tracker's name and the sweep from the first line of standard input, a message from each further one.

    Lines to show go to standard output; whatever the tracker itself prints goes nowhere.
    """
    notes = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.dup2(nothing, sys.stderr.fileno())
    first = json.loads(sys.stdin.readline())
    messages: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    is_closing = threading.Event()
    threading.Thread(target=read_lines, args=(sys.stdin, messages, is_closing), daemon=True).start()

    def note(line: str) -> None:
        notes.write(f"{line}\n")
        notes.flush()

    process = TrackerProcess(name=first["name"], sweep=TrackedSweep(**first["sweep"]), note=note, is_closing=is_closing)
    while (line := messages.get()) is not None:
        if not process.handle(json.loads(line)):
            note(f"{process.name} does not have all of this sweep; a resumed one sends the rest")
            return
    process.close()


def read_lines(stream: TextIO, messages: "queue.SimpleQueue[str | None]", is_closing: threading.Event) -> None:
    """Puts lines of a stream into a queue, and None at its end."""
    for line in stream:
        messages.put(line)
    is_closing.set()
    messages.put(None)


if __name__ == "__main__":
    main()
