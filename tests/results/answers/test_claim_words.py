"""What users read of a claim: after each round, and as the answer."""

import re
from dataclasses import replace

import numpy as np
import pytest

from results.answers.claim_words import claim_answer, claim_decision_words, claim_ending, limits_text
from results.records.race import (
    EXCLUDED_CLAIM,
    LAST_ROUND,
    SHOWN_CLAIM,
    UNDECIDABLE,
    ClaimEstimate,
    RaceRecord,
    RoundDecision,
)
from search_spaces.claim import read_claim
from tests.results.stats.test_race import decide_pair

CLAIM = read_claim("smart.weight=1 beats smart.weight=0 by 0.005")
FOUND = ClaimEstimate(difference=0.012, margin=0.011, needed=7)
GOING = RoundDecision(num_rounds=3, open=(0, 1), expected_rounds=(7, 7), claimed=FOUND)
ENDED = replace(GOING, expected_rounds=(), claimed=replace(FOUND, needed=None))


def answer_after(*decisions: RoundDecision) -> str:
    """The answer, in which a cost is its number of replicates in brackets."""
    return claim_answer(CLAIM, RaceRecord(decisions=decisions), "overall", lambda number: f"<{number}>")


def numbers_in(text: str) -> list[float]:
    """The numbers with a sign, as differences have one."""
    return [float(number) for number in re.findall(r"[+-]\.\d+", text)]


def test_limits_are_the_difference_less_and_plus_its_margin() -> None:
    assert numbers_in(limits_text(FOUND)) == [0.012, 0.001, 0.023]
    assert numbers_in(limits_text(ClaimEstimate(difference=-0.02, margin=0.03, needed=None))) == [-0.02, -0.05, 0.01]


def test_open_round_says_when_the_claim_is_expected_to_be_decided() -> None:
    words = claim_decision_words(GOING)
    assert words.startswith("Round 3: ")
    assert "open" in words
    assert "by round 7" in words
    assert numbers_in(words) == [0.012, 0.001, 0.023]
    assert claim_ending(GOING) == ""


@pytest.mark.parametrize("end", [SHOWN_CLAIM, EXCLUDED_CLAIM])
def test_round_that_decides_says_how_and_expects_no_other(end: str) -> None:
    words = claim_decision_words(replace(ENDED, end=end))
    assert end in words
    assert "open" not in words
    assert "expected" not in words
    assert end in claim_ending(replace(ENDED, end=end))


@pytest.mark.parametrize("end", [LAST_ROUND, UNDECIDABLE])
def test_race_that_ends_open_names_the_flag_that_would_continue_it(end: str) -> None:
    words = claim_decision_words(replace(GOING, expected_rounds=(), end=end))
    assert "open" in words
    assert "--replicates" in words
    assert "expected" not in words
    assert claim_ending(replace(GOING, end=LAST_ROUND)) != claim_ending(replace(GOING, end=UNDECIDABLE))


@pytest.mark.parametrize(
    ("end", "verdict"), [(SHOWN_CLAIM, "Shown"), (EXCLUDED_CLAIM, "Excluded"), (LAST_ROUND, "Open")]
)
def test_answer_begins_with_the_verdict_and_has_the_claim_and_its_limits(end: str, verdict: str) -> None:
    answer = answer_after(GOING, replace(ENDED, num_rounds=4, end=end))
    assert answer.startswith(f"{verdict}: ")
    assert CLAIM.text in answer
    assert numbers_in(answer) == [0.012, 0.001, 0.023]
    assert "4 replicates" in answer


@pytest.mark.parametrize("end", [SHOWN_CLAIM, EXCLUDED_CLAIM])
def test_decided_claim_proposes_no_further_trainings(end: str) -> None:
    assert "<" not in answer_after(replace(ENDED, end=end))


@pytest.mark.parametrize("end", [LAST_ROUND, UNDECIDABLE])
def test_claim_that_ended_open_has_the_cost_of_what_would_decide_it(end: str) -> None:
    assert answer_after(replace(GOING, end=end)).endswith("<7>")
    assert "<" not in answer_after(replace(ENDED, end=end)), "no number would"


def test_running_race_needs_no_command() -> None:
    answer = answer_after(GOING)
    assert answer.startswith("Open: ")
    assert "7 replicates" in answer
    assert "<" not in answer


def test_claim_of_which_nothing_is_known_is_open_and_says_what_is_lacking() -> None:
    missing = RoundDecision(num_rounds=2, open=(1,), end=UNDECIDABLE)
    for answer in (answer_after(), answer_after(missing)):
        assert answer.startswith("Open: ")
        assert CLAIM.text in answer
        assert "two trainings" in answer.lower()
        assert numbers_in(answer) == []


def test_last_estimate_stays_where_a_later_round_has_none() -> None:
    later = RoundDecision(num_rounds=4, open=(0, 1), end=LAST_ROUND)
    assert numbers_in(answer_after(GOING, later)) == [0.012, 0.001, 0.023]


def test_claim_that_very_many_trainings_leave_open_says_so() -> None:
    """There is no variance over examples; the difference is all but the one that is claimed."""
    signs = np.where(np.arange(8) % 2, 1, -1)
    table = 0.7 + 0.01 * np.stack([signs, -signs]) + 0.05 * np.random.default_rng(0).normal(size=8)
    decision = decide_pair(table, claim=0.0, most_rounds=8)
    assert decision.claimed is not None
    assert decision.claimed.needed is None
    assert "not even 200 replicates" in answer_after(decision)


def test_limits_far_from_0_keep_their_digits() -> None:
    """As those of an error in the unit of the labels."""
    assert limits_text(ClaimEstimate(difference=10.5, margin=20.25)) == (
        "better by +10.5000, at least by -9.7500, at most by +30.7500"
    )


def test_claim_of_which_one_side_failed_says_how_to_go_on() -> None:
    decision = RoundDecision(num_rounds=2, open=(1,), end=UNDECIDABLE, claimed=ClaimEstimate())
    assert "--retry-failed" in claim_decision_words(decision)
    assert "unlikely" not in claim_decision_words(decision)
