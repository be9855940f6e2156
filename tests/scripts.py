"""Runs commands in separate processes and records the heavy packages that they load."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("ray", "torch", "transformers", "optuna")

RECORD_PACKAGES = f"""
import atexit, os, sys

def write():
    with open(os.environ["HEAVY_PACKAGES_FILE"], "w") as file:
        print(*{{*{HEAVY!r}}} & {{*sys.modules}}, file=file)

atexit.register(write)
"""
"""A `sitecustomize.py`, which Python imports when it starts."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A process that has ended."""

    code: int
    stdout: str
    stderr: str
    heavy_packages: set[str]
    """Packages of `HEAVY` that it has loaded."""


def run_process(words: Sequence[str], folder: Path, environment: Mapping[str, str] = os.environ) -> Finished:
    """Runs a Python process in some folder, as users do."""
    with tempfile.TemporaryDirectory() as place:
        Path(place, "sitecustomize.py").write_text(RECORD_PACKAGES)
        record = Path(place, "packages")
        paths = os.pathsep.join([place, *filter(None, [environment.get("PYTHONPATH")])])
        environment = {**environment, "PYTHONPATH": paths, "HEAVY_PACKAGES_FILE": str(record)}
        command = [sys.executable, *words]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=folder, env=environment, timeout=120, check=False
        )
        packages = set(record.read_text().split())
    return Finished(code=done.returncode, stdout=done.stdout, stderr=done.stderr, heavy_packages=packages)


def run_script(script: str, words: Sequence[str], folder: Path) -> str:
    """Output of `python <script> <words>` in some folder; it must load nothing heavy and print no error."""
    done = run_process([str(ROOT / script), *words], folder)
    assert (done.code, done.stderr, done.heavy_packages) == (0, "", set())
    return done.stdout
