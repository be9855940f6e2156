"""The contrastive loss against a plain loop, and two workers against one."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, distributed
from torch.nn import functional

from mtlib.loss.simcse import contrastive_loss, gather_rows
from tests.worker_pair import RunOnBoth

HIDDEN, TAU = 4, 0.3
CASES = ((5, 1), (5, 2), (4, 1), (2, 2), (1, 1), (1, 2))
"""Rows of the global batch and texts per row: an odd number gives shards of unequal size, 1 an empty one."""


def views(rows: int, texts: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Two similar views, (rows, texts, hidden)."""
    stream = torch.Generator().manual_seed(seed)
    first = torch.randn(rows, texts, HIDDEN, generator=stream)
    return first, first + 0.5 * torch.randn(rows, texts, HIDDEN, generator=stream)


def whole(first: Tensor, second: Tensor, temperature: float = TAU) -> Tensor:
    """The loss of a single worker."""
    places = np.arange(len(first))
    return contrastive_loss(
        first, second, positions=places, num_rows=len(first), temperature=temperature, is_empty=False
    )


def looped(first: Tensor, second: Tensor, temperature: float = TAU) -> list[float]:
    """The equation, a text at a time; the mean over each row's texts."""
    anchors, candidates = first.flatten(0, 1), second.flatten(0, 1)
    losses = []
    for place, anchor in enumerate(anchors):
        cosines = [functional.cosine_similarity(anchor, candidate, dim=0) / temperature for candidate in candidates]
        losses.append(functional.cross_entropy(torch.stack(cosines)[None], torch.tensor([place])).item())
    return [float(np.mean(row)) for row in np.reshape(losses, (len(first), -1))]


@pytest.mark.parametrize("temperature", [0.05, 0.3, 2.0])
@pytest.mark.parametrize(("rows", "texts"), CASES)
def test_the_loss_is_the_cross_entropy_of_cosines_over_all_texts(rows: int, texts: int, temperature: float) -> None:
    first, second = views(rows, texts)
    assert np.allclose(whole(first, second, temperature), looped(first, second, temperature), rtol=1e-4, atol=1e-5)


def test_a_loss_known_by_hand() -> None:
    # Cosines of both rows: 1 with its own view, 0 with the other. -log(e^2 / (e^2 + 1)).
    first = torch.eye(2).unsqueeze(1)
    assert whole(3 * first, 7 * first, 0.5).tolist() == pytest.approx([math.log(1 + math.exp(-2))] * 2)


def test_parallel_views_cost_the_logarithm_of_their_number() -> None:
    ones = torch.ones(5, 2, HIDDEN)
    assert torch.allclose(whole(ones, ones), torch.full((5,), math.log(10)))


def test_the_loss_is_near_0_for_a_far_higher_positive_and_large_for_a_higher_negative() -> None:
    first = torch.eye(HIDDEN).unsqueeze(1)
    assert whole(first, first, 0.05).max() < 1e-6
    assert whole(first, first.roll(1, dims=0), 0.05).min() > 19.9


def test_only_the_second_views_are_candidates() -> None:
    first, second = torch.ones(3, 1, 2), torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]], [[-1.0, 0.0]]])
    root = math.sqrt(0.5) / TAU  # cosines of each row: root half, root half, minus root half
    total = 2 * math.exp(root) + math.exp(-root)
    expected = [math.log(total) - root, math.log(total) - root, math.log(total) + root]
    assert whole(first, second).tolist() == pytest.approx(expected)


def test_losses_are_permuted_with_the_rows() -> None:
    (first, second), order = views(6, 2), torch.tensor([3, 0, 5, 1, 4, 2])
    assert torch.allclose(whole(first[order], second[order]), whole(first, second)[order], atol=1e-6)


def test_lengths_of_vectors_do_not_matter() -> None:
    first, second = views(5, 1)
    lengths = torch.tensor([0.1, 1, 10, 100, 3]).view(5, 1, 1)
    assert torch.allclose(whole(first * lengths, second * lengths.flip(0)), whole(first, second), atol=1e-5)


