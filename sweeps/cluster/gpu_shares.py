"""How several workers share a GPU: how many fit, and how much of its memory each may use."""

ROUNDING_ERROR = 1e-9
"""Three workers of a third of a GPU each fit one."""
CONTEXT_BYTES = 850 * 10**6
"""Of a GPU's memory, what a process takes besides its tensors: CUDA itself and its kernels, measured on an H200."""
MEMORY_MARGIN = 1.15
"""Peak memory of a step with the longest texts, times this, is what a trial may need: blocks of other sizes stay free.
"""
MOST_PER_GPU = 8
"""Trials that share a GPU at most: so many train more together than fewer do (docs/measurements.md, "On a GPU")."""


def workers_on_gpus(available: float, share: float) -> int:
    """How many workers fit some GPUs, each with its share of a single one: with .6 of one, two fit two GPUs."""
    whole = int(available + ROUNDING_ERROR)
    return whole * int(1 / share + ROUNDING_ERROR) + int((available - whole) / share + ROUNDING_ERROR)


def trials_per_gpu(total: int, peak: int) -> int:
    """How many trials fit a GPU of `total` bytes, at least 1, if the tensors of each take at most `peak` bytes."""
    return max(1, min(MOST_PER_GPU, int(total / (MEMORY_MARGIN * peak + CONTEXT_BYTES))))


def tensor_share(share: float, total: int) -> float:
    """The part of a GPU's memory, from 0 to 1, that the tensors of a worker with a share of the GPU may take."""
    return 1.0 if share == 1 else max(0.0, share - CONTEXT_BYTES / total)
