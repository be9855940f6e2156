"""What a lane's workers are told, and how their ends are described."""

from dataclasses import replace
from typing import Any

from ray.train.v2._internal.exceptions import WorkerHealthCheckFailedError

from mtlib.config.trial import TrialConfig
from search_spaces.space import SearchSpace, grid_configs
from sweeps.lanes.lane import describe_worker_errors, lane_setup, stage_store
from sweeps.lanes.mailbox import UNEXPLAINED
from sweeps.options import SweepOptions
from sweeps.options import make_plan as make_sweep_plan
from sweeps.reuse.stage_store import StageStore
from tests.sweeps.conftest import MakePlan
from tests.sweeps.lanes.plain_sweep import train_sweep
from tests.sweeps.reuse.trained_trials import Ground


def test_a_death_is_described_by_an_error_of_the_workers_own_if_there_is_one() -> None:
    health = WorkerHealthCheckFailedError("a health check failed", failure=RuntimeError("it died"))
    assert describe_worker_errors({0: health, 1: KeyError("x")}) == "KeyError: 'x'"
    assert describe_worker_errors({0: health}) == UNEXPLAINED


def test_the_store_is_that_of_the_storage_or_none(make_plan: MakePlan) -> None:
    plan = make_plan(keep_gb=7e-9)
    assert stage_store(plan) == StageStore(folder=plan.cache_folder / "stages", most_bytes=7)
    assert stage_store(replace(plan, reuse=False)) is None


def test_where_no_stage_is_shared_whole_trials_still_are(ground: Ground) -> None:
    """`--keep-gb 0`: two trials that share a first stage both train it; in a second sweep nothing is trained."""
    space = SearchSpace(name="tiny", question="?", base=ground.base, grid={"tasks.sts.batch_size": (4, 8)})
    options = SweepOptions(space="tiny", name="first", storage=ground.storage, keep_gb=0.0)
    plan = make_sweep_plan(options, space, ground.data)
    assert [record.status for record in train_sweep(plan, grid_configs(space))] == ["complete", "complete"]
    assert not (plan.cache_folder / "stages").exists()
    second = make_sweep_plan(replace(options, name="second"), space, ground.data)
    again = train_sweep(second, grid_configs(space))
    assert [(record.status, record.shared_steps) for record in again] == [("reused", 12), ("reused", 12)]


def test_a_lane_is_told_what_the_plan_says(make_plan: MakePlan) -> None:
    mailbox: Any = object()
    plan = make_plan(checkpoint_steps=7, keep_gb=9e-9)
    setup = lane_setup(plan, mailbox, 3)
    assert (setup.lane, setup.metric, setup.checkpoint_steps) == ("sweep-lane3", "overall", 7)
    assert setup.store == stage_store(plan)
    assert TrialConfig.from_json(setup.base) == plan.base
