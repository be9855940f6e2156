"""`driver.json`: who runs a sweep, that it is alive, and how far its running trials are.

The driver writes it every few seconds. A second driver is refused while the first one lives: by its process where that
can be seen, else while the file changes, as clocks of hosts differ. An owner that reads another id stops. Two that
start in the same second may not see each other.
"""

import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from mtlib.runtime.storage import Location, is_file, never_make_again, open_folder
from results.records.files import read_json, write_json
from results.records.trials import SWEEP_FILE

DRIVER_FILE = "driver.json"
BEAT_SECONDS = 5.0
"""Between two writings, each a request where the sweep is in a bucket: what `status` shows is about so old."""
STALE_SECONDS = 60.0
"""A sweep whose driver has not written for so long is not running, unless its process is seen to run."""

GONE_BEATS = 2
"""Looks, one after another, at which the sweep's folder must be missing: a mount may be away for a moment."""
CLOSED: set[str] = set()
"""Ids of the drivers of this process that have ended, though their last word may not have reached the file."""

TrialProgress = Mapping[str, Any]
"""The facts of a running trial: `since`, the time of its start, moved by the time that it had no lane, and from its
first step on `epoch`, `step` and `num_steps`."""
Progress = Mapping[str, TrialProgress]
"""The facts of running trials by their id."""


@dataclass(frozen=True, kw_only=True)
class Driver:
    """The content of `driver.json`."""

    id: str
    host: str
    pid: int
    processes: str
    """Among which processes `pid` counts, as `own_processes` returns it; empty where it is not recorded."""
    began: float
    """When its process began, in seconds since 1970: another process may have its number later."""
    time: datetime
    """The time of the last writing, with the local time zone."""
    has_stopped: bool
    """Whether the driver wrote it at its end."""
    progress: Progress

    @property
    def stop_time(self) -> datetime | None:
        """When the sweep stopped, by what can be seen at once; None if it runs."""
        lives, age = self.lives, time.time() - self.time.timestamp()
        has_ended = self.has_stopped or (age >= STALE_SECONDS if lives is None else not lives)
        return self.time if has_ended else None

    @property
    def lives(self) -> bool | None:
        """Whether its process runs; None where that cannot be seen, as from another host or container of its name."""
        if not self.processes or self.processes != own_processes():
            return None
        if self.id in CLOSED:
            return False
        try:
            began = psutil.Process(self.pid).create_time()
        except psutil.NoSuchProcess:
            return None if psutil.pid_exists(self.pid) else False  # a system may hide the processes of others
        except psutil.Error:
            return True
        return True if abs(began - self.began) <= 2 else None  # another process, or the clock was set since


def own_processes() -> str:
    """Returns what tells the processes that have numbers here from all others: the boot of the machine, and on Linux
    the namespace of process ids, which a container has for itself; empty where it cannot be read."""
    if sys.platform != "linux":
        return f"{socket.gethostname()} {psutil.boot_time():.0f}"
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def still_lives(folder: Location, driver: Driver, say: Callable[[str], None]) -> bool:
    """Returns whether a driver lives, after a wait where only a change of its file can show it, which `say` says."""
    if driver.has_stopped or driver.lives is not None:
        return driver.stop_time is None
    question = f"whether its driver on {driver.host} still lives (--take-over does not wait)"
    say(f"{folder} waits up to {STALE_SECONDS:.0f} s to see {question} ...")
    deadline = time.monotonic() + STALE_SECONDS
    while time.monotonic() < deadline:
        time.sleep(STALE_SECONDS / 60)
        newer = read_driver(folder) or driver
        if newer != driver:
            return not newer.has_stopped
    return False


class Ownership:
    """A driver's claim on its sweep, kept alive by a thread while the context is open.

    Raises:
        ValueError: another driver runs the sweep.
    """

    def __init__(
        self,
        folder: Location,
        find_progress: Callable[[], Progress] = dict,
        *,
        takes_over: bool = False,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Creates the claim; `takes_over` looks for no other driver, `say` gets a line before a wait."""
        self.why_lost: str | None = None
        """Why the sweep is not this driver's any more, in a line; None while it is."""
        self.find_progress = find_progress
        self._folder, self._takes_over, self._say = folder, takes_over, say
        self.id = secrets.token_hex(8)
        """Which `driver.json` has while the sweep is this driver's."""
        self._num_gone = 0
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="driver.json", daemon=True)

    def __enter__(self) -> "Ownership":
        other = None if self._takes_over else read_driver(self._folder)
        if other is not None and still_lives(self._folder, other, self._say):
            rule = "a sweep must not be running already (--take-over is for one whose driver is known to be dead)"
            raise ValueError(f"{rule}, got {self._folder}, run by process {other.pid} on {other.host}")
        never_make_again(self._folder)
        self._write(self.find_progress())
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._has_ended.set()
        self._thread.join(BEAT_SECONDS)  # storage that hangs must not keep a sweep from its end
        self.write(has_stopped=True)
        never_make_again()
        CLOSED.add(self.id)

    def _keep(self) -> None:
        while not self._has_ended.wait(BEAT_SECONDS) and self.why_lost is None:
            self.write()

    def write(self, *, has_stopped: bool = False) -> None:
        """Writes the file now, unless the sweep is lost.

        Storage that cannot be written passes for a stopped sweep after `STALE_SECONDS`.
        """
        self.why_lost = self.why_lost or self._find_loss()
        if self.why_lost is None:
            self._write({} if has_stopped else self.find_progress(), has_stopped=has_stopped)

    def _find_loss(self) -> str | None:
        other = read_driver(self._folder)
        if other is not None and other.id != self.id:
            return f"process {other.pid} on {other.host} has taken the sweep over and runs it now"
        with suppress(OSError):  # the storage is away
            is_gone = other is None and not is_file(open_folder(self._folder), SWEEP_FILE)
            self._num_gone = self._num_gone + 1 if is_gone else 0
            if self._num_gone >= GONE_BEATS:
                gone = f"the folder {self._folder} was renamed or removed while the sweep ran"
                return f"{gone}; continue with --resume and its new place"
        return None

    def _write(self, progress: Progress, *, has_stopped: bool = False) -> None:
        content = {
            "id": self.id,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "processes": own_processes(),
            "began": psutil.Process().create_time(),
            "time": time.time(),
            "has_stopped": has_stopped,
            "progress": {name: dict(own) for name, own in progress.items()},
        }
        with suppress(OSError):
            write_json(open_folder(self._folder), DRIVER_FILE, content)


def read_driver(folder: Location) -> Driver | None:
    """Returns the last content of `driver.json`; None if there is none, or it is damaged."""
    try:
        last = read_json(open_folder(folder), DRIVER_FILE)
        return Driver(
            id=str(last["id"]),
            host=str(last["host"]),
            pid=int(last["pid"]),
            processes=str(last.get("processes", "")),
            began=float(last["began"]),
            time=datetime.fromtimestamp(last["time"]).astimezone(),
            has_stopped=bool(last["has_stopped"]),
            progress={name: dict(own) for name, own in last["progress"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None


def clock_text(time: datetime) -> str:
    """Returns a time as `14:03`, with its date unless that is today."""
    is_today = time.date() == datetime.now().astimezone().date()
    return time.strftime("%H:%M" if is_today else "%Y-%m-%d %H:%M")
