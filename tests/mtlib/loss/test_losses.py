"""Losses against scikit-learn and formulas by hand."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.metrics import log_loss
from torch import Tensor
from torch.nn import functional

from mtlib.config.losses import LOSSES
from mtlib.config.network import TaskConfig
from mtlib.kinds import Kind
from mtlib.loss.losses import loss_per_example
from tests.mtlib.loss.random_logits import WIDTHS, drawn

KINDS_OF_LOSS = tuple((name, kind) for name, loss in LOSSES.items() for kind in loss.functions)
CLASSES = torch.arange(40) % 5


def labels_of(kind: Kind, labels: Tensor) -> Tensor:
    """Labels as the kind has them, from one number a row: several labels all have it."""
    return labels[:, None].expand(-1, WIDTHS[kind]) if kind == "multilabel" else labels


def loss_of(name: str, kind: Kind, logits: Tensor, labels: Tensor, **options: Any) -> Tensor:
    """The loss called `name` with these options of a task; (rows,)."""
    return loss_per_example(TaskConfig(loss=name, encoding="single", **options), kind, logits, labels)


def test_cross_entropies_match_scikit_learn() -> None:
    logits = drawn("classes", 0).float()
    rows = zip(CLASSES, logits.double().softmax(1), strict=True)
    expected = [log_loss([label], [row], labels=range(5)) for label, row in rows]
    assert np.allclose(loss_of("cross_entropy", "classes", logits, CLASSES.float()), expected, atol=1e-5)
    logits, labels = drawn("multilabel", 2).float(), (drawn("multilabel", 3) > 0).float()
    expected = [log_loss(row, one.double().sigmoid(), labels=[0, 1]) for row, one in zip(labels, logits, strict=True)]
    assert np.allclose(loss_of("binary_cross_entropy", "multilabel", logits, labels), expected, atol=1e-5)
    expected = [
        log_loss([row[0]], [one[0].double().sigmoid()], labels=[0, 1]) for row, one in zip(labels, logits, strict=True)
    ]
    assert np.allclose(loss_of("binary_cross_entropy", "binary", logits[:, :1], labels[:, 0]), expected, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_smoothed_labels_are_those_of_torch(smoothing: float) -> None:
    logits = drawn("classes", 4).float()
    expected = functional.cross_entropy(logits, CLASSES, reduction="none", label_smoothing=smoothing)
    assert torch.equal(
        loss_of("cross_entropy", "classes", logits, CLASSES.float(), label_smoothing=smoothing), expected
    )
    two, labels = logits[:, :2], CLASSES % 2  # softmax of two logits is the sigmoid of their difference
    expected = functional.cross_entropy(two, labels, reduction="none", label_smoothing=smoothing)
    for name in ("cross_entropy", "binary_cross_entropy"):
        found = loss_of(name, "binary", two[:, 1:] - two[:, :1], labels.float(), label_smoothing=smoothing)
        assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_the_focal_loss_matches_its_equation(gamma: float) -> None:
    logits = drawn("classes", 6)
    probs = logits.softmax(1)[torch.arange(40), CLASSES]
    found = loss_of("focal", "classes", logits, CLASSES.double(), focal_gamma=gamma)
    assert torch.allclose(found, -((1 - probs) ** gamma) * probs.log(), rtol=1e-9)
    several, logits = (drawn("multilabel", 7) > 0).double(), drawn("multilabel", 8)
    probs = torch.where(several > 0, logits.sigmoid(), 1 - logits.sigmoid())
    found = loss_of("focal", "multilabel", logits, several, focal_gamma=gamma)
    assert torch.allclose(found, (-((1 - probs) ** gamma) * probs.log()).mean(1), rtol=1e-9)


def test_the_focal_loss_of_a_certain_label_has_a_finite_gradient() -> None:
    logits = torch.tensor([[1000.0]], requires_grad=True)
    loss = loss_of("focal", "binary", logits, torch.ones(1), focal_gamma=0.5)
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert loss.item() == 0
    assert gradient.isfinite().all()


def test_a_squared_error_is_not_clipped() -> None:
    logits, labels = torch.tensor([[7.0], [-1.0], [2.5]]), torch.tensor([5.0, 0.0, 2.0])
    assert loss_of("mean_squared_error", "regression", logits, labels).tolist() == [4, 1, 0.25]


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_the_ordinal_log_loss_matches_its_equation(alpha: float) -> None:
    logits = drawn("classes", 18)
    expected = [  # one class at a time
        -sum(math.log(1 - p) * abs(i - int(label)) ** alpha for i, p in enumerate(row))
        for row, label in zip(softmax(logits.numpy(), axis=1), CLASSES, strict=True)
    ]
    found = loss_of("ordinal_log_loss", "classes", logits, CLASSES.double(), ordinal_alpha=alpha)
    assert np.allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize(("winner", "label"), [(0, 0), (4, 2)])
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
    name, logits = "dual_objective_cross_entropy", drawn("classes", 20)
    targets = torch.eye(5, dtype=torch.float64)[CLASSES]
    parts = -torch.where(targets > 0, logits.sigmoid(), 1 - logits.sigmoid()).log()
    labels = CLASSES.double()
    assert torch.allclose(loss_of(name, "classes", logits, labels, dual_reduction="sum"), parts.sum(1))
    assert torch.allclose(loss_of(name, "classes", logits, labels), parts.mean(1))


@pytest.mark.parametrize(("name", "kind"), KINDS_OF_LOSS)
def test_every_loss_is_one_finite_fp32_number_per_example_and_nan_of_nan(name: str, kind: Kind) -> None:
    for rows in (0, 1, 3):  # (rows, 1) against (rows,) would broadcast to (rows, rows)
        logits = torch.randn(rows, WIDTHS[kind])
        assert loss_of(name, kind, logits, labels_of(kind, torch.ones(rows))).shape == (rows,)
    logits = torch.full((2, WIDTHS[kind]), 1000.0, dtype=torch.bfloat16)
    logits[1] *= -1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_of(name, kind, logits, labels_of(kind, torch.tensor([0.0, 1.0])))
    assert loss.dtype == torch.float32
    assert loss.isfinite().all()
    for place in (0, -1):
        logits = torch.zeros(1, WIDTHS[kind])
        logits[0, place] = float("nan")
        assert loss_of(name, kind, logits, labels_of(kind, torch.ones(1))).isnan().all()
