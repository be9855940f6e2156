"""What is released: a wheel and an archive of the sources, built from a tag, work outside the repository."""

import os
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest

from tests.scripts import ROOT

OWN_SPACE = """\
import dataclasses
from search_spaces import orders

SPACE = dataclasses.replace(orders.SPACE, name="mine")
"""
"""A file of a user, which names a question without its folder."""


def run(*words: object, **settings: object) -> str:
    """The output of a command that must succeed."""
    command = list(map(str, words))
    done = subprocess.run(command, capture_output=True, text=True, check=False, **settings)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of the repository whose newest commit has a tag of a version."""
    folder = tmp_path_factory.mktemp("release") / "clone"
    run("git", "clone", "--quiet", ROOT, folder)
    run("git", "tag", "v7.3.1", cwd=folder)
    return folder


@pytest.mark.slow
def test_a_tag_becomes_a_wheel_that_runs_outside_the_repository(tagged: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, tagged)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith("multitask_sweeps-7.3.1-")
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", environment)
    python = environment / "bin/python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel)
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    # What it depends on is this environment's; a path in such a file does not make installations there editable.
    (Path(packages) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    settings = {"cwd": tmp_path, "env": {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": ""}}
    assert packages in run(python, "-c", "import sweeps; print(sweeps.__path__)", **settings)
    assert "7 configurations" in run(
        environment / "bin/multitask-sweeps", "run", "--space", "smart_lambda", "--dry-run", **settings
    )
    (tmp_path / "mine.py").write_text(OWN_SPACE)
    assert "12 configurations" in run(python, "-m", "sweeps.run", "--space", "mine.py", "--dry-run", **settings)
    assert "[tasks.cola]" in run(python, "-m", "mtlib.data", "--glue", **settings)


@pytest.mark.slow
def test_the_archive_of_sources_has_what_its_tests_need(tagged: Path, tmp_path: Path) -> None:
    code = "from setuptools.build_meta import build_sdist; import sys; print(build_sdist(sys.argv[1]))"
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--target",
        tmp_path / "backend",
        "setuptools>=77",
        "setuptools-scm>=8",
    )
    settings = {"cwd": tagged, "env": {**os.environ, "PYTHONPATH": str(tmp_path / "backend")}}
    run(sys.executable, "-c", code, tmp_path, **settings)
    with tarfile.open(tmp_path / "multitask_sweeps-7.3.1.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "README.md",
        "constraints.txt",
        "tests/conftest.py",
        "results/page/template/page.css",
        "docs/index.md",
    } <= names
