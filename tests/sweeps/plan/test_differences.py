"""Differences between trees of plain data."""

from sweeps.plan.differences import differences


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
