"""Whether a machine multiplies bf16 numbers in hardware, which decides what `precision=auto` is."""

import subprocess

import torch

from mtlib.runtime.environment import processor_fields

CPU_FEATURES = frozenset({"amx_bf16", "avx512_bf16"})
"""Features, in /proc/cpuinfo, of processors with an instruction for products of bf16 numbers."""
GPU_CAPABILITY = 8.0
"""CUDA's compute capability from which on NVIDIA GPUs have it."""


def has_bf16(*, on_gpu: bool) -> bool:
    """Returns whether the processor of this machine, or with `on_gpu` every GPU,
    multiplies bf16 numbers in hardware."""
    return gpus_have_bf16() if on_gpu else not CPU_FEATURES.isdisjoint(processor_fields().get("features", "").split())


def gpus_have_bf16() -> bool:
    """Returns whether all GPUs of this machine multiply bf16 numbers in hardware; False if there is none.

    By nvidia-smi where it is: opening a GPU here would take memory from the trials.
    """
    command = ("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")
    try:
        lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.split()
        return bool(lines) and all(float(line) >= GPU_CAPABILITY for line in lines)
    except (OSError, subprocess.SubprocessError, ValueError):
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
