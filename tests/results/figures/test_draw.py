"""Texts are shown as they are, axes keep their kind and order, and all traces are there."""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import plotly.graph_objects as go
import pytest

from results.figures.draw import (
    COLOURS,
    LETTER_WIDTH,
    MARGINS,
    MAX_LETTERS,
    NUM_TICKS,
    PANEL_GAP,
    SYMBOLS,
    WIDTH,
    Panel,
    axis,
    band,
    figure_of,
    heatmap,
    is_empty,
    safe,
    series,
    shortened,
)
from tests.results.figures.conftest import HOSTILE, ends_of, panels_of


def drawn(*panels: Panel) -> go.Figure:
    return figure_of("drawn", "Drawn", "A caption.", panels)


def figure_with(text: str) -> go.Figure:
    """Every kind of trace and axis, with the text in every place that has one."""
    names, grid = [text, "2"], [[text] * 2] * 2
    categories, plain = axis(text, categories=names), axis(text)
    line = series([1, 2], [0.5, None], name=text, hover=[text] * 2, mode="lines")
    return figure_of(
        "drawn",
        text,
        text,
        [
            Panel(text, plain, plain, [line, band([1, 2], [0, 1], [2, 3], name=text)]),
            Panel(text, plain, categories, [series([1], [text], name=text)]),
            Panel(text, categories, categories, [heatmap(names, names, [[0, 1]] * 2, grid)]),
        ],
    )


