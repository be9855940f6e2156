"""Divergences against torch.distributions, scipy and formulas by hand."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.special import expit, rel_entr, softmax
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, kl_divergence

from mtlib.kinds import Kind
from mtlib.loss.divergences import divergence_from, divergence_to_teacher, symmetric_divergence
from tests.mtlib.loss.random_logits import WIDTHS, drawn


def kl(kind: Kind, first: Tensor, second: Tensor) -> Tensor:
    """KL(first, second) from torch.distributions; (rows,)."""
    if kind == "classes":
        return kl_divergence(Categorical(logits=first), Categorical(logits=second))
    return kl_divergence(Bernoulli(logits=first), Bernoulli(logits=second)).mean(1)


@pytest.mark.parametrize("kind", ["classes", "binary", "multilabel"])
def test_the_symmetric_divergence_is_the_sum_of_both_kl_divergences(kind: Kind) -> None:
    first, second = drawn(kind, 3), drawn(kind, 4)
    expected = kl(kind, first, second) + kl(kind, second, first)
    assert torch.allclose(symmetric_divergence(kind, first, second), expected, rtol=1e-9)


def test_the_symmetric_divergence_of_a_regression_is_the_squared_difference() -> None:
    first, second = torch.tensor([[1.0], [4.5]]), torch.tensor([[3.0], [4.0]])
    assert symmetric_divergence("regression", first, second).tolist() == [4.0, 0.25]


def test_the_symmetric_divergence_of_a_binary_task_known_by_hand() -> None:
    # p = .9 and q = .5: (.9 - .5) (log 9 - 0)
    value = symmetric_divergence("binary", torch.tensor([[math.log(9)]]), torch.tensor([[0.0]]))
    assert value.item() == pytest.approx(0.4 * math.log(9))


@pytest.mark.parametrize("kind", WIDTHS)
def test_the_symmetric_divergence_is_symmetric_positive_and_zero_exactly_at_equality(kind: Kind) -> None:
    first, second = drawn(kind, 5).float(), drawn(kind, 6).float()
    there, back = symmetric_divergence(kind, first, second), symmetric_divergence(kind, second, first)
    assert torch.equal(there, back)
    assert (there > 0).all()
    assert torch.equal(symmetric_divergence(kind, first, first.clone()), torch.zeros(40))


@pytest.mark.parametrize("gap", [1e-3, 1e-4, 1e-6])
@pytest.mark.parametrize("kind", ["classes", "binary", "multilabel"])
def test_the_symmetric_divergence_of_close_predictions_is_accurate_and_not_negative_in_fp32(
    kind: Kind, gap: float
) -> None:
    first = drawn(kind, 28, rows=5000).float()
    second = (first + gap * drawn(kind, 29, rows=5000, scale=1.0)).float()
    found = symmetric_divergence(kind, first, second)
    assert found.dtype == torch.float32
    assert (found >= 0).all()
    if gap >= 1e-4:
        expected = symmetric_divergence(kind, first.double(), second.double())
        assert found.sum().item() == pytest.approx(expected.sum().item(), rel=1e-2)
        assert expected.max() < 100 * gap**2


@pytest.mark.parametrize("scale", [0.1, 3.0])
@pytest.mark.parametrize("kind", WIDTHS)
def test_the_symmetric_divergence_equals_two_divergences_to_a_fixed_target(kind: Kind, scale: float) -> None:
    first, second = drawn(kind, 30, scale=scale), drawn(kind, 31, scale=scale)

    def both(one: Tensor, other: Tensor) -> Tensor:
        return divergence_from(kind, one, other) + divergence_from(kind, other, one)

    factor = 2 if kind == "regression" else 1  # a squared difference is one term with gradients in both
    assert torch.allclose(factor * symmetric_divergence(kind, first, second), both(first, second), rtol=1e-9)
    expected = gradients_of(both, first, second)
    for found, expected_gradient in zip(gradients_of(fixed(kind), first, second), expected, strict=True):
        assert torch.allclose(found, expected_gradient, rtol=1e-9, atol=1e-12)
        assert expected_gradient.abs().max() > 1e-3


@pytest.mark.parametrize("kind", ["classes", "binary"])
def test_divergences_stay_finite_at_logits_a_thousand_apart(kind: Kind) -> None:
    far = torch.zeros(1, WIDTHS[kind])
    far[0, 0] = 1000
    for value in (symmetric_divergence(kind, far, -far), divergence_from(kind, far, -far)):
        assert value.isfinite().all()
        assert value.item() >= 998


@pytest.mark.parametrize("kind", ["classes", "binary", "multilabel"])
def test_the_ascent_divergence_is_kl_from_target_to_prediction(kind: Kind) -> None:
    prediction, target = drawn(kind, 7), drawn(kind, 8)
    assert torch.allclose(divergence_from(kind, prediction, target), kl(kind, target, prediction), rtol=1e-9)
    assert not torch.allclose(kl(kind, target, prediction), kl(kind, prediction, target), rtol=0.1)


@pytest.mark.parametrize("kind", WIDTHS)
def test_the_ascent_divergence_has_a_fixed_target(kind: Kind) -> None:
    prediction, target = drawn(kind, 9).requires_grad_(), drawn(kind, 10).requires_grad_()
    divergence_from(kind, prediction, target).sum().backward()  # type: ignore[no-untyped-call]
    assert target.grad is None
    assert prediction.grad is not None
    assert (prediction.grad != 0).any()


Divergence = Callable[[Tensor, Tensor], Tensor]


def gradients_of(divergence: Divergence, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of a divergence, summed over its rows, in both predictions."""
    first, second = first.clone().requires_grad_(), second.clone().requires_grad_()
    one, other = torch.autograd.grad(divergence(first, second).sum(), (first, second))
    return one, other


