"""A note is one line below a table; trials are named up to a number, and counted in the right number."""

import pytest

from results.analysis.ranking.note import MAX_NAMES, Note, named


def test_line_has_what_is_shown_and_what_to_set() -> None:
    assert Note(what="The penalty is 0", advice="raise it").line == "The penalty is 0: raise it"


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, ""), (1, "t0"), (MAX_NAMES, "t0, t1, t2, t3, t4"), (7, "t0, t1, t2, t3, t4 and 2 more")],
)
def test_names_beyond_the_first_are_counted(number: int, expected: str) -> None:
    assert named([f"t{place}" for place in range(number)]) == expected
