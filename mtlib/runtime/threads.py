"""How many threads torch uses, for a while."""

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def using_threads(number: int) -> Iterator[None]:
    """Lets torch use so many threads inside the block: on shared cores more threads wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
