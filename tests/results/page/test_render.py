"""The HTML of a page holds everything in itself, escapes every text, and is valid JSON where a script reads it."""

import json
import math
import re
from typing import Any

import plotly.graph_objects as go

from results.figures.draw import Panel, Trace, axis, figure_of, series
from results.health.finding import Finding
from results.page.content import Block, Findings, Fold, Listing, Page, Section, Text, TextTable
from results.page.render import (
    MOST_COLUMNS,
    plain_figure,
    render_page,
    script_json,
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


def figures_in(page: str) -> list[dict[str, Any]]:
    found = re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)
    assert found
    figures: list[dict[str, Any]] = json.loads(found[1])
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
        TextTable(title=HOSTILE, columns=[HOSTILE], rows=[[HOSTILE]] * 3, caption=HOSTILE, num_shown=1),
        Findings(found=[Finding(level="problem", what=HOSTILE, advice=HOSTILE)]),
        Findings(found=[]),
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
    for figure_meta in (figure["layout"]["meta"] for figure in figures):
        assert figure_meta.pop("title") == figure_meta.pop("caption") == HOSTILE  # the page has these, as they are
    assert "<script" not in json.dumps(figures)  # in Plotly's texts characters of markup are entities


def test_numbers_that_are_not_finite_are_null() -> None:
    [figure] = json.loads(
        script_json([plain_figure(figure_with(series([1 / 3, math.nan, math.inf], [1.0, 2.0, None])))])
    )
    assert figure["data"][0]["x"] == [0.333333, None, None], "and others have few digits"


def test_table_shows_the_first_rows_and_folds_the_others_with_their_marks() -> None:
    rows = [["first"], ["second"], ["third"]]
    table = TextTable(title="t", columns=["x"], rows=rows, num_shown=1, marked=frozenset({2}))
    shown, folded = page_of(table).split("<details>")
    rows_in = [re.findall(r"<tr( class=\"marked\")?>\s*<th scope=\"row\">(\w+)", part) for part in (shown, folded)]
    assert rows_in == [[("", "first")], [("", "second"), (' class="marked"', "third")]]
    assert "2 more" in folded


def test_cells_of_wide_tables_name_their_columns_on_a_narrow_screen() -> None:
    for number, is_wide in ((MOST_COLUMNS, False), (MOST_COLUMNS + 1, True)):
        columns = [f"c{place}" for place in range(number)]
        page = page_of(TextTable(title="t", columns=columns, rows=[columns]))
        assert page.count("data-column=") == number * is_wide
        assert ('class="wide"' in page) is is_wide


def test_command_stands_in_a_box_below_its_sentence() -> None:
    assert '>Do it.<code class="command">python x.py</code>' in page_of(Text(paragraphs=["Do it.\n  python x.py"]))


def test_headings_of_blocks_are_below_that_of_their_section() -> None:
    table = TextTable(title="Table", columns=["x"], rows=[["1"]])
    blocks = (table, Listing(title="Listing", text="x"), figure_with(series([1.0], [2.0])))
    sections = [Section(name="one", title="One", blocks=[]), Section(name="two", title="Two", blocks=blocks)]
    page = without_plotly(render_page(Page(title="T", subtitle="S", sections=sections)))
    titles = ["1 T", "2 One", "2 Two", "3 Table", "3 Listing", "3 Figure"]
    assert [" ".join(found) for found in re.findall(r"<h(\d)>(\w+)</h\d>", page)] == titles
