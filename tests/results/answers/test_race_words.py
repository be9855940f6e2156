"""What users read of a race."""

from collections.abc import Callable

import pytest

from results.answers.race_words import decision_line, decision_lines, ending_words, progress_words, race_answer
from results.records.race import (
    DECIDED,
    EXCLUDED_CLAIM,
    LAST_ROUND,
    SHOWN_CLAIM,
    UNDECIDABLE,
    ClaimEstimate,
    RaceRecord,
    RoundDecision,
)
from results.records.trials import TrialRecord

SECOND = RoundDecision(num_rounds=2, open=(0, 1, 3), worse=(4, 5), equal=(2,), expected_rounds=(5, 3, 5))


def test_round_has_a_line_of_what_left_and_when_the_rest_is_expected_to_be_decided() -> None:
    expected = "0004, 0005 are not the best; 0002 is equal to the best within the margin"
    assert (
        decision_line(SECOND, is_repeated=False)
        == f"Round 2: {expected}; 3 go on, expected to be decided after round 5"
    )
    nothing = RoundDecision(num_rounds=3, open=(0, 1), expected_rounds=(9, 9))
    assert (
        decision_line(nothing, is_repeated=False)
        == "Round 3: none leaves; 2 go on, expected to be decided after round 9"
    )


def test_end_says_why() -> None:
    ends = {end: RoundDecision(num_rounds=4, open=(0, 3), end=end) for end in (UNDECIDABLE, LAST_ROUND)}
    left = "which of 0000, 0003 is the best"
    unlikely = decision_line(ends[UNDECIDABLE], is_repeated=False)
    assert unlikely.endswith(f"the remaining rounds (--replicates) are unlikely to show {left}")
    assert decision_line(ends[LAST_ROUND], is_repeated=False).endswith(f"there are no more rounds to show {left}")
    last = RoundDecision(num_rounds=4, open=(0,), worse_than_base=(3,), end=DECIDED)
    assert decision_line(last, is_repeated=False) == "Round 4: 0003 is worse than the base; decided: 0000 is left"


def test_round_that_is_decided_once_more_says_so() -> None:
    joined = RoundDecision(num_rounds=2, open=(6,), worse=(0, 1, 3), end=DECIDED)
    lines = decision_lines(RaceRecord(decisions=(SECOND, joined)), 1)
    assert [line.partition(":")[0] for line in lines] == ["Round 2, with the configurations that have joined"]


def test_progress_counts_what_is_decided() -> None:
    assert progress_words(RaceRecord()) == ""
    assert progress_words(RaceRecord(decisions=(SECOND,))) == "3 of 6 decided after round 2"


def test_answer_has_the_cost_beside_that_of_training_all_alike(make_record: Callable[..., TrialRecord]) -> None:
    last = RoundDecision(num_rounds=3, open=(0,), worse=(1, 3), end=DECIDED)
    race = RaceRecord(decisions=(SECOND, last))
    trained = [*((number, again) for number in range(6) for again in range(2)), (0, 2), (1, 2), (3, 2)]
    records = [make_record(*one) for one in [*trained, (7, 0)]]
    cost = "3 rounds of 6 configurations, 15 trainings (18 with equal replicates)"
    assert race_answer(race, records) == f"Decided: 0000 (smart.weight 0) is left: {cost}."
    assert race_answer(RaceRecord(), records) == ""


CLAIMED = RoundDecision(num_rounds=3, open=(0, 1), claimed=ClaimEstimate(difference=0.02, margin=0.01, needed=None))


@pytest.mark.parametrize("end", ["", SHOWN_CLAIM, EXCLUDED_CLAIM, LAST_ROUND, UNDECIDABLE])
def test_race_about_a_claim_speaks_of_the_claim_and_not_of_the_best(
    end: str, make_record: Callable[..., TrialRecord]
) -> None:
    last = RoundDecision(**{**vars(CLAIMED), "end": end, "expected_rounds": () if end else (5, 5)})
    race = RaceRecord(decisions=(last,))
    records = [make_record(number, again) for number in range(2) for again in range(3)]
    for text in (decision_line(last, is_repeated=False), progress_words(race), race_answer(race, records)):
        assert "claim" in text.lower()
        assert "best" not in text
        assert "0001" not in text
    assert bool(ending_words(last)) == bool(end)
    assert progress_words(race) == f"claim {race.verdict} after round 3"


def test_cost_of_a_claim_is_not_compared_with_equal_replicates(make_record: Callable[..., TrialRecord]) -> None:
    """Both have as many trainings."""
    race = RaceRecord(decisions=(RoundDecision(**{**vars(CLAIMED), "end": SHOWN_CLAIM}),))
    records = [make_record(number, again) for number in range(2) for again in range(3)]
    answer = race_answer(race, records)
    assert "6 trainings" in answer
    assert "equal replicates" not in answer
