"""The listeners of a sweep: one prints everything, the other nothing."""

from typing import Any

import pytest

from sweeps.cli.listeners import printing_listener, silent_listener
from sweeps.driver.whole_sweep import Ending
from sweeps.lanes.channel import Event
from sweeps.options import SweepOptions
from tests.sweeps.cli.test_summary import outcome_with
from tests.sweeps.conftest import MakePlan

NOTE = Event(kind="note", facts={"text": "Opening 1 lane"})


@pytest.fixture
def options(make_plan: MakePlan) -> SweepOptions:
    return make_plan().options


def test_silent_listener_prints_nothing_and_describes_the_end(
    options: SweepOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    listener = silent_listener()
    listener.show(["a line"])
    with listener.watch() as on_event:
        on_event(NOTE, None)  # type: ignore[arg-type]
    failed = outcome_with(counts={"failed": 1}, failures={"0000-r0": "diverged"})
    messages = ("1 of 1 trials failed.",)
    assert listener.finish(options, failed) == Ending(
        folder=options.folder, outcome=failed, exit_code=3, messages=messages
    )
    assert capsys.readouterr() == ("", "")


def test_output_that_closes_while_progress_is_shown_is_a_broken_pipe() -> None:
    """Rich raises SystemExit there."""
    with pytest.raises(BrokenPipeError), printing_listener().watch():
        raise SystemExit(1)


def test_end_that_cannot_be_printed_keeps_its_exit_code(options: SweepOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(*_arguments: Any, **_more: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("sweeps.cli.summary.finish_sweep", leave)
    monkeypatch.setattr("sweeps.cli.listeners.discard_output", lambda: None)
    assert printing_listener().finish(options, outcome_with(is_interrupted=True)).exit_code == 130
    listener = printing_listener()
    assert listener.finish(options, outcome_with()).exit_code == 0
    monkeypatch.setattr("sweeps.cli.summary.show_answer", lambda _folder: False)
    listener.answer(options)
    assert listener.finish(options, outcome_with()).exit_code == 1
