"""Decisions reach the mailbox as soon as the scheduler has made them; whole sweeps test the rest."""

from types import SimpleNamespace
from typing import Any

import pytest

from sweeps.search.tune_run import DecisionCallback, trial_name
from tests.sweeps.search.test_tune_trial import Method

TRIAL = SimpleNamespace(config={"trial_id": "0003-r0"})


@pytest.mark.parametrize("is_done", [True, False])
def test_decision_is_sent_with_its_epoch(is_done: bool) -> None:
    mailbox: Any = SimpleNamespace(set_decision=Method([None]))
    result = {"epoch": 1, "trained_epochs": 3, "done": is_done}
    DecisionCallback(mailbox).on_trial_result(iteration=1, trials=[TRIAL], trial=TRIAL, result=result)
    assert mailbox.set_decision.calls == [("0003-r0", 3, is_done)]


def test_trial_dropped_by_tune_is_withdrawn() -> None:
    mailbox: Any = SimpleNamespace(cancel_trial=Method([None]))
    DecisionCallback(mailbox).on_trial_error(iteration=1, trials=[TRIAL], trial=TRIAL)
    ((trial_id, why),) = mailbox.cancel_trial.calls
    assert (trial_id, why) == ("0003-r0", "its process in Ray Tune died")


def test_trials_have_our_names_in_tune() -> None:
    assert trial_name(TRIAL) == "0003-r0"
