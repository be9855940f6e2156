"""The command that writes the demonstration's data and encoder."""

import subprocess
import sys
from pathlib import Path

import pytest

from mtlib.demo.__main__ import main
from tests.one_line_error import one_line_exit

Capture = pytest.CaptureFixture[str]


def test_the_command_writes_both_folders_and_prints_how_to_use_them(tmp_path: Path, capsys: Capture) -> None:
    assert main([str(tmp_path / "demo")]) == 0
    output = capsys.readouterr().out
    for name, num_rows in {"sst": 800, "quora": 8000, "sts": 800}.items():
        assert f"{name}-train.csv: {num_rows} rows" in output
    assert (tmp_path / "demo" / "encoder" / "config.json").is_file()
    assert "--set optimizer.learning_rate=0.001" in output
    assert "--set stages.0.steps_per_epoch=60 --set stages.1.epochs=6" in output
    for name in ("data", "encoder"):
        left = tmp_path / name
        (left / name).mkdir(parents=True)
        assert "must hold neither" in one_line_exit(main, capsys, left)


def test_wrong_use_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").write_text("")
    assert "must be a folder that can be written" in one_line_exit(main, capsys, tmp_path / "file" / "demo")


def test_help_does_not_load_torch() -> None:
    code = "import sys; import mtlib.demo.__main__ as d; assert 'torch' not in sys.modules; d.main(['--help'])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "examples:" in shown
