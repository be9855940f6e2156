"""The limits of a run: hours, and the optimizer steps that its trials have trained."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from sweeps.driver.limits import Limits


@pytest.mark.parametrize(("seconds", "reached"), [(1799, None), (1801, "--max-hours 0.5")])
def test_hours_are_those_since_the_run_began(seconds: float, reached: str | None) -> None:
    table: Any = SimpleNamespace(trained_steps=0)
    assert Limits(max_hours=0.5, began=time.monotonic() - seconds).reached(table) == reached


@pytest.mark.parametrize(("steps", "reached"), [(9, None), (10, "--max-steps 10"), (11, "--max-steps 10")])
def test_steps_reach_their_limit(steps: int, reached: str | None) -> None:
    table: Any = SimpleNamespace(trained_steps=steps)
    assert Limits(max_steps=10).reached(table) == reached
