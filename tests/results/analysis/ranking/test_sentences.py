"""Trials are named up to a number, and the others counted."""

import pytest

from results.analysis.ranking.sentences import MAX_NAMES, named


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, ""), (1, "t0"), (MAX_NAMES, "t0, t1, t2, t3, t4"), (7, "t0, t1, t2, t3, t4 and 2 more")],
)
def test_names_beyond_the_first_are_counted(number: int, expected: str) -> None:
    assert named([f"t{place}" for place in range(number)]) == expected
