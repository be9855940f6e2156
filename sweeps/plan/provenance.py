"""The provenance of a sweep's results, as plain data for `sweep.json`: code, package versions and machine."""

import platform
import subprocess
from pathlib import Path
from typing import Any

from mtlib.runtime.environment import LIBRARIES, describe_processor, library_versions, sources_hash
from sweeps.cluster.usable_resources import usable_cpus, usable_memory

PACKAGES = ("multitask-sweeps", "optuna", "pandas", "pyarrow", "ray", *LIBRARIES)
"""Packages whose versions `sweep.json` records."""


def describe_git(root: Path) -> dict[str, Any] | None:
    """Git revision of a checkout, and whether tracked files have changed since; None outside a checkout.

    Args:
        root: the project's folder. A checkout of another project around it does not count.
    """
    if not (root / ".git").exists():
        return None
    revision = output_of("git", "-C", str(root), "rev-parse", "HEAD")
    changes = output_of("git", "-C", str(root), "status", "--porcelain", "--untracked-files=no")
    return None if revision is None else {"revision": revision, "is_changed": bool(changes)}


def output_of(*command: str) -> str | None:
    """Returns the output of a program; None where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def describe_machine() -> dict[str, Any]:
    """Returns the machine that starts the sweep, with the CPUs and the memory that the sweep may use there."""
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "processor": describe_processor().get("model name") or platform.processor() or platform.machine(),
        "num_cpus": usable_cpus(),
        "memory_bytes": usable_memory(),
        # by nvidia-smi: opening a GPU here would take memory from the trials
        "gpus": (output_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader") or "").splitlines(),
    }


def describe_code() -> dict[str, Any]:
    """Sources and library versions, on which trained weights depend besides data and configuration."""
    return {"sources": sources_hash(), "libraries": library_versions()}
