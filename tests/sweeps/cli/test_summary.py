"""The end of a sweep: exit codes, the summary, and copies of the records."""

import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mtlib.runtime.command_line import parse_words
from results.ensembles.selection_method import Settings
from results.records.epochs import write_epoch
from results.records.files import PROJECT_FOLDER
from results.records.selection import read_selection
from results.records.tables import write_trials
from results.records.trials import write_sweep
from results.selection.report import brief_verdict
from results.selection.select_all import SelectionRequest
from sweeps.cli.arguments import build_parser, find_sweep_folder
from sweeps.cli.summary import describe_files, describe_outcome, describe_shared, exit_code, finish_sweep, show_answer
from sweeps.driver.run_sweep import SweepOutcome
from sweeps.options import SweepOptions
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
    ],
)
def test_exit_code_describes_the_end(changes: dict[str, Any], code: int) -> None:
    assert exit_code(outcome_with(**changes)) == code


def test_failure_is_described_with_the_resume_command(options: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT_FOLDER)
    counts, asked = {"complete": 5, "failed": 2}, options()
    failed = outcome_with(counts=counts, failures={"a": "x", "b": "y"})
    assert describe_outcome(outcome_with(), asked) == []
    assert describe_outcome(failed, asked) == ["2 of 7 trials failed."]
    line, command = describe_outcome(outcome_with(counts=counts, error="no lane is left"), asked)
    assert line.startswith("The sweep failed: no lane is left (trials: 5 complete, 2 failed); ")
    assert command == f"  python sweeps/run.py --resume {asked.folder}"


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
    assert last == f"{begins}: 1 interrupted); what had finished is kept and ranked. Continue with:"
    assert command == f"  python sweeps/run.py --resume {asked.folder}"


@pytest.fixture
def two_trials(options: Build) -> SweepOptions:
    """A scored sweep of two trials."""
    asked = options()
    write_trials(asked.folder, [build_record(0), build_record(1)], ("sst", "qqp", "sts"))
    for number in (0, 1):
        write_epoch(asked.folder, f"{number:04d}-r0", build_report(1, skill=0.5, seed=number))
        keep_weights(Path(asked.folder), f"{number:04d}-r0", overall=1)
    return asked


