"""The decisions of a race are read back as they were written."""

import json
from dataclasses import replace

import pytest

from results.records.race import (
    DECIDED,
    EXCLUDED_CLAIM,
    LAST_ROUND,
    OPEN_CLAIM,
    SHOWN_CLAIM,
    UNDECIDABLE,
    ClaimEstimate,
    RaceRecord,
    RoundDecision,
    race_of,
    race_to_json,
)

SECOND = RoundDecision(num_rounds=2, open=(0, 1, 3), worse=(4,), expected_rounds=(5, 3, 5))
THIRD = RoundDecision(num_rounds=3, open=(0,), worse_than_base=(1,), equal=(3,), end=DECIDED)


def test_decisions_are_read_back() -> None:
    kept = json.loads(json.dumps(race_to_json([SECOND, THIRD])))
    assert race_of({"race": kept}) == RaceRecord(decisions=(SECOND, THIRD))
    assert race_of({"race": []}) == RaceRecord()
    assert race_of({}) is None


def test_configurations_leave_after_the_round_that_decided_on_them() -> None:
    race = RaceRecord(decisions=(SECOND, THIRD))
    assert race.left_at == {4: 2, 1: 3, 3: 3}
    assert race.worse_at == {4: 2, 1: 3}
    assert (race.num_rounds, race.end) == (3, DECIDED)
    assert race.expected_at == {0: 3, 4: 2, 1: 3, 3: 3}
    assert RaceRecord(decisions=(SECOND,)).expected_at == {0: 5, 1: 3, 3: 5, 4: 2}
    assert (RaceRecord().num_rounds, RaceRecord().end, RaceRecord().expected_at) == (0, "", {})


CLAIMED = RoundDecision(
    num_rounds=2, open=(0, 1), expected_rounds=(4, 4), claimed=ClaimEstimate(difference=0.1, margin=0.2, needed=4)
)


def test_estimates_of_a_claim_are_read_back() -> None:
    unknown = replace(CLAIMED, claimed=None)
    decided = replace(CLAIMED, claimed=ClaimEstimate(difference=-0.1, margin=0.05, needed=None), end=EXCLUDED_CLAIM)
    decisions = (CLAIMED, unknown, decided)
    kept = json.loads(json.dumps(race_to_json(decisions), allow_nan=False))
    assert race_of({"race": kept}) == RaceRecord(decisions=decisions)


def test_decisions_of_races_without_an_entry_for_claims_are_read() -> None:
    kept = json.loads(json.dumps(race_to_json([SECOND, THIRD])))
    older = [{name: value for name, value in own.items() if name != "claimed"} for own in kept]
    assert race_of({"race": older}) == RaceRecord(decisions=(SECOND, THIRD))


@pytest.mark.parametrize(
    ("end", "verdict", "is_final"),
    [
        ("", OPEN_CLAIM, False),
        (SHOWN_CLAIM, SHOWN_CLAIM, True),
        (EXCLUDED_CLAIM, EXCLUDED_CLAIM, True),
        (LAST_ROUND, OPEN_CLAIM, False),
        (UNDECIDABLE, OPEN_CLAIM, False),
    ],
)
def test_claim_is_open_until_it_is_shown_or_excluded(end: str, verdict: str, is_final: bool) -> None:
    race = RaceRecord(decisions=(CLAIMED, replace(CLAIMED, num_rounds=3, end=end)))
    assert (race.verdict, race.is_final) == (verdict, is_final)
    assert race.left_at == {}, "both are trained to the end"


def test_race_without_a_decision_is_open() -> None:
    assert (RaceRecord().verdict, RaceRecord().is_final) == (OPEN_CLAIM, False)


def test_race_for_the_best_is_final_once_one_is_left() -> None:
    assert RaceRecord(decisions=(SECOND, THIRD)).is_final
    assert not RaceRecord(decisions=(replace(SECOND, end=LAST_ROUND),)).is_final
