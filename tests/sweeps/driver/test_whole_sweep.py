"""A sweep's way through its listener, and who owns its folder; tests/sweeps/test_run.py has the whole command."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sweeps.driver.run_sweep
import sweeps.driver.whole_sweep
from results.records.driver_file import Ownership, read_driver
from results.records.trials import read_sweep
from sweeps.driver.history import KnownTrials
from sweeps.driver.run_sweep import OnEvent, SweepOutcome
from sweeps.driver.whole_sweep import Ending, Listener, run_or_resume
from sweeps.lanes.channel import Event
from sweeps.lanes.training_inputs import TrainingInputs
from sweeps.options import SweepOptions, SweepPlan
from sweeps.plan.create import create_sweep
from tests.driver_files import write_driver


@pytest.fixture
def options(tiny_folder: Path, tiny_encoder_folder: Path, tmp_path: Path) -> SweepOptions:
    places: Any = {"data": tiny_folder, "encoder": str(tiny_encoder_folder), "storage": str(tmp_path)}
    return SweepOptions(space="smart_lambda", name="first", set={"encoder.max_length": "32"}, **places)


class Listening:
    """Notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.plan: SweepPlan | None = None
        self.listener = Listener(
            show=self.show, watch=self.watch, answer=lambda _options: self.heard.append("answer"), finish=self.finish
        )

    def show(self, lines: Iterable[str]) -> None:
        self.heard += [line.split(" ")[0] for line in lines]

    @contextlib.contextmanager
    def watch(self) -> Iterator[OnEvent]:
        self.heard.append("watching")
        yield lambda event, _ledger: self.heard.append(event.kind)
        self.heard.append("watched")

    def finish(self, options: SweepOptions, outcome: SweepOutcome) -> Ending:
        with pytest.raises(ValueError, match="a sweep must not be running already"), Ownership(options.folder):
            pass
        return Ending(folder=options.folder, outcome=outcome, exit_code=7, messages=())


def run_instead(monkeypatch: pytest.MonkeyPatch, listening: Listening, *, has_trained: bool = True) -> None:
    """Puts a sweep that trains nothing in the place of the real one."""

    def run(
        plan: SweepPlan,
        _inputs: TrainingInputs,
        on_event: OnEvent,
        ownership: Ownership,
        known: KnownTrials | None,
        *,
        on_trained: Callable[[], None],
    ) -> SweepOutcome:
        assert (known, ownership.is_lost) == (None, False)
        listening.plan = plan
        on_event(Event(kind="note"), None)  # type: ignore[arg-type]
        if has_trained:
            on_trained()
        listening.heard.append("closed")
        return SweepOutcome(counts={}, failures={})

    monkeypatch.setattr(sweeps.driver.run_sweep, "run_plan", run)


@pytest.mark.parametrize(
    ("has_trained", "order"),
    [(True, ["watched", "answer", "closed"]), (False, ["closed", "watched", "answer"])],
)
def test_listener_hears_of_the_sweep_before_it_runs_then_of_events_then_of_the_end(
    options: SweepOptions, monkeypatch: pytest.MonkeyPatch, has_trained: bool, order: list[str]
) -> None:
    """A sweep whose trials have all ended is answered before it is closed, any other one after that."""
    listening = Listening()
    run_instead(monkeypatch, listening, has_trained=has_trained)
    ending = run_or_resume(options, listening.listener, "the command")
    assert ending.exit_code == 7
    assert listening.heard[0] == "Sweep"
    assert listening.heard[listening.heard.index("watching") + 1 :] == ["note", *order]
    driver = read_driver(options.folder)
    assert driver is not None
    assert driver.has_stopped


def test_sweep_that_another_command_has_taken_meanwhile_stays(
    options: SweepOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a bucket no folder is made by which the second of two commands would know."""

    def create(*arguments: Any) -> SweepPlan:
        plan = create_sweep(*arguments)
        write_driver(options.folder, id="other")
        return plan

    monkeypatch.setattr(sweeps.driver.whole_sweep, "create_sweep", create)
    with pytest.raises(ValueError, match="a sweep must not be running already"):
        run_or_resume(options, Listening().listener, "the command")
    assert read_sweep(options.folder)["name"] == options.name


def test_sweep_that_fails_before_its_first_trial_leaves_its_name_free(
    options: SweepOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps.driver.run_sweep, "run_plan", lambda *_arguments, **_named: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_or_resume(options, Listening().listener, "the command")
    assert not Path(options.folder).exists()
