"""Halving as ASHA does it, except for replicates and last epochs."""

from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from sweeps.scheduler import HalvingScheduler, make_scheduler
from tests.sweeps.conftest import MakePlan


def trial(number: int, replicate: int = 0) -> Any:
    return SimpleNamespace(trial_id=f"{number}-{replicate}", config={"replicate": replicate})


def decide(scheduler: Any, who: Any, epoch: int, best: float, is_last: bool = False) -> str:
    return str(scheduler.on_trial_result(None, who, {"epoch": epoch, "best": best, "is_last": is_last}))


@pytest.fixture
def halving(make_plan: MakePlan) -> Any:
    """A scheduler that has seen three good trials at epoch 1."""
    scheduler = make_scheduler(make_plan(scheduler="asha"))
    assert isinstance(scheduler, HalvingScheduler)
    for number in range(3):
        scheduler.on_trial_add(None, trial(number))
        assert decide(scheduler, trial(number), 1, 0.8) == TrialScheduler.CONTINUE
    return scheduler


def test_without_a_scheduler_nothing_is_stopped(make_plan: MakePlan) -> None:
    assert type(make_scheduler(make_plan())) is FIFOScheduler


def test_a_trial_far_behind_is_stopped_at_its_first_epoch(halving: Any) -> None:
    halving.on_trial_add(None, trial(9))
    assert decide(halving, trial(9), 1, 0.1) == TrialScheduler.STOP


def test_a_trial_as_good_as_the_others_goes_on(halving: Any) -> None:
    halving.on_trial_add(None, trial(9))
    assert decide(halving, trial(9), 1, 0.8) == TrialScheduler.CONTINUE


def test_between_rungs_nothing_is_stopped(halving: Any) -> None:
    assert decide(halving, trial(0), 2, 0.0) == TrialScheduler.CONTINUE


def test_a_trial_that_has_just_finished_completes_however_bad_it_is(halving: Any) -> None:
    halving.on_trial_add(None, trial(9))
    assert decide(halving, trial(9), 1, 0.1, is_last=True) == TrialScheduler.CONTINUE


def test_a_replicate_is_never_stopped_and_does_not_count(halving: Any) -> None:
    replicate = trial(0, replicate=1)
    halving.on_trial_add(None, replicate)
    assert decide(halving, replicate, 1, 0.0) == TrialScheduler.CONTINUE
    halving.on_trial_complete(None, replicate, {"epoch": 3, "best": 0.0})
    halving.on_trial_add(None, trial(9))
    assert decide(halving, trial(9), 1, 0.7) == TrialScheduler.STOP
