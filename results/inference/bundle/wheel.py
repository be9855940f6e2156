"""Builds a wheel of this project from its checkout, without a network and without changing the checkout."""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mtlib.runtime.errors import require
from results.records.files import PROJECT_FOLDER

PROJECT_FILE, PROJECT = "pyproject.toml", "multitask-sweeps"
FIRST_DAY = "315532800"
"""1980-01-01 in seconds since 1970: the modification time of all files in the wheel, the earliest that zip allows."""
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
FILE_MODE, UMASK = 0o644, 0o022


def build_wheel(folder: Path, root: Path = PROJECT_FOLDER) -> str:
    """Builds the wheel of the checkout `root` into `folder`, with the setuptools of this environment.

    Returns:
        The wheel's file name. The same sources give the same bytes, as long as setuptools is the same.

    Raises:
        ValueError: in one line: `root` is no checkout of this project, or setuptools is missing or too old.
    """
    project = read_project(root)
    with tempfile.TemporaryDirectory(dir=folder) as copy:
        sources, target = Path(copy) / "sources", Path(copy) / "wheel"
        target.mkdir()
        copy_sources(root, project, sources)
        run_backend(project, sources, target)
        (wheel,) = target.glob("*.whl")
        wheel.rename(folder / wheel.name)
    return wheel.name


def read_project(root: Path) -> dict[str, Any]:
    """The content of the checkout's `pyproject.toml`; ValueError if `root` is no checkout of this project."""
    path = root / PROJECT_FILE
    project = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    rule = f"a bundle needs a checkout of {PROJECT}, of which it holds a wheel (git clone, then pip install -e)"
    require(project.get("project", {}).get("name") == PROJECT, rule, f"no {PROJECT_FILE} of it in {root}")
    return project


def copy_sources(root: Path, project: Mapping[str, Any], folder: Path) -> None:
    """Copies the packages' sources and the files that `project` names; everyone may read the copies."""
    about, include = project["project"], project["tool"]["setuptools"]["packages"]["find"]["include"]
    paths = [root / name for name in (PROJECT_FILE, about["readme"], *about["license-files"])]
    for pattern in include:
        paths += [path for package in root.glob(pattern) if package.is_dir() for path in sources_of(package, project)]
    for path in paths:
        require(path.is_file(), "a bundle needs the project's whole checkout", f"no {path}")
        target = folder / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        target.chmod(FILE_MODE)


def sources_of(package: Path, project: Mapping[str, Any]) -> Iterator[Path]:
    """The files of a package that the wheel holds: Python files, and data files that `project` names."""
    data = project["tool"]["setuptools"]["package-data"].values()
    for pattern in ("*.py", *(name for names in data for name in names)):
        yield from package.rglob(pattern)


def run_backend(project: Mapping[str, Any], sources: Path, target: Path) -> None:
    """Calls the build backend in a process of its own; ValueError with the last line of its errors if it fails."""
    command = (sys.executable, "-P", "-c", BUILD, str(target))
    environment = {**os.environ, "SOURCE_DATE_EPOCH": FIRST_DAY}
    done = subprocess.run(command, cwd=sources, env=environment, umask=UMASK, capture_output=True, text=True)
    needed = ", ".join(project["build-system"]["requires"])
    errors = [line for line in done.stderr.splitlines() if line.strip()]
    rule = f"to build a wheel of the project takes room on the disk and {needed} (pip install '{needed}')"
    require(done.returncode == 0, rule, errors[-1] if errors else f"exit code {done.returncode}")
