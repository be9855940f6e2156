"""The dashboard starts after a while of training, once, with Ctrl-C blocked, and its address is reported once."""

import signal
import threading
import urllib.request
from collections.abc import Callable

import pytest

from sweeps.cluster import dashboard
from sweeps.cluster.connection import connected_to_ray
from sweeps.cluster.dashboard import AFTER_SECONDS, LateDashboard
from sweeps.cluster.ray_internals import start_dashboard

URL = "http://127.0.0.1:8265"
Start = Callable[[], str | None]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """Of each start, the signals that its thread blocks."""
    blocked: list[set[int]] = []

    def start() -> str | None:
        blocked.append({int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])})
        return URL

    monkeypatch.setattr(dashboard, "start_dashboard", start)
    return blocked


def test_it_starts_once_after_a_while_and_reports_its_address_once(started: list[set[int]]) -> None:
    late = LateDashboard()
    assert [late.poll(now) for now in (5.0, 4.9 + AFTER_SECONDS)] == [None, None]
    late.close()
    assert started == []
    found = [late.poll(5.0 + AFTER_SECONDS)]
    late.close()
    found += [late.poll(6.0 + AFTER_SECONDS), late.poll(7.0 + AFTER_SECONDS)]
    assert found.count(URL) == 1
    assert found[-1] is None
    assert [signal.SIGINT in blocked for blocked in started] == [True]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_sweep_goes_on_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str | None:
        raise OSError("no free port")

    monkeypatch.setattr(dashboard, "start_dashboard", fail)
    late = LateDashboard()
    for now in (0.0, AFTER_SECONDS):
        late.poll(now)
    late.close()
    assert late.poll(AFTER_SECONDS + 1) is None


def test_closing_waits_for_a_start_that_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end, ended = threading.Event(), []

    def start() -> str | None:
        may_end.wait(10)
        ended.append(True)
        return None

    monkeypatch.setattr(dashboard, "start_dashboard", start)
    late = LateDashboard()
    for now in (0.0, AFTER_SECONDS):
        late.poll(now)
    threading.Timer(0.05, may_end.set).start()
    late.close()
    assert ended == [True]


@pytest.mark.ray
@pytest.mark.slow
def test_the_dashboard_of_a_started_ray_answers() -> None:
    with connected_to_ray(None) as url:
        assert url is None
        late = start_dashboard()
        assert late is not None
        with urllib.request.urlopen(late, timeout=30) as answer:
            assert answer.status == 200
        assert start_dashboard() is None