def test_interrupted_sweep_names_the_selection_command(
    two_trials: SweepOptions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(PROJECT_FOLDER)
    assert finish_sweep(two_trials, outcome_with(is_interrupted=True)).exit_code == 130
    text = capsys.readouterr().out
    assert "Chosen for" not in text
    assert not Path(two_trials.folder, "selection.json").exists()
    lines = text.splitlines()
    command = lines.index(f"    python results/selector.py {two_trials.folder}")
    assert lines[command - 1] == "  chooses an ensemble for each task from what has finished"


def test_sweep_at_a_limit_selects_ensembles_and_ends_with_the_command_that_goes_on(
    two_trials: SweepOptions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(PROJECT_FOLDER)
    ended = outcome_with(counts={"complete": 2, "interrupted": 1, "queued": 4}, limit="--max-steps 900")
    assert finish_sweep(two_trials, ended).exit_code == 4
    printed = capsys.readouterr()
    assert "Chosen for SST: " in printed.out
    goes_on = f"python sweeps/run.py --resume {two_trials.folder}"
    assert f"    {goes_on}" in printed.out.splitlines()
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
    assert f"python -m results.table {two_trials.folder}" in text


@pytest.mark.parametrize("broken", ["print_ranking", "read_trials", "select_from", "write_selection"])
def test_failure_in_one_part_leaves_the_others(
    two_trials: SweepOptions,
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_arguments: Any, **_more: Any) -> None:
        raise OSError(f"{broken} is broken")

    monkeypatch.setattr(f"sweeps.cli.summary.{broken}", fail)
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


def test_page_that_failed_is_not_offered_again(
    two_trials: SweepOptions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> str:
        raise OSError("the disk is full")

    monkeypatch.setattr("results.page.write.write_sweep_page", fail)
    assert finish_sweep(two_trials, outcome_with()).exit_code == 0
    text = capsys.readouterr().out
    assert "The page failed: OSError: the disk is full" in text
    assert "  a page with its figures\n" in text
    assert "the page again" not in text


def test_page_is_written_after_the_verdict(two_trials: SweepOptions, capsys: pytest.CaptureFixture[str]) -> None:
    assert finish_sweep(two_trials, outcome_with()).exit_code == 0
    text = capsys.readouterr().out
    page = Path(two_trials.folder, "report.html")
    assert text.index("Chosen for ") < text.index(f"Page: {page}\n")
    assert "</html>" in page.read_text()


@pytest.mark.parametrize("changes", [{"is_interrupted": True}, {"error": "no lane is left"}])
def test_interrupted_or_failed_sweep_names_the_command_for_its_page(
    two_trials: SweepOptions, changes: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    finish_sweep(two_trials, outcome_with(**changes))
    text = capsys.readouterr().out
    assert "Page: " not in text
    assert f"report.py {two_trials.folder}" in text or f"results.report {two_trials.folder}" in text
    assert not Path(two_trials.folder, "report.html").exists()


def test_ctrl_c_during_selection_leaves_the_other_parts(
    two_trials: SweepOptions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def press(_request: object, command: str) -> None:
        raise KeyboardInterrupt(command)

    monkeypatch.setattr("sweeps.cli.summary.select_from", press)
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


def test_files_and_next_commands_are_named(options: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT_FOLDER)
    lines = describe_files(options(storage=f"{tmp_path}/my sweeps"), outcome_with())
    assert lines[0] == f"Files: {tmp_path}/my sweeps/first"
    assert any(line.strip().startswith(f"python results/table.py '{tmp_path}/my sweeps/first'") for line in lines)
    assert not any("--resume" in line for line in lines)


def test_resume_command_is_named_for_pending_trials(
    options: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PROJECT_FOLDER)
    lines = describe_files(options(storage=f"{tmp_path}/my sweeps"), outcome_with(is_interrupted=True))
    command = next(line for line in lines if "--resume" in line).partition("#")[0]
    words = shlex.split(command)
    assert words[:2] == ["python", "sweeps/run.py"]
    resumed = parse_words(build_parser(), words[2:]).resume
    assert find_sweep_folder(resumed, str(tmp_path)) == f"{tmp_path}/my sweeps/first"


def test_retry_command_is_named_for_failed_trials(options: Build) -> None:
    lines = describe_files(options(), outcome_with(failures={"0003-r0": "diverged"}))
    assert sum("--resume" in line and "--retry-failed" in line for line in lines) == 1


def test_reused_work_is_summarized() -> None:
    records: Any = [SimpleNamespace(steps=1200, shared_steps=shared) for shared in (0, 400)]
    assert describe_shared(records) == ["Shared: 400 of 2,400 optimizer steps were reused instead of trained."]
    assert describe_shared(records[:1]) == describe_shared([]) == []


def test_outside_the_projects_folder_the_command_names_the_module(
    options: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = describe_files(options(), outcome_with(error="no lane is left"))
    assert any("python -m results.table" in line for line in lines)
    assert any("python -m sweeps.run --resume" in line for line in lines)


def test_ensembles_are_selected_and_the_verdict_printed(
    two_trials: SweepOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    assert finish_sweep(two_trials, outcome_with()).exit_code == 0
    selection = read_selection(two_trials.folder)
    text = capsys.readouterr().out
    assert set(selection.tasks) == {"sst", "qqp", "sts"}
    for line in brief_verdict(selection):
        assert line in text
    assert f"results/selector.py {two_trials.folder}" in text or f"results.selector {two_trials.folder}" in text


def test_failed_selection_is_one_line(options: Build, capsys: pytest.CaptureFixture[str]) -> None:
    assert finish_sweep(options(), outcome_with()).exit_code == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("No ensemble was chosen: ")]
    assert line.endswith(".")
