"""Two worker processes over gloo that run the jobs of a test."""

import contextlib
import gc
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.multiprocessing as multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

Job = Callable[..., Any]
"""A function that all workers run; its first argument wraps an objective, and it returns plain data."""
RunOnBoth = Callable[..., list[Any]]
"""Runs a job with its arguments on both workers; returns both results."""


@contextlib.contextmanager
def pair_of_workers() -> Iterator[RunOnBoth]:
    """Starts two worker processes; yields a function that runs jobs on both."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    jobs = [context.Queue() for _ in range(2)]
    results = [context.Queue() for _ in range(2)]
    workers = [
        context.Process(target=serve, args=(rank, port, jobs[rank], results[rank]), daemon=True) for rank in range(2)
    ]
    for worker in workers:
        worker.start()

    def run_on_both(job: Job, *arguments: Any) -> list[Any]:
        for queue in jobs:
            queue.put((job, arguments))
        found = [queue.get(timeout=120) for queue in results]
        for result in found:
            assert not isinstance(result, str), result
        return found

    yield run_on_both
    for queue in jobs:
        queue.put(None)
    for worker in workers:
        worker.join(timeout=30)


def serve(rank: int, port: int, jobs: Any, results: Any) -> None:
    """One of two workers: runs jobs until it receives None."""
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)

    def wrap(objective: nn.Module) -> nn.Module:
        return DistributedDataParallel(objective, find_unused_parameters=True)

    while (message := jobs.get()) is not None:
        job, arguments = message
        try:
            result: Any = job(wrap, *arguments)
        except Exception as error:
            result = f"worker {rank}: {type(error).__name__}: {error}"
        gc.collect()  # DDP's reducer holds the group
        gc.freeze()  # what is left are imported modules, through which the next collection need not walk
        results.put(result)
    torch.distributed.destroy_process_group()
