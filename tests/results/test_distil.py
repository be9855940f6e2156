"""The command that distils: from a sweep to its students and the verdict, and one line for any mistake."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from results import distil
from results.distil import main
from results.sweep import load_sweep
from tests.one_line_error import one_line_exit
from tests.scripts import ROOT


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "SWEEP must name the folder of a sweep"),
        (["{folder}", "--unlabelled", "texts.txt"], "--unlabelled must be TASK=FILE"),
        (["{folder}", "--unlabelled", "sts=texts.csv#one"], "--unlabelled must name 2 columns for sts"),
        (["{folder}", "--unlabelled", "sst=nowhere.csv"], "--unlabelled must be a readable file, got nowhere.csv"),
        (["{folder}", "--unlabelled", "sst=texts.doc"], "--unlabelled must end in .csv"),
        (["{folder}", "--unlabelled", "tone=texts.csv"], "unknown task of the selection 'tone'"),
        (["{folder}", "--student", "./nowhere"], "--student must be a hub name or a folder that exists"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str], message: str, trained_folder: Path, tiny_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [word.format(folder=trained_folder) for word in words]
    assert message in one_line_exit(main, capsys, *given, *(["--data", tiny_folder] if given else []))


def test_a_sweep_without_ensembles_is_refused(
    trained_folder: Path, tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(trained_folder, tmp_path / "mine")
    (copy / "selection.json").unlink()
    assert "results/selector.py" in one_line_exit(main, capsys, copy, "--data", tiny_folder)


def test_the_command_for_held_out_rows_keeps_the_flags(
    trained_folder: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them it would score other students."""
    words = [str(trained_folder), "--student", str(tiny_folder), "--name", "mine", "--data", str(tiny_folder)]
    config = distil.best_config(str(trained_folder)).override({"data.hold_out": 0.1})
    monkeypatch.setattr(distil, "best_config", lambda _: config)
    monkeypatch.setattr(distil, "load_sweep", lambda _: None)
    monkeypatch.setattr(distil, "distillation_lines", lambda *_, **__: [])
    lines = distil.outcome_lines(distil.read_request(words), words)
    assert f"    python results/distil.py --score-hold-out {shlex.join(words)}" in lines


def run(script: str, *words: object) -> str:
    """The output of a command that succeeds."""
    command = [sys.executable, str(ROOT / script), *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_ensembles_of_the_demonstration_become_one_model(tmp_path: Path) -> None:
    storage, sweep = tmp_path / "storage", tmp_path / "storage" / "mine"
    words = ("--space", "smart_lambda", "--hold-out", 0.1, "--storage", storage, "--name", "mine")
    run("sweeps/run.py", *words, "--set", "stages.0.epochs=2")
    run("results/selector.py", sweep)
    texts = tmp_path / "more.csv"
    pd.DataFrame({"sentence": [f"a film number {number}" for number in range(30)]}).to_csv(texts, index=False)
    arguments = (sweep, "--unlabelled", f"sst={texts}", "--replicates", 2)
    first = run("results/distil.py", *arguments)
    again = run("results/distil.py", *arguments, "--score-hold-out")
    assert "best single model" in first
    assert "On held-out rows" not in first
    assert "On held-out rows" in again
    students = load_sweep(storage / "mine-students")
    assert sorted(students.trials["student"].unique()) == ["both", "teacher"]
    assert (students.trials["status"] == "complete").all()
    curves = students.curves
    taught = curves[(curves["metric"] == "distillation") & (curves["task"] == "sst")]
    assert (taught["value"] > 0).all()
