"""A run of Ray Train without the processes that no lane needs, by private names of Ray Train.

Checked against Ray 2.60, like `ray_internals`. For each run Ray Train starts a controller, the workers, an actor that
synchronises them, and the following, which are left out here as each takes a second of processor time to start:

- a manager of Ray datasets, of which lanes have none;
- a cleaner, which removes the placement group of a controller that has died: the driver does that for lanes;
- for all runs together, an actor that asks an autoscaler for nodes: lanes are opened where there is room.
"""

from ray.train.v2._internal.callbacks.datasets import DatasetsCallback
from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback
from ray.train.v2._internal.execution.context import TrainRunContext
from ray.train.v2._internal.execution.failure_handling import create_failure_policy
from ray.train.v2._internal.execution.scaling_policy import FixedScalingPolicy
from ray.train.v2._internal.util import ObjectRefWrapper
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

LEFT_OUT = (DatasetsCallback, PlacementGroupCleanerCallback)


class QuietScalingPolicy(FixedScalingPolicy):  # type: ignore[misc]
    """The fixed number of workers, without requests to an autoscaler."""

    def after_controller_start(self, train_run_context: TrainRunContext) -> None:
        """Would start the actor that makes requests."""

    def _maybe_send_resource_request(self) -> None:
        """Called before each decision."""


def choose_trainer(num_workers: int) -> type[DataParallelTrainer]:
    """The trainer for a number of workers; one needs no process group, for which the controller would load torch."""
    from ray.train.torch import TorchTrainer

    return DataParallelTrainer if num_workers == 1 else TorchTrainer  # type: ignore[no-any-return]


def fit_lean(trainer: DataParallelTrainer) -> None:
    """As `trainer.fit()` without `LEFT_OUT` and without requests to an autoscaler; raises the error of the run."""
    result = trainer._initialize_and_run_controller(
        train_fn_ref=ObjectRefWrapper(trainer._get_train_func()),
        scaling_policy=QuietScalingPolicy(trainer.scaling_config),
        failure_policy=create_failure_policy(trainer.run_config.failure_config),
        train_run_context=trainer.train_run_context,
        callbacks=[item for item in trainer._create_default_callbacks() if not isinstance(item, LEFT_OUT)],
        validation_config=None,
    )
    if result.error:
        raise result.error
