"""A lane as the driver sees it: a run in a thread, which ends well or says why not."""

import threading
from typing import Any

from sweeps.lanes import Lane


class Run:
    """Stands in for a trainer."""

    def __init__(self, error: Exception | None = None) -> None:
        self.may_end = threading.Event()
        self.error = error

    def fit(self) -> None:
        self.may_end.wait(10)
        if self.error:
            raise self.error


def lane_of(run: Any) -> Lane:
    return Lane(run, "lane0")


def test_a_lane_lasts_as_long_as_its_run() -> None:
    run = Run()
    lane = lane_of(run)
    lane.wait(0.01)
    assert not lane.is_over
    run.may_end.set()
    lane.wait(10)
    assert lane.is_over
    assert lane.error is None


def test_a_run_that_fails_says_why_in_one_line() -> None:
    run = Run(RuntimeError("no node is left\nTraceback ..."))
    lane = lane_of(run)
    run.may_end.set()
    lane.wait(10)
    assert lane.error == "RuntimeError: no node is left"
