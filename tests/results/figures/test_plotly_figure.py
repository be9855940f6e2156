"""Plotly's figures: texts are shown as they are, axes keep their kind, and all marks are there."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from results.figures.chart import Axis, Bars, Panel, Series
from results.figures.plotly_figure import PANEL_HEIGHT, chart_figure, panel_height, panel_json, safe
from results.page.render import script_json
from tests.results.figures.conftest import HOSTILE, chart_of, drawn_chart

SHOWN_KEYS = ("name", "text", "hovertext", "ticktext", "categoryarray")
"""Keys of a figure whose values are shown to the reader, besides coordinates that are categories."""


def strings(tree: Any) -> Iterator[str]:
    """All texts of a figure except `meta`, which is not drawn, and templates of our own."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from () if key in ("meta", "hovertemplate", "legendgroup") else strings(value)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from strings(value)
    elif isinstance(tree, str):
        yield tree


def test_markup_and_tex_of_texts_are_escaped_in_every_place() -> None:
    chart = drawn_chart(HOSTILE)
    figures = [panel_json(panel) for panel in chart.panels] + [json.loads(chart_figure(chart).to_json())]
    for figure in figures:
        texts = [text for text in strings(figure) if "bold" in text]
        assert texts
        for text in texts:
            assert set(re.findall(r"<[^>]*>", text)) == {"<br>"}, text
            assert "$" not in text
            assert "&amp;amp;" in text
    assert safe("a\nb") == "a<br>b"


def test_each_place_of_a_text_is_shown() -> None:
    """So that the test above covers names, hover texts, titles, ticks, categories and cells."""
    figures = [panel_json(panel) for panel in drawn_chart("MARK").panels]
    places = {
        "line": [figures[0]["data"][0][key] for key in ("name", "text")],
        "ticks": [figures[0]["layout"]["yaxis"]["ticktext"]],
        "title": [figures[0]["layout"]["xaxis"]["title"]["text"]],
        "categories": [figures[2]["layout"]["yaxis"]["categoryarray"], figures[2]["data"][0]["y"]],
        "bars": [figures[3]["data"][1][key] for key in ("name", "text", "x")],
        "lying bars": [figures[4]["data"][0]["y"]],
        "labels": [figures[7]["data"][0]["text"], figures[7]["data"][0]["y"]],
        "cells": [figures[5]["data"][0][key] for key in ("text", "hovertext", "x", "y")],
    }
    assert all("MARK" in str(value) for values in places.values() for value in values)


def test_figures_are_strict_json_in_a_script_element() -> None:
    text = script_json([panel_json(panel) for panel in drawn_chart(HOSTILE).panels])
    assert "<" not in text
    assert "NaN" not in text
    figures = json.loads(text)
    interval = figures[1]["data"][2]["error_y"]
    assert (interval["array"], interval["arrayminus"]) == ([2.5, None], [0.5, None])
    assert figures[0]["data"][0]["y"] == [0.5, 0.25, None, 1.0]


def test_intervals_are_distances_to_their_ends() -> None:
    mark = Series(x=[0.5, 0.75], y=["a", "b"], low=[0.25, 0.5], high=[1.0, 1.0], interval_along="x")
    (trace,) = panel_json(Panel(marks=[mark]))["data"]
    assert (trace["error_x"]["array"], trace["error_x"]["arrayminus"]) == ([0.5, 0.25], [0.25, 0.25])
    assert "error_y" not in trace
    (trace,) = panel_json(Panel(marks=[Series(x=[1, 2], y=[None, 0.5], low=[0, 0.25], high=[1, 1])]))["data"]
    assert script_json(trace["error_y"]["arrayminus"]) == "[null,0.25]"


@pytest.mark.parametrize(("is_vertical", "ends"), [(False, [-0.5, 2.5]), (True, [2.5, -0.5])])
def test_categories_named_by_numbers_stay_categories_in_their_order(is_vertical: bool, ends: list[float]) -> None:
    axis, names = Axis(scale="category", categories=["10", "9", "1e3"]), ["9", "1e3", "10"]
    across = Panel(x=axis, marks=[Series(x=names, y=[1, 2, 3])])
    panel = Panel(y=axis, marks=[Series(x=[1, 2, 3], y=names)]) if is_vertical else across
    figure = panel_json(panel)
    found, trace = figure["layout"]["yaxis" if is_vertical else "xaxis"], figure["data"][0]
    assert (found["type"], found["categoryarray"], found["range"]) == ("category", ["10", "9", "1e3"], ends)
    assert trace["y" if is_vertical else "x"] == names


