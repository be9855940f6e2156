"""Verdicts reach the channel as soon as the scheduler has given them; whole sweeps test the rest."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mtlib.runtime.storage import open_folder
from results.records.trial_folder import read_end
from sweeps.search.tune_run import SweepStopper, VerdictCallback

TRIAL = SimpleNamespace(config={"trial": {"trial_id": "0003-r0"}})


class ChannelStub:
    """Records calls of one method, with the end of the trial on record at that time."""

    def __init__(self, method: str, folder: Path) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.ends: list[str | None] = []
        self.root = open_folder(folder)
        setattr(self, method, SimpleNamespace(remote=self.note))

    def note(self, *arguments: Any) -> None:
        end = read_end(self.root, "0003-r0")
        self.calls.append(arguments)
        self.ends.append(None if end is None else f"{end.how} after {end.epochs}")


@pytest.mark.parametrize("is_stopped", [True, False])
def test_verdict_is_sent_with_its_epoch_once_a_pruned_end_is_on_record(tmp_path: Path, is_stopped: bool) -> None:
    channel: Any = ChannelStub("decide", tmp_path)
    result = {"epoch": 1, "trained_epochs": 3, "done": is_stopped, "status": ""}
    VerdictCallback(channel, channel.root).on_trial_result(trial=TRIAL, result=result)
    assert channel.calls == [("0003-r0", 3, is_stopped)]
    assert channel.ends == ["pruned after 3" if is_stopped else None]


def test_trial_given_up_by_tune_ends_the_sweep(tmp_path: Path) -> None:
    channel: Any = ChannelStub("report_tune_failure", tmp_path)
    VerdictCallback(channel, channel.root).on_trial_error(trial=TRIAL)
    assert "0003-r0" in channel.calls[0][0]


def test_stopper_ends_tune_but_no_trial() -> None:
    stopper = SweepStopper()
    assert (stopper.stop_all(), stopper("0003-r0", {})) == (False, False)
    stopper.stop()
    assert (stopper.stop_all(), stopper("0003-r0", {})) == (True, False)
