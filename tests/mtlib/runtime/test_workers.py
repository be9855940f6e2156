"""Collective operations with one process and with two over gloo."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import distributed

from mtlib.runtime.workers import (
    expect_workers,
    from_rank_0,
    gather_from_workers,
    gather_with_gradient,
    num_workers,
    sum_over_workers,
    worker_rank,
)
from tests.worker_pair import RunOnBoth


def test_one_worker_needs_no_process_group() -> None:
    assert not distributed.is_initialized()
    assert (num_workers(), worker_rank()) == (1, 0)
    values = torch.tensor([1.5, float("nan")])
    assert sum_over_workers(values) is values
    assert gather_from_workers({"a": 1}) == [{"a": 1}]
    parts = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.equal(gather_with_gradient(parts), parts[None])
    assert torch.autograd.gradcheck(gather_with_gradient, (parts,))


def test_a_worker_that_lost_its_process_group_does_not_run_alone() -> None:
    calls: list[Callable[[], Any]] = [num_workers, worker_rank, lambda: gather_from_workers(1)]
    calls += [lambda: sum_over_workers(torch.ones(1)), lambda: gather_with_gradient(torch.ones(1, 1))]
    expect_workers(2)
    try:
        for call in calls:
            with pytest.raises(RuntimeError, match="the process group of 2 workers has gone"):
                call()
    finally:
        expect_workers(1)
    assert num_workers() == 1


def answer(_wrap: Any) -> dict[str, Any]:
    """Calls every function once on a worker; returns the results, tensors as lists."""
    rank = distributed.get_rank()
    values = torch.tensor([1.0, 10.0]) * (rank + 1)
    gathered = gather_from_workers([rank, "text", torch.full((rank + 1,), float(rank))])
    return {
        "place": (num_workers(), worker_rank()),
        "sums": (sum_over_workers(values).tolist(), values.tolist()),
        "gathered": [[*part[:2], part[2].tolist()] for part in gathered],
        **{name: value.tolist() for name, value in gathered_with_gradient(rank).items()},
    }


def part_of(rank: int) -> torch.Tensor:
    """A worker's part, (2, 3)."""
    return torch.arange(6.0).view(2, 3) + 10 * rank


def result_of(gathered: torch.Tensor, rank: int) -> torch.Tensor:
    """A worker's result from all parts, (2, 2, 3): nonlinear and different for each worker."""
    return (gathered**2 * torch.arange(1.0, 13).view(2, 2, 3)).sum() * (rank + 1) + gathered.prod(dim=0).sum()


def gathered_with_gradient(rank: int) -> dict[str, torch.Tensor]:
    """All parts, the gradient of the sum of both workers' results, and the gradient through a transposed view."""
    own = part_of(rank).requires_grad_()
    gathered = gather_with_gradient(own)
    (gradient,) = torch.autograd.grad(result_of(gathered, rank), own)
    transposed = gather_with_gradient(own.T)
    # the gradient of an expanded scalar must be copied before it is summed into
    (even,) = torch.autograd.grad(transposed.sum(), own)
    return {"parts": gathered.detach(), "gradient": gradient, "transposed": transposed.detach(), "even": even}


def test_two_workers_sum_and_gather_by_rank_with_the_gradient_of_both_results(run_on_both: RunOnBoth) -> None:
    parts = torch.stack([part_of(0), part_of(1)]).requires_grad_()
    (expected,) = torch.autograd.grad(result_of(parts, 0) + result_of(parts, 1), parts)
    for rank, seen in enumerate(run_on_both(answer)):
        assert seen["place"] == (2, rank)
        assert seen["sums"] == ([3.0, 30.0], [3.0, 30.0])
        assert seen["gathered"] == [[0, "text", [0.0]], [1, "text", [1.0, 1.0]]]
        assert seen["parts"] == parts.tolist()
        assert torch.allclose(torch.tensor(seen["gradient"]), expected[rank])
        assert seen["transposed"] == parts.transpose(1, 2).tolist()
        assert seen["even"] == torch.full((2, 3), 2.0).tolist()


def fail_on_first() -> None:
    raise ValueError(f"rank {worker_rank()} cannot")


def ask_first(_wrap: Any) -> tuple[int, str]:
    """What each of two workers gets of rank 0: a result, and an exception."""
    found = from_rank_0(lambda: 7 + worker_rank())
    try:
        from_rank_0(fail_on_first)
    except ValueError as error:
        return found, str(error)
    return found, "no error"


def test_result_and_exception_of_rank_0_are_those_of_all_workers(run_on_both: RunOnBoth) -> None:
    assert ask_first(None) == (7, "rank 0 cannot")
    assert run_on_both(ask_first) == [(7, "rank 0 cannot")] * 2
