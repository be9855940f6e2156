"""The decisions of a race are read back as they were written."""

import json

from results.records.race import DECIDED, RaceRecord, RoundDecision, race_of, race_to_json

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
