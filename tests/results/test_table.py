"""A sweep is read into pandas without Ray or torch, from a folder or a URI, and ranked by one command."""

import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from results.answers.answer_data import ANSWER_FILE, write_answer
from results.answers.next_commands import resume_command
from results.records.tables import write_caches
from results.records.trials import read_sweep, write_sweep
from results.sweep import Sweep, load_sweep
from results.table import main, print_ranking
from tests.one_line_error import one_line_exit
from tests.results.test_sweep import record_search, stop_last_trial
from tests.scripts import ROOT

SCRIPT = ROOT / "results" / "table.py"

REFUSING = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"ray", "torch", "transformers", "optuna"}:
            raise ImportError(f"{name} is refused")

sys.meta_path.insert(0, Refuse())
from results.table import load_sweep, print_ranking
sweep = load_sweep(sys.argv[1])
print(len(sweep.trials), len(sweep.predictions("sst", "dev")), len(sweep.ranking()))
print_ranking(sweep)
"""


def run(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=folder, timeout=120)


@pytest.mark.parametrize(("status", "shown"), [("running", "interrupted"), ("queued", "queued")])
def test_killed_sweep_shows_when_it_stopped_and_how_to_resume(
    sweep_folder: Path, status: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    since = stop_last_trial(sweep_folder, status)
    sweep = load_sweep(sweep_folder)
    assert sweep.stopped_at is not None
    assert sweep.stopped_at.timestamp() == since
    assert (sweep.records[-1].status, sweep.trials["status"].iloc[-1]) == (shown, shown)
    print_ranking(sweep)
    first, when, command, *_ = capsys.readouterr().out.splitlines()
    assert first.endswith(f"1 {shown} (2 of 3 trials ended)")
    assert (when, command) == ("Stopped at 2025-03-04 04:12. To continue:", f"  {resume_command(sweep_folder)}")


def test_limit_that_stopped_a_sweep_is_shown_with_the_command_that_goes_on(
    sweep_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    info = {"options": {"search": "grid", "replicates": 3}, "num_configurations": 3, "stopped_by": "--max-hours 2"}
    write_sweep(sweep_folder, {**read_sweep(sweep_folder), **info})
    stop_last_trial(sweep_folder, "complete")
    print_ranking(load_sweep(sweep_folder))
    first, stopped, command, *_ = capsys.readouterr().out.splitlines()
    assert first.endswith("3 complete, 6 queued (3 of 9 trials ended)")
    assert stopped.endswith(" by --max-hours 2. To continue:")
    assert command == f"  {resume_command(sweep_folder)}"


def test_new_sweep_is_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_sweep(tmp_path, {"name": "new"})
    sweep = load_sweep(tmp_path)
    assert (len(sweep.trials), len(sweep.curves), len(sweep.ranking())) == (0, 0, 0)
    assert main([str(tmp_path)]) == 0
    assert "No trials yet." in capsys.readouterr().out


def test_ranking_is_equal_before_and_after_caches_are_written(sweep_folder: Path) -> None:
    before = load_sweep(sweep_folder).ranking()
    write_caches(sweep_folder, [])
    pd.testing.assert_frame_equal(load_sweep(sweep_folder).ranking(), before)
    assert before["number"].tolist() == [1, 0, 2], "the best one has not finished"


def test_sweep_is_ranked_without_ray_torch_transformers_and_optuna(sweep_folder: Path) -> None:
    done = run("-c", REFUSING, str(sweep_folder))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 360 3\n")
    assert "SST dev" in done.stdout


def test_script_runs_from_any_folder(sweep_folder: Path, tmp_path: Path) -> None:
    done = run(str(SCRIPT), "sweep", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Trials in sweep: 2 complete, 1 running")
    assert max(map(len, lines)) <= 100
    assert "\x1b" not in done.stdout
    done = run("-m", "results.table", str(sweep_folder), "--csv")
    frame = pd.read_csv(io.StringIO(done.stdout))
    np.testing.assert_array_equal(frame["overall"], load_sweep(sweep_folder).ranking()["overall"])


def test_answer_precedes_the_ranking(sweep_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_search(sweep_folder)
    stop_last_trial(sweep_folder, "complete")
    assert main([str(sweep_folder)]) == 0
    output = capsys.readouterr().out
    lines = output.splitlines()
    assert lines[2] == "How strongly?"
    assert lines[3].startswith("Not known: no configuration was trained twice.")
    assert f"--resume {sweep_folder} --replicates 3" in " ".join(output.split())


def test_json_is_what_the_file_in_the_folder_has(recorded_sweep: Sweep, capsys: pytest.CaptureFixture[str]) -> None:
    write_answer(recorded_sweep.path, recorded_sweep.answer_data())
    assert main([str(recorded_sweep.path), "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == json.loads(Path(recorded_sweep.path, ANSWER_FILE).read_text())
    assert printed.err == ""


def test_json_of_a_sweep_that_has_just_begun_says_that_nothing_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_sweep(tmp_path, {"name": "new"})
    assert main([str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["effects"], found["claim"]) == ([], None)
    assert found["found"]


@pytest.mark.parametrize("words", [["--csv"], ["--effects"], ["--difference", "0.01"], ["--csv", "--effects"]])
def test_json_is_printed_alone(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert one_line_exit(main, capsys, "SWEEP", "--json", *words).startswith("--json must be given alone")


@pytest.mark.parametrize("words", [["--spreadsheet-safe"], ["--base", "smart.weight=1"]])
def test_flags_of_other_tables_are_refused_with_json(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert one_line_exit(main, capsys, "SWEEP", "--json", *words)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--difference", "0"], "--difference must be above 0, got 0.0"),
        (["--difference", "1", "--csv"], "--difference must not be given with --csv, got both"),
    ],
)
def test_difference_is_above_zero(words: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["SWEEP", *words]) == 2
    assert error in capsys.readouterr().err


def test_effects_are_printed_as_tables_and_as_csv(sweep_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_search(sweep_folder)
    assert main([str(sweep_folder), "--effects"]) == 0
    text = capsys.readouterr().out
    assert "smart.weight\nvalue" in text
    assert main([str(sweep_folder), "--effects", "--csv"]) == 0
    frame = pd.read_csv(io.StringIO(capsys.readouterr().out))
    expected = load_sweep(sweep_folder).effects()
    assert frame["mean"].tolist() == pytest.approx(expected["mean"].tolist(), rel=1e-12)
    assert sorted(set(frame["task"])) == ["overall", "qqp", "sst", "sts"]


def test_effects_are_differences_from_any_base_value(recorded_sweep: Sweep, capsys: pytest.CaptureFixture[str]) -> None:
    def overall(frame: pd.DataFrame, value: float, column: str) -> float:
        return float(frame[(frame["task"] == "overall") & (frame["value"] == value)][column].iloc[0])

    assert main([str(recorded_sweep.path), "--effects", "--csv", "--base", "smart.weight=1"]) == 0
    turned = pd.read_csv(io.StringIO(capsys.readouterr().out))
    usual = recorded_sweep.effects()
    assert overall(turned, 0.0, "difference") == pytest.approx(-overall(usual, 1.0, "difference"))
    assert overall(turned, 0.0, "mean") == overall(usual, 0.0, "mean")
    assert turned[turned["is_base"].astype(bool)]["value"].unique().tolist() == [1.0]
    assert main(["--effects", "--base", "smart.weight=1.0", str(recorded_sweep.path)]) == 0
    text = capsys.readouterr().out
    assert "difference from the given value (smart.weight 1);" in " ".join(text.split())


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--base", "smart.weight=1"], "--base must be given with --effects, got smart.weight=1"),
        (["--effects", "--base", "1"], "--base must be KEY=VALUE, e.g. smart.weight=0.45, got '1'"),
        (
            ["--effects", "--base", "smart.weight=2"],
            "the base value of smart.weight must be one that a finished trial has, got '2'; ",
        ),
        (["--effects", "--base", "smart.wait=1"], "unknown searched key 'smart.wait'; did you mean 'smart.weight'?"),
    ],
)
def test_wrong_base_value_is_one_line(
    words: list[str], error: str, recorded_sweep: Sweep, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(recorded_sweep.path), *words]) == 2
    assert error in capsys.readouterr().err


def test_vanishing_penalty_is_mentioned(sweep_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = load_sweep(sweep_folder)
    print_ranking(sweep)
    assert "numerically nothing" not in capsys.readouterr().out
    losses = sweep.curves[(sweep.curves["metric"] == "loss") & (sweep.curves["trial"] == "0001-r0")]
    penalties = losses[losses["task"] == "sst"].assign(metric="smart_penalty", value=2.6e-7)
    assert len(penalties) == 2
    print_ranking(replace(sweep, curves=pd.concat([sweep.curves, penalties])))
    printed = " ".join(capsys.readouterr().out.split())
    assert "The SMART penalty on SST is numerically nothing" in printed
    assert "0001-r0 2.6e-07" in printed


def test_invalid_sweep_folder_is_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"error: {tmp_path} is no sweep folder: it has no sweep.json\n"


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        ([], "SWEEP must name the folder of a sweep"),
        (["a", "b"], "every value must follow its flag, got 'b'"),
        (["a", "--cvs"], "unknown flag '--cvs'; did you mean '--csv'?"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(
    arguments: list[str], start: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: {start}")
    assert captured.err.count("\n") == 1


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    assert "python results/table.py ~/multitask-sweeps/NAME --csv > ranking.csv" in capsys.readouterr().out
