"""A lane asks at once whether its node is drained, then every few seconds, and never takes back a yes."""

import pytest

from sweeps.lanes import drain_watch
from sweeps.lanes.drain_watch import DrainWatch


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(drain_watch, "time", found)
    return found


def steps_until_asked(watch: DrainWatch, asked: list[bool], clock: Clock, seconds: float) -> int:
    """How many steps of so many seconds each it takes until the next question."""
    before, number = len(asked), 0
    while len(asked) == before:
        clock.now += seconds
        watch.after_step()
        number += 1
    return number


def test_lane_asks_about_every_three_seconds_however_long_a_step_takes(clock: Clock) -> None:
    asked: list[bool] = []

    def ask() -> bool:
        asked.append(True)
        return False

    watch = DrainWatch(ask)
    assert steps_until_asked(watch, asked, clock, 0.01) == 1
    assert steps_until_asked(watch, asked, clock, 0.01) == 10, "slowly at first: the first step may be slow or quick"
    assert [steps_until_asked(watch, asked, clock, 0.01) for _ in range(3)] == [100, 300, 300]
    assert steps_until_asked(watch, asked, clock, 1.0) == 300
    assert steps_until_asked(watch, asked, clock, 1.0) == 3
    assert steps_until_asked(watch, asked, clock, 60.0) == 3
    assert steps_until_asked(watch, asked, clock, 60.0) == 1


def test_announcement_holds_though_a_later_answer_is_no(clock: Clock) -> None:
    answers = [False, True, False]
    watch = DrainWatch(lambda: answers.pop(0))
    assert [watch.check() for _ in range(3)] == [False, True, True]
    clock.now += 1
    assert watch.after_step() is True
