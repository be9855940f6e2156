"""A sweep's heartbeat: whoever runs it says so every few seconds, so that a reader knows one that was killed."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from results.records.files import Location, open_folder, read_json, write_json

HEARTBEAT_FILE = ".heartbeat.json"
"""Hidden, so that copies of the records elsewhere do not have it: there it would tell nothing."""
BEAT_SECONDS = 5.0
STALE_SECONDS = 60.0
"""A sweep that has been silent for so long does not run any more; also how far the clocks of two hosts may differ."""


@contextmanager
def send_heartbeats(folder: Path) -> Iterator[None]:
    """While this context is open, notes in a sweep's folder that it runs; at its end, that it has stopped."""
    has_ended = threading.Event()

    def keep() -> None:
        while not has_ended.is_set():
            write_heartbeat(folder)
            has_ended.wait(BEAT_SECONDS)

    thread = threading.Thread(target=keep, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join(BEAT_SECONDS)  # storage that hangs must not keep a sweep from its end
        write_heartbeat(folder, has_stopped=True)


def write_heartbeat(folder: Path, *, has_stopped: bool = False) -> None:
    """Notes that a sweep runs, or has stopped, now; where that cannot be written, it passes for stopped in a while."""
    if not folder.is_dir():  # it was deleted, and should not come back
        return
    with suppress(OSError):
        write_json(open_folder(folder), HEARTBEAT_FILE, {"time": time.time(), "has_stopped": has_stopped})


def stopped_since(folder: Location) -> datetime | None:
    """Since when nobody runs a sweep, as local time with its zone.

    Args:
        folder: the sweep's folder.

    Returns:
        The time of its last heartbeat; None if it runs, or has never had one: a sweep of an earlier version, or a copy.
    """
    try:
        last = read_json(open_folder(folder), HEARTBEAT_FILE)
        since = datetime.fromtimestamp(last["time"]).astimezone()
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
    runs = not last.get("has_stopped") and time.time() - since.timestamp() < STALE_SECONDS
    return None if runs else since
