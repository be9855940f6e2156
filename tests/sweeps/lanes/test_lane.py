"""How the ends of a lane's workers are described, and what a sweep shares whose limit on stages is 0."""

from ray.train.v2._internal.exceptions import WorkerHealthCheckFailedError

from search_spaces.space import SearchSpace, grid_configs
from sweeps.lanes.lane import describe_worker_errors
from sweeps.lanes.mailbox import UNEXPLAINED
from sweeps.options import SweepOptions, SweepPlan
from tests.sweeps.conftest import with_options
from tests.sweeps.lanes.plain_sweep import train_sweep
from tests.sweeps.reuse.trained_trials import Ground


def test_a_death_is_described_by_an_error_of_the_workers_own_if_there_is_one() -> None:
    health = WorkerHealthCheckFailedError("a health check failed", failure=RuntimeError("it died"))
    assert describe_worker_errors({0: health, 1: KeyError("x")}) == "KeyError: 'x'"
    assert describe_worker_errors({0: health}) == UNEXPLAINED


def test_where_no_stage_is_shared_whole_trials_still_are(ground: Ground) -> None:
    """`--keep-gb 0`: two trials that share a first stage both train it; in a second sweep nothing is trained."""
    space = SearchSpace(name="tiny", question="?", base=ground.base, grid={"tasks.sts.batch_size": (4, 8)})
    options = SweepOptions(space="tiny", name="first", storage=ground.storage, keep_gb=0.0)
    plan = SweepPlan(options=options, space=space, data_folder=ground.data)
    assert [record.status for record in train_sweep(plan, grid_configs(space))] == ["complete", "complete"]
    assert not (plan.options.cache_folder / "stages").exists()
    second = with_options(plan, name="second")
    again = train_sweep(second, grid_configs(space))
    assert [(record.status, record.shared_steps) for record in again] == [("reused", 12), ("reused", 12)]
