"""Ctrl-C, once and twice, and other signals that stop a program."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mtlib.runtime.program_names import PROJECT_FOLDER
from sweeps.cluster.interrupts import SIGNALS, Interrupts


@pytest.fixture(autouse=True)
def default_hangup() -> Iterator[None]:
    """Tests may run under nohup, where programs ignore that their terminal ends."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", SIGNALS)
def test_first_signal_is_only_recorded(number: signal.Signals) -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), number)
        assert interrupts.count == 1
        assert interrupts.unannounced == (None if number == signal.SIGINT else number.name)


@pytest.mark.parametrize("first", [signal.SIGHUP, signal.SIGTERM])
def test_hangup_is_no_second_signal(first: signal.Signals) -> None:
    """A terminal that closes sends it twice, and the end of a session after SIGTERM."""
    with Interrupts() as interrupts:
        os.kill(os.getpid(), first)
        os.kill(os.getpid(), signal.SIGHUP)
        assert (interrupts.count, interrupts.unannounced) == (1, first.name)


def test_ignored_hangup_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGHUP)
        assert interrupts.count == 0
    signal.signal(signal.SIGHUP, before)


def test_program_goes_on_without_its_terminal(tmp_path: Path) -> None:
    program = f"""
import pathlib, signal, time
from sweeps.cluster.interrupts import Interrupts
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests may run under nohup
with Interrupts() as interrupts:
    print("ready", flush=True)
    while not interrupts.count:
        time.sleep(0.01)
    print("this would fail", flush=True)
    pathlib.Path({str(tmp_path / "end")!r}).write_text(str(interrupts.unannounced))
"""
    terminal, other_end = pty.openpty()
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        ["setsid", "--ctty", *command], stdin=other_end, stdout=other_end, stderr=other_end, cwd=PROJECT_FOLDER
    ) as process:
        os.close(other_end)
        assert os.read(terminal, 5) == b"ready"
        os.close(terminal)
    assert (process.returncode, (tmp_path / "end").read_text()) == (0, "SIGHUP")


def test_second_signal_ends_the_program() -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.count == 2


def test_handler_of_a_library_is_replaced_and_the_first_one_restored() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interrupts() as interrupts:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        interrupts.install_handlers()
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.count == 1
    assert signal.getsignal(signal.SIGTERM) == before


def test_program_can_request_a_clean_stop() -> None:
    with Interrupts() as interrupts:
        assert not interrupts.is_stop_requested
        interrupts.reason = "no node is left"
        assert (interrupts.is_stop_requested, interrupts.reason) == (True, "no node is left")
        os.kill(os.getpid(), signal.SIGINT)  # the user's first
        assert interrupts.count == 1


def test_in_another_thread_no_handler_is_installed() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]

    def open_twice() -> bool:
        with Interrupts() as interrupts:
            interrupts.install_handlers()
            return [signal.getsignal(number) for number in SIGNALS] == before and not interrupts.is_stop_requested

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(open_twice).result()
