"""Rungs are the powers of the reduction factor."""

from results.records.rungs import rungs_up_to


def test_rungs_are_those_that_are_reached() -> None:
    reached = {0: [], 1: [1], 2: [1], 3: [1, 3], 8: [1, 3], 9: [1, 3, 9]}
    assert {num_epochs: rungs_up_to(num_epochs) for num_epochs in reached} == reached