def test_ranges_of_logarithmic_axes_are_powers_of_ten() -> None:
    layout = panel_json(Panel(x=Axis(scale="log", range=(1e-5, 100)), y=Axis(range=(1e-5, 100)), marks=[]))["layout"]
    assert (layout["xaxis"]["type"], layout["xaxis"]["range"]) == ("log", pytest.approx([-5, 2]))
    assert (layout["yaxis"]["type"], layout["yaxis"]["range"]) == ("linear", [1e-5, 100])


def test_lines_by_epoch_have_whole_ticks() -> None:
    assert panel_json(Panel(x=Axis(is_whole=True), marks=[]))["layout"]["xaxis"]["tickformat"] == "d"


def test_band_is_a_closed_area_between_its_lines() -> None:
    band = panel_json(drawn_chart().panels[1])["data"][0]
    assert band["x"] == [1e-5, 1e-3, 1e-3, 1e-5]
    assert band["y"] == [2, 3, 1, 0]
    assert band["fill"] == "toself"


def test_references_cross_the_whole_panel() -> None:
    vertical, horizontal = panel_json(drawn_chart().panels[0])["layout"]["shapes"]
    assert (vertical["x0"], vertical["x1"], vertical["yref"]) == (1.5, 1.5, "y domain")
    assert (horizontal["y0"], horizontal["y1"], horizontal["xref"]) == (0.5, 0.5, "x domain")


def test_hover_shows_the_text_and_the_place_where_it_is_wanted() -> None:
    points = Series(x=[1], y=[2])
    marks = [points, replace(points, hover=["a"]), replace(points, hover=["a"], adds_coordinates=True)]
    found = [trace["hovertemplate"] for trace in panel_json(Panel(marks=marks))["data"]]
    assert found == [f"{text}<extra></extra>" for text in ("%{x}, %{y}", "%{text}", "%{text}<br>%{x}, %{y}")]


def test_figure_of_a_chart_has_all_panels_marks_and_references() -> None:
    chart = drawn_chart("MARK")
    figure = chart_figure(chart)
    assert [trace.type for trace in figure.data] == [*["scatter"] * 5, *["bar"] * 3, "heatmap", "scatter"]
    assert [note.text for note in figure.layout.annotations] == ["MARK"] * len(chart.panels)
    assert figure.layout.title.text == "MARK"
    assert [(shape.x0, shape.xref) for shape in figure.layout.shapes if shape.x0 == shape.x1] == [
        (1.5, "x"),
        (0.0, "x3"),
    ]
    assert [shape.y0 for shape in figure.layout.shapes if shape.y0 == shape.y1] == [0.5]
    assert (figure.layout.xaxis2.type, figure.layout.yaxis3.type, figure.layout.xaxis7.type) == (
        "log",
        "category",
        "category",
    )
    assert [trace.xaxis for trace in figure.data[-2:]] == ["x6", "x8"]
    assert (figure.data[-1].mode, figure.data[-1].textposition) == ("text", ("top right", "top left"))


def test_each_name_is_in_the_legend_once_and_those_without_points_not_at_all() -> None:
    full, empty = Series(x=[1], y=[1], name="trial"), Series(x=[], y=[], name="trial")
    other = Series(x=[1], y=[1], name="mean")
    figure = chart_figure(chart_of(*(Panel(marks=marks) for marks in ([empty, other], [full, other], [full]))))
    found = [(trace.xaxis, trace.name) for trace in figure.data if trace.showlegend]
    assert found == [("x", "mean"), ("x2", "trial")]
    assert figure.layout.showlegend
    assert {trace.legendgroup for trace in figure.data} == {"trial", "mean"}
    assert not chart_figure(chart_of(Panel(marks=[full]))).layout.showlegend


def test_entry_of_a_solid_line_hides_the_dashed_one_of_its_name() -> None:
    dashed, solid = (Series(x=[1], y=[1], mode="line", name="best", dash=dash) for dash in ("dashed", "solid"))
    figure = chart_figure(chart_of(Panel(marks=[dashed, solid, replace(solid, name="other")])))
    assert [(trace.line.dash, trace.legendgroup) for trace in figure.data] == [
        ("dash", "best"),
        ("solid", "best"),
        ("solid", "other"),
    ]
    assert [trace.showlegend for trace in figure.data] == [False, True, True]


def test_categories_from_top_to_bottom_have_room() -> None:
    names = [str(number) for number in range(40)]
    bars = Bars(categories=names, values=[1] * 40, along="x")
    heights = [
        panel_height(Panel(marks=marks, y=y))
        for marks, y in (([bars], Axis()), ([], Axis(scale="category", categories=names)))
    ]
    assert heights[0] == heights[1] > PANEL_HEIGHT
    assert panel_height(Panel(marks=[], x=Axis(scale="category", categories=names))) == PANEL_HEIGHT
