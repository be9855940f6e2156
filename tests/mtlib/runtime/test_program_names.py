"""Commands by the names that the user types: scripts as they are, or those of the one command for all."""

import sys

import pytest

from mtlib.runtime.program_names import as_typed, console_program

TEXT = "python sweeps/run.py --resume A, python results/selector.py; python my-bundle/predict.py"


@pytest.mark.parametrize(
    ("started", "program"),
    [
        ("sweeps/run.py", None),
        ("my/__main__.py", None),
        ("/usr/bin/multitask-sweeps", "multitask-sweeps"),
        ("/lib/sweeps/__main__.py", "python -m sweeps"),
    ],
)
def test_scripts_keep_their_names_and_the_one_command_names_itself(
    started: str, program: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [started, "run"])
    assert console_program() == program
    typed = f"{program} run --resume A, {program} select; python my-bundle/predict.py" if program else TEXT
    assert as_typed(TEXT) == typed
    assert as_typed("ray job submit -- python sweeps/run.py") == "ray job submit -- python sweeps/run.py"
