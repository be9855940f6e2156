"""Checks across the groups of a configuration: combinations that make no sense are refused, with the reason."""

from collections.abc import Mapping, Sequence

from mtlib.config.data import SourceConfig
from mtlib.config.network import TaskConfig, check_task
from mtlib.config.training import OptimizerConfig, StageConfig
from mtlib.errors import require, require_name, require_once
from mtlib.tasks import TASKS

Tasks = Mapping[str, TaskConfig]
"""Settings by task name."""


def check_tasks(tasks: Tasks, named: Sequence[str]) -> None:
    """Checks that every task is known, that its settings fit it, and that the `named` ones have settings."""
    for name, settings in tasks.items():
        require_name(name, TASKS, "task")
        check_task(name, settings)
    for name in named:
        require_name(name, tasks, "task")


def check_stages(stages: Sequence[StageConfig], sources: Mapping[str, SourceConfig]) -> None:
    """Checks that extra data is known and trains a task of its stage, and that `best` has a stage before it."""
    extra = [name for name, source in sources.items() if source.role == "extra"]
    for index, stage in enumerate(stages):
        for name in stage.extra_data:
            require_name(name, extra, f"extra data in stages.{index}.extra_data")
            task = sources[name].task
            require(
                task in stage.tasks, f"stages.{index}.tasks must hold {task}, which {name} is for", list(stage.tasks)
            )
        rule = f"stages.{index}.start_from must be last in the first stage, which has none before it"
        require(index > 0 or stage.start_from == "last", rule, stage.start_from)


def check_carried(groups: Mapping[str, Sequence[str]], active: Tasks) -> None:
    """Checks that every group that is turned on applies to a task that is trained.

    Args:
        groups: the tasks of each group that is turned on, by its name.
        active: the tasks that some stage trains.
    """
    for name, tasks in groups.items():
        is_carried = not tasks or bool(set(tasks) & set(active))
        require(is_carried, f"{name} must name a task that some stage trains ({', '.join(active)})", list(tasks))


def check_relational(tasks: Tasks, shared: Sequence[str]) -> None:
    """Checks the tasks that share a layer: one layer has one width, and only linear heads read it."""
    require_once(shared, "relational_tasks must not name a task twice")
    heads = {task: tasks[task].head for task in shared}
    require(set(heads.values()) <= {"linear"}, "relational_tasks must have head linear", heads)
    encodings = {task: tasks[task].encoding for task in shared}
    num_bi = sum(encoding == "bi" for encoding in encodings.values())
    rule = "relational_tasks must all have encoding bi, or none of them: one layer has one width"
    require(num_bi in (0, len(shared)), rule, encodings)


def check_layer_scales(optimizer: OptimizerConfig, stages: Sequence[StageConfig], active: Tasks) -> None:
    """Checks that layers' rates follow the step's task only where a step has one task and tasks have chosen layers."""
    scales = (optimizer.other_scale, optimizer.chosen_scale)
    if scales == (1.0, 1.0):
        return
    rule = "optimizer.other_scale and chosen_scale must be 1 where a stage sums the losses of several tasks"
    require(not any(map(sums_tasks, stages)), rule, scales)
    rule = "tasks.<name>.chosen_layers must name layers where optimizer.other_scale or chosen_scale is not 1"
    require(any(settings.chosen_layers for settings in active.values()), rule, "none for any task")


def check_frozen(active: Tasks, with_pals: Sequence[str], relational: Sequence[str]) -> None:
    """Checks that with a frozen encoder every task has something to train.

    Args:
        active: the tasks that some stage trains.
        with_pals: tasks that have projected attention.
        relational: tasks that share the relational layer.
    """
    for task, settings in active.items():
        has_weights = settings.head == "linear" or settings.cosine_projection
        rule = f"encoder.trained_layers must not be empty where a task has nothing else to train, as {task} has"
        require(has_weights or task in with_pals or task in relational, rule, "a cosine without projection")


def check_gradients(method: str, stages: Sequence[StageConfig]) -> None:
    """Checks that some step holds several tasks where a method combines their gradients."""
    rule = "gradients must be sum unless a stage of several tasks has sum_losses true"
    require(method == "sum" or any(map(sums_tasks, stages)), rule, method)


def check_loss_weights(weighting: str, active: Tasks) -> None:
    """Checks that no fixed weight is set where weights are learned."""
    weights = {task: settings.loss_weight for task, settings in active.items()}
    rule = "tasks.<name>.loss_weight must be 1 where loss_weighting is uncertainty, which learns it"
    require(weighting == "fixed" or set(weights.values()) == {1.0}, rule, weights)


def sums_tasks(stage: StageConfig) -> bool:
    """Whether a step of the stage holds several tasks."""
    return stage.sum_losses and len(stage.tasks) > 1