def strings(tree: Any) -> Iterator[str]:
    """All texts of a figure that are drawn."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from () if key in ("meta", "hovertemplate", "legendgroup") else strings(value)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from strings(value)
    elif isinstance(tree, str):
        yield tree


def test_markup_and_tex_of_texts_are_escaped_in_every_place() -> None:
    texts = [text for text in strings(json.loads(figure_with(HOSTILE).to_json())) if "bold" in text]
    assert len(texts) > 15
    for text in texts:
        assert set(re.findall(r"<[^>]*>", text)) == {"<br>"}, text
        assert "$" not in text
        assert "&amp;amp;" in text
    assert safe("a\nb") == "a<br>b"


def test_intervals_end_where_they_should() -> None:
    points = series([0.5, 0.75], ["a", "b"], low=[0.25, 0.5], high=[1.0, 1.0], along="x")
    assert ends_of(points) == [(0.25, 1.0), (0.5, 1.0)]
    assert "error_y" not in points


def test_categories_named_by_numbers_stay_categories_in_their_order_from_left_and_from_top() -> None:
    names = axis("", categories=["10", "9", "1e3"])
    across, down = panels_of(
        drawn(
            Panel("", names, axis(), [series(["9", "10"], [1, 2])]),
            Panel("", axis(), names, [series([1, 2], ["9", "10"])]),
        )
    )
    for found, ends in ((across.x, (-0.5, 2.5)), (down.y, (2.5, -0.5))):
        assert (found["type"], list(found["categoryarray"]), tuple(found["range"])) == (
            "category",
            ["10", "9", "1e3"],
            ends,
        )


@pytest.mark.parametrize(("last", "step"), [(1, 1), (3, 1), (NUM_TICKS, 1), (NUM_TICKS + 1, 2), (10 * NUM_TICKS, 10)])
def test_epochs_have_whole_ticks(last: int, step: int) -> None:
    found = axis("epoch", whole_to=last)
    assert (found["tick0"], found["dtick"]) == (0, step)


def test_band_is_a_closed_area_between_its_lines() -> None:
    found = band([1e-5, 1e-3], [0, 1], [2, 3], name="band")
    assert (found["x"], found["y"], found["fill"]) == ([1e-5, 1e-3, 1e-3, 1e-5], [2, 3, 1, 0], "toself")


def test_hover_shows_the_text_and_the_place_where_it_is_wanted() -> None:
    found = [
        series([1], [2])["hovertemplate"],
        series([1], [2], hover=["a"])["hovertemplate"],
        series([1], [2], hover=["a"], adds_coordinates=True)["hovertemplate"],
    ]
    assert found == [f"{text}<extra></extra>" for text in ("%{x}, %{y}", "%{text}", "%{text}<br>%{x}, %{y}")]


def test_each_name_is_in_the_legend_once_and_those_without_points_not_at_all() -> None:
    full, empty, other = series([1], [1], name="trial"), series([], [], name="trial"), series([1], [1], name="mean")
    figure = drawn(*(Panel("", axis(), axis(), traces) for traces in ([empty, other], [full, other], [full])))
    assert [(trace.xaxis, trace.name) for trace in figure.data if trace.showlegend] == [("x", "mean"), ("x2", "trial")]
    assert {trace.legendgroup for trace in figure.data} == {"trial", "mean"}
    assert not drawn(Panel("", axis(), axis(), [full])).layout.showlegend


def test_entry_of_a_solid_line_hides_the_dashed_one_of_its_name() -> None:
    dashed = series([1], [1], mode="lines", name="best", dash="dash")
    solid = series([1], [1], mode="lines", name="best", dash="solid")
    other = series([1], [1], mode="lines", name="other", dash="solid")
    figure = drawn(Panel("", axis(), axis(), [dashed, solid, other]))
    assert [trace.showlegend for trace in figure.data] == [False, True, True]


def test_legend_names_the_best_first_and_the_background_last() -> None:
    faint = series([1], [1], name="others", is_faint=True)
    second, best = series([1], [1], name="b", style=1), series([1], [1], name="a")
    figure = drawn(Panel("", axis(), axis(), [faint, second, best]))
    assert sorted(figure.data, key=lambda trace: trace.legendrank) == [figure.data[2], figure.data[1], figure.data[0]]


@pytest.mark.parametrize("num_panels", [1, 2, 3, 5])
@pytest.mark.parametrize("label", ["a", 20 * "a", 200 * "a", 10 * "&"])
def test_labels_of_any_length_have_room_beside_their_panel(label: str, num_panels: int) -> None:
    panel = Panel("", axis(), axis(categories=[label]), [series([1], [label])])
    figure = drawn(*[panel] * num_panels)
    width = LETTER_WIDTH * min(len(label), MAX_LETTERS)
    assert figure.layout.margin.l == pytest.approx(MARGINS["l"] + width)
    plot_width = WIDTH - figure.layout.margin.l - figure.layout.margin.r
    ends = [[plot_width * end for end in found.x["domain"]] for found in panels_of(figure)]
    assert all(right - left > 100 for left, right in ends)
    gaps = [after[0] - before[1] for before, after in itertools.pairwise(ends) if after[0] > before[0]]
    assert gaps == pytest.approx([PANEL_GAP + width] * len(gaps))
    assert (len(gaps) > 0) == (num_panels > 1)


def test_long_names_keep_their_ends() -> None:
    assert (shortened("abcdefg", 7), shortened("abcdefgh", 7)) == ("abcdefg", "abc…fgh")


def test_panels_without_points_are_left_out() -> None:
    empty = Panel("", axis(), axis(), [series([], [])])
    assert is_empty(drawn(empty))
    assert is_empty(drawn())
    figure = drawn(empty, Panel("one", axis(), axis(), [series([1], [1])], [0.5]))
    (panel,) = panels_of(figure)
    assert (panel.title, panel.lines) == ("one", [0.5])


def test_panels_keep_their_traces_axes_and_lines() -> None:
    panels = [Panel(f"p{n}", axis(f"x{n}"), axis(f"y{n}"), [series([n], [n])], [n + 0.5]) for n in range(5)]
    found = panels_of(drawn(*panels))
    assert [panel.title for panel in found] == [f"p{n}" for n in range(5)]
    assert [(panel.x["title"]["text"], panel.y["title"]["text"]) for panel in found] == [
        (f"x{n}", f"y{n}") for n in range(5)
    ]
    assert [panel.traces[0]["x"][0] for panel in found] == list(range(5))
    assert [panel.lines for panel in found] == [[n + 0.5] for n in range(5)]


def test_the_first_styles_differ_in_colour_symbol_and_dashes_and_later_ones_in_a_pair_of_them() -> None:
    traces = [series([1], [1], style=style, mode="lines+markers") for style in range(4 * len(COLOURS))]
    first = traces[: len(COLOURS)]
    for look in ([t["marker"]["color"] for t in first], [t["marker"]["symbol"] for t in first]):
        assert len(set(look)) == len(COLOURS) == len(SYMBOLS)
    assert len({t["line"]["dash"] for t in first}) == len(COLOURS)
    assert len({(t["marker"]["color"], t["marker"]["symbol"]) for t in traces}) == len(traces)
