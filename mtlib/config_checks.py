"""What must hold between the groups of a configuration: combinations that make no sense are refused, with the
reason."""

from typing import TYPE_CHECKING

from mtlib.config_network import check_task
from mtlib.config_training import StageConfig
from mtlib.schema import require, require_name
from mtlib.tasks import TASKS

if TYPE_CHECKING:
    from mtlib.config import TrialConfig


def check_config(config: "TrialConfig") -> None:
    """Checks a configuration whose groups are right by themselves.

    Raises:
        ValueError: the first rule that does not hold, with the value.
    """
    for name, task_config in config.tasks.items():
        require_name(name, TASKS, "task")
        check_task(name, task_config)
    named = (config.smart.tasks, config.proximal.tasks, config.simcse.tasks, config.pals.tasks, config.relational_tasks)
    for task in (*config.active_tasks, *(task for tasks in named for task in tasks)):
        require_name(task, config.tasks, "task")
    require_name(config.encoder.start_epoch, ("overall", *TASKS), "encoder.start_epoch")
    for index, stage in enumerate(config.stages):
        check_stage(config, index, stage)
    check_relational(config)
    check_layer_scales(config)
    check_gradients(config)
    check_loss_weights(config)


def check_stage(config: "TrialConfig", index: int, stage: StageConfig) -> None:
    """Checks what a stage asks of the rest of the configuration."""
    for name in stage.extra_data:
        extra = [known for known, source in config.data.sources.items() if source.role == "extra"]
        require_name(name, extra, f"extra data in stages.{index}.extra_data")
        task = config.data.sources[name].task
        require(task in stage.tasks, f"stages.{index}.tasks must hold {task}, which {name} is for", list(stage.tasks))
    rule = f"stages.{index}.start_from must be last in the first stage, which has none before it"
    require(index > 0 or stage.start_from == "last", rule, stage.start_from)


def check_relational(config: "TrialConfig") -> None:
    """One layer can be shared by tasks whose vectors are equally wide, and only linear heads read it."""
    tasks = config.relational_tasks
    require(len(set(tasks)) == len(tasks), "relational_tasks must not name a task twice", list(tasks))
    heads = {task: config.tasks[task].head for task in tasks}
    require(set(heads.values()) <= {"linear"}, "relational_tasks must have head linear", heads)
    is_bi = {task: config.tasks[task].encoding == "bi" for task in tasks}
    encodings = {task: config.tasks[task].encoding for task in tasks}
    rule = "relational_tasks must all have encoding bi, or none of them: one layer has one width"
    require(len(set(is_bi.values())) <= 1, rule, encodings)


def check_layer_scales(config: "TrialConfig") -> None:
    """A layer's rate can follow the step's task only where a step has one task."""
    scales = (config.optimizer.other_scale, config.optimizer.chosen_scale)
    if scales == (1.0, 1.0):
        return
    rule = "optimizer.other_scale and chosen_scale must be 1 where a stage sums the losses of several tasks"
    require(not any(map(sums_tasks, config.stages)), rule, scales)
    active = config.active_tasks
    rule = "tasks.<name>.chosen_layers must name layers where optimizer.other_scale or chosen_scale is not 1"
    require(any(config.tasks[task].chosen_layers for task in active), rule, "none for any task")


def check_gradients(config: "TrialConfig") -> None:
    """Gradients of several tasks meet only in summed steps."""
    rule = "gradients must be sum unless a stage of several tasks has sum_losses true"
    require(config.gradients == "sum" or any(map(sums_tasks, config.stages)), rule, config.gradients)


def check_loss_weights(config: "TrialConfig") -> None:
    """Learned weights take the place of fixed ones."""
    if config.loss_weighting == "fixed":
        return
    weights = {task: config.tasks[task].loss_weight for task in config.active_tasks}
    rule = "tasks.<name>.loss_weight must be 1 where loss_weighting is uncertainty, which learns it"
    require(set(weights.values()) == {1.0}, rule, weights)


def sums_tasks(stage: StageConfig) -> bool:
    """Whether a step of the stage holds several tasks."""
    return stage.sum_losses and len(stage.tasks) > 1
