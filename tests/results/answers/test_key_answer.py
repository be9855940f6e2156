"""Which value of a grid's key to use, what is decided, and the words for it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mtlib.tasks import TASKS
from results.answers.key_answer import KeyAnswer, key_answer, key_words, largest_undecided
from results.stats.key_effects import Trend, ValueEffect
from tests.results.answers.test_answer import KEY, sweep_of, value

BASE = value(0.0, None)
RISES = Trend(is_upward=True, is_better=True, first=0.45)
FALLS = Trend(is_upward=True, is_better=False, first=0.45)
SAME = replace(value(0.45, 0.0, 0.0), is_same=True)


def answer_of(values: Sequence[ValueEffect], trend: Trend | None = None) -> KeyAnswer:
    return key_answer(KEY, [BASE, *values], trend)


def words_of(values: Sequence[ValueEffect], trend: Trend | None = None, **changes: Any) -> str:
    return " ".join(key_words(answer_of(values, trend), sweep_of([], **changes).columns["overall"]))


@pytest.mark.parametrize(
    ("values", "trend", "chosen"),
    [
        ([value(0.45, 0.004), value(1.0, 0.003)], None, 0.0),
        ([value(0.45, 0.014), value(1.0, 0.02)], None, 1.0),
        ([value(0.45, -0.014), value(1.0, -0.02)], None, 0.0),
        ([value(0.45, 0.006), value(1.0, 0.008)], RISES, 1.0),
        ([value(0.3, 0.009), value(0.45, 0.006), value(1.0, 0.005)], RISES, 0.45),
        ([value(0.45, -0.006), value(1.0, -0.008)], FALLS, 0.0),
        ([SAME], None, 0.0),
    ],
)
def test_base_is_kept_unless_a_difference_or_a_trend_shows_a_better_value(
    values: list[ValueEffect], trend: Trend | None, chosen: float
) -> None:
    answer = answer_of(values, trend)
    assert answer.chosen == chosen
    assert answer.is_kept == (chosen == 0.0)


def test_decided_values_are_sorted_and_others_bound_what_is_missed() -> None:
    answer = answer_of([value(0.1, -0.011), value(0.2, 0.004), value(0.3, -0.02), value(0.4, -0.002)])
    assert [own.value for own in answer.worse] == [0.3, 0.1]
    assert [own.value for own in answer.undecided] == [0.2, 0.4]
    assert answer.bound == pytest.approx(0.014)
    assert answer_of([value(0.1, -0.02)]).bound is None
    assert answer_of([value(0.1, -0.0099, 0.0098)]).bound is None
    assert answer_of([value(0.1, -0.005, 0.005)]).bound == 0.0


def test_trend_that_a_single_difference_shows_is_not_named() -> None:
    assert answer_of([value(0.45, 0.014)], RISES).trend is None
    assert answer_of([value(0.45, 0.006), value(1.0, 0.014)], RISES).trend == RISES


def test_what_the_trend_decides_is_not_undecided() -> None:
    values = [value(0.3, -0.004), value(0.45, -0.008), value(1.0, -0.009)]
    for trend, expected in ((None, 1.0), (FALLS, 0.3), (replace(FALLS, first=0.3), None)):
        found = largest_undecided(answer_of(values, trend))
        assert (found and found.value) == expected
    assert largest_undecided(answer_of(values, RISES)) is None
    assert largest_undecided(answer_of([value(0.45, 0.014), value(1.0, 0.004)])) is None, "a better value is found"


GOLDEN: list[tuple[list[ValueEffect], Trend | None, str]] = [
    (
        [value(0.45, 0.014), value(1.0, -0.02), value(2.0, 0.011), value(3.0, 0.001)],
        None,
        "Take smart.weight 0.45: it is better than 0 by .014 overall (.004 to .024; 95 %; 3 replicates). 1 is worse by "
        ".020 (.010 to .030). 2 is better too by .011 (.001 to .021). Whether 3 differs from 0 is not decided.",
    ),
    (
        [value(0.45, 0.004), value(1.0, -0.02), value(2.0, -0.03)],
        None,
        "Keep smart.weight 0: no value tried is better by more than .014 overall (95 %; 3 replicates). 2 is worse by "
        ".030 (.020 to .040), 1 by .020 (.010 to .030).",
    ),
    (
        [value(0.45, -0.014)],
        None,
        "Keep smart.weight 0: every other value is worse overall (95 %; 3 replicates). 0.45 is worse by .014 (.004 to "
        ".024).",
    ),
    (
        [SAME, value(1.0, -0.02)],
        None,
        "Keep smart.weight 0: every other value that trained otherwise is worse overall (95 %; 3 replicates). 1 is "
        "worse by .020 (.010 to .030). Trained the same as 0: 0.45.",
    ),
    (
        [value(0.45, 0.006), value(1.0, 0.008)],
        RISES,
        "Take smart.weight 1: the higher smart.weight, the better, a trend that is significant from 0.45 on (overall, "
        "95 %; 3 replicates). It is the largest value tried: try one beyond it.",
    ),
    (
        [value(0.45, -0.006), value(1.0, -0.008)],
        FALLS,
        "Keep smart.weight 0: no value tried is better by more than .004 overall (95 %; 3 replicates). The higher "
        "smart.weight, the worse, significantly from 0.45 on.",
    ),
    ([SAME], None, "smart.weight has no effect here. Trained the same as 0: 0.45."),
    ([value(0.45, None)], None, "smart.weight: no value was trained with all else equal to the base value, 0."),
    (
        [SAME, value(1.0, None)],
        None,
        "smart.weight: no other value was trained with all else equal to the base value, 0. Trained the same as 0: "
        "0.45.",
    ),
]


@pytest.mark.parametrize(("values", "trend", "words"), GOLDEN)
def test_facts_in_words(values: list[ValueEffect], trend: Trend | None, words: str) -> None:
    assert words_of(values, trend) == words


def test_unequal_numbers_of_replicates_are_a_range() -> None:
    assert "(95 %; 2 to 3 replicates)" in words_of([value(0.45, 0.004)], num_replicates=(2, 3))


def test_of_an_error_a_lower_value_is_better() -> None:
    tasks = {"sts": replace(TASKS["sts"], metric="rmse")}
    text = words_of([value(0.45, 0.014)], task="sts", tasks=tasks)
    assert text.startswith("Take smart.weight 0.45: it is better than 0 by .014 STS (.004 to .024; ")


@pytest.mark.parametrize(
    ("others", "edge"),
    [
        ([0.45, 0.3], "largest"),
        ([0.45, 1.0], ""),
        ([], ""),  # of two values, each is an end
        ([0.45, "none"], ""),
    ],
)
def test_better_value_at_the_end_of_three_numbers_is_named(others: list[Any], edge: str) -> None:
    values = [*(value(other, 0.001) for other in others), value(0.9, 0.014)]
    assert answer_of(values).edge == edge
    assert answer_of([*values[:-1], value(0.9, 0.001)]).edge == ""


def test_nothing_is_beyond_0() -> None:
    assert key_answer(KEY, [replace(BASE, value=0.5), value(0.0, 0.02), value(1.0, 0.001)], None).edge == ""
    assert key_answer(KEY, [replace(BASE, value=0.5), value(0.1, 0.02), value(1.0, 0.001)], None).edge == "smallest"
