"""Clips the gradient of each step, and counts by task how many steps are clipped.

Tasks share Adam's moments, and their gradients differ in length, so one limit may clip nearly every step of one task
and hardly any of another: it then changes the mixture of tasks, not only rare outliers.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim import Optimizer

from mtlib.data.batches import Batch
from mtlib.runtime.errors import TrainingDiverged
from mtlib.training.run import Run

CLIPPED_STEPS = "clipped_steps"
"""The curve: the share of a task's steps in the epoch whose gradient was longer than the limit."""


def clip_gradients(optimizer: Optimizer, clip_norm: float | None) -> Tensor | None:
    """Scales the gradients of all parameters so that their global norm is at most `clip_norm`; None leaves them.

    Returns:
        The norm before, a scalar on the gradients' device, which the host has not read; None without a limit.

    Source: Pascanu et al. 2013, algorithm 1, by `torch.nn.utils.clip_grad_norm_`.
    """
    if clip_norm is None:
        return None
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return torch.nn.utils.clip_grad_norm_(parameters, clip_norm)


def count_clipped(run: Run, batches: Sequence[Batch], norm: float, step: int) -> None:
    """Adds a step to the epoch's counts of its tasks.

    Args:
        run, batches: the trial, and the step's batches.
        norm: what `clip_gradients` returned for it.
        step: the step's number over all stages, from 1.

    Raises:
        TrainingDiverged: the norm is NaN or infinite.
    """
    names, limit = list(dict.fromkeys(batch.task for batch in batches)), run.config.optimizer.clip_norm
    assert limit is not None, "only a step with a limit has a norm"
    if not math.isfinite(norm):
        raise TrainingDiverged(f"{', '.join(names)}: the gradient's norm is {norm} at step {step}")
    for task in names:
        sums = run.sums.setdefault(task, {})
        clipped, count = sums.get(CLIPPED_STEPS, (0.0, 0))
        sums[CLIPPED_STEPS] = (clipped + (norm > limit), count + 1)
