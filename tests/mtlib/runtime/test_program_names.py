"""Commands by the names that the user types: scripts as they are, or those of the one command for all."""

import sys
from pathlib import Path

import pytest

from mtlib.runtime.program_names import SCRIPTS, as_typed, console_program

TEXT = "python sweeps/run.py --resume A, python results/selector.py; python my-bundle/predict.py"


@pytest.mark.parametrize("started", ["sweeps/run.py", "/usr/bin/pytest", "-c", "", "my/__main__.py"])
def test_scripts_keep_their_names(started: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [started])
    assert console_program() is None
    assert as_typed(TEXT) == TEXT


@pytest.mark.parametrize(
    ("started", "program"),
    [
        ("/usr/bin/multitask-sweeps", "multitask-sweeps"),
        ("C/multitask-sweeps.exe", "multitask-sweeps"),
        ("/lib/sweeps/__main__.py", "python -m sweeps"),
    ],
)
def test_the_one_command_names_itself(started: str, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [started, "run"])
    assert console_program() == program
    assert as_typed(TEXT) == f"{program} run --resume A, {program} select; python my-bundle/predict.py"
    assert as_typed("ray job submit -- python sweeps/run.py") == "ray job submit -- python sweeps/run.py"


def test_every_script_exists() -> None:
    root = Path(__file__).resolve().parents[3]
    assert all((root / script).is_file() for script in SCRIPTS.values())
