"""The end of a sweep: exit codes, the summary, and copies of the records."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from mtlib.runtime.program_names import PROJECT_FOLDER
from results.answers.answer_data import ANSWER_FILE
from results.ensembles.selection_method import Settings
from results.records.epochs import write_epoch
from results.records.tables import write_trials
from results.records.trials import write_sweep
from results.selection.select_all import SelectionRequest
from results.sweep import load_sweep
from sweeps.cli.summary import exit_code, finish_sweep, show_answer
from sweeps.driver.run_sweep import SweepOutcome
from sweeps.options import SweepOptions
from tests.driver_files import write_driver
from tests.results.conftest import build_record, build_report
from tests.results.selection.scored_sweep import keep_weights

Build = Callable[..., SweepOptions]


@pytest.fixture(autouse=True)
def few_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ensembles are selected with 2 folds and 1 repeat to save time."""
    request = partial(SelectionRequest, repeats=1, settings=Settings(num_folds=2))
    monkeypatch.setattr("sweeps.cli.summary.SelectionRequest", request)


@pytest.fixture
def options(tmp_path: Path) -> Build:
    def build(**changes: Any) -> SweepOptions:
        options = SweepOptions(**{"space": "smart_lambda", "name": "first", "storage": f"{tmp_path}/all", **changes})
        write_sweep(options.folder, {"name": "first"})
        return options

    return build


def outcome_with(**changes: Any) -> SweepOutcome:
    fields = {"counts": {"complete": 7}, "failures": {}, "is_interrupted": False, "error": None}
    return SweepOutcome(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"counts": {"complete": 3, "pruned": 4}}, 0),
        ({"error": "no lane is left"}, 1),
        ({"failures": {"0003-r0": "diverged"}}, 3),
        ({"is_interrupted": True}, 130),
        ({"is_interrupted": True, "failures": {"0003-r0": "diverged"}}, 130),
        ({"error": "no lane is left", "failures": {"0003-r0": "diverged"}}, 1),
        ({"limit": "--max-hours 2"}, 4),
        ({"limit": "--max-hours 2", "failures": {"0003-r0": "diverged"}}, 4),
        ({"verdict": "shown"}, 0),
        ({"verdict": "excluded"}, 5),
        ({"verdict": "open"}, 6),
        ({"verdict": "open", "failures": {"0001-r0": "diverged"}}, 3),
        ({"verdict": "excluded", "failures": {"0001-r0": "diverged"}}, 3),
        ({"verdict": "open", "limit": "--max-hours 2"}, 4),
        ({"verdict": "open", "is_interrupted": True}, 130),
        ({"verdict": "shown", "error": "no lane is left"}, 1),
        ({"verdict": "shown", "closing_errors": ("no room",)}, 1),
    ],
)
def test_exit_code_describes_the_end(changes: dict[str, Any], code: int) -> None:
    assert exit_code(outcome_with(**changes)) == code


