"""Specifications of new and recorded trials, and the trials of a configuration that are pending."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mtlib.config.trial import TrialConfig
from results.records.trials import TrialRecord
from sweeps.driver.ledger import queued_record
from sweeps.options import SweepPlan
from sweeps.search.trial_spec import CompletedTrial, further_specs, make_spec, spec_of_record, unfinished_specs
from tests.sweeps.conftest import MakePlan

PARAMS = {"smart.weight": 0.3}


def record_of(plan: SweepPlan, replicate: int = 0, **changes: Any) -> TrialRecord:
    """The record of a trial of the second configuration."""
    return replace(queued_record(make_spec(plan.space, 1, replicate, PARAMS)), **changes)


@pytest.mark.parametrize(("replicate", "name"), [(0, "0001-r0"), (2, "0001-r2")])
def test_new_trial_is_the_base_with_searched_values_and_replicate(
    make_plan: MakePlan, replicate: int, name: str
) -> None:
    plan = make_plan()
    spec = make_spec(plan.space, 1, replicate, PARAMS)
    assert (spec.trial_id, spec.number, spec.replicate, spec.params) == (name, 1, replicate, PARAMS)
    assert spec.config == plan.space.base.override({"smart.weight": 0.3, "replicate": replicate})


@pytest.mark.parametrize(
    ("statuses", "left"),
    [
        (["queued"], [0]),
        (["running"], [0]),
        (["interrupted"], [0]),
        (["pruned"], []),
        (["failed"], []),
        (["complete"], [1, 2]),
        (["reused"], [1, 2]),
        (["complete", "running"], [1, 2]),
        (["complete", "failed"], [2]),
        (["complete", "reused", "pruned"], []),
        (["queued", "complete"], [0]),
        (["running", "running"], [0, 1]),
        (["failed", "interrupted"], [1]),
    ],
)
def test_pending_trials_are_unfinished_ones_and_replicates_of_completed_ones(
    make_plan: MakePlan, statuses: Sequence[str], left: list[int]
) -> None:
    plan = make_plan(replicates=3)
    records = [record_of(plan, again, status=status) for again, status in enumerate(statuses)]
    assert unfinished_specs(plan, records) == [make_spec(plan.space, 1, again, PARAMS) for again in left]


def test_best_configurations_get_further_replicates_in_turn(make_plan: MakePlan) -> None:
    plan = make_plan(replicates=4, replicate_best=2, chosen_by=2)
    scores = {(0, 0): 0.9, (1, 0): 0.5, (1, 1): 0.7, (2, 0): 0.6, (2, 1): 0.5, (3, 0): 0.1, (3, 1): 0.9}
    further = {(3, 2): 5.0, (2, 2): 5.0}
    completed = [
        CompletedTrial(number=number, replicate=replicate, params={"smart.weight": number / 10}, best=best, scores={})
        for (number, replicate), best in {**scores, **further}.items()
    ]
    found = further_specs(plan, completed, {"0001-r2", "0003-r2"})
    assert [spec.trial_id for spec in found] == ["0000-r2", "0000-r3", "0001-r3"]
    assert [spec.config.replicate for spec in found] == [2, 3, 3]
    assert found[2].params == {"smart.weight": 0.1}


def test_configuration_whose_first_training_failed_gets_no_further_replicates(make_plan: MakePlan) -> None:
    """A replicate of it that had begun before may have completed."""
    plan = make_plan(replicates=3, replicate_best=2, chosen_by=2)
    scores = {(0, 1): 0.9, (1, 0): 0.5, (1, 1): 0.5}
    completed = [
        CompletedTrial(number=number, replicate=replicate, params=PARAMS, best=best, scores={})
        for (number, replicate), best in scores.items()
    ]
    assert [spec.trial_id for spec in further_specs(plan, completed, ())] == ["0001-r2"]


def test_of_equal_scores_the_lower_number_is_better(make_plan: MakePlan) -> None:
    plan = make_plan(replicates=3, replicate_best=2)
    completed = [CompletedTrial(number=n, replicate=0, params=PARAMS, best=0.5, scores={}) for n in (4, 1, 3)]
    assert [spec.number for spec in further_specs(plan, completed, ())] == [1, 3, 1, 3]


@pytest.mark.parametrize(("status", "left"), [("interrupted", [2]), ("complete", []), ("failed", [])])
def test_further_replicates_on_record_are_finished(make_plan: MakePlan, status: str, left: list[int]) -> None:
    plan = make_plan(replicates=4, replicate_best=2)
    records = [record_of(plan, 0, status="complete"), record_of(plan, 2, status=status)]
    assert [spec.replicate for spec in unfinished_specs(plan, records)] == left


def test_recorded_trial_runs_as_recorded(make_plan: MakePlan) -> None:
    """The space may have changed since."""
    plan = make_plan()
    own = TrialConfig.from_json(record_of(plan).config).override({"optimizer.learning_rate": 0.5})
    record = record_of(plan, config=own.to_json())
    spec = spec_of_record(plan.space, record, record, 0)
    assert (spec.trial_id, spec.config, spec.params) == ("0001-r0", own, PARAMS)
    assert spec_of_record(plan.space, record, None, 1) == make_spec(plan.space, 1, 1, PARAMS)
