"""Successive halving as in ASHA, except for replicates and last epochs."""

import itertools
import random
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from results.records.rungs import rungs_up_to
from sweeps.search.scheduler import HalvingScheduler, make_scheduler
from tests.sweeps.conftest import MakePlan


def trial(number: int, replicate: int = 0) -> Any:
    name = f"{number:04d}-r{replicate}"
    return SimpleNamespace(trial_id=f"tune-{name}", config={"trial_id": name, "replicate": replicate})


def decide(scheduler: Any, who: Any, epoch: int, best: float, is_last: bool = False) -> str:
    scheduler.on_trial_add(None, who)
    return str(scheduler.on_trial_result(None, who, {"epoch": epoch, "best": best, "is_last": is_last}))


@pytest.fixture
def halving(make_plan: MakePlan) -> Any:
    """A scheduler that has seen three good trials at epoch 1."""
    scheduler = make_scheduler(make_plan(scheduler="asha"))
    assert isinstance(scheduler, HalvingScheduler)
    for number in range(3):
        assert decide(scheduler, trial(number), 1, 0.8) == TrialScheduler.CONTINUE
    return scheduler


def test_without_a_scheduler_nothing_is_stopped(make_plan: MakePlan) -> None:
    assert type(make_scheduler(make_plan())) is FIFOScheduler


def test_poor_trial_is_stopped_at_its_first_epoch(halving: Any) -> None:
    assert decide(halving, trial(9), 1, 0.1) == TrialScheduler.STOP


def test_good_trial_continues(halving: Any) -> None:
    assert decide(halving, trial(9), 1, 0.8) == TrialScheduler.CONTINUE


def test_no_trial_is_stopped_between_rungs(halving: Any) -> None:
    assert decide(halving, trial(0), 2, 0.0) == TrialScheduler.CONTINUE


def test_poor_trial_completes_at_its_last_epoch(halving: Any) -> None:
    assert decide(halving, trial(9), 1, 0.1, is_last=True) == TrialScheduler.CONTINUE


def test_replicate_is_never_stopped_and_does_not_count(halving: Any) -> None:
    replicate = trial(0, replicate=1)
    assert decide(halving, replicate, 1, 0.0) == TrialScheduler.CONTINUE
    halving.on_trial_complete(None, replicate, {"epoch": 3, "best": 0.0})
    assert decide(halving, trial(9), 1, 0.7) == TrialScheduler.STOP


def scores_of(stream: random.Random, epochs: int) -> list[float]:
    """A trial's best score so far, epoch by epoch."""
    return list(itertools.accumulate((round(stream.random(), 2) for _ in range(epochs)), max))


@pytest.mark.parametrize("seed", range(20))
def test_restored_rungs_decide_as_uninterrupted_ones(make_plan: MakePlan, seed: int) -> None:
    """Trials report in random order; at some point a new scheduler replaces the first and gets its reports again."""
    stream, plan = random.Random(seed), make_plan(scheduler="asha")
    uninterrupted, scheduler = make_scheduler(plan), make_scheduler(plan)
    scores = {number: scores_of(stream, 10) for number in range(12)}
    turns = [number for number in scores for _ in range(10)]
    stream.shuffle(turns)
    reported: dict[int, int] = dict.fromkeys(scores, 0)
    stopped: set[int] = set()
    kill = stream.randrange(len(turns))
    for turn, number in enumerate(turns):
        if turn == kill:
            before = {f"{n:04d}-r0": list(enumerate(scores[n][:epochs], 1)) for n, epochs in reported.items()}
            scheduler = make_scheduler(plan, before)
        if number in stopped:
            continue
        epoch = reported[number] = reported[number] + 1
        best = scores[number][epoch - 1]
        decision = decide(uninterrupted, trial(number), epoch, best, is_last=epoch == 10)
        assert decide(scheduler, trial(number), epoch, best, is_last=epoch == 10) == decision
        if decision == TrialScheduler.STOP:
            stopped.add(number)
    assert stopped, "otherwise this test shows nothing"


def test_repeated_report_changes_nothing_in_a_restored_scheduler(make_plan: MakePlan) -> None:
    plan = make_plan(scheduler="asha")
    reports = {f"{number:04d}-r0": [(1, 0.8), (2, 0.8), (3, 0.9)] for number in range(3)}
    scheduler = make_scheduler(plan, reports)
    for number in range(3):
        for epoch, best in ((1, 0.1), (2, 0.1), (3, 0.1)):  # even with another score
            assert decide(scheduler, trial(number), epoch, best) == TrialScheduler.CONTINUE
    assert decide(scheduler, trial(8), 1, 0.8) == TrialScheduler.CONTINUE
    assert decide(scheduler, trial(9), 1, 0.7) == TrialScheduler.STOP
    assert decide(scheduler, trial(8), 3, 0.8) == TrialScheduler.STOP


def test_without_a_scheduler_no_report_is_replayed(make_plan: MakePlan) -> None:
    scheduler = make_scheduler(make_plan(), {"0000-r0": [(1, 0.8)]})
    assert type(scheduler) is FIFOScheduler


@pytest.mark.parametrize("epoch", range(1, 29))
def test_trials_are_stopped_at_the_rungs_alone(make_plan: MakePlan, epoch: int) -> None:
    """Others improve by .01 an epoch; a trial that is ahead of them stops improving at an epoch."""
    scheduler = make_scheduler(make_plan(scheduler="asha"))
    for number in range(3):
        for earlier in range(1, epoch + 1):
            decide(scheduler, trial(number), earlier, 0.01 * earlier)
    bests = [0.01 * earlier + 0.005 for earlier in range(1, epoch)]
    decisions = [decide(scheduler, trial(9), number, best) for number, best in enumerate(bests, 1)]
    assert set(decisions) <= {TrialScheduler.CONTINUE}
    is_stopped = decide(scheduler, trial(9), epoch, 0.01 * epoch - 0.005) == TrialScheduler.STOP
    assert is_stopped is (epoch in rungs_up_to(epoch))
