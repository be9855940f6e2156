"""Losses: one function each, from logits and labels to one loss per example."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """-log softmax(logits)[label].

    Args:
        logits: (rows, classes).
        labels: (rows,), class numbers as floats.

    Returns:
        (rows,), in nats.
    """
    return functional.cross_entropy(logits, labels.long(), reduction="none")


def binary_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """-log sigmoid(logit) for label 1, -log(1 - sigmoid(logit)) for label 0.

    Args:
        logits: (rows, 1).
        labels: (rows,), 0 or 1.

    Returns:
        (rows,), in nats.
    """
    return functional.binary_cross_entropy_with_logits(logits.squeeze(1), labels, reduction="none")


def mean_squared_error(logits: Tensor, labels: Tensor) -> Tensor:
    """(prediction - label)^2, on raw predictions: they are clipped at evaluation only.

    Args:
        logits: (rows, 1), in the label's units.
        labels: (rows,).

    Returns:
        (rows,), in squared units of the label.
    """
    return (logits.squeeze(1) - labels) ** 2


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": cross_entropy,
    "binary_cross_entropy": binary_cross_entropy,
    "mean_squared_error": mean_squared_error,
}


def symmetric_divergence(kind: str, first: Tensor, second: Tensor) -> Tensor:
    """How far two predictions lie apart, symmetric and zero exactly when they are equal.

    Classes: KL(P, Q) + KL(Q, P) = sum_i (p_i - q_i) (log p_i - log q_i). Binary: the same for Bernoulli, where it is
    (sigmoid(a) - sigmoid(b)) (a - b); a softmax over one logit would always give 0. Regression: (a - b)^2.

    Args:
        kind: `classes`, `binary` or `regression`.
        first, second: logits, (rows, num_logits) each.

    Returns:
        (rows,), in nats, or in squared units of the label for regression.

    Source: Jiang et al. 2020, section 3.1.
    """
    if kind == "classes":
        log_p, log_q = first.log_softmax(1), second.log_softmax(1)
        return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(1)
    difference = (first - second).squeeze(1)
    if kind == "binary":
        return (first.sigmoid() - second.sigmoid()).squeeze(1) * difference
    return difference**2


def divergence_from(kind: str, prediction: Tensor, target: Tensor) -> Tensor:
    """KL(target, prediction), or the squared difference: what the ascent step of SMART climbs, target held fixed.

    Its gradient at small distances points where that of `symmetric_divergence` points, at half the length.

    Args:
        kind: `classes`, `binary` or `regression`.
        prediction, target: logits, (rows, num_logits) each; no gradient flows into `target`.

    Returns:
        (rows,).
    """
    target = target.detach()
    if kind == "classes":
        log_q = target.log_softmax(1)
        return (log_q.exp() * (log_q - prediction.log_softmax(1))).sum(1)
    if kind == "binary":
        entropy = functional.binary_cross_entropy_with_logits(target, target.sigmoid(), reduction="none")
        crossed = functional.binary_cross_entropy_with_logits(prediction, target.sigmoid(), reduction="none")
        return (crossed - entropy).squeeze(1)
    return ((prediction - target) ** 2).squeeze(1)


def loss_per_example(name: str, logits: Tensor, labels: Tensor) -> Tensor:
    """The loss called `name`, in fp32 also under mixed precision; (rows,)."""
    return LOSSES[name](logits.to(torch.float32), labels)
