"""The HTML of a page holds everything in itself, escapes every text, and is valid JSON where a script reads it."""

import json
import math
import re
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from results.figures.draw import Panel, Trace, axis, band, figure_of, series
from results.health.finding import Finding
from results.page.content import Block, Findings, Fold, Listing, Page, Section, Text, TextTable
from results.page.render import (
    MOST_COLUMNS,
    legend_of,
    render_page,
    rounded,
    script_json,
    share_texts,
    sign_of,
)

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&amp;<b>"


def figure_with(*traces: Trace, title: str = "Figure") -> go.Figure:
    return figure_of("c", title, title, [Panel(title, axis(), axis(), traces)])


def page_of(*blocks: Block) -> str:
    return render_page(Page(title="T", subtitle="S", sections=[Section(name="one", title="One", blocks=blocks)]))


def without_plotly(page: str) -> str:
    """The page without the longest script."""
    scripts = re.findall(r"<script[^>]*>.*?</script>", page, re.DOTALL)
    return page.replace(max(scripts, key=len), "") if scripts else page


def figures_in(page: str) -> dict[str, Any]:
    found = re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)
    assert found
    figures: dict[str, Any] = json.loads(found[1])
    return figures


def test_page_needs_no_network() -> None:
    page = without_plotly(page_of(figure_with(series([1.0], [2.0]))))
    assert re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page) == []
    assert "Plotly.newPlot" in page


def test_page_without_figures_has_no_plotly() -> None:
    assert len(page_of(Text(paragraphs=["words"]))) < 50_000


def test_every_text_is_escaped() -> None:
    traces = [
        series([HOSTILE], [1.0], hover=[HOSTILE], name=HOSTILE),
        series([HOSTILE], [1.0], name=HOSTILE, mode="lines"),
    ]
    figure = figure_of("c", HOSTILE, HOSTILE, [Panel(HOSTILE, axis(categories=[HOSTILE]), axis(HOSTILE), traces)])
    blocks = (
        Text(paragraphs=[HOSTILE], is_lead=True),
        TextTable(name="t", title=HOSTILE, columns=[HOSTILE], rows=[[HOSTILE]] * 3, caption=HOSTILE, num_shown=1),
        Findings(found=[Finding(level="problem", what=HOSTILE, advice=HOSTILE)], nothing=""),
        Findings(found=[], nothing=HOSTILE),
        Listing(title=HOSTILE, text=HOSTILE),
        Fold(title=HOSTILE, blocks=[Listing(text=HOSTILE)]),
        figure,
    )
    section = Section(name="one", title=HOSTILE, blocks=blocks)
    page = without_plotly(render_page(Page(title=HOSTILE, subtitle=HOSTILE, sections=[section])))
    assert "<script>alert" not in page
    assert "<img" not in page
    assert page.count("&lt;/script&gt;&lt;script&gt;alert(1)") >= 14
    figures = figures_in(page)
    for trace in (trace for figure in figures["figures"] for trace in figure["data"]):
        assert trace.pop("meta") == HOSTILE  # no text of the figure: the legend finds traces by it
    assert "<script" not in json.dumps(figures)  # in Plotly's texts characters of markup are entities


def test_numbers_that_are_not_finite_are_null() -> None:
    assert json.loads(script_json([math.nan, math.inf, 1.0, {"a": -math.inf}])) == [None, None, 1.0, {"a": None}]
    assert json.loads(script_json([np.float32("nan"), np.float32(1.5), np.int64(3)])) == [None, 1.5, 3]


def test_script_cannot_be_ended_by_a_text() -> None:
    text = script_json(["</script>", "<!--", "&"])
    assert not re.search("[<>&]", text)
    assert json.loads(text) == ["</script>", "<!--", "&"]


@pytest.mark.parametrize(("value", "expected"), [(1 / 3, 0.333333), (123456789.0, 123457000.0), (True, True), (7, 7)])
def test_numbers_have_few_digits(value: float, expected: float) -> None:
    assert rounded((value,)) == [expected]


def test_each_text_of_figures_is_there_once() -> None:
    figures = [{"data": [{"type": "scatter", "text": ["a", "b", "a"]}]}, {"data": [{"type": "bar", "text": ["b"]}]}]
    shared = share_texts(figures)
    assert shared["texts"] == ["a", "b"]
    assert [trace["text"] for figure in shared["figures"] for trace in figure["data"]] == [[0, 1, 0], [1]]


def test_legend_has_each_kind_once_by_rank_with_the_background_last() -> None:
    def of(name: str, style: int = 0, **more: Any) -> Trace:
        return series([1.0], [1.0], name=name, style=style, **more)

    figure = figure_with(of("others", is_faint=True), of("second", 1), of("best"), of("second", 1))
    entries = legend_of(figure)
    assert [entry["name"] for entry in entries] == ["best", "second", "others"]
    assert len({entry["sign"] for entry in entries[:2]}) == 2, "not told apart by colour alone"
    assert legend_of(figure_with(of("best"))) == []


def test_signs_show_lines_points_and_bands() -> None:
    traces = (
        series([1.0], [1.0]),
        series([1.0], [1.0], mode="lines"),
        band([1.0], [0.0], [2.0], name="b"),
    )
    assert len(set(map(sign_of, traces))) == 3


def test_table_shows_the_first_rows_and_folds_the_others_with_their_marks() -> None:
    rows = [["first"], ["second"], ["third"]]
    table = TextTable(name="t", title="t", columns=["x"], rows=rows, num_shown=1, marked=frozenset({2}))
    shown, folded = page_of(table).split("<details>")
    rows_in = [re.findall(r"<tr( class=\"marked\")?>\s*<th scope=\"row\">(\w+)", part) for part in (shown, folded)]
    assert rows_in == [[("", "first")], [("", "second"), (' class="marked"', "third")]]
    assert "2 more" in folded


def test_cells_of_wide_tables_name_their_columns_on_a_narrow_screen() -> None:
    for number, is_wide in ((MOST_COLUMNS, False), (MOST_COLUMNS + 1, True)):
        columns = [f"c{place}" for place in range(number)]
        page = page_of(TextTable(name="t", title="t", columns=columns, rows=[columns]))
        assert page.count("data-column=") == number * is_wide
        assert ('class="wide"' in page) is is_wide


def test_command_stands_in_a_box_below_its_sentence() -> None:
    assert '>Do it.<code class="command">python x.py</code>' in page_of(Text(paragraphs=["Do it.\n  python x.py"]))


def test_headings_of_blocks_are_below_that_of_their_section() -> None:
    table = TextTable(name="t", title="Table", columns=["x"], rows=[["1"]])
    blocks = (table, Listing(title="Listing", text="x"), figure_with(series([1.0], [2.0])))
    sections = [Section(name="one", title="One", blocks=[]), Section(name="two", title="Two", blocks=blocks)]
    page = without_plotly(render_page(Page(title="T", subtitle="S", sections=sections)))
    titles = ["1 T", "2 One", "2 Two", "3 Table", "3 Listing", "3 Figure", "4 Figure"]
    assert [" ".join(found) for found in re.findall(r"<h(\d)>(\w+)</h\d>", page)] == titles
