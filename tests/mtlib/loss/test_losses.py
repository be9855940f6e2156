"""Losses against scikit-learn and formulas by hand."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.metrics import log_loss, mean_squared_error
from torch import Tensor

from mtlib.config.losses import LOSSES
from mtlib.config.network import TaskConfig
from mtlib.kinds import Kind
from mtlib.loss.losses import dual_objective_cross_entropy, loss_per_example, ordinal_log_loss
from mtlib.runtime.errors import TrainingDiverged
from tests.mtlib.loss.random_logits import WIDTHS, drawn

KINDS_OF_LOSS = tuple((name, kind) for name, loss in LOSSES.items() for kind in loss.functions)


def labels_of(kind: Kind, labels: Tensor) -> Tensor:
    """Labels as the kind has them, from one number a row: several labels all have it."""
    return labels[:, None].expand(-1, WIDTHS[kind]) if kind == "multilabel" else labels


def loss_of(name: str, kind: Kind, logits: Tensor, labels: Tensor, **options: Any) -> Tensor:
    """The loss called `name` with these options of a task; (rows,)."""
    return loss_per_example(TaskConfig(loss=name, encoding="single", **options), kind, logits, labels)


def test_cross_entropy_matches_scikit_learn() -> None:
    logits, labels = drawn("classes", 0).float(), torch.arange(40) % 5
    expected = [
        log_loss([label], [row], labels=range(5)) for label, row in zip(labels, logits.double().softmax(1), strict=True)
    ]
    assert np.allclose(loss_of("cross_entropy", "classes", logits, labels.float()), expected, atol=1e-5)


def test_binary_cross_entropy_matches_scikit_learn() -> None:
    logits, labels = drawn("binary", 1).float(), torch.arange(40) % 2
    probs = logits.double().sigmoid().squeeze(1)
    expected = [log_loss([label], [[1 - p, p]], labels=[0, 1]) for label, p in zip(labels, probs, strict=True)]
    assert np.allclose(loss_of("binary_cross_entropy", "binary", logits, labels.float()), expected, atol=1e-5)


def test_the_cross_entropy_of_several_labels_is_the_mean_over_them() -> None:
    logits = drawn("multilabel", 2).float()
    labels = (drawn("multilabel", 3) > 0).float()
    expected = [log_loss(row, one.double().sigmoid(), labels=[0, 1]) for row, one in zip(labels, logits, strict=True)]
    assert np.allclose(loss_of("binary_cross_entropy", "multilabel", logits, labels), expected, atol=1e-5)


def test_smoothed_labels_are_those_of_torch_and_of_the_formula() -> None:
    logits, labels = drawn("classes", 4).float(), torch.arange(40) % 5
    expected = torch.nn.functional.cross_entropy(logits, labels, reduction="none", label_smoothing=0.2)
    assert torch.equal(loss_of("cross_entropy", "classes", logits, labels.float(), label_smoothing=0.2), expected)
    two = drawn("classes", 5).float()[:, :2]  # softmax of two logits is the sigmoid of their difference
    expected = torch.nn.functional.cross_entropy(two, labels % 2, reduction="none", label_smoothing=0.2)
    for name in ("cross_entropy", "binary_cross_entropy"):
        found = loss_of(name, "binary", two[:, 1:] - two[:, :1], (labels % 2).float(), label_smoothing=0.2)
        assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_the_focal_loss_matches_its_equation(gamma: float) -> None:
    logits, labels = drawn("classes", 6), torch.arange(40) % 5
    probs = logits.softmax(1)[torch.arange(40), labels]
    found = loss_of("focal", "classes", logits, labels.double(), focal_gamma=gamma)
    assert torch.allclose(found, -((1 - probs) ** gamma) * probs.log(), rtol=1e-9)
    several = (drawn("multilabel", 7) > 0).double()
    probs = torch.where(several > 0, drawn("multilabel", 8).sigmoid(), 1 - drawn("multilabel", 8).sigmoid())
    found = loss_of("focal", "multilabel", drawn("multilabel", 8), several, focal_gamma=gamma)
    assert torch.allclose(found, (-((1 - probs) ** gamma) * probs.log()).mean(1), rtol=1e-9)


def test_the_focal_loss_of_a_certain_label_has_a_finite_gradient() -> None:
    logits = torch.tensor([[1000.0]], requires_grad=True)
    loss = loss_of("focal", "binary", logits, torch.ones(1), focal_gamma=0.5)
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert loss.item() == 0
    assert gradient.isfinite().all()


def test_mean_squared_error_matches_scikit_learn_and_is_not_clipped() -> None:
    logits, labels = drawn("regression", 2, scale=20).float(), torch.linspace(0, 5, 40)
    loss = loss_of("mean_squared_error", "regression", logits, labels)
    assert loss.mean().item() == pytest.approx(mean_squared_error(labels, logits.squeeze(1)))
    outside = loss_of("mean_squared_error", "regression", torch.tensor([[7.0], [-1.0]]), torch.tensor([5.0, 0.0]))
    assert outside.tolist() == [4, 1]


def test_losses_known_by_hand() -> None:
    even, last, one = torch.zeros(1, 5), torch.tensor([4.0]), torch.tensor([1.0])
    assert loss_of("cross_entropy", "classes", even, last).item() == pytest.approx(math.log(5))
    assert loss_of("binary_cross_entropy", "binary", even[:, :1], one).item() == pytest.approx(math.log(2))
    sure = torch.tensor([[math.log(9)]])  # probability .9
    assert loss_of("binary_cross_entropy", "binary", sure, 1 - one).item() == pytest.approx(math.log(10))


def test_cross_entropy_of_two_logits_equals_that_of_their_difference() -> None:
    two = (4 * torch.randn(40, 2, generator=torch.Generator().manual_seed(17))).requires_grad_()
    labels = torch.arange(40) % 2
    ours = loss_of("cross_entropy", "binary", two[:, 1:] - two[:, :1], labels.float())
    theirs = torch.nn.functional.cross_entropy(two, labels, reduction="none")
    assert torch.allclose(ours, theirs, atol=1e-5)
    (gradient,) = torch.autograd.grad(ours.sum(), two)
    (expected,) = torch.autograd.grad(theirs.sum(), two)
    assert torch.allclose(gradient, expected, atol=1e-6)


def naive_ordinal(logits: Tensor, labels: Tensor, alpha: float) -> list[float]:
    """The equation, one class at a time."""
    probs = softmax(logits.numpy(), axis=1)
    return [
        -sum(math.log(1 - p) * abs(i - int(label)) ** alpha for i, p in enumerate(row))
        for row, label in zip(probs, labels, strict=True)
    ]


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.5, 2.0])
def test_the_ordinal_log_loss_matches_its_equation(alpha: float) -> None:
    logits, labels = drawn("classes", 18), (torch.arange(40) % 5).double()
    assert np.allclose(ordinal_log_loss(logits, labels, alpha), naive_ordinal(logits, labels, alpha), rtol=1e-10)
    single = loss_of("ordinal_log_loss", "classes", logits.float(), labels.float(), ordinal_alpha=alpha)
    assert np.allclose(single, naive_ordinal(logits, labels, alpha), rtol=1e-4, atol=1e-5)


def test_the_ordinal_log_loss_known_by_hand() -> None:
    # Even classes: log(5/4) times the distances from class 1 (1 0 1 2 3) or squared (1 0 1 4 9).
    even, label = torch.zeros(1, 5), torch.tensor([1.0])
    for alpha, total in ((1.0, 7), (2.0, 15)):
        loss = loss_of("ordinal_log_loss", "classes", even, label, ordinal_alpha=alpha)
        assert loss.item() == pytest.approx(total * math.log(1.25))


def test_the_ordinal_log_loss_grows_with_the_distance_of_a_wrong_class() -> None:
    logits = 5 * torch.eye(5)  # row i is nearly sure of class i
    losses = loss_of("ordinal_log_loss", "classes", logits, torch.zeros(5))
    assert (losses.diff() > 1).all()


def test_the_gradient_of_the_ordinal_log_loss() -> None:
    logits = drawn("classes", 19, rows=6).requires_grad_()
    labels = torch.arange(6).double() % 5
    assert torch.autograd.gradcheck(lambda x: ordinal_log_loss(x, labels, 1.5), (logits,))


@pytest.mark.parametrize("winner", range(5))
@pytest.mark.parametrize("label", range(5))
def test_the_ordinal_log_loss_at_large_logits_is_finite_with_a_gradient(winner: int, label: int) -> None:
    logits = torch.full((1, 5), -1e4)
    logits[0, winner] = 1e4
    logits.requires_grad_()
    loss = loss_of("ordinal_log_loss", "classes", logits, torch.tensor([float(label)]), ordinal_alpha=2.0)
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    distance = abs(winner - label) ** 2
    # 1 - p of the winner is 4 exp(-2e4): its log has slope 1 in the winner and -1/4 in each other logit.
    expected = torch.full((1, 5), -distance / 4)
    expected[0, winner] = distance
    assert loss.item() == pytest.approx(distance * (2e4 - math.log(4)), rel=1e-5)
    assert torch.allclose(gradient, expected, rtol=2e-3)  # at 2e4 an fp32 logarithm is exact to .002


def test_the_dual_objective_is_the_mean_or_the_sum_of_five_binary_losses() -> None:
    logits, labels = drawn("classes", 20).float(), torch.arange(40) % 5
    probs = logits.double().sigmoid().numpy()
    parts = np.array(
        [
            [log_loss([int(label == i)], [[1 - row[i], row[i]]], labels=[0, 1]) for i in range(5)]
            for label, row in zip(labels, probs, strict=True)
        ]
    )
    name = "dual_objective_cross_entropy"
    summed = loss_of(name, "classes", logits, labels.float(), dual_reduction="sum")
    assert np.allclose(summed, parts.sum(axis=1), rtol=1e-4)
    assert np.allclose(loss_of(name, "classes", logits, labels.float()), parts.mean(axis=1), rtol=1e-4)


def test_the_gradient_of_the_dual_objective_is_the_sigmoid_minus_the_one_hot_label() -> None:
    logits, labels = drawn("classes", 21).requires_grad_(), (torch.arange(40) % 5).double()
    (gradient,) = torch.autograd.grad(dual_objective_cross_entropy(logits, labels, "sum").sum(), logits)
    assert torch.allclose(gradient, logits.detach().sigmoid() - torch.eye(5, dtype=torch.float64)[torch.arange(40) % 5])


@pytest.mark.parametrize(("name", "kind"), KINDS_OF_LOSS)
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_every_loss_gives_one_number_per_example(name: str, kind: Kind, rows: int) -> None:
    # (rows, 1) against (rows,) would broadcast to (rows, rows).
    assert loss_of(name, kind, torch.randn(rows, WIDTHS[kind]), labels_of(kind, torch.ones(rows))).shape == (rows,)
    assert set(LOSSES) == {loss for loss, _ in KINDS_OF_LOSS}


@pytest.mark.parametrize(("name", "kind"), KINDS_OF_LOSS)
def test_losses_are_fp32_under_bf16_and_finite_at_large_logits(name: str, kind: Kind) -> None:
    logits = torch.full((2, WIDTHS[kind]), 1000.0, dtype=torch.bfloat16)
    logits[1] *= -1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_of(name, kind, logits, labels_of(kind, torch.tensor([0.0, 1.0])))
    assert loss.dtype == torch.float32
    assert loss.isfinite().all()


@pytest.mark.parametrize(("name", "kind"), KINDS_OF_LOSS)
@pytest.mark.parametrize("place", [0, -1])
def test_a_loss_of_nan_is_nan(name: str, kind: Kind, place: int) -> None:
    logits = torch.zeros(1, WIDTHS[kind])
    logits[0, place] = float("nan")
    assert loss_of(name, kind, logits, labels_of(kind, torch.ones(1))).isnan().all()


def test_divergence_of_a_run_is_an_arithmetic_error() -> None:
    assert issubclass(TrainingDiverged, ArithmeticError)
    assert not issubclass(TrainingDiverged, ValueError)  # not a mistake of the user
