"""Descriptions of why a lane's workers ended, and sharing where the limit on stages is 0."""

import subprocess
import sys

from ray.train.v2._internal.exceptions import WorkerHealthCheckFailedError

from mtlib.runtime.program_names import PROJECT_FOLDER
from sweeps.driver.trials.messages import UNEXPLAINED
from sweeps.lanes.lane import describe_worker_errors


def test_death_is_described_by_the_workers_own_error_if_there_is_one() -> None:
    health = WorkerHealthCheckFailedError("a health check failed", failure=RuntimeError("it died"))
    assert describe_worker_errors({0: health, 1: KeyError("x")}) == "KeyError: 'x'"
    assert describe_worker_errors({0: health}) == UNEXPLAINED
    away = WorkerHealthCheckFailedError("x", failure=RuntimeError("The actor 48ae is unavailable: RpcError"))
    assert describe_worker_errors({0: health, 1: away}) == "a worker process does not answer"


def test_controller_loads_no_torch_for_the_callback() -> None:
    program = "import sys, sweeps.lanes.lane; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT_FOLDER, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "False\n"
