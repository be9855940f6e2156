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


class TrainingDiverged(ArithmeticError):  # noqa: N818 - says what happened, as StopIteration does
    """A loss or a prediction became NaN or infinite."""


def symmetric_divergence(kind: str, first: Tensor, second: Tensor) -> Tensor:
    """How far two predictions lie apart, symmetric and zero exactly when they are equal.

    Classes and binary: KL(Q, P) + KL(P, Q), the distribution on the left of each held fixed. Its gradient reaches both
    predictions and, when they are close, is half that of the sum with nothing held fixed. Regression: (a - b)^2.

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
    return divergence_from(kind, first, second) + divergence_from(kind, second, first)


def divergence_from(kind: str, prediction: Tensor, target: Tensor) -> Tensor:
    """KL(target, prediction), or the squared difference, with the target held fixed.

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
