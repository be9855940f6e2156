"""Opens lanes: each is one run of Ray Train that lasts as long as there are trials to train.

Ray Train's controller imports this file for its callback, so nothing here loads torch at once.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray.actor import ActorHandle
from ray.train import FailureConfig, RunConfig, ScalingConfig, UserCallback

from mtlib.runtime.errors import first_line
from sweeps.cluster.capacity import alive_nodes
from sweeps.cluster.connection import BackgroundRun
from sweeps.lanes.mailbox import UNEXPLAINED

if TYPE_CHECKING:
    from sweeps.lanes.worker import LaneSetup

REPORT_SECONDS = 30.0
"""Time limit of a report to the mailbox."""
MAX_FAILED_STARTS = 3
"""How often Ray Train may fail to start a lane's workers; the mailbox decides about failures after that."""


class LaneCallback(UserCallback):  # type: ignore[misc]
    """Reports from Ray Train's controller, on the driver's node, that a lane's workers have died."""

    def __init__(self, mailbox: ActorHandle[Any], lane: str) -> None:
        self._mailbox = mailbox
        self._lane = lane

    def after_exception(self, run_context: Any, worker_exceptions: Mapping[int, Exception]) -> None:  # noqa: ARG002
        """Called before Ray Train restarts the workers, for which it may wait long."""
        # An error here would end the run; without the report the mailbox notices when the lane registers again.
        with contextlib.suppress(Exception):
            why, alive = describe_worker_errors(worker_exceptions), list(alive_nodes())
            ray.get(self._mailbox.report_dead_workers.remote(self._lane, why, alive), timeout=REPORT_SECONDS)


def describe_worker_errors(errors: Mapping[int, Exception]) -> str:
    """How a lane's workers ended, by Ray Train's exception of each rank: by an error of their own, or by dying."""
    own = [error for error in errors.values() if not type(error).__module__.startswith("ray.")]
    return f"{type(own[0]).__name__}: {first_line(own[0])}" if own else UNEXPLAINED


def open_lane(setup: "LaneSetup", storage: Path) -> BackgroundRun:
    """Opens one lane; Ray Train's own files go into `storage`."""
    from sweeps.cluster.train_internals import choose_trainer, fit_lean
    from sweeps.lanes.worker import run_lane

    options = setup.plan.options
    resources = {"CPU": float(options.cpus_per_worker), "GPU": options.gpus_per_worker}
    trainer = choose_trainer(options.workers)(
        lambda: run_lane(setup),
        scaling_config=ScalingConfig(
            num_workers=options.workers,
            use_gpu=options.gpus_per_worker > 0,
            resources_per_worker={name: amount for name, amount in resources.items() if amount},
        ),
        run_config=RunConfig(
            name=setup.lane,
            storage_path=str(storage),
            failure_config=FailureConfig(max_failures=-1, controller_failure_limit=MAX_FAILED_STARTS),
            callbacks=[LaneCallback(setup.mailbox, setup.lane)],
        ),
    )
    return BackgroundRun(lambda: fit_lean(trainer), setup.lane)
