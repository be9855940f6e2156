"""Verdicts reach the channel as soon as the scheduler has given them; whole sweeps test the rest."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from mtlib.runtime.storage import open_folder
from results.records.trial_folder import TrialEnd, read_end
from sweeps.driver.trials.messages import Message
from sweeps.search.tune_run import SweepStopper, VerdictCallback
from tests.local_table import LocalTable

TRIAL = SimpleNamespace(config={"trial": {"trial_id": "0003-r0"}})


@pytest.mark.parametrize("is_stopped", [True, False])
def test_verdict_is_passed_on_with_its_epoch_once_a_pruned_end_is_on_record(tmp_path: Path, is_stopped: bool) -> None:
    root, told = open_folder(tmp_path), list[tuple[Message, TrialEnd | None]]()
    callback = VerdictCallback(lambda message: told.append((message, read_end(root, "0003-r0"))), root)
    result = {"epoch": 1, "trained_epochs": 3, "done": is_stopped, "status": ""}
    callback.on_trial_result(trial=TRIAL, result=result)
    ((message, end),) = told
    assert (message.trial_id, dict(message.facts)) == ("0003-r0", {"epoch": 3, "stop": is_stopped})
    assert (None if end is None else (end.how, end.epochs)) == (("pruned", 3) if is_stopped else None)


def test_trial_given_up_by_tune_ends_the_sweep(tmp_path: Path) -> None:
    local = LocalTable()
    VerdictCallback(local.hear, open_folder(tmp_path)).on_trial_error(trial=TRIAL)
    (event,) = local.events("failed")
    assert "0003-r0" in event.facts["why"]


def test_stopper_ends_tune_but_no_trial() -> None:
    stopper = SweepStopper()
    assert (stopper.stop_all(), stopper("0003-r0", {})) == (False, False)
    stopper.stop()
    assert (stopper.stop_all(), stopper("0003-r0", {})) == (True, False)
