"""Counts over sweeps and the figure of calibration, from measured rows."""

import sys
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.held_out_ensembles import agrees, calibration_figure, main, print_frame, summary_lines
from results.records.trials import write_sweep
from tests.results.figures.conftest import panels_of


def row_of(sweep: str, task: str, models: int, expected: float, held_out: float, lead: float) -> dict[str, object]:
    values = {"expected": expected, "held_out": held_out, "expected_lead": 0.01, "held_out_lead": lead}
    bounds = {f"{name}_low": value - 0.02 for name, value in values.items()}
    bounds |= {f"{name}_high": value + 0.02 for name, value in values.items()}
    errors = {"expected_error": 0.003, "held_out_error": 0.004}  # of the difference: .005
    return {"sweep": sweep, "task": task, "method": "greedy", "models": models, **values, **bounds, **errors}


@pytest.fixture(name="found")
def fixture_found() -> pd.DataFrame:
    return pd.DataFrame(
        [
            row_of("a", "SST", 3, 0.50, 0.509, 0.02),
            row_of("a", "QQP", 1, 0.80, 0.811, 0.0),
            row_of("b", "SST", 2, 0.52, 0.50, -0.01),
        ]
    )


def test_scores_agree_within_the_error_of_their_difference(found: pd.DataFrame) -> None:
    assert agrees(found).tolist() == [True, False, False]


def test_summary_counts_ensembles_only_as_better(found: pd.DataFrame) -> None:
    choices, better, agree = summary_lines(found)
    assert choices == "3 choices, 2 of them of more than one model"
    assert better.startswith("Of these 1 were better")
    assert "+0.0050 ± 0.0150" in better
    assert agree.startswith("Held-out scores agree with the expected ones in 1 of 3; on average they are +0.0000")


def test_figure_has_a_panel_per_task_and_a_sign_per_sweep(found: pd.DataFrame) -> None:
    panels = panels_of(calibration_figure(found))
    assert [(panel.title, [trace["name"] for trace in panel.traces]) for panel in panels] == [
        ("SST", ["equal", "a", "b"]),
        ("QQP", ["equal", "a"]),
    ]


def test_table_names_score_and_interval(found: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    print_frame(found)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert "0.509 (0.489 to 0.529)" in lines[1]


def test_a_missing_sweep_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["held_out_ensembles.py", str(tmp_path / "none"), "--output", str(tmp_path)])
    assert main() == 2
    assert capsys.readouterr().err == f"error: {tmp_path / 'none'} is no sweep folder: it does not exist\n"


def test_a_sweep_without_held_out_rows_is_one_line_before_anything_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = tmp_path / "mine"
    write_sweep(sweep, {"name": "mine"})
    monkeypatch.setattr(sys, "argv", ["held_out_ensembles.py", str(sweep), "--output", str(tmp_path / "found")])
    assert main() == 2
    rule = "a sweep must have been run with --hold-out F to be scored on held-out rows"
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"error: {rule}; {sweep} has no hold_out.json\n")
