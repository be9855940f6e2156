"""A copy of a model whose weights are an average of the model's own over training.

Copies of this kind are the weights that are scored and kept (`optimizer.average_power`) and the mean teacher of the
proximal term.
"""

import copy

import torch
from torch.optim.swa_utils import get_ema_multi_avg_fn

from mtlib.model.multitask import MultiTaskModel


def averaged_copy(model: MultiTaskModel) -> MultiTaskModel:
    """Returns a copy of the model to start an average from, in evaluation mode.

    Its parameters still require gradients as the model's do: autocast casts those once, others in every batch. Frozen
    ones are the model's own, not copies.
    """
    frozen = {id(parameter): parameter for parameter in model.parameters() if not parameter.requires_grad}
    return copy.deepcopy(model, frozen).eval()


@torch.no_grad()
def update_average(average: MultiTaskModel, model: MultiTaskModel, share: float) -> None:
    """Moves an average towards the model: average <- (1 - share) average + share model. Buffers stay.

    Args:
        average, model: of the same configuration.
        share: from 0 to 1.
    """
    pairs = zip(average.parameters(), model.parameters(), strict=True)
    trained = [(own, given) for own, given in pairs if own is not given]  # frozen ones are shared
    if trained[0][0].is_cuda:  # a kernel for many weights at once: a launch for each takes the host longer than a GPU
        get_ema_multi_avg_fn(1 - share)(*zip(*trained, strict=True), None)  # type: ignore[no-untyped-call]
        return
    for own, given in trained:
        own.lerp_(given, share)


def polynomial_share(step: int, power: float) -> float:
    """Returns the share of a step's weights, (eta + 1) / (t + eta), in the average after it; 1 at the first step.

    Step s of t then counts in proportion to Gamma(s + eta) / Gamma(s), which is about s^eta.

    Args:
        step: t, from 1.
        power: eta, at least 0.

    Source: Shamir and Zhang 2013, section 4 (polynomial-decay averaging).
    """
    return (power + 1) / (step + power)
