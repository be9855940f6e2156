"""Descriptions of why a lane's workers ended, and sharing where the limit on stages is 0."""

import subprocess
import sys

from ray.train.v2._internal.exceptions import WorkerHealthCheckFailedError

from results.records.files import PROJECT_FOLDER
from search_spaces.space import SearchSpace, grid_configs
from sweeps.lanes.channel import UNEXPLAINED
from sweeps.lanes.lane import describe_worker_errors
from sweeps.options import SweepOptions, SweepPlan
from tests.sweeps.conftest import with_options
from tests.sweeps.lanes.plain_sweep import train_sweep
from tests.sweeps.reuse.trained_trials import TrialStorage


def test_death_is_described_by_the_workers_own_error_if_there_is_one() -> None:
    health = WorkerHealthCheckFailedError("a health check failed", failure=RuntimeError("it died"))
    assert describe_worker_errors({0: health, 1: KeyError("x")}) == "KeyError: 'x'"
    assert describe_worker_errors({0: health}) == UNEXPLAINED


def test_controller_loads_no_torch_for_the_callback() -> None:
    program = "import sys, sweeps.lanes.lane; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT_FOLDER, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "False\n"


def test_stage_limit_of_zero_shares_only_whole_trials(storage: TrialStorage) -> None:
    """`--keep-gb 0`: two trials with an equal first stage both train it; a second sweep trains nothing."""
    space = SearchSpace(name="tiny", question="?", base=storage.base, grid={"tasks.sts.batch_size": (4, 8)})
    options = SweepOptions(space="tiny", name="first", storage=str(storage.path), keep_gb=0.0)
    plan = SweepPlan(options=options, space=space, data_folder=storage.data)
    assert [record.status for record in train_sweep(plan, grid_configs(space))] == ["complete", "complete"]
    assert not (plan.options.cache_folder / "stages").exists()
    second = with_options(plan, name="second")
    again = train_sweep(second, grid_configs(space))
    assert [(record.status, record.shared_steps) for record in again] == [("reused", 12), ("reused", 12)]
