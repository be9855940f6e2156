"""Ranges, conditions and the values of them that are tried when a space is built."""

from collections.abc import Mapping
from typing import Any

import pytest

from search_spaces.domain import (
    Choice,
    Condition,
    Float,
    Int,
    Range,
    SearchKey,
    check_conditions,
    dotted_keys,
    ends,
    extreme_points,
    holds,
    key_title,
)

DOMAIN: dict[SearchKey, Range] = {
    "mode": Choice(values=("a", "b", "c")),
    "switch": Choice(values=(False, True)),
    "rate": Float(low=0.1, high=0.5),
    "steps": Int(low=1, high=3),
    ("x", "y"): Choice(values=((1, 2), (3, 4))),
}


@pytest.mark.parametrize("build", [Float, Int])
def test_the_low_end_of_a_range_must_be_below_the_high_end(build: Any) -> None:
    with pytest.raises(ValueError, match="low must be below high, got 2"):
        build(low=2, high=2)
    with pytest.raises(ValueError, match="low must be above 0 on a logarithmic scale, got 0"):
        build(low=0, high=2, log=True)
    assert build(low=1, high=2, log=True).high == 2


def test_a_choice_and_a_condition_must_have_a_value() -> None:
    with pytest.raises(ValueError, match="a choice must have at least one value"):
        Choice(values=())
    with pytest.raises(ValueError, match="a condition must have at least one value"):
        Condition(key="mode", values=())


def test_the_values_to_try_are_the_ends_of_a_range_or_all_choices() -> None:
    assert ends(DOMAIN["rate"]) == (0.1, 0.5)
    assert ends(DOMAIN["steps"]) == (1, 3)
    assert ends(DOMAIN["mode"]) == ("a", "b", "c")


@pytest.mark.parametrize(
    ("drawn", "is_drawn"),
    [({"mode": "a"}, True), ({"mode": "b"}, True), ({"mode": "c"}, False), ({}, False), ({"switch": True}, False)],
)
def test_a_condition_holds_where_the_other_key_has_one_of_its_values(
    drawn: Mapping[SearchKey, Any], is_drawn: bool
) -> None:
    assert holds(Condition(key="mode", values=("a", "b")), drawn) is is_drawn
    assert holds(None, drawn)


def test_every_end_without_a_condition_is_tried_alone() -> None:
    values = [value for item in DOMAIN.values() for value in ends(item)]
    assert [list(point.values()) for point in extreme_points(DOMAIN, {})] == [[value] for value in values]


def test_an_end_with_a_condition_is_tried_with_every_value_that_meets_it() -> None:
    conditions: dict[SearchKey, Condition] = {
        "switch": Condition(key="mode", values=("a", "b")),
        "steps": Condition(key="switch", values=(True,)),
    }
    points = list(extreme_points(DOMAIN, conditions))
    assert {"mode": "c"} in points
    assert [point for point in points if list(point)[-1] == "switch"] == [
        {"mode": "a", "switch": False},
        {"mode": "b", "switch": False},
        {"mode": "a", "switch": True},
        {"mode": "b", "switch": True},
    ]
    assert [point for point in points if "steps" in point] == [
        {"mode": mode, "switch": True, "steps": steps} for steps in (1, 3) for mode in ("a", "b")
    ]
    for point in points:  # every tried point can be drawn
        drawn: dict[SearchKey, Any] = {}
        for key, value in point.items():
            assert holds(conditions.get(key), drawn)
            drawn[key] = value


@pytest.mark.parametrize(
    ("key", "condition", "line"),
    [
        ("steps", Condition(key="mode", values=("a",)), None),
        (("x", "y"), Condition(key="switch", values=(False,)), None),
        ("stepz", Condition(key="mode", values=("a",)), r"unknown searched key .* 'stepz'; did you mean 'steps'"),
        ("steps", Condition(key="mood", values=("a",)), r"unknown searched key .* 'mood'; did you mean 'mode'"),
        ("mode", Condition(key="switch", values=(True,)), "must be on a key that is drawn before it, got switch"),
        ("mode", Condition(key="mode", values=("a",)), "must be on a key that is drawn before it, got mode"),
        ("steps", Condition(key="rate", values=(0.1,)), "must be on a choice, got rate, a Float"),
        ("steps", Condition(key="mode", values=("a", "d")), r"must name values of mode, got \['d'\]"),
        ("steps", Condition(key="switch", values=(True, False)), "must leave out some value of switch"),
    ],
)
def test_an_invalid_condition_is_refused(key: SearchKey, condition: Condition, line: str | None) -> None:
    if line is None:
        check_conditions("s", DOMAIN, {key: condition})
        return
    with pytest.raises(ValueError, match=line) as caught:
        check_conditions("s", DOMAIN, {key: condition})
    assert "in space 's'" in str(caught.value)


def test_two_conditions_must_not_depend_on_each_other() -> None:
    cycle: dict[SearchKey, Condition] = {
        "mode": Condition(key="switch", values=(True,)),
        "switch": Condition(key="mode", values=("a",)),
    }
    with pytest.raises(ValueError, match="drawn before it"):
        check_conditions("s", DOMAIN, cycle)


def test_keys_that_vary_together_have_one_title() -> None:
    assert dotted_keys(("a.b", "c")) == ("a.b", "c")
    assert key_title(("a.b", "c")) == "a.b + c"
    assert (dotted_keys("a.b"), key_title("a.b")) == (("a.b",), "a.b")
