"""The proximal point term: predictions stay near those of a mean teacher, which follows the model (Jiang et al. 2020).

The teacher is an exponential moving average of the model's weights (Tarvainen and Valpola 2017).
"""

import copy

import torch
from torch import Tensor

from mtlib.config.penalties import ProximalConfig
from mtlib.loss.clean_pass import CleanPass, autocast
from mtlib.loss.divergences import divergence_to_teacher
from mtlib.model.multitask import MultiTaskModel


def proximal_penalty(clean: CleanPass, _settings: ProximalConfig) -> tuple[Tensor]:
    """The divergence from the teacher's predictions, which are made without dropout; (rows,)."""
    assert clean.teacher is not None, "the proximal term comes with a teacher"
    with torch.no_grad(), autocast(clean.config, clean.batch.labels.device):
        target: Tensor = clean.teacher(clean.batch).logits
    return (divergence_to_teacher(clean.kind, clean.output.logits, target),)


def mean_teacher(model: MultiTaskModel) -> MultiTaskModel:
    """A copy of the model to start the mean teacher from, in evaluation mode and without gradients."""
    return copy.deepcopy(model).eval().requires_grad_(False)


@torch.no_grad()
def update_teacher(teacher: MultiTaskModel, model: MultiTaskModel, decay: float) -> None:
    """Moves the mean teacher towards the model: teacher <- decay teacher + (1 - decay) model."""
    for own, given in zip(teacher.parameters(), model.parameters(), strict=True):
        own.lerp_(given, 1 - decay)


def decay_at(config: ProximalConfig, step: int, num_steps: int) -> float:
    """The mean teacher's decay, beta, read at the middle of step `step` (from 0) of a stage's `num_steps`.

    Source: Jiang et al. 2020: .99 for the first tenth of the updates, .999 for the rest, after Tarvainen and Valpola
    2017. Theirs is a single stage.
    """
    is_early = step + 0.5 < config.early_fraction * num_steps
    return config.decay if config.late_decay is None or is_early else config.late_decay
