"""Texts of points name the trial, its values and scores; configurations have short names of their own."""

from typing import Any

import pytest

from mtlib.tasks import TASKS
from results.figures.hover import (
    MAX_VALUES,
    score_title,
    short_names,
    trial_text,
    values_lines,
)
from tests.results.conftest import build_record


@pytest.mark.parametrize(("status", "lines"), [("reused", []), ("pruned", ["pruned"])])
def test_text_names_trial_values_status_and_scores(status: str, lines: list[str]) -> None:
    record = build_record(3, 1, status, params={"smart.weight": 0.45, "smart.tasks": ["sst", "qqp"]})
    values = ["smart.weight 0.45", "smart.tasks sst-qqp"]
    assert trial_text(record, "SST 0.500").split("\n") == ["0003-r1", *values, *lines, "SST 0.500"]


@pytest.mark.parametrize(("count", "last"), [(MAX_VALUES, f"k{MAX_VALUES - 1} 0"), (MAX_VALUES + 3, "and 3 more")])
def test_many_values_are_shortened(count: int, last: str) -> None:
    lines = values_lines({f"k{number}": 0 for number in range(count)})
    assert lines[:2] == ["k0 0", "k1 0"]
    assert lines[-1] == last
    assert len(lines) == MAX_VALUES + (count > MAX_VALUES)


@pytest.mark.parametrize(
    ("configurations", "names"),
    [
        ([], {}),
        ([(7, {"a": 1, "b": 2})], {7: "a 1, b 2"}),
        ([(7, {"a": 1}), (8, {})], {7: "a 1", 8: "configuration 0008"}),
        ([(7, {"a": 1, "b": 2}), (8, {"c": 3})], {7: "configuration 0007", 8: "configuration 0008"}),
        ([(7, {"a": 0.1}), (8, {"a": 0.1 + 1e-13})], {7: "configuration 0007", 8: "configuration 0008"}),
    ],
)
def test_configurations_are_named_by_few_values_or_by_their_number(
    configurations: list[tuple[int, dict[str, Any]]], names: dict[int, str]
) -> None:
    assert short_names(configurations) == names


def test_title_of_a_score_has_its_metric() -> None:
    assert [score_title(name, TASKS) for name in ("sts", "overall")] == ["STS, Pearson's correlation", "overall"]
