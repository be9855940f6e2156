"""A lane as the driver sees it: a run in a thread, which ends well or says why not; and what its workers are told."""

import threading
from dataclasses import replace
from typing import Any

from mtlib.config import TrialConfig
from sweeps.lanes import Lane, lane_setup, stage_store
from sweeps.stages import StageStore
from tests.sweeps.conftest import MakePlan


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


def test_the_store_is_that_of_the_storage_or_none(make_plan: MakePlan) -> None:
    plan = make_plan(keep_bytes=7)
    assert stage_store(plan) == StageStore(folder=plan.cache_folder / "stages", most_bytes=7)
    assert stage_store(replace(plan, shares=False)) is None


def test_a_lane_is_told_what_the_plan_says(make_plan: MakePlan) -> None:
    mailbox: Any = object()
    plan = make_plan(state_steps=7, keep_bytes=9)
    setup = lane_setup(plan, mailbox, 3)
    assert (setup.lane, setup.metric, setup.state_steps) == ("sweep-lane3", "overall", 7)
    assert setup.store == stage_store(plan)
    assert TrialConfig.from_json(setup.base) == plan.base
