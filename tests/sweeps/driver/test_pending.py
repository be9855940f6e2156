"""What remains of a sweep: known configurations, replicates, and configurations still to be sampled."""

from dataclasses import replace
from typing import Any

import pytest

from results.records.trials import TrialRecord
from search_spaces.domain import Float
from sweeps.driver.pending import describe_progress, is_sweep_over, num_left_to_run
from sweeps.options import SweepPlan
from sweeps.search.trial import make_trial, queued_record
from tests.sweeps.conftest import MakePlan

SAMPLED: dict[str, Any] = {"search": "tpe", "grid": {}, "ranges": {"smart.weight": Float(low=0, high=1)}}


def known_of(plan: SweepPlan, *statuses: str) -> list[TrialRecord]:
    """The first trial of a configuration for each status."""
    specs = [make_trial(plan.space, number, 0, {"smart.weight": 0.1 * number}) for number in range(len(statuses))]
    return [replace(queued_record(spec), status=status) for spec, status in zip(specs, statuses, strict=True)]


def test_unfinished_trials_are_pending_with_any_status(make_plan: MakePlan) -> None:
    plan = make_plan(trials=7, **SAMPLED)
    known = known_of(plan, "complete", "queued", "failed", "interrupted", "pruned", "running", "reused")
    known[3] = replace(known[3], epochs=2)
    assert not is_sweep_over(plan, known)
    (line,) = describe_progress(plan, known)
    assert line.startswith("4 of 7 trials have ended; 1 of the others had begun")


def test_replicates_of_the_best_are_pending_once_all_others_have_ended(make_plan: MakePlan) -> None:
    plan = make_plan(trials=4, replicates=3, replicate_best=2, **SAMPLED)
    known = known_of(plan, "complete", "reused", "pruned", "complete")
    known = [replace(record, best={plan.space.metric: 0.1 * number}) for number, record in enumerate(known)]
    assert num_left_to_run(plan, known, None) == 4
    assert num_left_to_run(plan, [replace(known[0], status="interrupted"), *known[1:]], None) == 1
    assert num_left_to_run(plan, known[:3], None) == 1, "a configuration is still to be sampled"


@pytest.mark.parametrize("num_new", [0, 1, 3])
def test_configurations_still_to_be_sampled_are_counted(make_plan: MakePlan, num_new: int) -> None:
    plan = make_plan(trials=2 + num_new, **SAMPLED)
    known = known_of(plan, "complete", "pruned")
    assert is_sweep_over(plan, known) == (num_new == 0)


@pytest.mark.parametrize("statuses", [("complete", "reused", "pruned"), ("complete", "failed", "failed")])
def test_sweep_whose_trials_have_ended_is_over(make_plan: MakePlan, statuses: tuple[str, ...]) -> None:
    plan = make_plan()
    known = known_of(plan, *statuses)
    assert is_sweep_over(plan, known)
    assert "All 3 trials have ended" in describe_progress(plan, known)[0]
