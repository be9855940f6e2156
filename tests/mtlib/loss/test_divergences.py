"""Divergences against torch.distributions and formulas by hand."""

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, kl_divergence

from mtlib.kinds import Kind
from mtlib.loss.divergences import divergence_from, divergence_to_teacher, symmetric_divergence
from tests.mtlib.loss.random_logits import WIDTHS, drawn

OF_PROBABILITIES: tuple[Kind, ...] = ("classes", "binary", "multilabel")


def kl(kind: Kind, first: Tensor, second: Tensor) -> Tensor:
    """KL(first, second) from torch.distributions; (rows,)."""
    if kind == "classes":
        return kl_divergence(Categorical(logits=first), Categorical(logits=second))
    return kl_divergence(Bernoulli(logits=first), Bernoulli(logits=second)).mean(1)


@pytest.mark.parametrize("kind", OF_PROBABILITIES)
def test_divergences_are_one_or_both_kl_divergences(kind: Kind) -> None:
    first, second = drawn(kind, 3), drawn(kind, 4)
    both = kl(kind, first, second) + kl(kind, second, first)
    assert torch.allclose(symmetric_divergence(kind, first, second), both, rtol=1e-9)
    assert torch.allclose(divergence_to_teacher(kind, first, second), both, rtol=1e-9)
    assert torch.allclose(divergence_from(kind, first, second), kl(kind, second, first), rtol=1e-9)


def test_divergences_of_a_regression_are_the_squared_difference() -> None:
    first, second = torch.tensor([[1.0], [4.5]]), torch.tensor([[3.0], [4.0]])
    for divergence in (symmetric_divergence, divergence_to_teacher, divergence_from):
        assert divergence("regression", first, second).tolist() == [4.0, 0.25]


def gradients_of(divergence: Tensor, *predictions: Tensor) -> tuple[Tensor | None, ...]:
    """The gradients of a divergence, summed over its rows; None where a prediction is held fixed."""
    return torch.autograd.grad(divergence.sum(), predictions, allow_unused=True, retain_graph=True)


@pytest.mark.parametrize("kind", WIDTHS)
def test_each_divergence_has_the_gradients_of_its_free_predictions(kind: Kind) -> None:
    first, second = drawn(kind, 30).requires_grad_(), drawn(kind, 31).requires_grad_()
    climbed, none = gradients_of(divergence_from(kind, first, second), first, second)
    assert none is None
    one_sided = both_sides = (first - second).squeeze(1) ** 2
    if kind != "regression":
        one_sided, both_sides = kl(kind, second.detach(), first), kl(kind, first, second) + kl(kind, second, first)
    (expected,) = gradients_of(one_sided, first)
    torch.testing.assert_close(climbed, expected, rtol=1e-9, atol=1e-12)
    # The symmetric one holds the left of each KL fixed: in each prediction it has the gradient of the ascent's.
    one, other = gradients_of(symmetric_divergence(kind, first, second), first, second)
    torch.testing.assert_close(one, expected, rtol=1e-9, atol=1e-12)
    back = gradients_of(divergence_from(kind, second, first), second)[0]
    torch.testing.assert_close(other, back, rtol=1e-9, atol=1e-12)
    # The teacher's flows through the prediction in both terms.
    student, none = gradients_of(divergence_to_teacher(kind, first, second), first, second)
    assert none is None
    torch.testing.assert_close(student, gradients_of(both_sides, first)[0], rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("kind", OF_PROBABILITIES)
def test_divergences_of_close_predictions_are_accurate_and_not_negative_in_fp32(kind: Kind) -> None:
    first = drawn(kind, 28, rows=5000).float()
    second = (first + 1e-4 * drawn(kind, 29, rows=5000, scale=1.0)).float()
    for divergence in (symmetric_divergence, divergence_to_teacher):
        found, expected = divergence(kind, first, second), divergence(kind, first.double(), second.double())
        assert (found >= 0).all()
        assert found.sum().item() == pytest.approx(expected.sum().item(), rel=1e-2)
        assert torch.equal(divergence(kind, first, first.clone()), torch.zeros(5000))


@pytest.mark.parametrize("kind", ["classes", "binary"])
def test_divergences_of_distant_predictions_are_finite_with_their_gradients(kind: Kind) -> None:
    far = torch.full((1, WIDTHS[kind]), -1e4)
    far[0, 0] = 1e4
    prediction = far.clone().requires_grad_()
    for divergence in (symmetric_divergence, divergence_from, divergence_to_teacher):
        value = divergence(kind, prediction, -far)
        (gradient,) = gradients_of(value, prediction)
        assert value.item() >= (1e4 if divergence is divergence_from else 1.9e4)
        assert gradient is not None
        assert gradient.isfinite().all()