def fixed(kind: Kind) -> Divergence:
    return lambda first, second: symmetric_divergence(kind, first, second)


@pytest.mark.parametrize("kind", ["classes", "binary"])
def test_the_gradient_of_the_symmetric_divergence_is_the_difference_of_the_probabilities(kind: Kind) -> None:
    # Of KL(q, p) with q held fixed it is p - q in the logits of p, and the other way round, however far apart they are.
    first, second = drawn(kind, 13), drawn(kind, 14)
    p, q = (logits.softmax(1) if kind == "classes" else logits.sigmoid() for logits in (first, second))
    one, other = gradients_of(fixed(kind), first, second)
    assert torch.allclose(one, p - q, rtol=1e-9, atol=1e-12)
    assert torch.allclose(other, q - p, rtol=1e-9, atol=1e-12)
    assert ((p - q).abs().amax(1) > 1e-3).all()


@pytest.mark.parametrize("kind", ["classes", "binary", "multilabel"])
def test_near_equality_its_gradient_is_half_that_of_the_sum_with_nothing_fixed(kind: Kind) -> None:
    first = drawn(kind, 11, scale=1.0)
    second = first + 1e-4 * drawn(kind, 12, scale=1.0)
    whole = gradients_of(lambda a, b: kl(kind, a, b) + kl(kind, b, a), first, second)
    for half, full in zip(gradients_of(fixed(kind), first, second), whole, strict=True):
        assert torch.allclose(2 * half, full, rtol=1e-2, atol=1e-8)
        assert full.abs().max() > 1e-6


@pytest.mark.parametrize("kind", WIDTHS)
def test_both_divergences_ascend_in_the_same_direction(kind: Kind) -> None:
    prediction, target = drawn(kind, 15), drawn(kind, 16)
    climbed = prediction.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(divergence_from(kind, climbed, target).sum(), climbed)
    assert torch.allclose(gradients_of(fixed(kind), prediction, target)[0], gradient, rtol=1e-9, atol=1e-12)
    assert (gradient.abs().amax(1) > 1e-4).all()


