"""Losses: one function each, from logits, (rows, num_logits), and labels, (rows,), to one loss per example, (rows,).

Labels of classes are their numbers as floats; several labels are (rows, num_logits), 0 or 1. `mtlib.config.losses`
lists the losses.
"""

import torch
from torch import Tensor
from torch.nn import functional

from mtlib.config.network import TaskConfig
from mtlib.config.schema import settings_of
from mtlib.kinds import Kind
from mtlib.runtime.lazy_functions import load_function


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """-log softmax(logits)[label], in nats."""
    return functional.cross_entropy(logits, labels.long(), reduction="none")


def binary_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """-log sigmoid(logit) for label 1, -log(1 - sigmoid(logit)) for label 0, in nats."""
    return functional.binary_cross_entropy_with_logits(logits.squeeze(1), labels, reduction="none")


def mean_binary_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean over several labels, (rows, num_logits), of the cross entropy of each one's sigmoid, in nats."""
    return functional.binary_cross_entropy_with_logits(logits, labels, reduction="none").mean(1)


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


def loss_per_example(config: TaskConfig, kind: Kind, logits: Tensor, labels: Tensor) -> Tensor:
    """The task's loss, in fp32 also under mixed precision, and in fp64 of logits in fp64.

    Args:
        config: the task's settings: its loss and that loss's settings are used.
        kind: the task's kind of label. A binary task has one logit: where its head has two outputs, their difference.
        logits: (rows, num_logits).
        labels: (rows,), or (rows, num_logits) of several labels.
    """
    loss = config.loss_entry
    losses: Tensor = load_function(loss.functions[kind])(
        logits.to(torch.promote_types(logits.dtype, torch.float32)), labels, **settings_of(loss.settings, config)
    )
    return losses
