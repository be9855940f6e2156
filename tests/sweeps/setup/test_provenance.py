"""The recorded origin of a sweep's numbers: revision, packages, machine, command."""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
import torch

from mtlib.runtime.environment import versions_of
from sweeps.setup.provenance import PACKAGES, command_line, describe_git, describe_machine


def git(folder: Path, *arguments: str) -> str:
    author = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = subprocess.run(("git", *author, *arguments), cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_checkout_is_named_by_its_revision(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "a.txt").write_text("one")
    git(tmp_path, "add", "a.txt")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    revision = git(tmp_path, "rev-parse", "HEAD")
    assert describe_git(tmp_path) == {"revision": revision, "is_changed": False}
    (tmp_path / "a.txt").write_text("two")
    assert describe_git(tmp_path) == {"revision": revision, "is_changed": True}


def test_folder_inside_another_checkout_is_no_checkout(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "copy").mkdir()
    assert describe_git(tmp_path / "copy") is None


def test_without_git_or_a_commit_there_is_no_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "--quiet")
    assert describe_git(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert describe_git(tmp_path) is None


def test_package_versions_are_the_installed_ones() -> None:
    versions = versions_of(PACKAGES)
    assert versions["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert {"ray", "optuna", "transformers", "numpy"} <= set(versions)


def test_machine_is_plain_data() -> None:
    machine = describe_machine()
    assert json.loads(json.dumps(machine)) == machine
    assert machine["num_cpus"] == os.cpu_count()
    total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
    assert machine["memory_bytes"] == int(total.split()[1]) * 1024
    assert machine["processor"]


def test_command_line_can_be_typed_again() -> None:
    arguments = ["--space", "s", "--set", "a=b c"]
    command = command_line(arguments)
    assert command == "python sweeps/run.py --space s --set 'a=b c'"
    assert shlex.split(command)[2:] == arguments
