"""A sweep's way through its listener, and its locked folder; tests/sweeps/test_run.py has the whole command."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

import sweeps.driver.run_sweep
from results.records.trials import TrialRecord
from sweeps.driver.run_sweep import OnEvent, SweepOutcome
from sweeps.driver.whole_sweep import Ending, Listener, exclusive_folder, run_or_resume
from sweeps.lanes.messages import Event
from sweeps.options import SweepOptions, SweepPlan


@pytest.fixture
def options(tiny_folder: Path, tiny_encoder_folder: Path, tmp_path: Path) -> SweepOptions:
    places = {"data": tiny_folder, "encoder": str(tiny_encoder_folder), "storage": tmp_path}
    changes = {"encoder.max_length": "32"}
    return SweepOptions(space="smart_lambda", name="first", set=changes, **places)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("has_trained", "order"),
    [(True, ["watched", "answer", "closed"]), (False, ["closed", "watched", "answer"])],
)
def test_listener_hears_of_the_sweep_before_it_runs_then_of_events_then_of_the_end(
    options: SweepOptions, monkeypatch: pytest.MonkeyPatch, has_trained: bool, order: list[str]
) -> None:
    """A sweep whose trials have all ended is answered before it is closed, any other one after that."""
    heard: list[str] = []

    def show(lines: Iterable[str]) -> None:
        heard.extend(line.split(" ")[0] for line in lines)

    @contextlib.contextmanager
    def watch() -> Iterator[OnEvent]:
        heard.append("watching")
        yield lambda event, _ledger: heard.append(event.kind)
        heard.append("watched")

    def finish(_options: SweepOptions, outcome: SweepOutcome) -> Ending:
        with pytest.raises(ValueError, match="a sweep must not be running already"), exclusive_folder(options.folder):
            pass
        return Ending(outcome=outcome, exit_code=7, messages=())

    def run(
        _plan: SweepPlan, on_event: OnEvent, known: Sequence[TrialRecord], *, on_trained: Callable[[], None]
    ) -> SweepOutcome:
        assert list(known) == []
        on_event(Event(kind="note"), None)  # type: ignore[arg-type]
        if has_trained:
            on_trained()
        heard.append("closed")
        return SweepOutcome(counts={}, failures={})

    monkeypatch.setattr(sweeps.driver.run_sweep, "run_plan", run)
    listener = Listener(show=show, watch=watch, answer=lambda _options: heard.append("answer"), finish=finish)
    ending = run_or_resume(options, listener, ["--space", "smart_lambda"])
    assert ending.exit_code == 7
    assert heard[0] == "Sweep"
    assert heard[heard.index("watching") + 1 :] == ["note", *order]
    with exclusive_folder(options.folder):
        pass
