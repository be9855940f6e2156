"""The example of a sweep from Python, from its training to its predictions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from results.sweep import load_sweep
from tests.scripts import ROOT


@pytest.mark.slow
@pytest.mark.ray
def test_example_runs_ranks_selects_and_predicts(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "examples" / "sweep_from_python.py")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    (folder,) = (line.partition(" ")[2] for line in lines if line.startswith("complete "))
    assert load_sweep(folder).trials["status"].tolist() == ["complete"] * 4
    assert (Path(folder) / "selection.json").exists()
    assert any(line.split()[:2] == ["prediction", "probability_0"] for line in lines)
