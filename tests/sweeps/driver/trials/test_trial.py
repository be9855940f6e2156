"""Specifications of new and recorded trials, and the trials of a configuration that are pending."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from mtlib.config.trial import TrialConfig
from results.records.expected_trials import expected_trials
from results.records.race import RaceRecord, RoundDecision
from results.records.replicated_best import by_configuration
from results.records.trials import TrialRecord
from search_spaces.domain import Float
from sweeps.driver.trials.trial import (
    left_to_run,
    make_trial,
    most_replicates,
    num_left_to_run,
    replicates_left,
    trial_of,
)
from sweeps.options import SweepPlan
from tests.sweeps.conftest import MakePlan, with_options

PARAMS = {"smart.weight": 0.3}


def record_of(plan: SweepPlan, replicate: int = 0, **changes: Any) -> TrialRecord:
    """The record of a trial of the second configuration."""
    return replace(make_trial(plan.space, 1, replicate, PARAMS), **changes)


@pytest.mark.parametrize(("replicate", "name"), [(0, "0001-r0"), (2, "0001-r2")])
def test_new_trial_is_the_base_with_searched_values_and_replicate(
    make_plan: MakePlan, replicate: int, name: str
) -> None:
    plan = make_plan()
    spec = make_trial(plan.space, 1, replicate, PARAMS)
    assert (spec.trial_id, spec.number, spec.replicate, spec.params) == (name, 1, replicate, PARAMS)
    config = plan.space.base.override({"smart.weight": 0.3, "replicate": replicate})
    assert (spec.config, spec.config_hash, spec.seed) == (config.to_json(), config.content_hash, config.seed)


@pytest.mark.parametrize(
    ("statuses", "left"),
    [
        (["queued"], [0]),
        (["pruned"], []),
        (["failed"], []),
        (["complete"], [1, 2]),
        (["complete", "running"], [1, 2]),
        (["complete", "failed"], [2]),
        (["complete", "reused", "pruned"], []),
        (["queued", "complete"], [0]),
        (["failed", "interrupted"], [1]),
    ],
)
def test_pending_trials_are_unfinished_ones_and_replicates_of_completed_ones(
    make_plan: MakePlan, statuses: Sequence[str], left: list[int]
) -> None:
    plan = make_plan(replicates=3)
    own = {again: record_of(plan, again, status=status) for again, status in enumerate(statuses)}
    assert replicates_left(own, 3) == left
    for again in set(left) - set(own):
        assert trial_of(plan.space, own, again) == make_trial(plan.space, 1, again, PARAMS)


def scored(plan: SweepPlan, scores: Mapping[tuple[int, int], float | None]) -> dict[int, dict[int, TrialRecord]]:
    """Trials that, by number and replicate, completed with these scores, or failed with None."""
    records = []
    for (number, again), score in scores.items():
        record = make_trial(plan.space, number, again, {"smart.weight": number / 10})
        best = {} if score is None else {plan.space.metric: score}
        records.append(replace(record, status="failed" if score is None else "complete", best=best))
    return by_configuration(records)


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


def test_recorded_trial_runs_as_recorded(make_plan: MakePlan) -> None:
    """The space may have changed since."""
    plan = make_plan()
    own = TrialConfig.from_json(record_of(plan).config).override({"optimizer.learning_rate": 0.5})
    known = {0: record_of(plan, config=own.to_json())}
    assert trial_of(plan.space, known, 0) == known[0]
    assert trial_of(plan.space, known, 1) == make_trial(plan.space, 1, 1, PARAMS)


def test_configuration_that_left_a_race_has_no_further_rounds(make_plan: MakePlan) -> None:
    plan = make_plan(replicates=4, until_decided=0.0, grid={"smart.weight": (0.0, 0.1, 0.2)})
    scores = {(number, again): 0.5 + number / 10 for number in range(3) for again in range(2)}
    second = RoundDecision(num_rounds=2, open=(0, 2), worse=(1,), expected_rounds=(4, 3))
    race = RaceRecord(decisions=(second,))
    assert left_to_run(plan, scored(plan, scores), race) == [(2, 2), (0, 2), (2, 3), (0, 3)]
    records = [record for own in scored(plan, scores).values() for record in own.values()]
    assert expected_trials(plan.facts, records, race) == 4 + 3 + 2
    ended = RaceRecord(decisions=(replace(second, end="decided", expected_rounds=()),))
    assert left_to_run(plan, scored(plan, scores), ended) == []
    assert expected_trials(plan.facts, records, ended) == 6


@pytest.mark.parametrize(("status", "left"), [("interrupted", [(0, 2)]), ("complete", [])])
def test_trial_that_has_begun_is_finished_though_its_configuration_has_left_the_race(
    make_plan: MakePlan, status: str, left: list[tuple[int, int]]
) -> None:
    """Otherwise a sweep that was killed at the wrong moment would keep an unfinished trial for good."""
    plan = make_plan(replicates=4, until_decided=0.0, grid={"smart.weight": (0.0, 0.1)})
    known = scored(plan, {(number, again): 0.5 for number in range(2) for again in range(3 - number)})
    known[0][2] = replace(known[0][2], status=status)
    race = RaceRecord(decisions=(RoundDecision(num_rounds=2, open=(1,), worse=(0,), end="decided"),))
    assert left_to_run(plan, known, race) == left


def test_configuration_that_joins_an_ended_race_catches_up(make_plan: MakePlan) -> None:
    plan = make_plan(replicates=9, until_decided=0.0, grid={"smart.weight": (0.0, 0.1, 0.2)})
    known = scored(plan, {(0, 0): 0.5, (0, 1): 0.5, (0, 2): 0.5, (1, 0): 0.1, (1, 1): 0.1, (1, 2): 0.1, (2, 0): 0.3})
    race = RaceRecord(decisions=(RoundDecision(num_rounds=3, open=(0,), worse=(1,), end="decided"),))
    assert left_to_run(plan, known, race) == [(2, 1), (2, 2)]
    records = [record for own in known.values() for record in own.values()]
    assert expected_trials(plan.facts, records, race) == 3 + 3 + 3


def test_added_configuration_of_a_race_is_expected_to_get_what_every_one_gets(make_plan: MakePlan) -> None:
    plan = drawn(make_plan, 4, replicates=9, replicate_best=2, chosen_by=2, until_decided=0.0)
    scores = {(number, again): 0.5 + number / 10 for number in range(3) for again in range(2)} | {(3, 0): 0.1}
    race = RaceRecord(decisions=(RoundDecision(num_rounds=2, open=(2,), worse=(1,), end="decided"),))
    known = scored(plan, scores)
    records = [record for own in known.values() for record in own.values()]
    assert left_to_run(plan, known, race) == [(3, 1)]
    assert expected_trials(plan.facts, records, race) == len(records) + 1


def test_further_replicates_of_configurations_that_are_no_longer_the_best_count_beside_those_of_the_best(
    make_plan: MakePlan,
) -> None:
    plan = drawn(make_plan, 4, replicates=3, replicate_best=2)
    scores = {(number, again): 0.5 + number / 10 for number in range(3) for again in range(3) if number or not again}
    known = scored(plan, scores | {(3, 0): 0.9})
    records = [record for own in known.values() for record in own.values()]
    assert left_to_run(plan, known) == [(3, 1), (3, 2)]
    assert expected_trials(plan.facts, records, None) == len(records) + 2


SAMPLED: dict[str, Any] = {"search": "tpe", "grid": {}, "ranges": {"smart.weight": Float(low=0, high=1)}}


def known_of(plan: SweepPlan, *statuses: str) -> list[TrialRecord]:
    """The first trial of a configuration for each status."""
    trials = (make_trial(plan.space, number, 0, {"smart.weight": 0.1 * number}) for number in range(len(statuses)))
    return [replace(trial, status=status) for trial, status in zip(trials, statuses, strict=True)]


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
    assert num_left_to_run(plan, known, None) == num_new


CLAIM: dict[str, Any] = {
    "claim": "smart.weight=0.3 beats smart.weight=0",
    "until_decided": 0.0,
    "grid": {"smart.weight": (0.0, 0.3)},
}


def claim_after(num_rounds: int, end: str = "") -> RaceRecord:
    """A race about a claim whose last decision was after so many rounds."""
    return RaceRecord(decisions=(RoundDecision(num_rounds=num_rounds, open=(0, 1), end=end),))


def test_claim_is_trained_one_round_at_a_time(make_plan: MakePlan) -> None:
    plan = make_plan(replicates=9, **CLAIM)
    trained = {(number, again): 0.5 for number in range(2) for again in range(2)}
    first = scored(plan, {(0, 0): 0.5, (1, 0): 0.5})
    assert left_to_run(plan, first, RaceRecord()) == [(0, 1), (1, 1)], "two rounds precede the first decision"
    assert left_to_run(plan, scored(plan, trained), RaceRecord()) == [], "its decision is waited for"
    assert sorted(left_to_run(plan, scored(plan, trained), claim_after(2))) == [(0, 2), (1, 2)]
    third = scored(plan, trained | {(1, 2): 0.5})
    assert left_to_run(plan, third, claim_after(2)) == [(0, 2)]


@pytest.mark.parametrize("end", ["shown", "excluded", "undecidable", "last round"])
def test_claim_that_has_ended_trains_nothing_more(make_plan: MakePlan, end: str) -> None:
    plan = make_plan(replicates=9, **CLAIM)
    trained = scored(plan, {(number, again): 0.5 for number in range(2) for again in range(4)})
    assert left_to_run(plan, trained, claim_after(4, end)) == []


def test_claim_has_at_most_its_replicates(make_plan: MakePlan) -> None:
    options = make_plan(replicates=4, **CLAIM).options
    rounds = [RaceRecord(), *(claim_after(number) for number in (2, 3, 4))]
    assert [most_replicates(options, race, 0) for race in rounds] == [2, 3, 4, 4]