@pytest.mark.parametrize(
    ("why", "begins"), [(None, "Interrupted (trials"), ("no node", "Interrupted: no node (trials")]
)
def test_interrupted_sweep_ends_with_the_resume_command(
    options: Build, why: str | None, begins: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(PROJECT_FOLDER)
    asked = options()
    finish_sweep(asked, outcome_with(counts={"interrupted": 1}, is_interrupted=True, interruption=why))
    *_, last, command = capsys.readouterr().err.splitlines()
    assert last == f"{begins}: 1 interrupted); no trial had finished. Continue with:"
    assert command == f"  python sweeps/run.py --resume {asked.folder}"


def test_sweep_that_is_lost_ends_in_a_line_without_a_command(
    options: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    ending = finish_sweep(options(), outcome_with(error="the folder was renamed", is_lost=True))
    assert (ending.exit_code, *capsys.readouterr()) == (1, "", "The sweep ended here: the folder was renamed.\n")


@pytest.fixture
def two_trials(options: Build) -> SweepOptions:
    """A scored sweep of two trials."""
    asked = options()
    write_trials(asked.folder, [build_record(0), build_record(1)], ("sst", "qqp", "sts"))
    for number in (0, 1):
        write_epoch(asked.folder, f"{number:04d}-r0", build_report(1, skill=0.5, seed=number))
        keep_weights(Path(asked.folder), f"{number:04d}-r0", overall=1)
    return asked


def test_no_trial_is_called_running_at_the_end_of_a_sweep(
    two_trials: SweepOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a full disk `driver.json` still says what ran."""
    write_trials(two_trials.folder, [build_record(0), build_record(1, status="interrupted")], ("sst", "qqp", "sts"))
    write_driver(two_trials.folder, {"0001-r0": {"since": 1.0}})
    assert show_answer(two_trials.folder)
    assert ": 1 complete, 1 interrupted" in capsys.readouterr().out


def test_sweep_at_a_limit_selects_ensembles_and_ends_with_the_command_that_goes_on(
    two_trials: SweepOptions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(PROJECT_FOLDER)
    ended = outcome_with(counts={"complete": 2, "interrupted": 1, "queued": 4}, limit="--max-steps 900")
    assert finish_sweep(two_trials, ended).exit_code == 4
    printed = capsys.readouterr()
    assert "Chosen for SST: " in printed.out
    goes_on = f"python sweeps/run.py --resume {two_trials.folder}"
    assert goes_on not in printed.out, "one command goes on, with the limit"
    trials = "trials: 2 complete, 1 interrupted, 4 queued"
    assert printed.err == (
        f"--max-steps 900 was reached ({trials}); what had finished is kept and ranked. "
        f"Continue with:\n  {goes_on} --max-steps 900\n"
    )


def test_deleted_working_folder_is_ignored(
    two_trials: SweepOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert finish_sweep(two_trials, outcome_with()).exit_code == 0
    text = capsys.readouterr().out
    assert "Chosen for SST: " in text
    assert f"python -m sweeps table {two_trials.folder}" in text


@pytest.mark.parametrize("broken", ["print_ranking", "read_trials", "select_from", "write_selection"])
def test_failure_in_one_part_leaves_the_others(
    two_trials: SweepOptions,
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = OSError(f"{broken} is broken")
    monkeypatch.setattr(f"sweeps.cli.summary.{broken}", Mock(side_effect=error))
    is_ranked = show_answer(two_trials.folder)
    assert is_ranked == (broken != "print_ranking")
    code = finish_sweep(two_trials, outcome_with(), is_ranked=is_ranked).exit_code
    printed = capsys.readouterr()
    assert f"{broken} is broken" in printed.out + printed.err
    assert ("SST dev" in printed.out) == (broken != "print_ranking")
    assert ("Chosen for SST: " in printed.out) == (broken != "select_from")
    assert code == (1 if broken == "print_ranking" else 0)


def test_answer_and_verdict_are_printed_before_anything_is_written(
    two_trials: SweepOptions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(Path(two_trials.folder).rglob("*"))
    show_answer(two_trials.folder)
    assert "SST dev" in capsys.readouterr().out
    assert sorted(Path(two_trials.folder).rglob("*")) == before
    printed: list[str] = []
    monkeypatch.setattr("sweeps.cli.summary.write_selection", lambda *_: printed.append(capsys.readouterr().out))
    finish_sweep(two_trials, outcome_with())
    assert printed[0].count("Chosen for ") == 3


def test_ctrl_c_during_selection_leaves_the_other_parts(
    two_trials: SweepOptions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sweeps.cli.summary.select_from", Mock(side_effect=KeyboardInterrupt))
    assert finish_sweep(two_trials, outcome_with()).exit_code == 0
    text = capsys.readouterr().out
    assert "Choosing ensembles was interrupted." in text
    assert f"selector {two_trials.folder}" in text or f"selector.py {two_trials.folder}" in text


def test_error_at_the_end_is_reported(two_trials: SweepOptions, capsys: pytest.CaptureFixture[str]) -> None:
    ending = finish_sweep(two_trials, outcome_with(closing_errors=("Curves could not be put together: no room",)))
    assert ending.exit_code == 1, "a script that reads them would read those of an earlier run"
    printed = capsys.readouterr()
    assert "Chosen for SST: " in printed.out
    assert printed.err.splitlines()[:2] == [
        "Curves could not be put together: no room",
        "What was trained is kept. Complete the records with:",
    ]
    assert f"--resume {two_trials.folder}" in printed.err


@pytest.mark.parametrize("error", ["the storage cannot be used: writing a: 400 ExpiredToken", None])
def test_end_of_a_sweep_whose_bucket_is_away_says_it_once(
    two_trials: SweepOptions, error: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sweeps.cli.summary.is_away", lambda _folder: True)
    closing_errors = ("The tables of the sweep could not be written: writing b: 400 ExpiredToken",)
    finish_sweep(two_trials, outcome_with(error=error, closing_errors=closing_errors))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("400 ExpiredToken") == 1
    assert f"--resume {two_trials.folder}" in printed.err


def test_end_that_cannot_be_printed_keeps_its_exit_code(
    two_trials: SweepOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeps.cli.summary.show_lines", Mock(side_effect=BrokenPipeError))
    monkeypatch.setattr("sweeps.cli.summary.discard_output", lambda: None)
    assert show_answer(two_trials.folder)
    assert finish_sweep(two_trials, outcome_with(is_interrupted=True)).exit_code == 130
    assert finish_sweep(two_trials, outcome_with(), is_ranked=False).exit_code == 1


@pytest.mark.parametrize("is_verbose", [True, False])
@pytest.mark.parametrize(
    "how",
    [{}, {"is_interrupted": True}, {"limit": "--max-steps 9"}, {"error": "no lane is left"}, {"verdict": "open"}],
    ids=str,
)
def test_sweep_that_ends_leaves_its_answer_as_data(
    two_trials: SweepOptions, is_verbose: bool, how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeps.cli.summary.select_from", Mock(side_effect=KeyboardInterrupt))  # to save time
    finish_sweep(two_trials, outcome_with(**how), is_verbose=is_verbose)
    found = json.loads(Path(two_trials.folder, ANSWER_FILE).read_text())
    assert found == json.loads(json.dumps(load_sweep(two_trials.folder).answer_data()))
    assert found["trials"] == {"complete": 2}


def test_answer_is_written_again_when_a_resumed_sweep_ends(two_trials: SweepOptions) -> None:
    file = Path(two_trials.folder, ANSWER_FILE)
    file.write_text("{}")
    finish_sweep(two_trials, outcome_with(), is_verbose=False)
    assert json.loads(file.read_text())["trials"] == {"complete": 2}


def test_sweep_without_any_score_leaves_an_answer_too(options: Build) -> None:
    asked = options()
    assert finish_sweep(asked, outcome_with(counts={}), is_verbose=False).exit_code == 0
    assert json.loads(Path(asked.folder, ANSWER_FILE).read_text())["effects"] == []


@pytest.mark.parametrize("is_verbose", [True, False])
@pytest.mark.parametrize("verdict", ["", "shown", "excluded", "open"])
def test_answer_that_cannot_be_written_is_a_failure_with_a_message(
    two_trials: SweepOptions,
    is_verbose: bool,
    verdict: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A script would read the answer of an earlier run."""
    monkeypatch.setattr("sweeps.cli.summary.write_answer", Mock(side_effect=OSError("no room")))
    monkeypatch.setattr("sweeps.cli.summary.select_from", Mock(side_effect=KeyboardInterrupt))  # to save time
    ending = finish_sweep(two_trials, outcome_with(verdict=verdict), is_verbose=is_verbose)
    assert ending.exit_code == 1
    (message,) = [line for line in ending.messages if "no room" in line]
    assert ANSWER_FILE in message
    assert ("no room" in capsys.readouterr().err) == is_verbose


def test_interrupted_sweep_keeps_its_exit_code_where_the_answer_cannot_be_written(
    two_trials: SweepOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeps.cli.summary.write_answer", Mock(side_effect=OSError("no room")))
    ending = finish_sweep(two_trials, outcome_with(is_interrupted=True), is_verbose=False)
    assert ending.exit_code == 130
    assert any("no room" in line for line in ending.messages)


@pytest.mark.parametrize("bucket_is_away", [True, False])
def test_nothing_is_written_for_a_sweep_that_is_another_drivers(
    two_trials: SweepOptions, bucket_is_away: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeps.cli.summary.is_away", lambda _folder: bucket_is_away)
    ended = outcome_with(error="taken over", is_lost=not bucket_is_away)
    finish_sweep(two_trials, ended, is_verbose=False)
    assert not Path(two_trials.folder, ANSWER_FILE).exists()
