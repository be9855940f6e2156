"""Rungs are the powers of the reduction factor."""

import pytest

from results.records.rungs import rungs_up_to


@pytest.mark.parametrize(
    ("num_epochs", "expected"),
    [(0, []), (1, [1]), (2, [1]), (3, [1, 3]), (8, [1, 3]), (9, [1, 3, 9]), (10, [1, 3, 9]), (27, [1, 3, 9, 27])],
)
def test_rungs_are_those_that_are_reached(num_epochs: int, expected: list[int]) -> None:
    assert rungs_up_to(num_epochs) == expected
