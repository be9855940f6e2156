"""What a trial's numbers follow from beside configuration and data: sources, libraries, device, workers and threads."""

import functools
import hashlib
import importlib.metadata
import platform
from pathlib import Path
from typing import Any

import torch

from mtlib.workers import num_workers

LIBRARIES = (
    *("numpy", "qpsolvers", "quadprog", "safetensors", "scipy"),
    *("tokenizers", "torch", "torchjd", "transformers"),
)
"""Whose versions can change a trained weight or a score."""


def describe_environment(device: torch.device | str) -> dict[str, Any]:
    """What must be equal for two trainings of one configuration to be equal bit for bit.

    Args:
        device: where this worker trains.

    Returns:
        Plain data: a hash of this package's sources, versions of libraries, the device with what decides which kernels
        it runs, the number of workers and of threads of each.
    """
    return {
        "sources": sources_hash(),
        "libraries": library_versions(),
        "device": describe_device(torch.device(device)),
        "num_workers": num_workers(),
        "num_threads": torch.get_num_threads(),
    }


@functools.cache
def sources_hash() -> str:
    """SHA-256, in hexadecimal, of every source file of this package."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


@functools.cache
def library_versions() -> dict[str, str]:
    """Versions of `LIBRARIES`; those that are not installed are left out."""
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def describe_device(device: torch.device) -> dict[str, Any]:
    """A device, with its model and the versions of what runs on it."""
    if device.type == "cuda":
        versions = {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}  # type: ignore[no-untyped-call]
        return {"type": "cuda", "model": torch.cuda.get_device_name(device), **versions}
    return {"type": device.type, "model": processor_name(), "kernels": torch.backends.cpu.get_cpu_capability()}


@functools.cache
def processor_name() -> str:
    """The processor's model where the system tells it, else its architecture."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
