"""Opens lanes: each is one run of Ray Train that lasts as long as it has trials to train, watched by a thread."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.train import FailureConfig, RunConfig, ScalingConfig, UserCallback
from ray.train.torch import TorchTrainer

from mtlib.errors import first_line
from sweeps.cluster.capacity import alive_nodes
from sweeps.cluster.connection import start_thread
from sweeps.lanes.mailbox import UNEXPLAINED
from sweeps.lanes.worker import LaneSetup, run_lane
from sweeps.options import SweepPlan
from sweeps.reuse.stage_store import STORE_FOLDER, StageStore

TELLING_SECONDS = 30.0
"""How long the mailbox may take to hear that a lane is down."""
STARTS_IN_VAIN = 3
"""How often Ray Train may fail to start a lane's workers; what they do once started is the mailbox's to judge."""


class LaneCallback(UserCallback):  # type: ignore[misc]
    """Tells the mailbox, from Ray Train's controller on the driver's node, that a lane's workers have died."""

    def __init__(self, mailbox: ActorHandle[Any], lane: str) -> None:
        self._mailbox = mailbox
        self._lane = lane

    def after_exception(self, run_context: Any, worker_exceptions: Mapping[int, Exception]) -> None:  # noqa: ARG002
        """Called before Ray Train starts the workers anew, for which it may wait long."""
        # Ray Train would give the lane up for an error of ours; the mailbox hears of it when the lane opens again.
        with contextlib.suppress(Exception):
            told = self._mailbox.lane_down.remote(
                self._lane, describe_worker_errors(worker_exceptions), list(alive_nodes())
            )
            ray.get(told, timeout=TELLING_SECONDS)


def describe_worker_errors(errors: Mapping[int, Exception]) -> str:
    """What became of a lane's workers, by what Ray Train met at each rank: an error of their own, or their death."""
    own = [error for error in errors.values() if not type(error).__module__.startswith("ray.")]
    return f"{type(own[0]).__name__}: {first_line(own[0])}" if own else UNEXPLAINED


class Lane:
    """A lane as the driver sees it."""

    def __init__(self, trainer: TorchTrainer, name: str) -> None:
        """Starts the lane; it opens in its own time."""
        self.name = name
        self.error: str | None = None
        """Why its run ended, if not because it was told to."""
        self._trainer = trainer
        # Not the main thread: there Ray Train would take over Ctrl-C.
        self._thread = start_thread(self._run, name)

    @property
    def is_over(self) -> bool:
        """Whether its run has ended, its workers are gone and their resources free."""
        return not self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        """Waits for its end, at most so long."""
        self._thread.join(max(0.0, seconds))

    def _run(self) -> None:
        try:
            self._trainer.fit()
        except Exception as error:  # whatever ends a run of Ray Train ends this lane, not the sweep
            self.error = f"{type(error).__name__}: {first_line(error)}"


def open_lane(plan: SweepPlan, setup: LaneSetup, storage: Path) -> Lane:
    """Opens one lane.

    Args:
        plan: the sweep.
        setup: what the lane's workers need to know.
        storage: where Ray Train may keep what it likes.
    """
    resources = {"CPU": float(plan.cpus_per_worker), "GPU": plan.gpus_per_worker}

    def train_loop() -> None:
        run_lane(setup)

    trainer = TorchTrainer(
        train_loop,
        scaling_config=ScalingConfig(
            num_workers=plan.workers,
            use_gpu=plan.gpus_per_worker > 0,
            resources_per_worker={name: amount for name, amount in resources.items() if amount},
        ),
        run_config=RunConfig(
            name=setup.lane,
            storage_path=str(storage),
            failure_config=FailureConfig(max_failures=-1, controller_failure_limit=STARTS_IN_VAIN),
            callbacks=[LaneCallback(setup.mailbox, setup.lane)],
        ),
    )
    return Lane(trainer, setup.lane)


def lane_setup(plan: SweepPlan, mailbox: ActorHandle[Any], number: int) -> LaneSetup:
    """What the workers of lane `number` need to know."""
    return LaneSetup(
        lane=f"{plan.name}-lane{number}",
        mailbox=mailbox,
        base=plan.base.to_json(),
        metric=plan.space.metric,
        folder=plan.folder,
        data_folder=plan.data_folder,
        cache_folder=plan.cache_folder,
        cpus_per_worker=plan.cpus_per_worker,
        checkpoint_steps=plan.checkpoint_steps,
        store=stage_store(plan),
    )


def stage_store(plan: SweepPlan) -> StageStore | None:
    """The storage's store of stages, one that keeps none if only whole trials are shared; None if nothing is."""
    most_bytes = plan.keep_bytes if plan.shares_stages else 0
    return StageStore(folder=plan.cache_folder / STORE_FOLDER, most_bytes=most_bytes) if plan.reuse else None
