"""What the workers of one trial agree on: sums and gathered values; a single worker needs no process group."""

from typing import Any

import torch
import torch.distributed as dist


def num_workers() -> int:
    """Number of workers that train this trial together; 1 without a process group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def worker_rank() -> int:
    """This worker's number, 0 <= rank < num_workers()."""
    return dist.get_rank() if num_workers() > 1 else 0


def sum_over_workers(values: torch.Tensor) -> torch.Tensor:
    """Elementwise sum of `values` over the workers, the same on each; `values` itself is changed in place."""
    if num_workers() > 1:
        dist.all_reduce(values)
    return values


def gather_from_workers(value: Any) -> list[Any]:
    """Every worker's `value`, by rank, on every worker."""
    if num_workers() == 1:
        return [value]
    gathered: list[Any] = [None] * num_workers()
    dist.all_gather_object(gathered, value)
    return gathered
