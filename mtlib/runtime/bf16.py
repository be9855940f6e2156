"""Whether bf16 pays on a machine, which `precision=auto` asks."""

import statistics
import subprocess
import time
from dataclasses import dataclass

import torch
from torch import nn

from mtlib.runtime.environment import processor_fields
from mtlib.runtime.threads import using_threads

CPU_FEATURES = ("amx_bf16", "avx512_bf16", "bf16")
"""Features, in /proc/cpuinfo, of processors with an instruction for products of bf16 numbers: x86, x86, ARM."""
GPU_CAPABILITY = 8.0
"""CUDA's compute capability from which on NVIDIA GPUs have it."""

BLOCK_TOKENS = 256
LEAST_ROUNDS, MOST_ROUNDS = 3, 15
SECONDS = 0.4
"""After which no further round is measured."""
LEAST_SPEEDUP = 1.3
"""Of a feed-forward block. The rest of a step, a quarter of it in fp32, is not faster in bf16."""


@dataclass(frozen=True, kw_only=True)
class Bf16Answer:
    """Whether bf16 pays, and why."""

    pays: bool
    why: str
    """What was found, in a clause."""


def does_bf16_pay(width: int, num_threads: int, *, on_gpu: bool) -> Bf16Answer:
    """Whether training in bf16 is faster than in fp32 on this machine, by its instructions and by measurement.

    Args:
        width: of the encoder's states; a feed-forward block of this width is measured on a CPU, in about half a second.
        num_threads: that train a trial.
        on_gpu: whether it is trained on a GPU. Then all GPUs of the machine count.
    """
    if on_gpu:
        pays = gpus_have_bf16()
        return Bf16Answer(pays=pays, why=f"the GPUs have {'' if pays else 'no '}instructions for it")
    if not set(processor_fields().get("features", "").split()).intersection(CPU_FEATURES):
        return Bf16Answer(pays=False, why="the processor is not known to have instructions for bf16")
    speedup = block_speedup(width, num_threads)
    pays = speedup >= LEAST_SPEEDUP
    found = f"a feed-forward block of the encoder's width is {speedup:.1f} times as fast in bf16 as in fp32"
    return Bf16Answer(pays=pays, why=found if pays else f"{found}, which is below {LEAST_SPEEDUP}")


def gpus_have_bf16() -> bool:
    """Whether all GPUs of this machine multiply bf16 numbers in hardware; False if there is none.

    By nvidia-smi where it is: opening a GPU here would take memory from the trials.
    """
    command = ("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")
    try:
        lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.split()
        return bool(lines) and all(float(line) >= GPU_CAPABILITY for line in lines)
    except (OSError, subprocess.SubprocessError, ValueError):
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)


def block_speedup(width: int, num_threads: int) -> float:
    """How many times as fast a feed-forward block of a transformer is in bf16 as in fp32, on the CPU; a median."""
    with torch.random.fork_rng(devices=[]), using_threads(num_threads):
        block = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        states = torch.randn(BLOCK_TOKENS, width, requires_grad=True)
        block_seconds(block, states, is_bf16=False), block_seconds(block, states, is_bf16=True)  # a first call is slow
        began, ratios = time.perf_counter(), list[float]()
        while len(ratios) < LEAST_ROUNDS or (len(ratios) < MOST_ROUNDS and time.perf_counter() < began + SECONDS):
            fp32, bf16 = (block_seconds(block, states, is_bf16=is_bf16) for is_bf16 in (False, True))
            ratios.append(fp32 / bf16)
    return statistics.median(ratios)


def block_seconds(block: nn.Module, states: torch.Tensor, *, is_bf16: bool) -> float:
    """Seconds of a pass forward and backward, with the casts of a training step."""
    began = time.perf_counter()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_bf16):
        output = block(states)
    torch.autograd.backward(output.float().sum())
    return time.perf_counter() - began
