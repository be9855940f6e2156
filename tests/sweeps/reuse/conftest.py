"""An empty stage store."""

from pathlib import Path

import pytest

from sweeps.reuse.stage_store import StageStore


@pytest.fixture
def store(tmp_path: Path) -> StageStore:
    return StageStore(folder=tmp_path / "storage" / "stages", keep_bytes=10**9)
