"""How several workers share a GPU: how many fit, and how much of its memory each may use."""

UNITS = 10_000
"""Ray counts resources in units of 1/10,000, to which it rounds."""
CONTEXT_BYTES = 850 * 10**6
"""The memory of a GPU that a process takes besides its tensors: CUDA itself and its kernels, measured on an H200."""
MEMORY_MARGIN = 1.15
"""Peak memory of a step with the longest texts, times this, is what a trial may need: blocks of other sizes stay free.
"""
MOST_PER_GPU = 8
"""Trials that share a GPU at most: so many train more together than fewer do (docs/measurements/gpu.md)."""


def workers_on_gpus(available: float, share: float) -> int:
    """Returns how many workers fit some GPUs, each with its share of a single one: with .6 of one, two fit two GPUs."""
    whole, rest = divmod(round(available * UNITS), UNITS)
    need = round(share * UNITS)
    return whole * (UNITS // need) + rest // need


def trials_per_gpu(total: int, peak: int) -> int:
    """Returns how many trials fit a GPU of `total` bytes, at least 1,
    if the tensors of each take at most `peak` bytes."""
    return max(1, min(MOST_PER_GPU, int(total / (MEMORY_MARGIN * peak + CONTEXT_BYTES))))


def share_of(number: int) -> float:
    """Returns the share of a GPU of each of so many workers: what Ray can count, so that all of them fit."""
    return UNITS // number / UNITS


def tensor_share(share: float, total: int) -> float:
    """Returns the part of a GPU's memory, from 0 to 1,
    that the tensors of a worker with a share of the GPU may take."""
    return 1.0 if share == 1 else max(share / 2, share - CONTEXT_BYTES / total)
