"""`driver.json`: who runs a sweep, that it is alive, and how far its running trials are.

The driver writes it every few seconds. A fresh one refuses a second driver; an owner that reads another id stops. On a
bucket this is best effort: two that start in the same second may not see each other.
"""

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psutil

from mtlib.runtime.storage import Location, open_folder
from results.records.files import read_json, write_json

DRIVER_FILE = "driver.json"
BEAT_SECONDS = 5.0
"""Between two writings, each a request where the sweep is in a bucket: what `status` shows is about so old."""
STALE_SECONDS = 60.0
"""A sweep whose driver has not written for so long is not running; clocks of hosts may differ by as much."""

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
    began: float
    """When its process began, in seconds since 1970: another process may have its number later."""
    time: datetime
    """The time of the last writing, with the local time zone."""
    has_stopped: bool
    """Whether the driver wrote it at its end."""
    progress: Progress

    @property
    def stop_time(self) -> datetime | None:
        """When the sweep stopped; None if it runs."""
        age = time.time() - self.time.timestamp()
        return self.time if self.has_stopped or age >= STALE_SECONDS or self.is_dead else None

    @property
    def is_dead(self) -> bool:
        """Whether it ran on this host, and its process is gone."""
        if self.host != socket.gethostname():
            return False
        try:
            return bool(abs(psutil.Process(self.pid).create_time() - self.began) > 2)
        except psutil.NoSuchProcess:
            return True
        except psutil.Error:
            return False


class Ownership:
    """A driver's claim on its sweep, kept alive by a thread while the context is open.

    Raises:
        ValueError: another driver runs the sweep.
    """

    def __init__(self, folder: Location, find_progress: Callable[[], Progress] = dict) -> None:
        self.is_lost = False
        """Whether another driver has taken the sweep."""
        self.find_progress = find_progress
        self._folder = folder
        self.id = secrets.token_hex(8)
        """Which `driver.json` has while the sweep is this driver's."""
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="driver.json", daemon=True)

    def __enter__(self) -> "Ownership":
        other = read_driver(self._folder)
        if other is not None and other.stop_time is None:
            found = f"{self._folder}, run by process {other.pid} on {other.host}"
            raise ValueError(f"a sweep must not be running already, got {found}")
        self.write()
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._has_ended.set()
        self._thread.join(BEAT_SECONDS)  # storage that hangs must not keep a sweep from its end
        self.write(has_stopped=True)

    def _keep(self) -> None:
        while not self._has_ended.wait(BEAT_SECONDS):
            other = read_driver(self._folder)
            if other is not None and other.id != self.id:
                self.is_lost = True
                return
            self.write()

    def write(self, *, has_stopped: bool = False) -> None:
        """Writes the file now; storage that cannot be written passes for a stopped sweep after `STALE_SECONDS`.

        Nothing is written once another driver has taken the sweep.
        """
        if self.is_lost:
            return
        content = {
            "id": self.id,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "began": psutil.Process().create_time(),
            "time": time.time(),
            "has_stopped": has_stopped,
            "progress": {} if has_stopped else {name: dict(own) for name, own in dict(self.find_progress()).items()},
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
