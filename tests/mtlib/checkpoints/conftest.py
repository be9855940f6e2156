"""Folders for states and weights, empty and filled."""

from pathlib import Path

import pytest

from mtlib.checkpoints.state import StateFolder
from tests.mtlib.checkpoints.kept_files import fill


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    return StateFolder(path=tmp_path / "trial")


@pytest.fixture
def any_folder(location: str) -> StateFolder:
    """On a disk and in a bucket."""
    return StateFolder(path=location)


@pytest.fixture
def filled(folder: StateFolder) -> dict[str, bytes]:
    return fill(folder)
