"""The plan of a trial: its stages and how many steps each takes, computed without training."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from mtlib.config.trial import TrialConfig
from mtlib.stages.draws import steps_per_epoch


@dataclass(frozen=True, kw_only=True)
class PlannedStage:
    """The length of one stage."""

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
    """Returns the lengths of a trial's stages; `num_rows` are train rows, augmentation included, by set."""
    return tuple(PlannedStage(steps=steps_per_epoch(config, index, num_rows)) for index in range(len(config.stages)))


def tasks_active_by(config: TrialConfig, stage_index: int) -> tuple[str, ...]:
    """Tasks that some stage up to and including `stage_index` trains, in the order of `active_tasks`."""
    seen = {task for stage in config.stages[: stage_index + 1] for task in stage.tasks}
    return tuple(task for task in config.active_tasks if task in seen)


def scored_epochs(config: TrialConfig) -> tuple[tuple[int, int], ...]:
    """Returns the epochs, 1-based over all stages, at whose end dev is scored, each with its stage, from 0."""
    firsts = itertools.accumulate((stage.epochs for stage in config.stages), initial=0)
    parts = zip(firsts, enumerate(config.stages), strict=False)  # the last one is the end
    return tuple((first + epoch, index) for first, (index, stage) in parts for epoch in stage.scored_epochs)


def overall_epochs(config: TrialConfig) -> tuple[int, ...]:
    """Returns the epochs, 1-based over all stages, with an overall score:
    dev is scored and every task has been active."""
    return tuple(
        epoch for epoch, stage in scored_epochs(config) if tasks_active_by(config, stage) == config.active_tasks
    )


def num_epochs(config: TrialConfig) -> int:
    """Epochs over all stages."""
    return sum(stage.epochs for stage in config.stages)
