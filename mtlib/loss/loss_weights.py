"""The formulas of the weights of losses that each step sets, from the losses of its tasks.

With the weights as constants, the gradient of the weighted sum is that of torchjd's scalarization of the losses. The
formulas are our own because the weights are needed from the losses of all workers, and torchjd's objects do not give
out what a resumed trial needs: the moments of FAMO's Adam, and the history of DWA.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

Losses = Mapping[str, Tensor]
"""By task its loss, a scalar: the mean over the global batch."""

FAMO_EPSILON = 1e-8
"""Added to losses before their logarithm, as the authors and torchjd do."""
ADAM_STATE = ("step", "exp_avg", "exp_avg_sq")
SMALLEST_LOSS = 1e-8
"""Smaller mean losses of an epoch count as this one, so that a ratio of two is finite."""


def weights_famo(losses: Losses, state: dict[str, Tensor], **_settings: float) -> Tensor:
    """z_i / l_i, divided by their sum, with z the softmax of the logits (Liu et al. 2023, algorithm 1)."""
    logits = [state.get(f"famo.logit.{task}", torch.zeros(())).to(loss) for task, loss in losses.items()]
    shares = torch.stack(logits).softmax(dim=0) / (torch.stack([*losses.values()]) + FAMO_EPSILON)
    return shares / shares.sum()


def update_famo(
    before: Losses, after: Losses, state: dict[str, Tensor], famo_learning_rate: float, famo_weight_decay: float
) -> None:
    """A step of Adam on the logits: up for tasks whose logarithm fell less than the weighted mean, down for others."""
    logits = [
        nn.Parameter(state.get(f"famo.logit.{task}", torch.zeros(())).to(loss, copy=True))
        for task, loss in before.items()
    ]
    adam = torch.optim.Adam(logits, lr=famo_learning_rate, weight_decay=famo_weight_decay)
    for task, logit in zip(before, logits, strict=True):
        if f"famo.step.{task}" in state:
            moments = {name: state[f"famo.{name}.{task}"].to(logit, copy=True) for name in ADAM_STATE[1:]}
            adam.state[logit] = {"step": state[f"famo.step.{task}"].clone(), **moments}  # on the CPU, as Adam has it
    falls = [(loss + FAMO_EPSILON).log() - (after[task] + FAMO_EPSILON).log() for task, loss in before.items()]
    torch.autograd.backward(torch.stack([*logits]).softmax(dim=0), torch.stack(falls).detach())
    adam.step()
    for task, logit in zip(before, logits, strict=True):
        state[f"famo.logit.{task}"] = logit.detach()
        state |= {f"famo.{name}.{task}": adam.state[logit][name] for name in ADAM_STATE}


def weights_dwa(losses: Losses, state: dict[str, Tensor], dwa_temperature: float) -> Tensor:
    """K softmax(r / T), with r a task's mean loss in the last epoch by its loss in the one before (Liu et al. 2019,
    equation 7); 1 for all until each task has been trained in two epochs."""
    values = torch.stack([*losses.values()])
    if not all(f"dwa.before.{task}" in state for task in losses):
        return torch.ones_like(values)
    rates = torch.stack([state[f"dwa.last.{task}"] / state[f"dwa.before.{task}"] for task in losses])
    return (len(rates) * (rates / dwa_temperature).softmax(dim=0)).to(values)


def note_epoch_dwa(means: Mapping[str, float], state: dict[str, Tensor], **_settings: float) -> None:
    """Adds an epoch to the history of the tasks that were trained in it."""
    for task, mean in means.items():
        if f"dwa.last.{task}" in state:
            state[f"dwa.before.{task}"] = state[f"dwa.last.{task}"]
        state[f"dwa.last.{task}"] = torch.tensor(max(mean, SMALLEST_LOSS), dtype=torch.float64)


def weights_stch(losses: Losses, _state: dict[str, Tensor], stch_mu: float) -> Tensor:
    """Returns the gradient of mu log sum_i exp(l_i / (m mu)) for m tasks (Lin et al. 2024),
    whose weights sum to 1 / m."""
    values = torch.stack([*losses.values()])
    return (values / (len(values) * stch_mu)).softmax(dim=0) / len(values)
