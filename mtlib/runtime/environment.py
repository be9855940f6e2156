"""The environment that a trial's numbers depend on: sources, libraries, device, workers and threads."""

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

import mtlib
from mtlib.runtime.errors import require
from mtlib.runtime.source_code import parsed_code
from mtlib.runtime.workers import gather_from_workers, num_workers

LIBRARIES = (
    *("clarabel", "cvxpy", "numpy", "qpsolvers", "quadprog", "safetensors", "scikit-learn", "scipy"),
    *("tokenizers", "torch", "torchjd", "transformers"),
)
"""Libraries whose versions can change a trained weight or a score."""

WITHOUT_EFFECT = (
    *("demo/*.py", "checkpoints/model_card.py", "checkpoints/export.py", "runtime/command_line.py"),
    *("runtime/console.py", "runtime/program_names.py", "runtime/bf16.py", "data/files/suggestions.py"),
    *(
        "data/proposals/*.py",
        "training/preflight.py",
        "training/micro_batches.py",
        "checkpoints/onnx_files.py",
        "model/repeated_words.py",
    ),
)
"""Source files that cannot change a trained number. Data and encoder of the demonstration have their own hashes; the
precision, on which `runtime/bf16.py` decides, and the size of micro-batches are part of the configuration, which is
hashed."""

PROCESSOR_FACTS = (
    *("vendor_id", "cpu family", "model", "model name", "stepping"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision"),
)
"""Fields of /proc/cpuinfo that identify a processor, x86 and ARM."""
KERNEL_SETTINGS = (
    "ATEN_CPU_CAPABILITY",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
)
"""Environment variables that select CPU kernels."""


def describe_environment(device: torch.device | str) -> dict[str, Any]:
    """Returns what must be equal for two trainings of one configuration to be equal bit for bit; a collective call.

    Returns:
        JSON data, the same on every worker: the number of workers, and of each (of one, if all are alike) a hash of
        this package's sources, versions of libraries, the device with what selects its kernels, and threads.
    """
    worker = {
        "sources": sources_hash(),
        "libraries": library_versions(),
        "device": describe_device(torch.device(device)),
        "num_threads": torch.get_num_threads(),
    }
    workers = gather_from_workers(worker)
    are_alike = all(other == worker for other in workers)
    return {"num_workers": num_workers(), "workers": workers[:1] if are_alike else workers}


@functools.cache
def sources_hash() -> str:
    """SHA-256, in hexadecimal, of the names and the code of the source files that can change a trained number."""
    digest, package = hashlib.sha256(), Path(mtlib.__file__).parent
    for path in training_sources(package):
        digest.update(f"{path}\0{parsed_code((package / path).read_bytes())}\0".encode())
    return digest.hexdigest()


def training_sources(package: Path) -> list[str]:
    """Source files of the package that can change a trained number, in all its folders, by path relative to it."""
    paths = {path.relative_to(package) for path in package.rglob("*.py")}
    return sorted(path.as_posix() for path in paths if not any(map(path.match, WITHOUT_EFFECT)))


@functools.cache
def library_versions() -> dict[str, str]:
    """Versions of `LIBRARIES`; those that are not installed are left out."""
    return versions_of(LIBRARIES)


def versions_of(names: Iterable[str]) -> dict[str, str]:
    """Versions of packages; those that are not installed are left out."""
    versions = {}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def choose_device(name: str) -> torch.device:
    """Returns the device for `auto`, `cpu` or `cuda`; ValueError if there is none of that kind."""
    has_gpu = torch.cuda.is_available()
    require(name != "cuda" or has_gpu, "--device cuda needs a GPU that torch can use", "none")
    return torch.device("cuda" if has_gpu and name != "cpu" else "cpu")


def describe_device(device: torch.device) -> dict[str, Any]:
    """Returns a device with its model, and the libraries or kernels that run on it."""
    if device.type == "cuda":
        versions = {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}  # type: ignore[no-untyped-call]
        return {"type": "cuda", "model": torch.cuda.get_device_name(device), **versions}
    kernels = {name: os.environ[name] for name in KERNEL_SETTINGS if name in os.environ}
    kernels["capability"] = torch.backends.cpu.get_cpu_capability()
    return {"type": device.type, "model": describe_processor(), "kernels": kernels}


@functools.cache
def describe_processor() -> dict[str, str]:
    """Returns the processor from /proc/cpuinfo with a hash of its features, else its architecture."""
    fields = processor_fields()
    found = {name: fields[name] for name in PROCESSOR_FACTS if name in fields}
    if fields.get("features"):
        found["features"] = hashlib.sha256(fields["features"].encode()).hexdigest()
    return found or {"architecture": platform.processor() or platform.machine()}


@functools.cache
def processor_fields() -> dict[str, str]:
    """Returns what /proc/cpuinfo says of the first processor, with its `features`;
    empty where there is no such file."""
    information = Path("/proc/cpuinfo")
    first = information.read_text().partition("\n\n")[0].splitlines() if information.exists() else []
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first)}
    features = fields.get("flags") or fields.get("Features")
    return fields | ({"features": features} if features else {})
