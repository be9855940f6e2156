"""Peak memory, reset for each trial."""

import ctypes
import resource
from pathlib import Path

import pytest
import torch

from sweeps.lanes.peak_memory import peak_memory, release_memory, reset_peak_memory

MB = 2**20
CPU = torch.device("cpu")


def test_peak_includes_freed_memory() -> None:
    reset_peak_memory(CPU)
    before = peak_memory(CPU)
    block = bytearray(200 * MB)
    block[::4096] = b"x" * len(block[::4096])  # touched, so that the pages are resident
    del block
    assert peak_memory(CPU) - before > 150 * MB


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc returns memory below a block")
def test_freed_memory_below_a_block_in_use_is_returned() -> None:
    blocks = [torch.ones(16_000) for _ in range(3_000)]  # too small to have pages of their own
    last = blocks.pop()
    high = resident()
    del blocks
    release_memory()
    assert high - resident() > 150 * MB
    assert last.sum() == 16_000


def resident() -> int:
    """Bytes of this process that are in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
