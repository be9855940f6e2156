"""The next commands, as they are typed from where the user is."""

from pathlib import Path

import pytest

from mtlib.runtime.program_names import PROJECT_FOLDER
from results.answers.next_commands import resume_command, selector_command


def test_commands_take_any_folder_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT_FOLDER)
    assert resume_command(Path("/my sweeps/first")) == "python sweeps/run.py --resume '/my sweeps/first'"
    monkeypatch.chdir(tmp_path)
    assert selector_command("mine") == f"python -m sweeps select {tmp_path}/mine"