def test_the_divergence_of_a_regression_has_gradients_in_both_predictions() -> None:
    first, second = drawn("regression", 13).requires_grad_(), drawn("regression", 14).requires_grad_()
    assert torch.autograd.gradcheck(fixed("regression"), (first, second))


def entropies(kind: Kind, first: Tensor, second: Tensor) -> np.ndarray:
    """KL(first, second) + KL(second, first) from scipy, in double precision; (rows,)."""
    if kind == "classes":
        p, q = (softmax(logits.numpy(), axis=1) for logits in (first, second))
    else:
        p, q = (np.hstack([expit(logits.numpy()), expit(-logits.numpy())]) for logits in (first, second))
    both: np.ndarray = (rel_entr(p, q) + rel_entr(q, p)).sum(axis=1)
    return both / WIDTHS[kind] if kind == "multilabel" else both


@pytest.mark.parametrize("kind", ["classes", "binary", "multilabel"])
def test_the_divergence_to_a_teacher_is_the_sum_of_both_kl_divergences(kind: Kind) -> None:
    prediction, target = drawn(kind, 22), drawn(kind, 23)
    value = divergence_to_teacher(kind, prediction, target)
    assert np.allclose(value, entropies(kind, prediction, target), rtol=1e-9)
    assert torch.allclose(value, symmetric_divergence(kind, prediction, target), rtol=1e-9)


def test_the_divergence_to_a_teacher_of_a_regression_is_the_squared_difference() -> None:
    prediction, target = torch.tensor([[1.0], [4.5]], requires_grad=True), torch.tensor([[3.0], [4.0]])
    value = divergence_to_teacher("regression", prediction, target)
    (gradient,) = torch.autograd.grad(value.sum(), prediction)
    assert value.tolist() == [4.0, 0.25]
    assert gradient.tolist() == [[-4.0], [1.0]]


@pytest.mark.parametrize("kind", WIDTHS)
def test_the_divergence_to_a_teacher_has_gradients_of_both_terms(kind: Kind) -> None:
    prediction, target = drawn(kind, 24).requires_grad_(), drawn(kind, 25).requires_grad_()
    assert torch.autograd.gradcheck(lambda p: divergence_to_teacher(kind, p, target.detach()), (prediction,))
    divergence_to_teacher(kind, prediction, target).sum().backward()  # type: ignore[no-untyped-call]
    assert target.grad is None
    if kind != "regression":
        whole = kl(kind, prediction, target.detach()) + kl(kind, target.detach(), prediction)
        (expected,) = torch.autograd.grad(whole.sum(), prediction)
        assert torch.allclose(prediction.grad, expected, rtol=1e-7, atol=1e-12)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["classes", "binary", "multilabel"])
def test_the_divergence_to_a_close_teacher_is_accurate_in_fp32(kind: Kind) -> None:
    target = drawn(kind, 26, scale=1.0)
    prediction = target + 1e-3 * drawn(kind, 27, scale=1.0)
    prediction, target = prediction.float().double(), target.float().double()
    expected = entropies(kind, prediction, target)
    value = divergence_to_teacher(kind, prediction.float(), target.float())
    assert value.sum().item() == pytest.approx(expected.sum(), rel=1e-3)
    assert np.allclose(value, expected, rtol=0.01, atol=1e-10)
    assert 1e-10 < expected.max() < 1e-4
    assert torch.equal(divergence_to_teacher(kind, target, target.clone()), torch.zeros(40, dtype=torch.float64))


@pytest.mark.parametrize("kind", ["classes", "binary"])
def test_the_divergence_to_a_distant_teacher_is_finite_with_its_gradient(kind: Kind) -> None:
    far = torch.full((1, WIDTHS[kind]), -1e4)
    far[0, 0] = 1e4
    prediction = far.clone().requires_grad_()
    value = divergence_to_teacher(kind, prediction, -far)
    (gradient,) = torch.autograd.grad(value.sum(), prediction)
    assert value.item() >= 1.9e4
    assert gradient.isfinite().all()
    assert gradient.abs().max() >= 0.99
