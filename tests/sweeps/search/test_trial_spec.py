"""Specifications of new and recorded trials, and the trials of a configuration that are pending."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mtlib.config.trial import TrialConfig
from results.records.trials import TrialRecord
from sweeps.driver.ledger import Ledger, add_trial
from sweeps.options import SweepPlan
from sweeps.search.trial_spec import make_spec, spec_of_record, unfinished_specs
from tests.sweeps.conftest import MakePlan

PARAMS = {"smart.weight": 0.3}


def record_of(plan: SweepPlan, replicate: int = 0, **changes: Any) -> TrialRecord:
    """The record of a trial of the second configuration."""
    ledger, spec = Ledger(plan=plan), make_spec(plan.space, 1, replicate, PARAMS)
    add_trial(ledger, spec)
    return replace(ledger.records[spec.trial_id], **changes)


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
    ],
)
def test_pending_trials_are_unfinished_ones_and_replicates_of_completed_ones(
    make_plan: MakePlan, statuses: Sequence[str], left: list[int]
) -> None:
    plan = make_plan(replicates=3)
    records = [record_of(plan, again, status=status) for again, status in enumerate(statuses)]
    assert unfinished_specs(plan, records) == [make_spec(plan.space, 1, again, PARAMS) for again in left]


def test_recorded_trial_runs_as_recorded(make_plan: MakePlan) -> None:
    """The space may have changed since."""
    plan = make_plan()
    own = TrialConfig.from_json(record_of(plan).config).override({"optimizer.learning_rate": 0.5})
    record = record_of(plan, config=own.to_json())
    spec = spec_of_record(plan.space, record, record, 0)
    assert (spec.trial_id, spec.config, spec.params) == ("0001-r0", own, PARAMS)
    assert spec_of_record(plan.space, record, None, 1) == make_spec(plan.space, 1, 1, PARAMS)
