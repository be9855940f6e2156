"""Successive halving as in ASHA, except for replicates and last epochs."""

import itertools
import random
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune.schedulers import TrialScheduler

from search_spaces.space import grid_trials
from sweeps.driver.trials.table import open_table
from sweeps.driver.trials.trial import make_trial
from sweeps.search.scheduler import HalvingScheduler, make_scheduler
from tests.sweeps.conftest import MakePlan


def trial(number: int, replicate: int = 0) -> Any:
    name = f"{number:04d}-r{replicate}"
    return SimpleNamespace(trial_id=f"tune-{name}", config={"trial": {"trial_id": name, "replicate": replicate}})


def decide(scheduler: Any, who: Any, epoch: int, best: float, is_last: bool = False) -> str:
    scheduler.on_trial_add(None, who)
    return str(scheduler.on_trial_result(None, who, {"epoch": epoch, "best": best, "is_last": is_last}))


@pytest.fixture
def halving(make_plan: MakePlan) -> Any:
    """A scheduler that has seen three good trials at epoch 1."""
    scheduler = make_scheduler(open_table(make_plan(scheduler="asha")))
    assert isinstance(scheduler, HalvingScheduler)
    for number in range(3):
        assert decide(scheduler, trial(number), 1, 0.8) == TrialScheduler.CONTINUE
    return scheduler


@pytest.mark.parametrize(
    ("number", "epoch", "best", "is_last", "verdict"),
    [
        (9, 1, 0.1, False, TrialScheduler.STOP),
        (9, 1, 0.8, False, TrialScheduler.CONTINUE),
        (0, 2, 0.0, False, TrialScheduler.CONTINUE),  # between two rungs
        (9, 1, 0.1, True, TrialScheduler.CONTINUE),  # it completes
    ],
)
def test_poor_trials_are_stopped_at_rungs_before_their_last_epoch(
    halving: Any, number: int, epoch: int, best: float, is_last: bool, verdict: str
) -> None:
    assert decide(halving, trial(number), epoch, best, is_last) == verdict


def test_replicate_is_never_stopped_and_does_not_count(halving: Any) -> None:
    replicate = trial(0, replicate=1)
    assert decide(halving, replicate, 1, 0.0) == TrialScheduler.CONTINUE
    halving.on_trial_complete(None, replicate, {"epoch": 3, "best": 0.0})
    assert decide(halving, trial(9), 1, 0.7) == TrialScheduler.STOP


def scores_of(stream: random.Random, epochs: int) -> list[float]:
    """A trial's best score so far, epoch by epoch."""
    return list(itertools.accumulate((round(stream.random(), 2) for _ in range(epochs)), max))


@pytest.mark.parametrize("seed", range(8))
def test_scheduler_of_a_resumed_sweep_decides_as_an_undisturbed_one(make_plan: MakePlan, seed: int) -> None:
    """Trials report in random order; at some point a new scheduler replaces the first and gets its reports again."""
    stream, plan = random.Random(seed), make_plan(scheduler="asha")
    undisturbed, scheduler = make_scheduler(open_table(plan)), make_scheduler(open_table(plan))
    scores = {number: scores_of(stream, 10) for number in range(12)}
    turns = [number for number in scores for _ in range(10)]
    stream.shuffle(turns)
    reported: dict[int, int] = dict.fromkeys(scores, 0)
    stopped: set[int] = set()
    kill = stream.randrange(len(turns))
    for turn, number in enumerate(turns):
        if turn == kill:
            before = {f"{n:04d}-r0": list(enumerate(scores[n][:epochs], 1)) for n, epochs in reported.items()}
            points = grid_trials(plan.space)
            known = [make_trial(plan.space, n, 0, points[0]) for n in scores]
            scheduler = make_scheduler(open_table(plan, known, before))
        if number in stopped:
            continue
        epoch = reported[number] = reported[number] + 1
        best = scores[number][epoch - 1]
        verdict = decide(undisturbed, trial(number), epoch, best, is_last=epoch == 10)
        assert decide(scheduler, trial(number), epoch, best, is_last=epoch == 10) == verdict
        if verdict == TrialScheduler.STOP:
            stopped.add(number)
    assert stopped, "otherwise this test shows nothing"


def test_trials_are_stopped_at_the_rungs_alone(make_plan: MakePlan) -> None:
    """Others improve by .01 an epoch; a trial that is ahead of them stops improving at an epoch."""
    plan, stopped_at = make_plan(scheduler="asha"), []
    for epoch in range(1, 29):
        scheduler = make_scheduler(open_table(plan))
        for number in range(3):
            for earlier in range(1, epoch + 1):
                decide(scheduler, trial(number), earlier, 0.01 * earlier)
        ahead = [decide(scheduler, trial(9), earlier, 0.01 * earlier + 0.005) for earlier in range(1, epoch)]
        assert set(ahead) <= {TrialScheduler.CONTINUE}
        if decide(scheduler, trial(9), epoch, 0.01 * epoch - 0.005) == TrialScheduler.STOP:
            stopped_at.append(epoch)
    assert stopped_at == [1, 3, 9, 27]
