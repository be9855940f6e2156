"""Descriptions of why a lane's workers ended, and what a lane with one worker loads."""

import pickle
import subprocess
import sys

from ray.train.v2._internal.exceptions import WorkerHealthCheckFailedError

from mtlib.runtime.program_names import PROJECT_FOLDER
from sweeps.driver.trials.messages import UNEXPLAINED
from sweeps.lanes.lane import LaneCallback, SingleWorkerConfig, describe_worker_errors


def test_death_is_described_by_the_workers_own_error_if_there_is_one() -> None:
    health = WorkerHealthCheckFailedError("a health check failed", failure=RuntimeError("it died"))
    assert describe_worker_errors({0: health, 1: KeyError("x")}) == "KeyError: 'x'"
    assert describe_worker_errors({0: health}) == UNEXPLAINED
    away = WorkerHealthCheckFailedError("x", failure=RuntimeError("The actor 48ae is unavailable: RpcError"))
    assert describe_worker_errors({0: health, 1: away}) == "a worker process does not answer"


def test_controller_loads_no_torch_for_what_it_gets_of_a_lane_with_one_worker() -> None:
    sent = pickle.dumps((SingleWorkerConfig(), LaneCallback(None, "lane0"))).hex()
    program = f"""
import pickle, sys
config, _callback = pickle.loads(bytes.fromhex("{sent}"))
from ray.train.backend import BackendConfig
framework = config.framework if hasattr(BackendConfig, "framework") else None  # which Ray 2.53 does not ask for
facts = framework, config.to_dict() if hasattr(BackendConfig, "to_dict") else {{}}
print(config.backend_cls.__name__, *facts, "torch" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT_FOLDER, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "Backend None {} False\n"
