"""How many trials a sweep will have had, and how many of them have ended, by its records."""

from typing import Any

import pytest

from results.records.expected_trials import describe_ended, expected_trials, status_counts
from results.records.race import RACE_KEY, RoundDecision, race_to_json
from tests.results.conftest import build_record

GRID = {"search": "grid", "replicates": 3}
RACE = {"search": "grid", "replicates": 20, "until_decided": 0.0}


def info_of(options: dict[str, Any], **info: Any) -> dict[str, Any]:
    race: dict[str, Any] = {RACE_KEY: []} if "until_decided" in options else {}
    return {"options": options, "num_configurations": 3, "space": {"metric": "overall"}, **race, **info}


@pytest.mark.parametrize(
    ("options", "expected", "ended"),
    [
        (GRID, 9, "2 of 9 trials ended"),
        ({**GRID, "scheduler": "asha"}, 9, "2 of at most 9 trials ended"),
        (RACE, 60, "2 of at most 60 trials ended"),
        ({"search": "tpe", "replicates": 5, "replicate_best": 2, "chosen_by": 1}, 3 + 2 * 4, "2 of 11 trials ended"),
        ({}, 3, "2 of 3 trials ended"),
    ],
)
def test_trials_that_are_not_on_record_count_as_queued(options: dict[str, Any], expected: int, ended: str) -> None:
    records = [build_record(0), build_record(1), build_record(2, status="interrupted")]
    assert expected_trials(info_of(options), records) == expected
    assert describe_ended(info_of(options), records) == ended
    counts = {"complete": 2, "interrupted": 1, "queued": expected - 3}
    assert status_counts(info_of(options), records) == {status: count for status, count in counts.items() if count}


def test_race_is_expected_to_have_the_rounds_of_its_last_decision() -> None:
    records = [build_record(number, replicate) for number in range(3) for replicate in range(2)]
    going = RoundDecision(num_rounds=2, open=(0, 2), worse=(1,), expected_rounds=(4, 4))
    assert describe_ended(info_of(RACE, race=race_to_json([going])), records) == "6 of about 10 trials ended"
    over = RoundDecision(num_rounds=2, open=(0,), worse=(1, 2), end="decided")
    assert describe_ended(info_of(RACE, race=race_to_json([over])), records) == "6 of 6 trials ended"


def test_sweep_that_recorded_no_options_has_the_trials_on_record() -> None:
    assert describe_ended({}, [build_record(0), build_record(1, status="running")]) == "1 of 2 trials ended"
