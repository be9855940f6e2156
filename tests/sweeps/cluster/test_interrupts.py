"""Ctrl-C, once and twice."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from sweeps.cluster.interrupts import SIGNALS, Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_first_signal_is_only_recorded(number: signal.Signals) -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), number)
        assert (interrupts.count, interrupts.is_terminated) == (1, number == signal.SIGTERM)


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
        interrupts.request_stop("no node is left")
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
