"""A running sweep writes a heartbeat every few seconds: readers recognise a killed one, and see its trials' steps."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from results.records.files import Location, open_folder, read_json, write_json

HEARTBEAT_FILE = ".heartbeat.json"
"""Hidden, so that mirrors do not have it."""
BEAT_SECONDS = 5.0
STALE_SECONDS = 60.0
"""A sweep without a heartbeat for so long is not running; clocks of hosts may differ by as much."""

TrialProgress = Mapping[str, Any]
"""Of a running trial: `since`, the time of its start, moved by the time that it had no lane, and from its first step on
`epoch`, `step` and `num_steps`."""
Progress = Mapping[str, TrialProgress]
"""Of running trials by their id."""


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """The last heartbeat of a sweep."""

    time: datetime
    """With the local time zone."""
    has_stopped: bool
    """Whether the sweep wrote it at its end."""
    progress: Progress

    @property
    def stop_time(self) -> datetime | None:
        """When the sweep stopped; None if it runs."""
        age = time.time() - self.time.timestamp()
        return self.time if self.has_stopped or age >= STALE_SECONDS else None


@contextmanager
def send_heartbeats(folder: Path, find_progress: Callable[[], Progress]) -> Iterator[None]:
    """Writes heartbeats while the context is open, and at its end that the sweep has stopped.

    Args:
        find_progress: the progress of running trials; called in a thread of its own.
    """
    has_ended = threading.Event()

    def keep() -> None:
        while not has_ended.is_set():
            write_heartbeat(folder, find_progress())
            has_ended.wait(BEAT_SECONDS)

    thread = threading.Thread(target=keep, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join(BEAT_SECONDS)  # storage that hangs must not keep a sweep from its end
        write_heartbeat(folder, has_stopped=True)


def write_heartbeat(folder: Path, progress: Progress | None = None, *, has_stopped: bool = False) -> None:
    """Writes one heartbeat; a folder that cannot be written passes for a stopped sweep after `STALE_SECONDS`."""
    if not folder.is_dir():  # it was deleted, and should not come back
        return
    with suppress(OSError):
        state = {"time": time.time(), "has_stopped": has_stopped, "progress": progress or {}}
        write_json(open_folder(folder), HEARTBEAT_FILE, state)


def read_heartbeat(folder: Location) -> Heartbeat | None:
    """The last heartbeat of a sweep; None if it has none: a sweep of an earlier version, or a mirror."""
    try:
        last = read_json(open_folder(folder), HEARTBEAT_FILE)
        return Heartbeat(
            time=datetime.fromtimestamp(last["time"]).astimezone(),
            has_stopped=bool(last.get("has_stopped")),
            progress=progress_in(last),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None


def progress_in(heartbeat: Mapping[str, Any]) -> Progress:
    """What a heartbeat's file says of running trials; empty if it has nothing, or something else."""
    try:
        return {name: dict(own) for name, own in heartbeat["progress"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def find_stop_time(folder: Location) -> datetime | None:
    """When a sweep stopped; None if it runs, or has no heartbeat."""
    last = read_heartbeat(folder)
    return last.stop_time if last else None
