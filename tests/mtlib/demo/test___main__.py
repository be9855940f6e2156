"""The command that writes the demonstration's data and encoder."""

import subprocess
import sys
from pathlib import Path

import pytest

from mtlib.demo.__main__ import main
from mtlib.demo.corpus import NUM_ROWS


def test_the_command_writes_both_folders_and_prints_how_to_use_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "demo")]) == 0
    output = capsys.readouterr().out
    assert f"{tmp_path / 'demo' / 'data' / 'quora-train.csv'}: {NUM_ROWS['qqp']['train']} rows" in output
    assert "--set optimizer.learning_rate=0.001" in output
    assert "--set stages.0.steps_per_epoch=60 --set stages.1.epochs=6" in output
    assert main([str(tmp_path / "demo")]) == 2
    assert "DIR must hold neither data nor encoder" in capsys.readouterr().err


def test_an_unwritable_folder_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main([str(tmp_path / "file" / "demo")]) == 2
    output = capsys.readouterr().err
    assert output.startswith("error: DIR must be a folder that can be written")
    assert output.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "DIR must name a folder"),
        (["demo", "--seed", "-1"], "--seed must be at least 0, got -1"),
        (["demo", "--seed", "x"], "--seed must be a whole number, got 'x'"),
        (["demo", "--sed", "1"], "unknown flag '--sed'; did you mean '--seed'?"),
    ],
)
def test_wrong_use_is_one_line_and_exits_with_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {message}")


def test_help_has_an_example_and_does_not_load_torch() -> None:
    code = "import sys; import mtlib.demo.__main__ as d; assert 'torch' not in sys.modules; d.main(['--help'])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "DIR/data/ids-sst-train.csv" in shown
    assert "examples:" in shown
