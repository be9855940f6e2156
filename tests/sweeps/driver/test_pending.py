"""What remains of a sweep: known configurations, replicates, and configurations still to be drawn."""

from dataclasses import replace
from typing import Any

import pytest

from results.records.trials import TrialRecord
from search_spaces.domain import Float
from sweeps.driver.ledger import Ledger, add_trial, open_ledger
from sweeps.driver.pending import (
    describe_progress,
    describe_state,
    find_unfinished,
    is_sweep_over,
    list_pending,
    num_new_configurations,
)
from sweeps.options import SweepPlan
from sweeps.search.trial_spec import make_spec
from tests.sweeps.conftest import MakePlan

DRAWN: dict[str, Any] = {"search": "tpe", "grid": {}, "ranges": {"smart.weight": Float(low=0, high=1)}}


def known_of(plan: SweepPlan, *statuses: str) -> list[TrialRecord]:
    """The first trial of a configuration for each status."""
    ledger = Ledger(plan=plan)
    for number in range(len(statuses)):
        add_trial(ledger, make_spec(plan.space, number, 0, {"smart.weight": 0.1 * number}))
    records = zip(ledger.records.values(), statuses, strict=True)
    return [replace(record, status=status) for record, status in records]


def pending_ids(plan: SweepPlan, known: list[TrialRecord]) -> list[str]:
    return [spec.trial_id for spec in find_unfinished(plan, known)]


def test_unfinished_trials_are_pending_with_any_status(make_plan: MakePlan) -> None:
    plan = make_plan(trials=7, **DRAWN)
    known = known_of(plan, "complete", "queued", "failed", "interrupted", "pruned", "running", "reused")
    assert pending_ids(plan, known) == ["0001-r0", "0003-r0", "0005-r0"]
    assert not is_sweep_over(plan, known)
    assert describe_progress(plan, known) == ["4 of 7 trials have ended; 0 of the others had begun and will continue."]


def test_pending_counts_started_trials(make_plan: MakePlan) -> None:
    plan = make_plan(trials=4, **DRAWN)
    known = [replace(record, epochs=1) for record in known_of(plan, "complete", "queued", "interrupted")]
    assert describe_progress(plan, known) == ["1 of 4 trials have ended; 2 of the others had begun and will continue."]


def test_replicates_are_pending_only_of_complete_configurations(make_plan: MakePlan) -> None:
    plan = make_plan(trials=4, replicates=3, **DRAWN)
    known = known_of(plan, "complete", "pruned", "failed", "queued")
    assert pending_ids(plan, known) == ["0000-r1", "0000-r2", "0003-r0"]
    assert list_pending(plan, known, {record.trial_id: record for record in known}) == [
        "To be run:",
        "  0000-r1  queued",
        "  0000-r2  queued",
        "  0003-r0  queued",
    ]


def test_replicates_of_the_best_are_pending_once_all_others_have_ended(make_plan: MakePlan) -> None:
    plan = make_plan(trials=4, replicates=3, replicate_best=2, **DRAWN)
    known = known_of(plan, "complete", "reused", "pruned", "complete")
    scores = (0.3, 0.5, 0.9, 0.4)
    known = [replace(record, best={plan.space.metric: score}) for record, score in zip(known, scores, strict=True)]
    best = ["0001-r1", "0003-r1", "0001-r2", "0003-r2"]
    assert pending_ids(plan, known) == best
    assert not is_sweep_over(plan, known)
    assert describe_progress(plan, known)[0].startswith("4 of 8 trials have ended")
    assert pending_ids(plan, [replace(known[0], status="interrupted"), *known[1:]]) == ["0000-r0"]
    assert pending_ids(plan, known[:3]) == [], "a configuration is still to be drawn"


@pytest.mark.parametrize(("num_trials", "lines"), [(2, 0), (3, 1), (5, 1)])
def test_configurations_still_to_be_drawn_are_counted(make_plan: MakePlan, num_trials: int, lines: int) -> None:
    plan = make_plan(trials=num_trials, **DRAWN)
    known = known_of(plan, "complete", "pruned")
    new = num_trials - 2
    assert num_new_configurations(plan, known) == new
    assert is_sweep_over(plan, known) == (new == 0)
    said = f"  {new} configuration{'s' if new > 1 else ''} that no trial has been given yet"
    assert list_pending(plan, known, {}) == (["To be run:", said] if lines else [])


def test_unrecorded_grid_is_pending_whole(make_plan: MakePlan) -> None:
    plan = make_plan()
    assert (num_new_configurations(plan, []), is_sweep_over(plan, [])) == (3, False)
    queued = list(open_ledger(plan).records.values())
    assert (num_new_configurations(plan, queued), pending_ids(plan, queued)) == (0, ["0000-r0", "0001-r0", "0002-r0"])


def test_finished_sweep_is_described(make_plan: MakePlan) -> None:
    plan = make_plan()
    for statuses in (("complete", "reused", "pruned"), ("complete", "failed", "failed")):
        assert describe_progress(plan, known_of(plan, *statuses)) == ["All 3 trials have ended: nothing is left to do."]


def test_started_trial_shows_its_progress(make_plan: MakePlan) -> None:
    (record,) = known_of(make_plan(trials=1, **DRAWN), "interrupted")
    assert describe_state(record) == "interrupted"
    assert describe_state(replace(record, epochs=3)) == "interrupted after epoch 3"
