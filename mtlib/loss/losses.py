"""Losses: one function each, from logits, (rows, num_logits), and labels, (rows,), to one loss per example, (rows,).

Labels of classes are their numbers as floats. `mtlib.config.losses` lists the losses.
"""

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from mtlib.config.losses import LOSSES
from mtlib.config.network import TaskConfig
from mtlib.config.schema import settings_of
from mtlib.tasks import Kind


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """-log softmax(logits)[label], in nats."""
    return functional.cross_entropy(logits, labels.long(), reduction="none")


def binary_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """-log sigmoid(logit) for label 1, -log(1 - sigmoid(logit)) for label 0, in nats."""
    return functional.binary_cross_entropy_with_logits(logits.squeeze(1), labels, reduction="none")


def mean_squared_error(logits: Tensor, labels: Tensor) -> Tensor:
    """(prediction - label)^2, on raw predictions: they are clipped at evaluation only."""
    return (logits.squeeze(1) - labels) ** 2


def ordinal_log_loss(logits: Tensor, labels: Tensor, ordinal_alpha: float) -> Tensor:
    """-sum_i log(1 - p_i) |y - i|^alpha: probability is the more costly, the further its class lies from the label.

    log(1 - p_i) is the logsumexp over the other classes minus that over all; 1 - p_i in fp32 would be 0 at a gap of 20
    between logits, and a clamp against that would take the gradient where it is needed most.

    In nats times classes^alpha, for at least two classes and alpha above 0.

    Source: Castagnos et al. 2022; BERT and Beyond 3.3. The distance between classes is that of their numbers.
    """
    classes = torch.arange(logits.shape[1], device=logits.device)
    log_probs = logits.log_softmax(1)  # the logsumexp over all is taken off here
    is_own = torch.eye(len(classes), dtype=torch.bool, device=logits.device)
    others = log_probs.unsqueeze(1).masked_fill(is_own, -torch.inf)  # (rows, classes i, classes j), without j = i
    distances = (labels.unsqueeze(1) - classes).abs() ** ordinal_alpha
    return -(others.logsumexp(2) * distances).sum(1)


def dual_objective_cross_entropy(logits: Tensor, labels: Tensor, dual_reduction: str) -> Tensor:
    """Each class as a binary problem of its own: cross entropy of its sigmoid against the one-hot label, in nats.

    Source: BERT and Beyond 3.3. Its formula sums over the classes, its text averages over them.
    """
    targets = functional.one_hot(labels.long(), logits.shape[1]).to(logits.dtype)
    losses = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return losses.mean(1) if dual_reduction == "mean" else losses.sum(1)


@cache
def load_function(place: str) -> Callable[..., Any]:
    """The function at `module:function`, as the tables of `mtlib.config` name those that need torch."""
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def loss_per_example(config: TaskConfig, kind: Kind, logits: Tensor, labels: Tensor) -> Tensor:
    """The task's loss, in fp32 also under mixed precision.

    Args:
        config: the task's settings: its loss and that loss's settings are used.
        kind: the task's kind of label. A binary task has one logit: where its head has two outputs, their difference.
        logits: (rows, num_logits).
        labels: (rows,).
    """
    loss = LOSSES[config.loss]
    losses: Tensor = load_function(loss.functions[kind])(
        logits.to(torch.float32), labels, **settings_of(loss.settings, config)
    )
    return losses


def symmetric_divergence(kind: str, first: Tensor, second: Tensor) -> Tensor:
    """A symmetric divergence of two predictions, zero exactly when they are equal.

    Classes and binary: KL(Q, P) + KL(P, Q), the distribution on the left of each held fixed. Its gradient reaches both
    predictions and, when they are close, is half that of the sum with nothing held fixed. It is computed as
    sum_i (p_i - q_i) (log p_i - log q_i) with the first factor held fixed, which has the same value and gradient and is
    never negative, however close the predictions. Regression: (a - b)^2.

    Args:
        kind: `classes`, `binary` (Bernoulli: a softmax over one logit would always give 0) or `regression`.
        first, second: logits, (rows, num_logits) each.

    Returns:
        (rows,), in nats, or in squared units of the label for regression.

    Source: Jiang et al. 2020, section 3.1. The fixed targets are those of its authors' code, and of the one that BERT
    and Beyond used; without them that paper's weights would mean twice as much.
    """
    if kind == "regression":
        return ((first - second) ** 2).squeeze(1)
    gap, log_gap = probability_gaps(kind, first, second)
    return (gap.detach() * log_gap).sum(1)


def divergence_from(kind: str, prediction: Tensor, target: Tensor) -> Tensor:
    """KL(target, prediction) of logits, or the squared difference, (rows,), with the target held fixed."""
    target = target.detach()
    if kind == "classes":
        log_q = target.log_softmax(1)
        return (log_q.exp() * (log_q - prediction.log_softmax(1))).sum(1)
    if kind == "binary":
        entropy = functional.binary_cross_entropy_with_logits(target, target.sigmoid(), reduction="none")
        crossed = functional.binary_cross_entropy_with_logits(prediction, target.sigmoid(), reduction="none")
        return (crossed - entropy).squeeze(1)
    return ((prediction - target) ** 2).squeeze(1)


def divergence_to_teacher(kind: str, prediction: Tensor, target: Tensor) -> Tensor:
    """KL(target, prediction) + KL(prediction, target), or the squared difference, with the target held fixed.

    Unlike in `symmetric_divergence` the gradient flows through the prediction in both terms, as in the equation.
    The sum of both is sum_i (p_i - q_i) (log p_i - log q_i): two small factors, where the terms by themselves would be
    differences of large ones.

    Source: Jiang et al. 2020, section 3.2: the Bregman divergence with the loss of section 3.1.
    """
    if kind == "regression":
        return ((prediction - target.detach()) ** 2).squeeze(1)
    gap, log_gap = probability_gaps(kind, prediction, target.detach())
    return (gap * log_gap).sum(1)


def probability_gaps(kind: str, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """p - q and log p - log q of two predictions, (rows, num_logits) each: their product is the symmetrised KL.

    For a Bernoulli (`binary`) the two classes together give (p - q) times the difference of the logits.
    """
    if kind == "binary":
        return first.sigmoid() - second.sigmoid(), first - second
    log_p, log_q = first.log_softmax(1), second.log_softmax(1)
    return log_p.exp() - log_q.exp(), log_p - log_q
