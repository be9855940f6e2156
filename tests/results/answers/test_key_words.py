"""Facts about a key in words: golden texts, and the direction of metrics for which lower is better."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mtlib.tasks import TASKS
from results.answers.key_answer import Forecast, key_answer
from results.answers.key_words import forecast_words, p_text, range_words, value_words
from results.stats.effects.key_effects import Trend, ValueEffect
from tests.results.answers.test_answer import KEY, curve_of, sweep_of, value
from tests.results.answers.test_key_answer import FALLS, RISES, SAME, answer_of


def words_of(values: Sequence[ValueEffect], trend: Trend | None = None, **changes: Any) -> str:
    return " ".join(value_words(answer_of(values, trend), sweep_of([], **changes).columns["overall"]))


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
]


@pytest.mark.parametrize(("values", "trend", "words"), GOLDEN)
def test_facts_in_words(values: list[ValueEffect], trend: Trend | None, words: str) -> None:
    assert words_of(values, trend) == words


def test_value_that_was_not_compared_is_not_passed_over() -> None:
    text = words_of([value(0.45, 0.004), value(1.0, None)])
    assert "no value compared is better" in text
    assert text.endswith("Not compared with 0, as nothing was trained with all else equal: 1.")


PICKED = replace(KEY, base=2.0, own_base=0.5, is_picked=True)
"""Of a key whose base value was not trained, the value with the best mean."""


@pytest.mark.parametrize(
    ("values", "start", "is_edge"),
    [
        ([value(0.0, -0.02), value(1.0, -0.03)], "Take smart.weight 2: every other value is worse overall", True),
        (
            [value(0.0, -0.02), replace(SAME, value=1.0)],
            "Take smart.weight 2: every other value that trained otherwise is worse overall",
            True,
        ),
        (
            [value(0.0, -0.02), value(1.0, None)],
            "Take smart.weight 2: every other value that was compared is worse overall",
            True,
        ),
        ([replace(SAME, value=0.0), replace(SAME, value=1.0)], "smart.weight has no effect here.", False),
        ([value(0.0, -0.02), value(1.0, -0.003)], "Not decided: smart.weight 2 has the best mean overall", False),
    ],
)
def test_value_with_the_best_mean_is_to_be_used_where_the_others_that_were_compared_are_worse(
    values: list[ValueEffect], start: str, is_edge: bool
) -> None:
    answer = key_answer(PICKED, [*values, value(2.0, None)], None)
    text = " ".join(value_words(answer, sweep_of([]).columns["overall"]))
    assert text.startswith(start)
    assert ("largest value tried" in text) == is_edge
    assert answer.is_decided == start.startswith("Take")


def test_unequal_numbers_of_replicates_are_a_range() -> None:
    assert "(95 %; 2 to 3 replicates)" in words_of([value(0.45, 0.004)], num_replicates=(2, 3))


def test_of_an_error_a_lower_value_is_better() -> None:
    tasks = {"sts": replace(TASKS["sts"], metric="rmse")}
    column = sweep_of([], task="sts", tasks=tasks).columns["overall"]
    assert words_of([value(0.45, 0.014)], task="sts", tasks=tasks).startswith("Take smart.weight 0.45: it is better")
    assert "and highest, " in range_words(KEY, curve_of(), column)


def test_range_with_an_effect_has_its_optimum_and_the_lowest_score() -> None:
    column = sweep_of([]).columns["overall"]
    assert range_words(KEY, curve_of(), column) == (
        "Take smart.weight near 0.5 (95 %: 0.2 to 0.8; p = 0.020, 3 configurations). The fitted score is 1.000 there "
        "and lowest, 0.000, at 0."
    )


@pytest.mark.parametrize(("optimum", "advice"), [(0.5, ": extend the range."), (0.0, ".")])
def test_range_with_its_optimum_at_an_end_is_to_be_extended_unless_that_is_0(optimum: float, advice: str) -> None:
    curve = curve_of(edge="low", optimum=optimum, means=-np.linspace(0, 1, 3))
    assert f"It is the low end of the range{advice} " in range_words(KEY, curve, sweep_of([]).columns["overall"])


def test_range_without_an_effect_is_not_recommended() -> None:
    column = sweep_of([]).columns["overall"]
    text = range_words(KEY, curve_of(p_value=0.3), column)
    assert "no effect over the range was found (p = 0.300, 3 configurations)" in text
    assert "varies by 1.000" in text
    assert "Take" not in text
    assert "no trend" in range_words(KEY, curve_of(p_value=0.3, is_linear=True), column)


def test_bound_that_no_score_can_reach_advises_nothing() -> None:
    """Two trainings of two values may have margins of several points; of an error in any unit they may be right."""
    column = sweep_of([]).columns["overall"]
    wide = key_answer(KEY, [value(0.0, None), value(1.0, 0.1, 2.3)], None)
    assert next(value_words(wide, column)).startswith("Not decided: any value tried may be better than smart.weight 0")
    narrow = key_answer(KEY, [value(0.0, None), value(1.0, 0.1, 0.3)], None)
    assert next(value_words(narrow, column)).startswith(
        "Keep smart.weight 0: no value tried is better by more than .400"
    )
    rmse = replace(column, task="sts", tasks={"sts": replace(TASKS["sts"], metric="rmse")})
    assert next(value_words(wide, rmse)).startswith("Keep smart.weight 0: no value tried is better by more than 2.4")


def test_difference_in_a_task_names_its_metric() -> None:
    column = replace(sweep_of([]).columns["overall"], task="qqp", tasks={"qqp": replace(TASKS["qqp"], metric="f1")})
    found = key_answer(KEY, [value(0.0, None), value(1.0, 0.02)], None)
    assert "it is better than 0 by .020 in F1 on QQP (" in next(value_words(found, column))


def test_line_has_a_direction_and_no_optimum() -> None:
    text = range_words(KEY, curve_of(is_linear=True, optimum=1.0), sweep_of([]).columns["overall"])
    assert text.startswith("Take smart.weight towards 1 (")
    assert "an optimum inside it would not show" in text


def test_small_p_values_are_bounded() -> None:
    assert [p_text(p) for p in (0.0009, 0.001, 0.25)] == ["< 0.001", "= 0.001", "= 0.250"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "7 replicates would tell whether 0.45 differs from 0: 7 trials"),
        ({"of": None}, "A difference of 0.02 takes 7 replicates to find: 7 trials"),
        ({"of": None, "is_found": True}, "A difference of 0.02 is found with the present replicates."),
        (
            {"times_rows": 3.44},
            "No number of replicates would show a difference of .020, such as that of 0.45: dev is too small (about "
            "3.4 times as many rows would do).",
        ),
        (
            {"times_rows": 1.01},
            "No number of replicates would show a difference of .020, such as that of 0.45: dev is too small (about "
            "1.1 times as many rows would do).",
        ),
        (
            {"needed": 11},
            "A difference as small as that of 0.45 (.020) takes 11 replicates to find, which is seldom worth it.",
        ),
        (
            {"needed": None},
            "A difference as small as that of 0.45 (.020) takes more than 200 replicates to find, which is seldom "
            "worth it.",
        ),
        (
            {"times_rows": float("inf"), "of": None},
            "No number of replicates would show a difference of .020: dev is too small.",
        ),
        ({"of": None, "needed": None}, "A difference of 0.02 takes more than 200 replicates to find."),
    ],
)
def test_forecast_in_words(changes: dict[str, Any], text: str) -> None:
    found = Forecast(size=0.02, of=value(0.45, 0.02), base=0.0, needed=7, times_rows=0.5, is_found=False)
    assert forecast_words(replace(found, **changes), lambda number: f"{number} trials") == text
