"""The command that writes a page: where it writes, what it reads, and what it refuses."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from mtlib.runtime.command_line import WRONG_USE
from results.report import main
from tests.results.page.recorded_sweep import write_recorded_sweep
from tests.scripts import ROOT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_recorded_sweep(tmp_path / "mine", weights=(0.3, 1.0))
    return tmp_path / "mine"


def test_page_is_written_and_its_path_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder)]) == 0
    assert capsys.readouterr().out == f"Page: {folder}/report.html\n"
    assert (folder / "report.html").is_file()


def test_output_may_be_elsewhere(folder: Path, tmp_path: Path) -> None:
    assert main([str(folder), "--output", str(tmp_path / "else")]) == 0
    assert (tmp_path / "else" / "report.html").is_file()
    assert not (folder / "report.html").exists()


@pytest.mark.parametrize("error", [ValueError, RuntimeError])
def test_a_command_without_kaleido_can_be_typed_again(
    folder: Path, tmp_path: Path, error: type[Exception], capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    failing = Mock(side_effect=error("Image export requires the Kaleido package"))
    monkeypatch.setattr("plotly.io.write_images", failing)
    words = [str(folder), "--images", "--output", str(tmp_path / "else")]
    for _ in range(2):
        assert main(words) == WRONG_USE
        assert "--images needs kaleido" in capsys.readouterr().err
    monkeypatch.setattr("plotly.io.write_images", lambda *_given, **_options: None)
    assert main(words) == 0


def test_pages_of_others_are_overwritten_on_request_only(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(folder)]) == main([str(folder)]) == 0, "the sweep's own page"
    for name, flags in (("report.html", []), ("images", ["--images"])):
        place = tmp_path / "mine-too" / name
        place.parent.mkdir()
        if flags:
            place.mkdir()
        else:
            place.write_text("mine")
        capsys.readouterr()
        words = [str(folder), "--output", str(place.parent), *flags]
        assert main(words) == WRONG_USE
        assert f"--output must be new, or be overwritten with --overwrite, got {place}" in capsys.readouterr().err
        if not flags:
            assert main([*words, "--overwrite"]) == 0
        shutil.rmtree(place.parent)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "images").symlink_to(folder)
    assert main([str(folder), "--output", str(tmp_path / "out"), "--images", "--overwrite"]) == WRONG_USE
    assert "--output must not overwrite what is read, " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "SWEEP must name the folder of a sweep"),
        (["MISSING"], "is no sweep folder"),
        (["MINE", "--data", "x"], "--data must come with --texts"),
        (["MINE", "--image"], "--images"),
        (["file:///MINE", "--images"], "--images must come with --output"),
        (["MINE", "--texts"], ""),
    ],
)
def test_mistakes_are_one_line(folder: Path, words: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([word.replace("MINE", str(folder)).replace("MISSING", f"{folder}-x") for word in words])
    printed = capsys.readouterr()
    if error:
        assert code == WRONG_USE
        assert error in printed.err
        assert printed.err.count("\n") == 1
    else:  # the data of the sweep are not there: the part says so, the page is written
        assert code == 0
        text = (folder / "report.html").read_text()
        assert "Errors on SST with their texts could not be made: " in text
        assert "SST: confusion matrix" in text


def test_help_answers_without_loading_pandas() -> None:
    code = "import sys; from results.report import build_parser; print('pandas' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
