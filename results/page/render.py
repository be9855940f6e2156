"""Writes a page as one HTML file that needs no network: styles, scripts, figures and texts are all in it."""

import itertools
import json
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from mtlib.runtime.console import visible_lines
from results.figures.chart import Band, Bars, Chart, Series
from results.figures.plotly_figure import panel_height, panel_json
from results.figures.style import FAINT, TEXT_SYMBOLS, colour_of, shape_number
from results.page.content import Findings, Listing, Page, Section, Text, TextTable

FOLDER = Path(__file__).resolve().parent / "template"
TEMPLATE, STYLES, PAGE_SCRIPT = "page.html.jinja", "page.css", "page.js"
NUM_DIGITS = 6
"""Significant digits of the numbers in figures."""


def render_page(page: Page) -> str:
    """The HTML of a page. Every text is escaped."""
    placed = numbered_panels(page.charts)
    figures = [panel_json(panel) for chart in page.charts for panel in chart.panels]
    content = (
        environment()
        .get_template(TEMPLATE)
        .render(
            page=page,
            kind=block_kind,
            panels_of=lambda chart: placed[id(chart)],
            legend=legend_of,
            styles=Markup((FOLDER / STYLES).read_text(encoding="utf-8")),  # our own file
            script=Markup((FOLDER / PAGE_SCRIPT).read_text(encoding="utf-8")),  # our own file
            plotly=Markup(plotly_script() if page.charts else ""),  # Plotly's own
            figures=Markup(script_json(share_texts(figures))),
        )
    )
    return str(content)


def plotly_script() -> str:
    """Plotly's script, from the installed package: importing that takes a second."""
    folder = find_spec("plotly")
    assert folder is not None
    assert folder.submodule_search_locations is not None
    return (Path(folder.submodule_search_locations[0]) / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


@cache
def environment() -> Environment:
    """Jinja with every text escaped and every unknown name refused."""
    return Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        finalize=shown_text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def shown_text(value: Any) -> Any:
    """Makes the characters of a text that steer a terminal visible; our own HTML and other values stay as they are."""
    return visible_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def block_kind(block: Any) -> str:
    """The name by which the template knows a block."""
    kinds = {
        Text: "text",
        TextTable: "table",
        Findings: "findings",
        Listing: "listing",
        Chart: "chart",
        Section: "section",
    }
    return kinds[type(block)]


def numbered_panels(charts: Sequence[Chart]) -> dict[int, list[dict[str, Any]]]:
    """For each chart, by its identity, the title and height of its panels, with their numbers on the page."""
    numbers = itertools.count()
    return {
        id(chart): [
            {"title": panel.title, "height": panel_height(panel), "number": next(numbers)} for panel in chart.panels
        ]
        for chart in charts
    }


def share_texts(figures: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Figures whose points have numbers of texts, and the texts, each once: charts repeat those of a trial."""
    numbers: dict[str, int] = {}
    for trace in (trace for figure in figures for trace in figure["data"]):
        if isinstance(trace.get("text"), list | tuple) and trace["type"] != "heatmap":
            trace["text"] = [numbers.setdefault(text, len(numbers)) for text in trace["text"]]
    return {"figures": figures, "texts": list(numbers)}


def legend_of(chart: Chart) -> list[dict[str, str]]:
    """The names in a chart's legend with their signs, those in the background last; empty if there is no legend."""
    marks = sorted(chart.legend.values(), key=lambda mark: (is_faint(mark), mark.style))
    return [
        {"name": mark.name, "colour": FAINT if is_faint(mark) else colour_of(mark.style), "sign": sign_of(mark)}
        for mark in marks
    ]


def is_faint(mark: Series | Band | Bars) -> bool:
    """Whether a mark is in the background."""
    return isinstance(mark, Series) and mark.is_faint


def sign_of(mark: Series | Band | Bars) -> str:
    """A mark's sign in a legend."""
    if isinstance(mark, Bars):
        return "▇"
    if isinstance(mark, Band):
        return "░"
    symbol = TEXT_SYMBOLS[shape_number(mark.style)]
    return {"points": symbol, "line": "━", "steps": "━", "line and points": f"─{symbol}─"}[mark.mode]


def script_json(value: Any) -> str:
    """JSON for a script element, which no text can end."""
    text = json.dumps(rounded(value), separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def rounded(value: Any) -> Any:
    """A tree with numbers of few digits; those that are not finite are null."""
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        return float(f"{value:.{NUM_DIGITS}g}") if value == value and abs(value) != float("inf") else None
    return value
