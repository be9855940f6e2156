"""Knowledge distillation: predictions come near those of a teacher, whose logits the data have (Hinton et al. 2015)."""

import torch
from torch import Tensor

from mtlib.config.penalties import DistillationConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.batches import Batch
from mtlib.loss.clean_pass import CleanPass
from mtlib.loss.divergences import divergence_from


def distillation_penalty(clean: CleanPass, settings: DistillationConfig) -> tuple[Tensor]:
    """T^2 KL(teacher, prediction) of logits divided by T, (rows,); 0 for a row without a teacher.

    Of a regression it is the squared difference of the predictions, in the scale of the task's loss.

    Source: Hinton et al. 2015, section 2.1, up to the entropy of the teacher, which has no gradient.
    """
    teacher, logits = clean.batch.teacher, clean.output.logits
    if teacher is None:
        return (logits.new_zeros(len(logits)),)
    is_taught = has_logits(teacher)
    target = clean.model.to_unit(clean.batch.task, teacher.nan_to_num(nan=0.0))
    temperature = 1.0 if clean.config.task(clean.batch.task).is_regression else settings.temperature
    values = temperature**2 * divergence_from(clean.kind, logits / temperature, target / temperature)
    return (torch.where(is_taught, values, 0.0),)


def label_weights(config: TrialConfig, batch: Batch) -> Tensor | None:
    """Returns the factor of each row's loss from its label, (rows,):
    `label_weight` where it has a teacher, else 1; None for 1.

    The teacher counts where the term is on.
    """
    settings = config.distillation
    is_taught = settings.weight > 0 and batch.task in settings.tasks
    if batch.teacher is None or not is_taught:
        return None
    return torch.where(has_logits(batch.teacher), settings.label_weight, 1.0)


def has_logits(teacher: Tensor) -> Tensor:
    """Returns whether each row has a teacher, (rows,), by the logits of a batch, (rows, num_logits)."""
    return ~teacher.isnan().any(dim=1)
