"""Peak memory of a trial in a process that trains many, and what is returned to the system after it."""

import contextlib
import ctypes
import gc
import resource
import sys
from pathlib import Path

import torch

from sweeps.cluster.gpu_shares import tensor_share

RESET_PEAK = "5"
"""Written to `clear_refs`, resets Linux's record of a process's peak resident memory (man 5 proc)."""


def reset_peak_memory(device: torch.device) -> None:
    """Starts a new measurement; where the system has none, the peak of the process's whole life is kept."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text(RESET_PEAK)


def limit_memory(device: torch.device, share: float) -> None:
    """Limits the tensors of this process to its share of a GPU, so that no other process there runs out of memory."""
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(tensor_share(share, total), device)


def release_memory() -> None:
    """Returns the memory of the trial that has ended to the system, where the C library can."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's; batches of many lengths leave gaps
    if trim is not None:
        trim(0)


def peak_memory(device: torch.device) -> int:
    """Peak bytes since the last reset: memory of the GPU, or resident memory of the process on a CPU."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
