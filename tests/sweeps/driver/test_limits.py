"""The limits of a run: hours, and the optimizer steps that its events show."""

import time
from typing import Any

import pytest

from sweeps.driver.limits import Limits
from sweeps.lanes.channel import Event, EventKind


def event(kind: EventKind, trial_id: str = "t", **facts: Any) -> Event:
    return Event(kind=kind, trial_id=trial_id, facts=facts)


def count(*events: Event) -> int:
    limits = Limits()
    for one in events:
        limits.count(one)
    return limits.num_steps


@pytest.mark.parametrize(("seconds", "reached"), [(1799, None), (1801, "--max-hours 0.5")])
def test_hours_are_those_since_the_run_began(seconds: float, reached: str | None) -> None:
    assert Limits(max_hours=0.5, began=time.monotonic() - seconds).reached == reached


@pytest.mark.parametrize(("steps", "reached"), [(9, None), (10, "--max-steps 10"), (11, "--max-steps 10")])
def test_steps_reach_their_limit(steps: int, reached: str | None) -> None:
    assert Limits(max_steps=10, num_steps=steps).reached == reached


def test_steps_of_earlier_runs_and_repeated_reports_do_not_count() -> None:
    replayed = event("report", step=40, is_replayed=True)
    assert count(event("started"), replayed, event("progress", step=41), event("report", step=50)) == 10


def test_steps_that_are_trained_again_after_a_kill_count_again() -> None:
    again = event("resumed"), event("starting_point"), event("progress", step=11), event("report", step=20)
    assert count(event("progress", step=1), event("progress", step=15), event("requeued"), *again) == 25
