"""A sweep's heartbeat states whether the sweep runs, and since when it has stopped."""

import time
from datetime import datetime
from pathlib import Path

import pytest
import results.records.heartbeat
from results.records.heartbeat import HEARTBEAT_FILE, read_heartbeat, send_heartbeats, write_heartbeat

from results.records.driver_file import STALE_SECONDS, Progress, find_stop_time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The current time; tests change its only entry."""
    now = [datetime(2026, 3, 4, 4, 12).timestamp()]
    monkeypatch.setattr("time.time", lambda: now[0])
    return now


@pytest.mark.parametrize(("silence", "is_stopped"), [(0, False), (STALE_SECONDS - 1, False), (STALE_SECONDS, True)])
def test_long_silence_means_stopped(tmp_path: Path, clock: list[float], silence: float, is_stopped: bool) -> None:
    write_heartbeat(tmp_path)
    clock[0] += silence
    since = find_stop_time(tmp_path)
    assert (since is not None) == is_stopped
    if since is not None:
        assert since.replace(tzinfo=None) == datetime(2026, 3, 4, 4, 12)


def test_recorded_stop_holds_at_once(tmp_path: Path, clock: list[float]) -> None:
    write_heartbeat(tmp_path, has_stopped=True)
    since = find_stop_time(tmp_path)
    assert since is not None
    assert since.timestamp() == clock[0]


@pytest.mark.parametrize(
    "content", [None, "", "[]", "{}", '{"time": "noon"}', '{"time": null}', '{"time": NaN}', '{"time": 1e300}']
)
def test_without_a_heartbeat_nothing_is_known(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / HEARTBEAT_FILE).write_text(content)
    assert read_heartbeat(tmp_path) is None
    assert find_stop_time(tmp_path) is None


@pytest.mark.parametrize("more", ["", ', "progress": []', ', "progress": {"0000-r0": 1}'])
def test_heartbeat_of_an_earlier_version_has_no_progress(tmp_path: Path, clock: list[float], more: str) -> None:
    (tmp_path / HEARTBEAT_FILE).write_text(f'{{"time": {clock[0]}, "has_stopped": false{more}}}')
    heartbeat = read_heartbeat(tmp_path)
    assert heartbeat is not None
    assert (heartbeat.progress, heartbeat.stop_time) == ({}, None)


def test_heartbeat_is_written_while_the_sweep_runs_and_when_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results.records.heartbeat, "BEAT_SECONDS", 0.01)
    progress = {"0000-r0": {"since": 1.0, "epoch": 1, "step": 2, "num_steps": 3}}
    with send_heartbeats(tmp_path, lambda: progress):
        deadline, seen = time.monotonic() + 10, set[str]()
        while len(seen) < 3:
            assert time.monotonic() < deadline
            if (tmp_path / HEARTBEAT_FILE).exists():
                seen.add((tmp_path / HEARTBEAT_FILE).read_text())
        assert find_stop_time(tmp_path) is None
        assert last_progress(tmp_path) == progress
    assert find_stop_time(tmp_path) is not None
    assert last_progress(tmp_path) == {}


def last_progress(folder: Path) -> Progress:
    heartbeat = read_heartbeat(folder)
    assert heartbeat is not None
    return heartbeat.progress


def test_sweep_that_breaks_has_stopped(tmp_path: Path) -> None:
    def run() -> None:
        with send_heartbeats(tmp_path, dict):
            raise KeyError("it breaks")

    with pytest.raises(KeyError):
        run()
    assert find_stop_time(tmp_path) is not None


def test_unwritable_heartbeat_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with send_heartbeats(tmp_path / "file", dict):
        pass
    assert find_stop_time(tmp_path / "file") is None


def test_deleted_folder_is_not_created_again(tmp_path: Path) -> None:
    with send_heartbeats(tmp_path / "gone", dict):
        pass
    assert not (tmp_path / "gone").exists()
