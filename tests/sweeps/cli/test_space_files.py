"""The command with a search space from a file: its copy, and `--resume`."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from results.sweep import load_sweep
from tests.scripts import ROOT

SPACE = """\
from enum import StrEnum

from search_spaces.presets import bert_and_beyond
from search_spaces.space import SearchSpace


class Mode(StrEnum):
    PAPER = "paper"
    RANDOM = "random"


def settings():
    return {"encoder.max_length": 32, "smart.weight": 1.0, "stages": [{"tasks": ["sst"], "steps_per_epoch": 3}]}


SPACE = SearchSpace(
    name="modes",
    question="Which mode?",
    base=bert_and_beyond().override(settings()),
    grid={"smart.mode": (Mode.PAPER, Mode.RANDOM)},
)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "elsewhere" / "question.py"
    path.parent.mkdir()
    path.write_text(SPACE)
    return path


@pytest.fixture
def command(file: Path, tiny_folder: Path, tiny_encoder_folder: Path, tmp_path: Path) -> list[str]:
    """Arguments of a small sweep over the space in the file."""
    places = ["--data", str(tiny_folder), "--encoder", str(tiny_encoder_folder), "--storage", str(tmp_path / "storage")]
    return ["--space", str(file), *places]


@pytest.mark.slow
@pytest.mark.ray
def test_workers_need_no_file(command: list[str], file: Path, tmp_path: Path) -> None:
    """The file is deleted once the sweep has its copy, before a worker starts."""
    script = [sys.executable, str(ROOT / "sweeps" / "run.py"), *command, "--name", "mine"]
    folder = tmp_path / "storage" / "mine"
    process = subprocess.Popen(script, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (folder / "sweep.json").exists():
        time.sleep(0.05)
    file.unlink()
    output, errors = process.communicate(timeout=280)
    assert process.returncode == 0, output + errors
    trials = load_sweep(folder).trials
    assert trials["status"].tolist() == ["complete"] * 2
    assert sorted(trials["smart.mode"]) == ["paper", "random"]
    resumed = subprocess.run([*script[:2], "--resume", str(folder)], capture_output=True, text=True, timeout=280)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "All 2 trials have ended" in resumed.stdout
