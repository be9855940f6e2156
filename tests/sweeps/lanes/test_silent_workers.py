"""A process is killed if it is stopped, or hangs; any other is left alone."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from sweeps.lanes.silent_workers import kill_stopped, silent_lanes
from tests.local_table import LocalTable


@pytest.fixture
def sleeper() -> "Iterator[subprocess.Popen[bytes]]":
    """A process that sleeps."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def test_process_that_runs_is_left_alone(sleeper: "subprocess.Popen[bytes]") -> None:
    assert not kill_stopped(sleeper.pid, False)
    assert sleeper.poll() is None


def test_stopped_process_is_killed(sleeper: "subprocess.Popen[bytes]") -> None:
    sleeper.send_signal(signal.SIGSTOP)
    while psutil.Process(sleeper.pid).status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)
    assert kill_stopped(sleeper.pid, False)
    assert sleeper.wait(60) == -signal.SIGKILL


def test_process_that_hangs_is_killed_though_it_is_not_stopped(sleeper: "subprocess.Popen[bytes]") -> None:
    assert kill_stopped(sleeper.pid, True)
    assert sleeper.wait(60) == -signal.SIGKILL


def test_process_that_is_gone_is_no_error(sleeper: "subprocess.Popen[bytes]") -> None:
    sleeper.kill()
    sleeper.wait()
    assert not kill_stopped(sleeper.pid, False)
    assert not kill_stopped(sleeper.pid, True)


def test_lane_that_nothing_is_heard_of_is_silent_unless_it_is_idle() -> None:
    local = LocalTable()
    local.assign()
    assert silent_lanes(local.table, 3600.0) == []
    assert silent_lanes(local.table, -1.0) == [("a", "t", (("n", 1),))]
    local.tell("left", "t", status="complete", error=None, spent={})
    local.want("a")
    assert silent_lanes(local.table, -1.0) == []
    local.open("loads")
    assert silent_lanes(local.table, -1.0) == [("loads", None, (("n", 1),))]
