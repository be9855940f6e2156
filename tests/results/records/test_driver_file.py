"""One driver at a time owns a sweep, others see whether it lives, and a dead one does not block the next."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from results.records import driver_file
from results.records.driver_file import DRIVER_FILE, STALE_SECONDS, Ownership, read_driver
from tests.driver_files import write_driver
from tests.one_line_error import one_line_error

GONE = 2**22 + 1
"""The number of no process: Linux counts up to 2**22."""


def wait_until(holds: Callable[[], bool]) -> None:
    """Waits for another thread, at most a minute."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_owner_runs_until_it_has_left(tmp_path: Path) -> None:
    assert read_driver(tmp_path) is None
    with Ownership(tmp_path, lambda: {"0000-r0": {"since": 1.0, "epoch": 2}}):
        found = read_driver(tmp_path)
        assert found is not None
        assert (found.pid, found.has_stopped, found.stop_time) == (os.getpid(), False, None)
        assert found.progress == {"0000-r0": {"since": 1.0, "epoch": 2}}
    found = read_driver(tmp_path)
    assert found is not None
    assert (found.stop_time, found.progress) == (found.time, {})
    with Ownership(tmp_path):
        found = read_driver(tmp_path)
        assert found is not None
        assert found.stop_time is None


def test_fresh_driver_refuses_a_second_one(tmp_path: Path) -> None:
    with Ownership(tmp_path):
        before = (tmp_path / DRIVER_FILE).read_text()
        message = one_line_error(Ownership(tmp_path).__enter__)
        assert f"process {os.getpid()}" in message
        assert (tmp_path / DRIVER_FILE).read_text() == before
    write_driver(tmp_path, host="elsewhere", pid=GONE)  # whether it lives cannot be seen from here
    assert "elsewhere" in one_line_error(Ownership(tmp_path).__enter__)


@pytest.mark.parametrize(
    "changes",
    [
        {"pid": GONE},
        {"began": 1.0},  # another process has its number now
        {"has_stopped": True},
        {"time": time.time() - STALE_SECONDS - 1},
        {"host": "elsewhere", "time": time.time() - STALE_SECONDS - 1},
    ],
)
def test_driver_that_is_gone_refuses_no_other(tmp_path: Path, changes: dict[str, Any]) -> None:
    write_driver(tmp_path, **changes)
    found = read_driver(tmp_path)
    assert found is not None
    assert found.stop_time is not None
    with Ownership(tmp_path) as own:
        assert not own.is_lost


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"time": "noon"}'])
def test_damaged_file_is_no_driver(tmp_path: Path, text: str) -> None:
    (tmp_path / DRIVER_FILE).write_text(text)
    assert read_driver(tmp_path) is None
    with Ownership(tmp_path):
        assert read_driver(tmp_path) is not None


def test_owner_that_reads_another_id_has_lost_the_sweep_and_leaves_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_file, "BEAT_SECONDS", 0.01)
    with Ownership(tmp_path) as own:
        monkeypatch.setattr(own, "write", lambda **_named: None)  # it must not overwrite the other's at this moment
        write_driver(tmp_path, id="another")
        wait_until(lambda: own.is_lost)
    found = read_driver(tmp_path)
    assert found is not None
    assert (found.id, found.has_stopped) == ("another", False)


def test_owner_keeps_its_file_fresh_and_shows_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_file, "BEAT_SECONDS", 0.01)
    progress: dict[str, dict[str, float]] = {}
    with Ownership(tmp_path, lambda: progress):
        progress["0003-r0"] = {"since": 5.0}
        wait_until(lambda: (found := read_driver(tmp_path)) is not None and found.progress == progress)
        (tmp_path / DRIVER_FILE).unlink()
        wait_until(lambda: read_driver(tmp_path) is not None)
    assert not [thread for thread in threading.enumerate() if thread.name == DRIVER_FILE]