@pytest.mark.parametrize("second", [torch.ones(1, 1, HIDDEN), -torch.ones(1, 1, HIDDEN), torch.zeros(1, 1, HIDDEN)])
def test_a_single_text_costs_nothing_with_no_gradient(second: Tensor) -> None:
    first = torch.ones(1, 1, HIDDEN, requires_grad=True)
    loss = whole(first, second, 0.05)
    (gradient,) = torch.autograd.grad(loss.sum(), first)
    assert loss.tolist() == [0.0]
    assert torch.equal(gradient, torch.zeros_like(first))


def test_vectors_of_zero_length_give_finite_losses_and_gradients() -> None:
    first = torch.zeros(2, 1, HIDDEN, requires_grad=True)
    loss = whole(first, torch.zeros(2, 1, HIDDEN))
    (gradient,) = torch.autograd.grad(loss.sum(), first)
    assert loss.tolist() == pytest.approx([math.log(2)] * 2)
    assert gradient.isfinite().all()


def test_the_loss_is_fp32_under_bf16() -> None:
    first, second = (view.bfloat16() for view in views(5, 1))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = whole(first, second, 0.05)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, whole(first.float(), second.float(), 0.05))


def test_the_filler_of_an_empty_shard_costs_nothing() -> None:
    first, second = views(1, 2)
    loss = contrastive_loss(first, second, positions=np.array([0]), num_rows=1, temperature=TAU, is_empty=True)
    assert whole(first, second).item() > 0.01
    assert loss.tolist() == [0.0]


def test_one_worker_has_all_rows() -> None:
    rows = torch.randn(5, 2, 3)
    assert torch.equal(gather_rows(rows, 5), rows)


@pytest.fixture(scope="module")
def answers(run_on_both: RunOnBoth) -> list[dict[str, Any]]:
    """The results of each of two workers for every case."""
    return run_on_both(answer)


def answer(_wrap: Any) -> dict[str, Any]:
    """Losses and gradients of this worker's shard of every case."""
    return {str(case): shard_of(distributed.get_rank(), *case) for case in CASES}


def shard_of(rank: int, rows: int, texts: int) -> dict[str, Any]:
    """A worker's losses, and the gradients of their sum in a weight that both views pass through."""
    positions, weight = np.arange(rows)[rank::2], mixing().requires_grad_()
    is_empty = len(positions) == 0
    positions = np.zeros(1, dtype=np.int64) if is_empty else positions
    first, second = (view[positions] @ weight for view in views(rows, texts))
    loss = contrastive_loss(first, second, positions=positions, num_rows=rows, temperature=TAU, is_empty=is_empty)
    (gradient,) = torch.autograd.grad(loss.sum(), weight)
    return {"loss": loss.tolist(), "gradient": gradient.tolist()}


def mixing() -> Tensor:
    """A weight that changes directions, (hidden, hidden)."""
    return torch.randn(HIDDEN, HIDDEN, generator=torch.Generator().manual_seed(9))


@pytest.mark.parametrize("case", CASES)
def test_two_workers_give_each_row_the_loss_of_one_worker(case: tuple[int, int], answers: list[dict[str, Any]]) -> None:
    first, second = views(*case)
    expected = whole(first @ mixing(), second @ mixing())
    for rank, seen in enumerate(answers):
        own = expected[rank::2]
        assert torch.allclose(torch.tensor(seen[str(case)]["loss"]), own if len(own) else torch.zeros(1), atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_the_gradients_of_two_workers_sum_to_that_of_one(case: tuple[int, int], answers: list[dict[str, Any]]) -> None:
    (first, second), weight = views(*case), mixing().requires_grad_()
    (expected,) = torch.autograd.grad(whole(first @ weight, second @ weight).sum(), weight)
    parts = [torch.tensor(seen[str(case)]["gradient"]) for seen in answers]
    assert torch.allclose(parts[0] + parts[1], expected, atol=1e-5)
    if case[0] > 1:
        assert parts[0].abs().max() > 1e-3
        assert parts[1].abs().max() > 1e-3
