"""The proximal point term: predictions stay near those of a mean teacher, which follows the model (Jiang et al. 2020).

The teacher is an exponential moving average of the model's weights (Tarvainen and Valpola 2017).
"""

import torch
from torch import Tensor

from mtlib.config.penalties import ProximalConfig
from mtlib.loss.clean_pass import CleanPass, autocast
from mtlib.loss.divergences import divergence_to_teacher


def proximal_penalty(clean: CleanPass, _settings: ProximalConfig) -> tuple[Tensor]:
    """Returns the divergence from the teacher's predictions, which are made without dropout; (rows,)."""
    assert clean.teacher is not None, "the proximal term comes with a teacher"
    with torch.no_grad(), autocast(clean.config, clean.batch.labels.device):
        target: Tensor = clean.teacher(clean.batch).logits
    return (divergence_to_teacher(clean.kind, clean.output.logits, target),)


def decay_at(config: ProximalConfig, step: int, num_steps: int) -> float:
    """Returns the mean teacher's decay, beta, read at the middle of step `step` (from 0) of a stage's `num_steps`.

    The teacher becomes beta teacher + (1 - beta) model.

    Source: Jiang et al. 2020: .99 for the first tenth of the updates, .999 for the rest, after Tarvainen and Valpola
    2017. Theirs is a single stage.
    """
    is_early = step + 0.5 < config.early_fraction * num_steps
    return config.decay if config.late_decay is None or is_early else config.late_decay
