"""The one command for all: it finds the others, names itself in their help, and starts fast."""

import sys
from pathlib import Path

import pytest

from mtlib.runtime.program_names import COMMANDS
from sweeps.__main__ import main
from tests.scripts import ROOT, run_process


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert text.startswith("usage: multitask-sweeps COMMAND")


def test_missing_command_prints_the_help_and_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.startswith("usage: ")) == ("", True)


def test_wrong_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tabel", "x"]) == 2
    assert capsys.readouterr().err == (
        "error: unknown command 'tabel'; did you mean 'table'? "
        "known: table, distil, export, predict, report, run, select, status\n"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command_has_the_name_that_was_typed(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/multitask-sweeps", name, "--help"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: multitask-sweeps {name} ")
    assert "python sweeps/" not in text.replace("-- python sweeps/run.py", "")
    assert "python results/" not in text


def test_mistake_keeps_the_exit_code_of_its_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["multitask-sweeps", "table", str(tmp_path)])
    assert main() == 2
    assert "is no sweep folder" in capsys.readouterr().err


def test_module_starts_without_heavy_packages(tmp_path: Path) -> None:
    done = run_process(["-P", str(ROOT / "sweeps" / "__main__.py"), "--help"], tmp_path, {"PYTHONPATH": str(ROOT)})
    assert (done.code, done.heavy_packages) == (0, set())
    assert done.stdout.startswith("usage: python -m sweeps COMMAND")
