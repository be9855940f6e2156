"""Random streams: one seed per purpose, so that draws for one purpose do not change those for another.

A stream is named by its use (seed, replicate, stage, purpose, task, step, ...), independently of earlier draws. A run
that is resumed, forked or started in a reused process therefore draws the same numbers.
"""

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # `results` must load without torch
    import torch


def stream_seed(*name: int | str) -> int:
    """Returns the seed of the stream with this name, 0 <= seed < 2**63; different names give independent seeds."""
    digest = hashlib.sha256(repr(name).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def numpy_stream(*name: int | str) -> np.random.Generator:
    """Returns a NumPy generator of the stream with this name."""
    return np.random.default_rng(stream_seed(*name))


def torch_stream(*name: int | str) -> "torch.Generator":
    """Returns a torch generator, on the CPU, of the stream with this name."""
    import torch

    return torch.Generator().manual_seed(stream_seed(*name))
