"""Commands as the user of a process types them; a script imports from the project's folder, and from no other."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from mtlib.runtime.program_names import COMMANDS, PROJECT_FOLDER, import_from_project, typed_command
from tests.scripts import run_process


@pytest.mark.parametrize(
    ("started", "here", "elsewhere"),
    [
        ("sweeps/run.py", "python results/selector.py", "python -m sweeps select"),
        ("my/__main__.py", "python results/selector.py", "python -m sweeps select"),
        ("/usr/bin/multitask-sweeps", "multitask-sweeps select", "multitask-sweeps select"),
        ("/lib/sweeps/__main__.py", "python -m sweeps select", "python -m sweeps select"),
    ],
)
def test_a_command_is_typed_as_the_process_was_started(
    started: str, here: str, elsewhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [started, "run"])
    monkeypatch.chdir(PROJECT_FOLDER)
    assert typed_command("select") == here
    monkeypatch.chdir(tmp_path)
    assert typed_command("select") == elsewhere


@pytest.mark.parametrize("name", COMMANDS)
def test_files_beside_a_script_hide_no_module(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script = PROJECT_FOLDER / COMMANDS[name][0]
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setattr(sys, "path", [str(script.parent), "/other"])
    import_from_project()
    assert sys.path == [str(PROJECT_FOLDER), "/other"]


@pytest.mark.parametrize("program", ["/mine/results/table.py", str(PROJECT_FOLDER / "benchmarks" / "selection.py")])
def test_other_programs_keep_their_path(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [program])
    monkeypatch.setattr(sys, "path", [str(Path(program).parent)])
    import_from_project()
    assert sys.path == [str(Path(program).parent)]


@pytest.mark.parametrize("name", ["run", "table"])
def test_script_of_another_checkout_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    other = tmp_path / "other checkout"
    script = other / COMMANDS[name][0]
    shutil.copytree(PROJECT_FOLDER / script.parent.name, script.parent)
    (other / "mtlib").mkdir()
    done = run_process([str(script), "--help"], tmp_path, {**os.environ, "PYTHONPATH": str(PROJECT_FOLDER)})
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: {script} must run with the packages beside it (pip install -e '{other}'), "
        f"got the installed ones of {PROJECT_FOLDER}\n"
    )
