"""Builds the batches of the next steps in a thread while a GPU computes."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

Given = TypeVar("Given")
Built = TypeVar("Built")

GPU_AHEAD = 4
"""Batches that may wait for a GPU, so that one that takes longer to build delays few steps."""


def num_ahead(device: torch.device) -> int:
    """Batches to build ahead; none on a CPU, which would have to share its cores."""
    return GPU_AHEAD if device.type == "cuda" else 0


def build_ahead(parts: Iterable[Given], build: Callable[[Given], Built], ahead: int) -> Iterator[tuple[Given, Built]]:
    """Yields every part with what is built of it, in order;
    up to `ahead` further ones are built meanwhile in one thread.

    An error of `build` is raised in place of its part.
    """
    if ahead == 0:
        yield from ((part, build(part)) for part in parts)
        return
    waiting: deque[tuple[Given, Future[Built]]] = deque()
    with ThreadPoolExecutor(1) as thread:
        try:
            for part in parts:
                waiting.append((part, thread.submit(build, part)))
                if len(waiting) > ahead:
                    first, built = waiting.popleft()
                    yield first, built.result()
            for part, built in waiting:
                yield part, built.result()
        finally:
            thread.shutdown(cancel_futures=True)
