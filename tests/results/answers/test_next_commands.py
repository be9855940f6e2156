"""The next commands, as they are typed from where the user is."""

import sys
from pathlib import Path

import pytest

from results.answers.next_commands import program, resume_command, selector_command
from results.records.files import PROJECT_FOLDER


def test_scripts_are_named_in_the_projects_folder_and_modules_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PROJECT_FOLDER)
    assert program("results", "table") == "python results/table.py"
    monkeypatch.chdir(tmp_path)
    assert program("results", "table") == "python -m results.table"
    assert resume_command(Path("/my sweeps/first")) == "python -m sweeps.run --resume '/my sweeps/first'"
    assert selector_command(Path("/my sweeps/first")) == "python -m results.selector '/my sweeps/first'"


def test_the_one_command_names_itself_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/multitask-sweeps", "run"])
    for folder in (PROJECT_FOLDER, tmp_path):
        monkeypatch.chdir(folder)
        assert program("results", "selector") == "multitask-sweeps select"
