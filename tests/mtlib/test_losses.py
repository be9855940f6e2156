"""Losses and divergences against torch.distributions, scikit-learn and formulas by hand."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss, mean_squared_error
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, kl_divergence

from mtlib.losses import LOSSES, TrainingDiverged, divergence_from, loss_per_example, symmetric_divergence

WIDTHS = {"classes": 5, "binary": 1, "regression": 1}
WIDTH_OF_LOSS = {"cross_entropy": 5, "binary_cross_entropy": 1, "mean_squared_error": 1}


def drawn(kind: str, seed: int, rows: int = 40, scale: float = 3.0) -> Tensor:
    """Random logits in double precision."""
    stream = torch.Generator().manual_seed(seed)
    return scale * torch.randn(rows, WIDTHS[kind], generator=stream, dtype=torch.float64)


def kl(kind: str, first: Tensor, second: Tensor) -> Tensor:
    """KL(first, second) from torch.distributions; (rows,)."""
    if kind == "classes":
        return kl_divergence(Categorical(logits=first), Categorical(logits=second))
    return kl_divergence(Bernoulli(logits=first), Bernoulli(logits=second)).squeeze(1)


def test_cross_entropy_is_that_of_scikit_learn() -> None:
    logits, labels = drawn("classes", 0).float(), torch.arange(40) % 5
    expected = [
        log_loss([label], [row], labels=range(5)) for label, row in zip(labels, logits.double().softmax(1), strict=True)
    ]
    assert np.allclose(loss_per_example("cross_entropy", logits, labels.float()), expected, atol=1e-5)


def test_binary_cross_entropy_is_that_of_scikit_learn() -> None:
    logits, labels = drawn("binary", 1).float(), torch.arange(40) % 2
    probs = logits.double().sigmoid().squeeze(1)
    expected = [log_loss([label], [[1 - p, p]], labels=[0, 1]) for label, p in zip(labels, probs, strict=True)]
    assert np.allclose(loss_per_example("binary_cross_entropy", logits, labels.float()), expected, atol=1e-5)


def test_mean_squared_error_is_that_of_scikit_learn_and_is_not_clipped() -> None:
    logits, labels = drawn("regression", 2, scale=20).float(), torch.linspace(0, 5, 40)
    loss = loss_per_example("mean_squared_error", logits, labels)
    assert loss.mean().item() == pytest.approx(mean_squared_error(labels, logits.squeeze(1)))
    assert loss_per_example("mean_squared_error", torch.tensor([[7.0], [-1.0]]), torch.tensor([5.0, 0.0])).tolist() == [
        4,
        1,
    ]


def test_losses_known_by_hand() -> None:
    even = torch.zeros(1, 5)
    assert loss_per_example("cross_entropy", even, torch.tensor([4.0])).item() == pytest.approx(math.log(5))
    assert loss_per_example("binary_cross_entropy", even[:, :1], torch.tensor([1.0])).item() == pytest.approx(
        math.log(2)
    )
    sure = torch.tensor([[math.log(9)]])  # probability .9
    assert loss_per_example("binary_cross_entropy", sure, torch.tensor([0.0])).item() == pytest.approx(math.log(10))


@pytest.mark.parametrize(("name", "width"), WIDTH_OF_LOSS.items())
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_every_loss_gives_one_number_per_example(name: str, width: int, rows: int) -> None:
    # (rows, 1) against (rows,) would broadcast to (rows, rows).
    assert loss_per_example(name, torch.randn(rows, width), torch.ones(rows)).shape == (rows,)
    assert set(LOSSES) == set(WIDTH_OF_LOSS)


@pytest.mark.parametrize(("name", "width"), WIDTH_OF_LOSS.items())
def test_losses_are_fp32_under_bf16_and_stay_finite_far_out(name: str, width: int) -> None:
    logits = torch.full((2, width), 1000.0, dtype=torch.bfloat16)
    logits[1] *= -1
    loss = loss_per_example(name, logits, torch.tensor([0.0, 1.0]))
    assert loss.dtype == torch.float32
    assert loss.isfinite().all()


def test_a_loss_does_not_hide_a_prediction_that_is_no_number() -> None:
    for name, width in WIDTH_OF_LOSS.items():
        assert loss_per_example(name, torch.full((1, width), float("nan")), torch.ones(1)).isnan().all()


@pytest.mark.parametrize("kind", ["classes", "binary"])
def test_the_symmetric_divergence_is_the_sum_of_both_kl_divergences(kind: str) -> None:
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
def test_the_symmetric_divergence_is_symmetric_positive_and_zero_exactly_at_equality(kind: str) -> None:
    first, second = drawn(kind, 5).float(), drawn(kind, 6).float()
    there, back = symmetric_divergence(kind, first, second), symmetric_divergence(kind, second, first)
    assert torch.equal(there, back)
    assert (there > 0).all()
    assert torch.equal(symmetric_divergence(kind, first, first.clone()), torch.zeros(40))


@pytest.mark.parametrize("kind", ["classes", "binary"])
def test_divergences_stay_finite_at_logits_a_thousand_apart(kind: str) -> None:
    far = torch.zeros(1, WIDTHS[kind])
    far[0, 0] = 1000
    for value in (symmetric_divergence(kind, far, -far), divergence_from(kind, far, -far)):
        assert value.isfinite().all()
        assert value.item() >= 998


@pytest.mark.parametrize("kind", ["classes", "binary"])
def test_the_climbed_divergence_is_kl_from_target_to_prediction(kind: str) -> None:
    prediction, target = drawn(kind, 7), drawn(kind, 8)
    assert torch.allclose(divergence_from(kind, prediction, target), kl(kind, target, prediction), rtol=1e-9)
    assert not torch.allclose(kl(kind, target, prediction), kl(kind, prediction, target), rtol=0.1)


@pytest.mark.parametrize("kind", WIDTHS)
def test_the_climbed_divergence_holds_its_target_fixed(kind: str) -> None:
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


def fixed(kind: str) -> Divergence:
    return lambda first, second: symmetric_divergence(kind, first, second)


@pytest.mark.parametrize("kind", ["classes", "binary"])
def test_the_gradient_of_the_symmetric_divergence_is_the_difference_of_the_probabilities(kind: str) -> None:
    # Of KL(q, p) with q held fixed it is p - q in the logits of p, and the other way round, however far apart they are.
    first, second = drawn(kind, 13), drawn(kind, 14)
    p, q = (logits.softmax(1) if kind == "classes" else logits.sigmoid() for logits in (first, second))
    one, other = gradients_of(fixed(kind), first, second)
    assert torch.allclose(one, p - q, rtol=1e-9, atol=1e-12)
    assert torch.allclose(other, q - p, rtol=1e-9, atol=1e-12)
    assert ((p - q).abs().amax(1) > 1e-3).all()


@pytest.mark.parametrize("kind", ["classes", "binary"])
def test_nearby_its_gradient_is_half_that_of_the_sum_with_nothing_held_fixed(kind: str) -> None:
    first = drawn(kind, 11, scale=1.0)
    second = first + 1e-4 * drawn(kind, 12, scale=1.0)
    whole = gradients_of(lambda a, b: kl(kind, a, b) + kl(kind, b, a), first, second)
    for half, full in zip(gradients_of(fixed(kind), first, second), whole, strict=True):
        assert torch.allclose(2 * half, full, rtol=1e-2, atol=1e-8)
        assert full.abs().max() > 1e-6


@pytest.mark.parametrize("kind", WIDTHS)
def test_both_divergences_climb_in_the_same_direction(kind: str) -> None:
    prediction, target = drawn(kind, 15), drawn(kind, 16)
    climbed = prediction.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(divergence_from(kind, climbed, target).sum(), climbed)
    assert torch.allclose(gradients_of(fixed(kind), prediction, target)[0], gradient, rtol=1e-9, atol=1e-12)
    assert (gradient.abs().amax(1) > 1e-4).all()


def test_gradients_of_the_divergence_of_a_regression_flow_through_both_sides_unhindered() -> None:
    first, second = drawn("regression", 13).requires_grad_(), drawn("regression", 14).requires_grad_()
    assert torch.autograd.gradcheck(fixed("regression"), (first, second))


def test_a_run_that_diverged_is_an_arithmetic_error() -> None:
    assert issubclass(TrainingDiverged, ArithmeticError)
    assert not issubclass(TrainingDiverged, ValueError)  # it is no wrong use
