"""One driver at a time owns a sweep, others see whether it lives, and a dead one does not block the next."""

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mtlib.runtime.storage import open_folder
from results.records import driver_file
from results.records.driver_file import DRIVER_FILE, STALE_SECONDS, Ownership, read_driver
from results.records.files import write_json
from results.records.trials import SWEEP_FILE
from tests.driver_files import write_driver
from tests.one_line_error import one_line_error

GONE = 2**22 + 1
"""The number of no process: Linux counts up to 2**22."""
FAR: dict[str, Any] = {"pid": GONE, "host": "elsewhere", "processes": "another boot"}
"""A driver whose process cannot be seen from here."""


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


@pytest.mark.parametrize("seconds", [0, -3600, 3600])
def test_driver_whose_process_lives_here_refuses_a_second_one_at_any_time_of_its_file(
    tmp_path: Path, seconds: float
) -> None:
    write_driver(tmp_path, time=time.time() + seconds, host="renamed")
    before = (tmp_path / DRIVER_FILE).read_text()
    message = one_line_error(Ownership(tmp_path, say=pytest.fail).__enter__)
    assert f"process {os.getpid()}" in message
    assert "--take-over" in message
    assert (tmp_path / DRIVER_FILE).read_text() == before


def test_process_that_began_at_another_time_is_not_known_to_be_the_drivers_or_not(tmp_path: Path) -> None:
    """Another process may have its number now, or the clock was set, by which its beginning is known."""
    write_driver(tmp_path, began=1.0)
    found = read_driver(tmp_path)
    assert found is not None
    assert found.lives is None


@pytest.mark.parametrize("changes", [{"pid": GONE}, {"has_stopped": True}, {**FAR, "has_stopped": True}])
def test_driver_that_is_seen_to_be_gone_refuses_no_other(tmp_path: Path, changes: dict[str, Any]) -> None:
    write_driver(tmp_path, **changes)
    found = read_driver(tmp_path)
    assert found is not None
    assert found.stop_time is not None
    with Ownership(tmp_path, say=pytest.fail) as own:
        assert own.why_lost is None


@pytest.mark.parametrize(("age", "has_stopped"), [(-1e6, False), (STALE_SECONDS - 10, False), (STALE_SECONDS, True)])
@pytest.mark.parametrize("lacks", [(), ("processes",)])
def test_driver_that_cannot_be_seen_is_dead_if_its_file_does_not_change_for_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age: float, lacks: tuple[str, ...], *, has_stopped: bool
) -> None:
    """A clock may be ahead or behind; released versions wrote no `processes`. Its status goes by the age alone."""
    write_driver(tmp_path, **FAR, time=time.time() - age)
    content = json.loads((tmp_path / DRIVER_FILE).read_text())
    (tmp_path / DRIVER_FILE).write_text(json.dumps({key: own for key, own in content.items() if key not in lacks}))
    found = read_driver(tmp_path)
    assert found is not None
    assert (found.stop_time is not None) == has_stopped
    monkeypatch.setattr(driver_file, "STALE_SECONDS", 0.1)
    said: list[str] = []
    with Ownership(tmp_path, say=said.append) as own:
        assert own.why_lost is None
    assert "driver on elsewhere still lives" in said[0]


def test_driver_that_cannot_be_seen_refuses_others_at_the_first_change_of_its_file(tmp_path: Path) -> None:
    write_driver(tmp_path, **FAR, time=1.0)

    def beat(_text: str) -> None:
        write_driver(tmp_path, **FAR, time=2.0)

    assert "elsewhere" in one_line_error(Ownership(tmp_path, say=beat).__enter__)


@pytest.mark.parametrize("changes", [{}, FAR])
def test_sweep_is_taken_over_at_once_and_the_other_driver_says_so(tmp_path: Path, changes: dict[str, Any]) -> None:
    with Ownership(tmp_path) as first:
        write_driver(tmp_path, id=first.id, **changes)
        with Ownership(tmp_path, takes_over=True, say=pytest.fail) as second:
            first.write()
            assert "has taken the sweep over" in str(first.why_lost)
            assert "--resume" not in str(first.why_lost)
            first.write(has_stopped=True)
            found = read_driver(tmp_path)
            assert found is not None
            assert (found.id, found.has_stopped, second.why_lost) == (second.id, False, None)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"time": "noon"}'])
def test_damaged_file_is_no_driver(tmp_path: Path, text: str) -> None:
    (tmp_path / DRIVER_FILE).write_text(text)
    assert read_driver(tmp_path) is None
    with Ownership(tmp_path):
        assert read_driver(tmp_path) is not None


def test_owner_keeps_its_file_fresh_and_shows_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_file, "BEAT_SECONDS", 0.01)
    (tmp_path / SWEEP_FILE).touch()
    progress: dict[str, dict[str, float]] = {}
    with Ownership(tmp_path, lambda: progress):
        progress["0003-r0"] = {"since": 5.0}
        wait_until(lambda: (found := read_driver(tmp_path)) is not None and found.progress == progress)
        (tmp_path / DRIVER_FILE).unlink()
        wait_until(lambda: read_driver(tmp_path) is not None)
    assert not [thread for thread in threading.enumerate() if thread.name == DRIVER_FILE]


def test_folder_that_is_renamed_is_lost_and_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_file, "BEAT_SECONDS", 0.01)
    folder = tmp_path / "sweep"
    folder.mkdir()
    (folder / SWEEP_FILE).touch()
    with Ownership(folder) as own:
        folder.rename(tmp_path / "new")
        wait_until(lambda: own.why_lost is not None)
        with suppress(OSError):
            write_json(open_folder(folder), "trials.json", {})
    assert f"the folder {folder} was renamed or removed" in str(own.why_lost)
    assert not folder.exists()
    write_json(open_folder(folder), "trials.json", {})  # by a later sweep
