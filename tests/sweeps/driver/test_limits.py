"""The limits of a run: hours, and the optimizer steps that its trials have trained."""

import time

import pytest

from sweeps.driver.limits import reached_limit
from sweeps.driver.trials.table import open_table
from tests.sweeps.conftest import MakePlan


@pytest.mark.parametrize(("seconds", "reached"), [(1799, None), (1801, "--max-hours 0.5")])
def test_hours_are_those_since_the_run_began(make_plan: MakePlan, seconds: float, reached: str | None) -> None:
    table = open_table(make_plan(max_hours=0.5))
    assert reached_limit(table, time.monotonic() - seconds) == reached


@pytest.mark.parametrize(("steps", "reached"), [(9, None), (10, "--max-steps 10"), (11, "--max-steps 10")])
def test_steps_reach_their_limit(make_plan: MakePlan, steps: int, reached: str | None) -> None:
    table = open_table(make_plan(max_steps=10))
    table.trained_steps = steps
    assert reached_limit(table, time.monotonic()) == reached
