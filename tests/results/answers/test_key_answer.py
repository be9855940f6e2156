"""Which value of a grid's key to use, what is decided, and what more replicates would show."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from results.answers.key_answer import MOST_WORTH, KeyAnswer, forecast, key_answer, largest_undecided
from results.stats.effects.key_effects import Trend, ValueEffect
from tests.results.answers.test_answer import KEY, PRECISION, value
from tests.results.stats.test_power import precision

BASE = value(0.0, None)
RISES = Trend(is_upward=True, is_better=True, first=0.45)
FALLS = Trend(is_upward=True, is_better=False, first=0.45)
SAME = replace(value(0.45, 0.0, 0.0), is_same=True)


def answer_of(values: Sequence[ValueEffect], trend: Trend | None = None) -> KeyAnswer:
    return key_answer(KEY, [BASE, *values], trend)


@pytest.mark.parametrize(
    ("values", "trend", "chosen"),
    [
        ([value(0.45, 0.004), value(1.0, 0.003)], None, 0.0),
        ([value(0.45, 0.014), value(1.0, 0.02)], None, 1.0),
        ([value(0.45, -0.014), value(1.0, -0.02)], None, 0.0),
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
    assert answer_of([value(0.1, -0.005, 0.005)]).bound == 0.0


def test_trend_that_a_single_difference_shows_is_left_out() -> None:
    assert answer_of([value(0.45, 0.014)], RISES).trend is None
    assert answer_of([value(0.45, 0.006), value(1.0, 0.014)], RISES).trend == RISES


def test_what_the_trend_decides_is_not_undecided() -> None:
    values = [value(0.3, -0.004), value(0.45, -0.008), value(1.0, -0.009)]
    for trend, expected in ((None, 1.0), (FALLS, 0.3), (replace(FALLS, first=0.3), None)):
        found = largest_undecided(answer_of(values, trend))
        assert (found and found.value) == expected
    assert largest_undecided(answer_of([value(0.45, 0.014), value(1.0, 0.004)])) is None, "a better value is found"


@pytest.mark.parametrize(
    ("others", "edge"),
    [([0.45, 0.3], "largest"), ([0.45, 1.0], ""), ([], ""), ([0.45, "none"], "")],
)
def test_better_value_at_the_end_of_three_numbers_is_an_edge(others: list[Any], edge: str) -> None:
    values = [*(value(other, 0.001) for other in others), value(0.9, 0.014)]
    assert answer_of(values).edge == edge
    assert answer_of([*values[:-1], value(0.9, 0.001)]).edge == ""


def test_nothing_is_beyond_0() -> None:
    assert key_answer(KEY, [replace(BASE, value=0.5), value(0.0, 0.02), value(1.0, 0.001)], None).edge == ""
    assert key_answer(KEY, [replace(BASE, value=0.5), value(0.1, 0.02), value(1.0, 0.001)], None).edge == "smallest"


def test_forecast_is_of_the_largest_undecided_difference_by_its_own_margin() -> None:
    found = forecast(answer_of([value(0.45, 0.004), value(1.0, -0.008)]), PRECISION, 3)
    assert found is not None
    assert found.of is not None
    assert (found.of.value, found.size) == (1.0, 0.008)
    assert found.needed == PRECISION.replicates_needed(0.008)
    assert 3 < (found.needed or 0) <= MOST_WORTH
    assert found.times_rows < 1
    more = forecast(answer_of([value(1.0, -0.008)]), PRECISION, 9)
    assert more is not None
    assert more.needed == 10, "nine have not decided it"
    assert forecast(answer_of([value(0.45, 0.014)]), PRECISION, 3) is None, "nothing is undecided"


@pytest.mark.parametrize(
    ("asked", "is_small", "is_found"), [(0.003, True, False), (0.008, False, False), (0.5, False, True)]
)
def test_forecast_of_a_given_difference(asked: float, is_small: bool, is_found: bool) -> None:
    known = precision(0.005, 0.002)
    found = forecast(answer_of([value(0.45, 0.014)]), known, 3, asked)
    assert found is not None
    assert (found.of, found.size, found.needed) == (None, asked, known.replicates_needed(asked))
    assert (found.times_rows > 1, found.is_found) == (is_small, is_found)
    more_rows = precision(0.005, 0.002 / found.times_rows**0.5)
    assert more_rows.finest == pytest.approx(asked, rel=0.02)
