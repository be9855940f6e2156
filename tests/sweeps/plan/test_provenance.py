"""The recorded origin of a sweep's numbers: revision, packages, machine."""

import subprocess
from pathlib import Path

from sweeps.plan.provenance import describe_git


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
