"""Divergences of two predictions: one function each, from two logits, (rows, num_logits), to one value per row.

`symmetric_divergence` and `divergence_from` are SMART's penalty and its ascent, `divergence_to_teacher` is the proximal
term.
"""

from torch import Tensor
from torch.nn import functional

from mtlib.kinds import KINDS, Kind


def symmetric_divergence(kind: Kind, first: Tensor, second: Tensor) -> Tensor:
    """Returns a symmetric divergence of two predictions, zero exactly when they are equal.

    Of probabilities: KL(Q, P) + KL(P, Q), the distribution on the left of each held fixed. Its gradient reaches both
    predictions and, when they are close, is half that of the sum with nothing held fixed. It is computed as
    sum_i (p_i - q_i) (log p_i - log q_i) with the first factor held fixed, which has the same value and gradient and is
    never negative, however close the predictions. Regression: (a - b)^2.

    Args:
        kind: of the task. `binary` is a Bernoulli (a softmax over one logit would always give 0), `multilabel` the mean
            over a Bernoulli for each label, as its loss is.
        first, second: logits, (rows, num_logits) each.

    Returns:
        (rows,), in nats, or in squared units of the label for regression.

    Source: Jiang et al. 2020, section 3.1. The fixed targets are those of its authors' code, and of the one that BERT
    and Beyond used; without them that paper's weights would mean twice as much.
    """
    if KINDS[kind].is_regression:
        return ((first - second) ** 2).squeeze(1)
    gap, log_gap = probability_gaps(kind, first, second)
    return of_rows(kind, gap.detach() * log_gap)


def divergence_from(kind: Kind, prediction: Tensor, target: Tensor) -> Tensor:
    """KL(target, prediction) of logits, or the squared difference, (rows,), with the target held fixed."""
    target, link = target.detach(), KINDS[kind].link
    if link == "softmax":
        log_q = target.log_softmax(1)
        return (log_q.exp() * (log_q - prediction.log_softmax(1))).sum(1)
    if link == "sigmoid":
        entropy = functional.binary_cross_entropy_with_logits(target, target.sigmoid(), reduction="none")
        crossed = functional.binary_cross_entropy_with_logits(prediction, target.sigmoid(), reduction="none")
        return of_rows(kind, crossed - entropy)
    return ((prediction - target) ** 2).squeeze(1)


def divergence_to_teacher(kind: Kind, prediction: Tensor, target: Tensor) -> Tensor:
    """KL(target, prediction) + KL(prediction, target), or the squared difference, with the target held fixed.

    Unlike in `symmetric_divergence` the gradient flows through the prediction in both terms, as in the equation.
    The sum of both is sum_i (p_i - q_i) (log p_i - log q_i): two small factors, where the terms by themselves would be
    differences of large ones.

    Source: Jiang et al. 2020, section 3.2: the Bregman divergence with the loss of section 3.1.
    """
    if KINDS[kind].is_regression:
        return ((prediction - target.detach()) ** 2).squeeze(1)
    gap, log_gap = probability_gaps(kind, prediction, target.detach())
    return of_rows(kind, gap * log_gap)


def probability_gaps(kind: Kind, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """p - q and log p - log q of two predictions, (rows, num_logits) each: their product is the symmetrised KL.

    For a Bernoulli the two classes together give (p - q) times the difference of the logits.
    """
    if KINDS[kind].link == "sigmoid":
        return first.sigmoid() - second.sigmoid(), first - second
    log_p, log_q = first.log_softmax(1), second.log_softmax(1)
    return log_p.exp() - log_q.exp(), log_p - log_q


def of_rows(kind: Kind, values: Tensor) -> Tensor:
    """Values of each logit, (rows, num_logits), as one a row: summed over classes, averaged over several labels."""
    return values.mean(1) if KINDS[kind].has_several_labels else values.sum(1)
