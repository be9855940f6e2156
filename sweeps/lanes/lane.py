"""A lane on the driver: a run of Ray Train in a thread, which lasts as long as there are trials to train.

Ray Train's controller imports this file for its callback, so nothing here loads torch at once.
"""

import contextlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray.actor import ActorHandle
from ray.train import FailureConfig, RunConfig, ScalingConfig, UserCallback
from ray.train.backend import BackendConfig

from mtlib.runtime.errors import typed_line
from sweeps.cluster.background_run import BackgroundRun
from sweeps.driver.trials.messages import UNEXPLAINED, Message

if TYPE_CHECKING:
    from sweeps.lanes.worker import LaneSetup

NODE_LABEL = "ray.io/node-id"
"""Label of a node by Ray: its id."""
REPORT_SECONDS = 30.0
"""Time limit of a report to the channel."""


class SingleWorkerConfig(BackendConfig):  # type: ignore[misc]
    """Ray Train's settings of a lane with one worker: without a process group, whose store listens to everybody.

    With a `TorchConfig` the lane's controller and the actor of Ray Train's state load torch, in 2 s and 200 MB each.
    """

    backend = "none"
    """A name, without which `TorchTrainer` sets one."""


class LaneCallback(UserCallback):  # type: ignore[misc]
    """Reports from Ray Train's controller, on the driver's node, that a lane's workers have died."""

    def __init__(self, channel: ActorHandle[Any], lane: str) -> None:
        self._channel = channel
        self._lane = lane

    def after_exception(self, run_context: Any, worker_exceptions: Mapping[int, Exception]) -> None:  # noqa: ARG002
        """Called before Ray Train restarts the workers, for which it may wait long."""
        # An error here would end the run; without the report the table knows it when the lane opens again.
        with contextlib.suppress(Exception):
            why = describe_worker_errors(worker_exceptions)
            message = Message(kind="workers_died", lane=self._lane, facts={"why": why})
            ray.get(self._channel.tell.remote(message), timeout=REPORT_SECONDS)


def describe_worker_errors(errors: Mapping[int, Exception]) -> str:
    """Returns how a lane's workers ended, by Ray Train's exception of each rank:
    by an error of their own, or by dying."""
    own = [error for error in errors.values() if not type(error).__module__.startswith("ray.")]
    if not own and any(" is unavailable" in str(error) for error in errors.values()):
        return "a worker process does not answer"
    return typed_line(own[0]) if own else UNEXPLAINED


def open_lane(setup: "LaneSetup", scratch: Path, refused: Collection[str]) -> BackgroundRun:
    """Opens one lane on any nodes but the refused ones; Ray Train's own files go into `scratch`."""
    from ray.train.torch import TorchConfig, TorchTrainer

    from sweeps.lanes.worker import run_lane

    def train_lane(_shown: Mapping[str, Any]) -> None:
        run_lane(setup)

    options = setup.plan.options
    resources = {"CPU": float(options.cpus_per_worker), "GPU": options.gpus_per_worker}
    trainer = TorchTrainer(
        train_lane,
        train_loop_config={"sweep": options.name, "question": setup.plan.space.question},  # shown by Ray's dashboard
        torch_config=SingleWorkerConfig() if options.workers == 1 else TorchConfig(),
        scaling_config=ScalingConfig(
            num_workers=options.workers,
            use_gpu=options.gpus_per_worker > 0,
            resources_per_worker={name: amount for name, amount in resources.items() if amount},
            label_selector={NODE_LABEL: f"!in({','.join(sorted(refused))})"} if refused else None,
        ),
        run_config=RunConfig(
            name=setup.lane,
            storage_path=str(scratch),
            failure_config=FailureConfig(max_failures=-1),  # the table counts deaths, by trial rather than by lane
            callbacks=[LaneCallback(setup.channel, setup.lane)],
        ),
    )
    return BackgroundRun(trainer.fit, setup.lane)
