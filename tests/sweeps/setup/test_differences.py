"""Differences between trees of plain data."""

from sweeps.setup.differences import MAX_VALUE_LENGTH, describe_change, differences, shortened_text


def test_differences_are_found_leaf_by_leaf() -> None:
    before = {"a": 1, "b": {"c": [1, 2], "d": None}, "gone": True}
    now = {"a": 1, "b": {"c": [2, 1], "d": "word"}, "new": {"x": 0}}
    assert list(differences("", before, now)) == [
        "b.c was [1, 2], is [2, 1]",
        "b.d was null, is word",
        "gone is gone",
        'new is new: {"x": 0}',
    ]
    assert list(differences("", before, before)) == []


def test_reordered_long_list_is_reported_as_order() -> None:
    long = list(range(100))
    assert describe_change(long, long[::-1]) == "is in another order, or has other repetitions"
    assert describe_change(long, long[:-1]) == "has [99] gone"
    assert describe_change(long, 3) == f"was {shortened_text(long)}, is 3"


def test_long_value_is_truncated() -> None:
    assert shortened_text("x" * MAX_VALUE_LENGTH) == "x" * MAX_VALUE_LENGTH
    assert shortened_text("x" * (MAX_VALUE_LENGTH + 1)) == "x" * (MAX_VALUE_LENGTH - 3) + "..."
