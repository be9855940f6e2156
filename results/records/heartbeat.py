"""A running sweep writes a heartbeat every few seconds: readers recognise a killed one, and see its trials' steps."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from results.records.files import Location, open_folder, read_json, write_json

HEARTBEAT_FILE = ".heartbeat.json"
"""Hidden, so that mirrors do not have it."""
BEAT_SECONDS = 5.0
STALE_SECONDS = 60.0
"""A sweep without a heartbeat for so long is not running; clocks of hosts may differ by as much."""

Progress = Mapping[str, Mapping[str, Any]]
"""Of running trials by their id: `since`, the time of their start, moved by the time that they had no lane, and from
their first step on `epoch`, `step` and `num_steps`."""


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


def find_stop_time(folder: Location) -> datetime | None:
    """When a sweep stopped: the local time, with its zone, of the last heartbeat.

    None if it runs, or has no heartbeat: a sweep of an earlier version, or a mirror.
    """
    try:
        last = read_json(open_folder(folder), HEARTBEAT_FILE)
        since = datetime.fromtimestamp(last["time"]).astimezone()
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
    runs = not last.get("has_stopped") and time.time() - since.timestamp() < STALE_SECONDS
    return None if runs else since


def read_progress(folder: Location) -> dict[str, dict[str, Any]]:
    """The progress of a sweep's running trials; empty if the last heartbeat has none."""
    try:
        progress = read_json(open_folder(folder), HEARTBEAT_FILE)["progress"]
        return {name: dict(place) for name, place in progress.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
