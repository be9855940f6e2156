"""Losses: one function each, from logits, (rows, num_logits), and labels, (rows,), to one loss per example, (rows,).

Labels of classes are their numbers as floats; several labels are (rows, num_logits), 0 or 1. `mtlib.config.losses`
lists the losses.
"""

import torch
from torch import Tensor
from torch.nn import functional

from mtlib.config.network import TaskConfig
from mtlib.config.schema import settings_of
from mtlib.kinds import KINDS, Kind
from mtlib.loss.class_weights import weights_of_labels
from mtlib.runtime.errors import WrongResult
from mtlib.runtime.lazy_functions import load_function, name_of


def cross_entropy(logits: Tensor, labels: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """-log softmax(logits)[label], in nats; the label's probability is 1 - smoothing + smoothing / classes."""
    return functional.cross_entropy(logits, labels.long(), reduction="none", label_smoothing=label_smoothing)


def binary_cross_entropy(logits: Tensor, labels: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """-log sigmoid(logit) for label 1, -log(1 - sigmoid(logit)) for label 0, in nats; of the shape of the labels.

    The probability of a label is 1 - smoothing / 2.
    """
    targets = labels * (1 - label_smoothing) + label_smoothing / 2
    return functional.binary_cross_entropy_with_logits(logits.view_as(labels), targets, reduction="none")


def focal_loss(logits: Tensor, labels: Tensor, focal_gamma: float) -> Tensor:
    """-(1 - p)^gamma log p, p the probability of the label, in nats. Source: Lin et al. 2017, equation 4."""
    return focused(cross_entropy(logits, labels), focal_gamma)


def binary_focal_loss(logits: Tensor, labels: Tensor, focal_gamma: float) -> Tensor:
    """As `focal_loss`, of sigmoids; of the shape of the labels."""
    return focused(binary_cross_entropy(logits, labels), focal_gamma)


def focused(losses: Tensor, gamma: float) -> Tensor:
    """Losses -log p times (1 - p)^gamma.

    The power is of 1 - p = -expm1(-loss): exp would round p to 1, where the slope of a power below 1 is infinite.
    """
    return (-torch.expm1(-losses)).clamp(min=torch.finfo(losses.dtype).tiny) ** gamma * losses


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
    """Takes each class as a binary problem of its own: cross entropy of its sigmoid against the one-hot label, in nats.

    Source: BERT and Beyond 3.3. Its formula sums over the classes, its text averages over them.
    """
    targets = functional.one_hot(labels.long(), logits.shape[1]).to(logits.dtype)
    losses = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return losses.mean(1) if dual_reduction == "mean" else losses.sum(1)


def losses_of_known(
    settings: TaskConfig, kind: Kind, logits: Tensor, labels: Tensor, *of_classes: Tensor | None
) -> Tensor:
    """As `loss_per_example`, of rows that may lack their label, NaN, for which the loss is 0."""
    is_known = ~labels.isnan().view(len(labels), -1).any(dim=1)
    losses = loss_per_example(settings, kind, logits, labels.nan_to_num(nan=0.0), *of_classes)
    return torch.where(is_known, losses, 0.0)


def loss_per_example(
    config: TaskConfig,
    kind: Kind,
    logits: Tensor,
    labels: Tensor,
    class_weights: Tensor | None = None,
    class_counts: Tensor | None = None,
) -> Tensor:
    """Returns the task's loss, in fp32 also under mixed precision, and in fp64 of logits in fp64.

    Args:
        config: the task's settings: its loss and that loss's settings are used.
        kind: the task's kind of label. A binary task has one logit: where its head has two outputs, their difference.
        logits: (rows, num_logits).
        labels: (rows,), or (rows, num_logits) of several labels.
        class_weights: from `mtlib.loss.class_weights`; None: all labels count alike.
        class_counts: likewise, for a loss that needs them; None: each class occurs once. So a loss that is reported of
            dev, or fits a head before the first step, does not depend on how often classes occur.

    Returns:
        (rows,); of several labels the mean over them.

    Raises:
        WrongResult: the loss, perhaps a user's own, returns another shape.
    """
    loss, has_several_labels = config.loss_entry, KINDS[kind].has_several_labels
    options = settings_of(loss.settings, config)
    if loss.needs_class_counts:
        ones = logits.new_ones((logits.shape[1], 2) if has_several_labels else max(2, logits.shape[1]))
        options = {**options, "class_counts": ones if class_counts is None else class_counts}
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    losses: Tensor = load_function(loss.functions[kind])(exact, labels, **options)
    shape = returned_shape(losses)
    if class_weights is not None:
        rule = f"with class_weights {name_of(loss.functions[kind])} must return losses of the shape of the labels"
        if shape != tuple(labels.shape):
            raise WrongResult(f"{rule}, got {shape} for {tuple(labels.shape)}")
        losses = losses * weights_of_labels(class_weights, labels)
    elif shape != (len(labels),) and not (has_several_labels and shape == tuple(labels.shape)):
        rule = f"{name_of(loss.functions[kind])} must return (rows,), not a mean or a sum"
        raise WrongResult(f"{rule}, got {shape} for {len(labels)} rows")
    return losses.mean(1) if has_several_labels and losses.ndim == 2 else losses


def returned_shape(values: object) -> tuple[int, ...] | str:
    """Returns the shape of a tensor, or of what else a user's own function returned its type."""
    return tuple(values.shape) if isinstance(values, Tensor) else f"a {type(values).__name__}"
