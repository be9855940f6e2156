"""Collectives over the workers of one trial; a single worker needs no process group."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist

Shared = TypeVar("Shared")

_expected_workers = 1


def expect_workers(count: int) -> None:
    """Declares, for the rest of this process, that it is one of `count` workers.

    Ray Train destroys a worker's process group when another worker has died. Without this declaration the worker would
    then continue as a single worker, with its shard taken for the whole.
    """
    global _expected_workers
    _expected_workers = count


def num_workers() -> int:
    """Number of workers that train this trial together; 1 without a process group.

    Raises:
        RuntimeError: the process group that `expect_workers` declared no longer exists.
    """
    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size()
    if _expected_workers > 1:
        raise RuntimeError(f"the process group of {_expected_workers} workers has gone")
    return 1


def worker_rank() -> int:
    """This worker's rank, 0 <= rank < num_workers()."""
    return dist.get_rank() if num_workers() > 1 else 0


def sum_over_workers(values: torch.Tensor) -> torch.Tensor:
    """Elementwise sum of `values` over the workers, the same on each; `values` itself is changed in place."""
    if num_workers() > 1:
        dist.all_reduce(values)
    return values


def gather_from_workers(value: Any) -> list[Any]:
    """Returns every worker's `value`, by rank, on every worker."""
    if num_workers() == 1:
        return [value]
    gathered: list[Any] = [None] * num_workers()
    dist.all_gather_object(gathered, value)
    return gathered


def from_rank_0(call: Callable[[], Shared]) -> Shared:
    """Calls on rank 0 and returns the result, or raises the exception, on all workers."""
    found: tuple[Any, Exception | None] = None, None
    if worker_rank() == 0:
        try:
            found = call(), None
        except Exception as error:  # the others wait, and would take what is gathered next for this
            found = None, error
    value, raised = gather_from_workers(found)[0]
    if raised is not None:
        raise raised
    answer: Shared = value
    return answer


def gather_with_gradient(values: torch.Tensor) -> torch.Tensor:
    """(workers, rows, ...), every worker's `values` (rows, ...) of one shape and type, on every worker; differentiable.

    A worker's part receives the gradients of all workers' results, so the sum of the workers' gradients is the gradient
    of the sum of their results. Backward is a collective call as well.
    """
    if num_workers() == 1:
        return values.unsqueeze(0)
    from torch.distributed.nn.functional import all_gather

    return torch.stack(all_gather(values))  # type: ignore[no-untyped-call]
