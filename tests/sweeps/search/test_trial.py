"""Specifications of new and recorded trials, and the trials of a configuration that are pending."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from mtlib.config.trial import TrialConfig
from results.records.trials import TrialRecord
from search_spaces.domain import Float
from sweeps.options import SweepPlan
from sweeps.search.trial import KnownConfiguration, known_configurations, left_to_run, make_trial, queued_record
from tests.sweeps.conftest import MakePlan, with_options

PARAMS = {"smart.weight": 0.3}


def record_of(plan: SweepPlan, replicate: int = 0, **changes: Any) -> TrialRecord:
    """The record of a trial of the second configuration."""
    return replace(queued_record(make_trial(plan.space, 1, replicate, PARAMS)), **changes)


@pytest.mark.parametrize(("replicate", "name"), [(0, "0001-r0"), (2, "0001-r2")])
def test_new_trial_is_the_base_with_searched_values_and_replicate(
    make_plan: MakePlan, replicate: int, name: str
) -> None:
    plan = make_plan()
    spec = make_trial(plan.space, 1, replicate, PARAMS)
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
    one = known_configurations(plan, records)[1]
    assert one.left(3) == left
    new = [again for again in left if again >= len(records)]
    assert [one.make_trial(plan.space, again) for again in new] == [
        make_trial(plan.space, 1, again, PARAMS) for again in new
    ]


def scored(plan: SweepPlan, scores: Mapping[tuple[int, int], float | None]) -> dict[int, KnownConfiguration]:
    """Configurations whose trials, by number and replicate, completed with these scores, or failed with None."""
    records = []
    for (number, again), score in scores.items():
        record = queued_record(make_trial(plan.space, number, again, {"smart.weight": number / 10}))
        best = {} if score is None else {plan.space.metric: score}
        records.append(replace(record, status="failed" if score is None else "complete", best=best))
    return known_configurations(plan, records)


def drawn(make_plan: MakePlan, trials: int, **options: Any) -> SweepPlan:
    ranges = {"smart.weight": Float(low=0, high=10)}
    return make_plan(grid={}, ranges=ranges, search="random", trials=trials, **options)


def test_best_configurations_get_further_replicates_in_turn(make_plan: MakePlan) -> None:
    plan = drawn(make_plan, 4, replicates=4, replicate_best=2, chosen_by=2)
    scores = {(0, 0): 0.9, (0, 1): None, (1, 0): 0.5, (1, 1): 0.7, (2, 0): 0.6, (2, 1): 0.5, (3, 0): 0.1, (3, 1): 0.9}
    further = {(3, 2): 5.0, (2, 2): 5.0, (1, 2): 0.1}
    assert left_to_run(plan, scored(plan, {**scores, **further})) == [(0, 2), (0, 3), (1, 3)]
    more = with_options(plan, trials=5)
    assert left_to_run(more, scored(more, scores)) == [], "a configuration is yet to be drawn"


def test_configuration_whose_first_training_failed_gets_no_further_replicates(make_plan: MakePlan) -> None:
    """A replicate of it that had begun before may have completed."""
    plan = drawn(make_plan, 2, replicates=3, replicate_best=2, chosen_by=2)
    scores = {(0, 0): None, (0, 1): 0.9, (1, 0): 0.5, (1, 1): 0.5}
    assert left_to_run(plan, scored(plan, scores)) == [(1, 2)]


def test_of_equal_scores_the_lower_number_is_better(make_plan: MakePlan) -> None:
    plan = drawn(make_plan, 3, replicates=3, replicate_best=2)
    assert left_to_run(plan, scored(plan, {(4, 0): 0.5, (1, 0): 0.5, (3, 0): 0.5})) == [(1, 1), (3, 1), (1, 2), (3, 2)]


@pytest.mark.parametrize(("status", "left"), [("interrupted", [2]), ("complete", []), ("failed", [])])
def test_further_replicates_on_record_are_finished(make_plan: MakePlan, status: str, left: list[int]) -> None:
    plan = make_plan(replicates=4, replicate_best=2)
    records = [record_of(plan, 0, status="complete"), record_of(plan, 2, status=status)]
    assert known_configurations(plan, records)[1].left(1) == left


def test_recorded_trial_runs_as_recorded(make_plan: MakePlan) -> None:
    """The space may have changed since."""
    plan = make_plan()
    own = TrialConfig.from_json(record_of(plan).config).override({"optimizer.learning_rate": 0.5})
    one = known_configurations(plan, [record_of(plan, config=own.to_json())])[1]
    trial = one.make_trial(plan.space, 0)
    assert (trial.trial_id, trial.config, trial.params) == ("0001-r0", own, PARAMS)
    assert one.make_trial(plan.space, 1) == make_trial(plan.space, 1, 1, PARAMS)
