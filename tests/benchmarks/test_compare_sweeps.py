"""Two folders of sweeps are compared to the last digit, except for what the machine and the time decide."""

import json
import sys
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.compare_sweeps import main

TRIALS = {"trial": ["0000-r0", "0001-r0"], "seed": [1, 2], "wall_seconds": [3.0, 4.0], "host": ["one", "one"]}
CURVES = {"trial": ["0000-r0"] * 2, "epoch": [1, 2], "task": ["sst"] * 2, "value": [0.5, float("nan")]}
SELECTION = {"created": "2026", "tasks": {"sst": {"members": [{"trial": "0000-r0", "weight": 1.0}]}}}


def write_records(folder: Path) -> Path:
    folder.mkdir(parents=True)
    pd.DataFrame(TRIALS).to_parquet(folder / "trials.parquet")
    pd.DataFrame(CURVES).to_parquet(folder / "curves.parquet")
    (folder / "selection.json").write_text(json.dumps(SELECTION))
    return folder


@pytest.fixture
def sweeps(tmp_path: Path) -> tuple[Path, Path]:
    write_records(tmp_path / "before" / "one"), write_records(tmp_path / "after" / "one")
    return tmp_path / "before", tmp_path / "after"


def compare(sweeps: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["compare_sweeps.py", *map(str, sweeps)])
    return main()


def test_times_hosts_and_order_of_rows_are_not_compared(
    sweeps: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = pd.DataFrame({**TRIALS, "wall_seconds": [5.0, 6.0], "host": ["other", "other"]})
    changed[::-1].to_parquet(sweeps[1] / "one" / "trials.parquet")
    (sweeps[1] / "one" / "selection.json").write_text(json.dumps({**SELECTION, "created": "2027"}))
    assert compare(sweeps, monkeypatch) == 0
    assert "all compared files are equal" in capsys.readouterr().out


@pytest.mark.parametrize("value", [0.5 + 1e-16 * 2, None])
def test_last_digit_counts(
    sweeps: tuple[Path, Path], value: float | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pd.DataFrame({**CURVES, "value": [value, float("nan")]}).to_parquet(sweeps[1] / "one" / "curves.parquet")
    assert compare(sweeps, monkeypatch) == 1
    assert "one/curves.parquet: differs: value of {'trial': '0000-r0', 'epoch': 1, " in capsys.readouterr().out


def test_another_member_of_a_selection_is_a_difference(
    sweeps: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {"tasks": {"sst": {"members": [{"trial": "0001-r0", "weight": 1.0}]}}}
    (sweeps[1] / "one" / "selection.json").write_text(json.dumps(other))
    assert compare(sweeps, monkeypatch) == 1
    assert "tasks.sst.members.0.trial: '0000-r0' before, '0001-r0' after" in capsys.readouterr().out


def test_missing_file_is_a_difference(
    sweeps: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (sweeps[0] / "one" / "selection.json").unlink()
    assert compare(sweeps, monkeypatch) == 1
    assert "selection.json: differs: there is no" in capsys.readouterr().out


def test_hidden_folders_are_not_compared(sweeps: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    write_records(sweeps[0] / ".cache" / "stages")
    assert compare(sweeps, monkeypatch) == 0


def test_folder_without_records_is_refused(
    sweeps: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit, match="2"):
        compare((sweeps[0], tmp_path / "empty"), monkeypatch)
    assert "must be a folder of sweeps, but holds no records" in capsys.readouterr().err
