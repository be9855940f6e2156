"""Rounds are complete once all their trials have ended, no matter which later ones have."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from results.records.race import RaceRecord
from results.records.trials import TrialRecord
from results.stats.error_spending import Look
from results.stats.looks import looks_at, round_to_decide

MakeRecord = Callable[..., TrialRecord]
GRID = {"search": "grid", "num_configurations": 2}


def records_of(make_record: MakeRecord, statuses: Mapping[tuple[int, int], str]) -> list[TrialRecord]:
    return [make_record(number, replicate, status=status) for (number, replicate), status in statuses.items()]


@pytest.mark.parametrize(
    ("statuses", "num_rounds"),
    [
        ({}, 0),
        ({(0, 0): "complete"}, 0),
        ({(0, 0): "complete", (0, 1): "complete", (0, 2): "complete"}, 0),
        ({(0, 0): "complete", (1, 0): "running"}, 0),
        ({(0, 0): "complete", (1, 0): "reused", (0, 1): "complete"}, 1),
        ({(0, 0): "complete", (1, 0): "complete", (0, 1): "complete", (1, 1): "interrupted"}, 1),
        ({(0, 0): "complete", (1, 0): "complete", (0, 1): "complete", (1, 1): "failed"}, 2),
        ({(0, 0): "complete", (1, 0): "failed", (0, 1): "complete"}, 2),
        ({(0, 0): "complete", (1, 0): "pruned", (0, 1): "complete", (0, 2): "queued"}, 2),
        ({(0, 0): "failed", (1, 0): "failed"}, 1),
    ],
)
def test_round_is_complete_once_all_its_trials_have_ended(
    statuses: Mapping[tuple[int, int], str], num_rounds: int, make_record: MakeRecord
) -> None:
    assert looks_at(GRID, records_of(make_record, statuses)).num_rounds == num_rounds


def test_trials_of_complete_rounds_count(make_record: MakeRecord) -> None:
    records = records_of(make_record, {(n, r): "complete" for n in range(2) for r in range(3)})
    looks = looks_at(GRID | {"first_look": {"configurations": 2, "replicates": 2}}, records[:-1])
    assert [looks.has(record.number, record.replicate) for record in records] == [True, True, False] * 2
    assert (looks.num_rounds, looks.declared) == (2, 2)
    assert looks.kept == (looks.now,)


def test_declared_look_is_kept_once_it_is_past(make_record: MakeRecord) -> None:
    records = records_of(make_record, {(n, r): "complete" for n in range(2) for r in range(5)})
    looks = looks_at(GRID | {"first_look": {"configurations": 2, "replicates": 3}}, records)
    assert looks.kept == (Look(num_rounds=3, declared=3), Look(num_rounds=5, declared=3))
    assert [looks.has(0, replicate, looks.kept[0]) for replicate in range(5)] == [True, True, True, False, False]


BEST = {
    "search": "grid",
    "num_configurations": 3,
    "options": {"replicates": 3, "replicate_best": 2, "chosen_by": 1},
    "space": {"metric": "overall"},
}


def scored(make_record: MakeRecord, scores: Mapping[tuple[int, int], float]) -> list[TrialRecord]:
    """Complete trials with these scores, by configuration and replicate."""
    return [make_record(number, again, best={"overall": score}) for (number, again), score in scores.items()]


def test_only_the_best_have_the_rounds_that_only_they_are_trained_in(make_record: MakeRecord) -> None:
    trained = {(0, 0): 0.7, (1, 0): 0.5, (2, 0): 0.6, (0, 1): 0.6, (2, 1): 0.6}
    assert looks_at(BEST, scored(make_record, trained)).num_rounds == 2
    assert looks_at(BEST, scored(make_record, trained | {(0, 2): 0.7})).num_rounds == 2
    del trained[2, 1]  # stopped before it began: nothing is decided among those that have begun
    assert looks_at(BEST, scored(make_record, trained)).num_rounds == 1


def test_rounds_are_those_of_the_best_that_are_trained_further_with_another_number_of_best(
    make_record: MakeRecord,
) -> None:
    """Two had three trainings when the sweep was resumed with `--replicates 4 --replicate-best 1`."""
    trained = {(n, r): 0.7 - n / 10 for n in range(3) for r in range(3) if n < 2 or r == 0} | {(0, 3): 0.7}
    info = BEST | {"options": {"replicates": 4, "replicate_best": 1, "chosen_by": 1}}
    assert looks_at(info, scored(make_record, trained)).num_rounds == 4


@pytest.mark.parametrize("first", [None, {"configurations": 2, "replicates": 3}])
def test_search_counts_trainings_and_a_pruned_one_as_all_of_its_configuration(
    first: dict[str, int] | None, make_record: MakeRecord
) -> None:
    statuses = {(0, 0): "complete", (0, 1): "complete", (0, 2): "failed", (1, 0): "pruned", (2, 0): "running"}
    info: dict[str, Any] = {"search": "tpe", "options": {"replicates": 3}, "first_look": first}
    records = records_of(make_record, statuses)
    looks = looks_at(info, records)
    assert (looks.num_rounds, looks.declared) == (6, 6)
    assert looks.has(0, 2)
    assert looks.kept == (looks.now,)


def test_no_round_of_the_best_is_complete_before_they_are_chosen(make_record: MakeRecord) -> None:
    """The first training of the third failed while its second one, which counts for nothing, was running."""
    trained = {(number, again): 0.7 - number / 10 for number in range(3) for again in range(2)}
    records = scored(make_record, trained)
    options = {"replicates": 6, "replicate_best": 2, "chosen_by": 2, "until_decided": 0.0}
    info = BEST | {"search": "tpe", "options": options, "race": []}
    failed = [replace(own, status="failed") if own.trial_id == "0002-r0" else own for own in records]
    assert round_to_decide(info, failed, RaceRecord()) == 2
    running = [replace(own, status="interrupted") if own.trial_id == "0002-r1" else own for own in failed]
    assert round_to_decide(info, running, RaceRecord()) is None
