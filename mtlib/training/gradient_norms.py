"""Records how long each task's gradient is in the first steps in which a trial trains several tasks.

Tasks share the encoder and Adam's moments, so a task whose gradients are many times those of another starves it. The
norms are over the encoder's weights, of the loss with its penalties and its weight, unless the step sets the weight, on
all workers together, before a gradient method combines tasks. They are kept beside the sums of losses and reported as
the curve `gradient_norm`.
"""

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from mtlib.data.batches import Batch
from mtlib.loss.clean_pass import Place
from mtlib.loss.gradient_aggregation import add_gradients, average_over_workers, gradients_by_task
from mtlib.training.run import Run

NUM_STEPS = 20
"""How many steps count, from the start of the first stage that trains several tasks: norms of tasks that overwhelm
others differ by factors, which few steps show, and each of these steps costs a backward pass a task."""

GRADIENT_NORM = "gradient_norm"


def is_measured(run: Run, num_tasks: int) -> bool:
    """Returns whether a step with batches of `num_tasks` tasks is measured.

    Where steps sum the losses of several tasks, one step in `num_tasks` is, since it costs a pass for each of them: as
    many norms per task as where the tasks alternate.
    """
    first = next((number for number, stage in enumerate(run.config.stages) if len(stage.tasks) > 1), None)
    return run.stage == first and run.stage_step < NUM_STEPS and run.stage_step % num_tasks == 0


def note_task_norms(run: Run, parts: Sequence[Sequence[Batch]], places: Sequence[Place]) -> None:
    """Notes the norm of each task of a step of several, by a pass of its own; no gradient is set."""
    trained = [parameter for parameter in run.model.encoder.parameters() if parameter.requires_grad]
    for task in dict.fromkeys(batch.task for batch in parts[0]) if trained else ():
        own = [index for index, batch in enumerate(parts[0]) if batch.task == task]
        found = [
            gradients_by_task(run.objective, trained, [part[index] for index in own], [places[index] for index in own])
            for part in parts
        ]
        gradients = functools.reduce(add_gradients, (gradients for (gradients,), _ in found))
        add_norm(run, task, average_over_workers(gradients))


def add_norm(run: Run, task: str, gradients: Sequence[Tensor | None]) -> None:
    """Adds the norm of a task's gradient to the epoch's sums; nothing where the encoder is frozen."""
    present = [gradient for gradient in gradients if gradient is not None]
    norm = float(torch.nn.utils.get_total_norm(present)) if present else math.nan
    if math.isfinite(norm):  # where it is not, the next step's loss is not either, and ends the trial
        sums = run.sums.setdefault(task, {})
        total, count = sums.get(GRADIENT_NORM, (0.0, 0))
        sums[GRADIENT_NORM] = (total + norm, count + 1)
