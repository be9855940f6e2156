"""Scores of a selection's methods, and their intervals."""

from dataclasses import replace

import pytest

from mtlib.tasks import TASKS
from results.figures.draw import is_empty
from results.figures.ensembles import selection_methods
from results.records.selection import Selection
from tests.results.figures.conftest import ends_of, panel_of
from tests.results.records.test_selection import build_score, build_selection, build_task

RMSE = {"sts": replace(TASKS["sts"], metric="rmse")}
NAMES = ["best single model", "mean of the best k (chosen)"]


def of_rmse() -> Selection:
    """A selection of a task whose metric is an error: scores are its negative."""
    scores = (
        build_score("single", -0.9, in_sample=-0.8, interval=(-1.0, -0.85)),
        build_score("topk", -0.7, in_sample=-0.6, interval=(-0.75, -0.5), lead=0.2, lead_interval=(0.1, 0.3)),
    )
    return build_selection(tasks={"sts": build_task(methods=scores)}, definitions=RMSE)


def test_methods_have_their_scores_and_intervals_with_the_automatic_choice_last() -> None:
    scores = (build_score("single", 0.5), build_score("topk", 0.55, interval=(0.45, 0.65), in_sample=0.7))
    task = build_task(methods=scores, automatic=build_score("auto", 0.52))
    panel = panel_of(selection_methods(build_selection(tasks={"sst": task})))
    expected, dev = panel.named("expected score"), panel.named("dev score")
    assert list(panel.y["categoryarray"]) == expected["y"] == dev["y"] == [*NAMES, "choosing among them"]
    assert (expected["x"], dev["x"]) == ([0.5, 0.55, 0.52], [0.6, 0.7, 0.6])
    assert ends_of(expected)[:2] == [pytest.approx((0.4, 0.6)), pytest.approx((0.45, 0.65))]


def test_low_ends_of_an_error_are_low() -> None:
    expected = panel_of(selection_methods(of_rmse())).named("expected score")
    assert expected["x"] == [0.9, 0.7]
    assert ends_of(expected) == [pytest.approx((0.85, 1.0)), pytest.approx((0.5, 0.75))]
    assert expected["text"][1].split("<br>")[1:] == [
        "expected 0.700 (0.500 to 0.750)",
        "dev score 0.600",
        "lead over the best single model -0.200 (-0.300 to -0.100)",
    ]


def test_selection_without_tasks_has_empty_figures() -> None:
    assert is_empty(selection_methods(build_selection(tasks={})))
