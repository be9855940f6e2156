"""Scores of a selection's methods, their intervals, and the Pareto front."""

from dataclasses import replace

import pytest

from mtlib.tasks import TASKS
from results.figures.ensembles import expected_chart, methods_chart, pareto_chart
from results.records.selection import Selection, TradeOff
from tests.results.figures.conftest import all_series_of, series_of
from tests.results.records.test_selection import build_score, build_selection, build_task

RMSE = {"sts": replace(TASKS["sts"], metric="rmse")}
NAMES = ["best single model", "mean of the best k (chosen)"]


def trade_off(num_models: int, score: float, *, is_best: bool, name: str = "topk") -> TradeOff:
    return TradeOff(
        name=name, max_models=10, num_models=num_models, cross_fitted=score, standard_error=0.01, is_best=is_best
    )


def of_rmse() -> Selection:
    """A selection of a task whose metric is an error: scores are its negative."""
    scores = (
        build_score("single", -0.9, in_sample=-0.8, interval=(-1.0, -0.85)),
        build_score("topk", -0.7, in_sample=-0.6, interval=(-0.75, -0.5), lead=0.2, lead_interval=(0.1, 0.3)),
    )
    offs = (trade_off(1, -0.9, is_best=True), trade_off(5, -0.7, is_best=True))
    return build_selection(tasks={"sts": build_task(methods=scores, trade_offs=offs)}, definitions=RMSE)


def test_methods_have_their_scores_and_intervals() -> None:
    scores = (build_score("single", 0.5), build_score("topk", 0.55, interval=(0.45, 0.65), in_sample=0.7))
    chart = methods_chart(build_selection(tasks={"sst": build_task(methods=scores)}))
    (panel,) = chart.panels
    expected, dev = series_of(panel, "expected score"), series_of(panel, "dev score")
    assert list(panel.y.categories) == list(expected.y) == list(dev.y) == NAMES
    assert (list(expected.x), list(dev.x)) == ([0.5, 0.55], [0.6, 0.7])
    assert (list(expected.low), list(expected.high)) == ([0.4, 0.45], [0.6, 0.65])
    assert chart.frame.iloc[1].tolist() == ["sst", "topk", 2, 0.55, 0.45, 0.65, 0.7]


def test_automatic_choice_is_last_and_not_marked_as_a_method() -> None:
    (panel,) = methods_chart(build_selection(tasks={"sst": build_task(automatic=build_score("auto", 0.52))})).panels
    assert list(panel.y.categories) == [*NAMES, "choosing among them"]
    assert list(series_of(panel, "expected score").x) == [0.5, 0.55, 0.52]


def test_low_ends_of_an_error_are_low() -> None:
    chart = methods_chart(of_rmse())
    expected = series_of(chart.panels[0], "expected score")
    assert (list(expected.x), list(expected.low), list(expected.high)) == ([0.9, 0.7], [0.85, 0.5], [1.0, 0.75])
    assert chart.frame[["low", "high"]].to_numpy().tolist() == [[0.85, 1.0], [0.5, 0.75]]
    assert expected.hover[1].split("\n")[1:] == [
        "expected 0.700 (0.500 to 0.750)",
        "dev score 0.600",
        "lead over the best single model -0.200 (-0.300 to -0.100)",
    ]


def test_pareto_front_joins_the_best_by_number_of_models() -> None:
    offs = (
        trade_off(8, 0.6, is_best=True),
        trade_off(1, 0.5, is_best=True),
        trade_off(4, 0.45, is_best=False, name="greedy"),
    )
    chart = pareto_chart(build_selection(tasks={"sst": build_task(trade_offs=offs), "sts": build_task()}))
    (panel,) = chart.panels
    front, points = all_series_of(panel)
    assert (list(front.x), list(front.y), front.mode) == ([1, 8], [0.5, 0.6], "steps")
    assert (list(points.x), list(points.y)) == ([8, 1, 4], [0.6, 0.5, 0.45])
    assert front.hover[0] == "Pareto front\nmean of the best k, at most 10 models\n1 model\nexpected 0.500 ±0.010"
    assert front.hover[1].endswith("\n8 models\nexpected 0.600 ±0.010")
    assert list(points.low) == pytest.approx([0.59, 0.49, 0.44])
    assert list(points.high) == pytest.approx([0.61, 0.51, 0.46])
    assert chart.frame["is_best"].tolist() == [True, True, False]
    assert chart.frame[["low", "high"]].to_numpy().T.tolist() == [list(points.low), list(points.high)]


def test_pareto_front_of_an_error_falls() -> None:
    front = all_series_of(pareto_chart(of_rmse()).panels[0])[0]
    assert (list(front.x), list(front.y)) == ([1, 5], [0.9, 0.7])


def test_selection_without_tasks_or_trade_offs_has_empty_charts() -> None:
    assert methods_chart(build_selection(tasks={})).is_empty
    assert pareto_chart(build_selection()).is_empty
    assert expected_chart({}).is_empty
    assert expected_chart({"mine": build_selection(tasks={})}).is_empty


def test_expected_scores_of_several_sweeps_stand_side_by_side() -> None:
    first = build_selection(tasks={"sst": build_task(), "sts": build_task()})
    chart = expected_chart({"first": first, "second": build_selection(tasks={"sst": build_task()})})
    assert [(panel.title, list(panel.y.categories)) for panel in chart.panels] == [
        ("SST, accuracy", ["first", "second"]),
        ("STS, Pearson's correlation", ["first"]),
    ]
    assert chart.frame[["task", "sweep"]].to_numpy().tolist() == [["sst", "first"], ["sst", "second"], ["sts", "first"]]
    score = first.tasks["sst"].score
    assert chart.frame[["expected_score", "low", "high"]].iloc[0].tolist() == [score.cross_fitted, *score.interval]
    (points,) = all_series_of(chart.panels[1])
    assert points.hover == [
        f"first\nexpected {score.cross_fitted:.3f} ({score.interval[0]:.3f} to {score.interval[1]:.3f})"
    ]


def test_sweeps_with_different_metrics_of_a_task_have_a_panel_each() -> None:
    own = build_selection(tasks={"sts": build_task()})
    chart = expected_chart({"error": of_rmse(), "own": own})
    assert [(panel.title, panel.x.title) for panel in chart.panels] == [
        ("STS, RMSE", "RMSE"),
        ("STS, Pearson's correlation", "Pearson's correlation"),
    ]
    values = [list(series_of(panel).x) for panel in chart.panels]
    assert values == [[0.7], [own.tasks["sts"].score.cross_fitted]]
    assert chart.frame["metric"].tolist() == ["rmse", own.definitions["sts"].metric]


def test_expected_scores_of_an_error_are_its_values() -> None:
    (points,) = all_series_of(expected_chart({"mine": of_rmse()}).panels[0])
    assert (list(points.x), list(points.low), list(points.high)) == ([0.7], [0.5], [0.75])
