"""The plan of a trial: its stages and how many steps each takes, computed without training."""

from collections.abc import Mapping
from dataclasses import dataclass

from mtlib.config.trial import TrialConfig
from mtlib.stages.draws import steps_per_epoch


@dataclass(frozen=True, kw_only=True)
class PlannedStage:
    """One stage with its length."""

    index: int
    """From 0."""
    tasks: tuple[str, ...]
    extra_data: tuple[str, ...]
    order: str
    steps: tuple[int, ...]
    """Optimizer steps of each epoch."""

    @property
    def epochs(self) -> int:
        return len(self.steps)

    @property
    def num_steps(self) -> int:
        return sum(self.steps)

    def first_step(self, epoch: int) -> int:
        """Steps of the stage before its epoch `epoch`, from 0."""
        return sum(self.steps[:epoch])


def plan_stages(config: TrialConfig, num_rows: Mapping[str, int]) -> tuple[PlannedStage, ...]:
    """The stages of a trial; `num_rows` are train rows, augmentation included, by set."""
    return tuple(
        PlannedStage(
            index=index,
            tasks=stage.tasks,
            extra_data=stage.extra_data,
            order=stage.order,
            steps=steps_per_epoch(config, index, num_rows),
        )
        for index, stage in enumerate(config.stages)
    )


def tasks_active_by(config: TrialConfig, stage_index: int) -> tuple[str, ...]:
    """Tasks that some stage up to and including `stage_index` trains, in the order of `active_tasks`."""
    seen = {task for stage in config.stages[: stage_index + 1] for task in stage.tasks}
    return tuple(task for task in config.active_tasks if task in seen)


def first_scored_epoch(config: TrialConfig) -> int:
    """The first epoch, 1-based over all stages, by whose end every task has been active: where overall scores begin."""
    epoch = 1
    for index, stage in enumerate(config.stages):
        if tasks_active_by(config, index) == config.active_tasks:
            return epoch
        epoch += stage.epochs
    raise AssertionError("the last stage completes the active tasks")


def num_epochs(config: TrialConfig) -> int:
    """Epochs over all stages."""
    return sum(stage.epochs for stage in config.stages)
