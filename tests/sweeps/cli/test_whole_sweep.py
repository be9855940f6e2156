"""What is shown of a sweep when, and who owns its folder; tests/sweeps/test_run.py has the whole command."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import sweeps.driver.run_sweep
from results.records.driver_file import Ownership, read_driver
from results.records.trials import read_sweep
from sweeps.cli import whole_sweep
from sweeps.cli.summary import Ending, finish_sweep
from sweeps.cli.whole_sweep import run_or_resume
from sweeps.driver.run_sweep import OnEvent, SweepOutcome
from sweeps.driver.trials.table import Event, TrialTable
from sweeps.lanes.training_inputs import TrainingInputs
from sweeps.options import SweepOptions, SweepPlan
from sweeps.plan.create import create_sweep
from tests.driver_files import write_driver


@pytest.fixture
def options(tiny_folder: Path, tiny_encoder_folder: Path, tmp_path: Path) -> SweepOptions:
    places: Any = {"data": tiny_folder, "encoder": str(tiny_encoder_folder), "storage": str(tmp_path)}
    return SweepOptions(space="smart_lambda", name="first", set={"encoder.max_length": "32"}, **places)


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a verbose sweep does to show itself, in order."""
    found: list[str] = []

    @contextlib.contextmanager
    def watch(_console: Console, _table: TrialTable) -> Iterator[OnEvent]:
        found.append("watching")
        yield lambda event: found.append(event.kind)
        found.append("watched")

    def answer(_folder: str) -> bool:
        found.append("answer")
        return False

    def finish(options: SweepOptions, outcome: SweepOutcome, *, is_ranked: bool, is_verbose: bool) -> Ending:
        with pytest.raises(ValueError, match="a sweep must not be running already"), Ownership(options.folder):
            pass
        found.extend(["end"] * is_verbose)
        return finish_sweep(options, outcome, is_ranked=is_ranked, is_verbose=False)

    shown = [("sweeps.cli.progress.show_progress", watch), ("sweeps.cli.summary.show_answer", answer)]
    for name, function in [*shown, ("sweeps.cli.summary.finish_sweep", finish)]:
        monkeypatch.setattr(name, function)
    monkeypatch.setattr(whole_sweep, "show_lines", lambda lines: found.extend(line.split(" ")[0] for line in lines))
    return found


def run_instead(monkeypatch: pytest.MonkeyPatch, heard: list[str], *, has_trained: bool) -> None:
    """Puts a sweep that trains nothing in the place of the real one."""

    def run(
        table: TrialTable,
        _inputs: TrainingInputs,
        on_event: OnEvent,
        ownership: Ownership,
        *,
        on_trained: Callable[[], None],
    ) -> SweepOutcome:
        assert (set(table.counts), ownership.why_lost) == ({"queued"}, None)
        on_event(Event(kind="note"))
        if has_trained:
            on_trained()
        heard.append("closed")
        return SweepOutcome(counts={}, failures={"0000-r0": "diverged"})

    monkeypatch.setattr(sweeps.driver.run_sweep, "run_plan", run)


@pytest.mark.parametrize(
    ("has_trained", "order"),
    [(True, ["watched", "answer", "closed"]), (False, ["closed", "watched", "answer"])],
)
def test_sweep_is_shown_before_it_runs_then_its_events_then_its_end(
    options: SweepOptions, heard: list[str], monkeypatch: pytest.MonkeyPatch, has_trained: bool, order: list[str]
) -> None:
    """A sweep whose trials have all ended is answered before it is closed, any other one after that."""
    run_instead(monkeypatch, heard, has_trained=has_trained)
    assert run_or_resume(options, "the command", is_verbose=True).exit_code == 1, "it could not be ranked"
    assert heard[0] == "Sweep"
    assert heard[heard.index("watching") + 1 :] == ["note", *order, "end"]
    driver = read_driver(options.folder)
    assert driver is not None
    assert driver.has_stopped


def test_sweep_that_is_not_verbose_prints_nothing_and_describes_its_end(
    options: SweepOptions, heard: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_instead(monkeypatch, heard, has_trained=True)
    ending = run_or_resume(options, "the command", is_verbose=False)
    assert (ending.folder, ending.exit_code, ending.messages) == (options.folder, 3, ("1 of 0 trials failed.",))
    assert (heard, *capsys.readouterr()) == (["closed"], "", "")


def test_sweep_that_another_command_has_taken_meanwhile_stays(
    options: SweepOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a bucket no folder is made by which the second of two commands would know."""

    def create(*arguments: Any) -> SweepPlan:
        plan = create_sweep(*arguments)
        write_driver(options.folder, id="other")
        return plan

    monkeypatch.setattr(whole_sweep, "create_sweep", create)
    with pytest.raises(ValueError, match="a sweep must not be running already"):
        run_or_resume(options, "the command", is_verbose=False)
    assert read_sweep(options.folder)["name"] == options.name


def test_sweep_that_fails_before_its_first_trial_leaves_its_name_free(
    options: SweepOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps.driver.run_sweep, "run_plan", lambda *_arguments, **_named: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_or_resume(options, "the command", is_verbose=False)
    assert not Path(options.folder).exists()
