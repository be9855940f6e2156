"""Writes a page as one HTML file that needs no network: styles, scripts, figures and texts are all in it."""

import itertools
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from mtlib.runtime.console import COMMAND_INDENT, visible_lines
from results.figures.draw import COLOURS, SYMBOLS, panel_height
from results.page.content import Page

FOLDER = Path(__file__).resolve().parent / "template"
TEMPLATE, STYLES, PAGE_SCRIPT = "page.html.jinja", "page.css", "page.js"
MOST_COLUMNS = 4
"""The most columns of a table whose rows stay rows on a narrow screen."""
NUM_DIGITS = 6
"""Significant digits of the numbers in figures."""
TEXT_SYMBOLS = ("●", "■", "◆", "▲", "✖", "★", "▼", "✚")
"""`SYMBOLS` in a text."""
POSITION_KEYS = ("domain", "anchor")
"""Settings of an axis that place it among others."""
PANEL_MARGINS = {"l": 10, "r": 16, "t": 34, "b": 10}
"""Pixels; the mode bar is above the plot."""
SHARED = ("template", "paper_bgcolor", "plot_bgcolor", "font", "hoverlabel", "hovermode")
"""Settings of a figure that its panels have too."""


def render_page(page: Page) -> str:
    """Returns the HTML of a page. Every text is escaped."""
    panels = list(map(split_panels, page.figures))
    facts = figure_facts(page.figures, panels)
    figures = [{"data": panel["data"], "layout": panel["layout"]} for own in panels for panel in own]
    content = (
        environment()
        .get_template(TEMPLATE)
        .render(
            page=page,
            kind=lambda block: type(block).__name__,
            command_indent=COMMAND_INDENT,
            most_columns=MOST_COLUMNS,
            facts_of=lambda figure: facts[id(figure)],
            styles=Markup((FOLDER / STYLES).read_text(encoding="utf-8")),  # our own file
            script=Markup((FOLDER / PAGE_SCRIPT).read_text(encoding="utf-8")),  # our own file
            plotly=Markup(plotly_script() if figures else ""),  # Plotly's own
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


def split_panels(figure: go.Figure) -> list[dict[str, Any]]:
    """Returns each subplot as a figure of its own, in plain data, with its title: a page places them by its width."""
    tree = figure.to_plotly_json()
    layout, meta = tree["layout"], tree["layout"]["meta"]
    numbers = sorted(int(name[5:] or 1) for name in layout if name.startswith("xaxis"))
    suffixes = ["" if number == 1 else str(number) for number in numbers]
    panels = []
    for suffix, title in zip(suffixes, meta["panels"], strict=False):  # a grid's last places may be empty
        traces = [trace for trace in tree["data"] if trace.get("xaxis", "x") == f"x{suffix}"]
        panels.append({"title": title, **own_panel(traces, layout, suffix)})
    return panels


def own_panel(traces: Sequence[dict[str, Any]], layout: Mapping[str, Any], suffix: str) -> dict[str, Any]:
    """Returns the data and layout of the subplot whose axes have this suffix, without title and legend."""
    axes = {f"{name}axis": dict(layout.get(f"{name}axis{suffix}", {})) for name in ("x", "y")}
    for own in axes.values():
        for key in POSITION_KEYS:
            own.pop(key, None)
    shapes = [
        {**shape, "xref": "x", "yref": "y domain"}
        for shape in layout.get("shapes", ())
        if shape.get("xref", "x") == f"x{suffix}"
    ]
    look = {key: layout[key] for key in SHARED if key in layout}
    place = {"height": panel_height(axes["yaxis"]), "margin": PANEL_MARGINS, "showlegend": False}
    return {
        "data": [{**trace, "meta": trace_name(trace), "xaxis": "x", "yaxis": "y"} for trace in traces],
        "layout": {**look, **axes, **place, "shapes": shapes},
    }


def trace_name(trace: Mapping[str, Any]) -> str:
    """Returns a trace's name as it is."""
    return str(trace.get("meta", trace.get("name", "")))


def figure_facts(figures: Sequence[go.Figure], panels: Sequence[Sequence[dict[str, Any]]]) -> dict[int, dict[str, Any]]:
    """By identity of each figure: name, title, caption, legend, and panels with their titles, heights and numbers."""
    numbers = itertools.count()
    return {
        id(figure): {
            **figure.layout.meta,
            "legend": legend_of(figure),
            "panels": [
                {"title": panel["title"], "height": panel["layout"]["height"], "number": next(numbers)} for panel in own
            ],
        }
        for figure, own in zip(figures, panels, strict=True)
    }


def share_texts(figures: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Figures whose points have numbers of texts, and the texts, each once: figures repeat those of a trial."""
    numbers: dict[str, int] = {}
    for trace in (trace for figure in figures for trace in figure["data"]):
        if isinstance(trace.get("text"), list | tuple) and trace["type"] != "heatmap":
            trace["text"] = [numbers.setdefault(text, len(numbers)) for text in trace["text"]]
    return {"figures": figures, "texts": list(numbers)}


def legend_of(figure: go.Figure) -> list[dict[str, str]]:
    """Returns the names in a figure's legend with their signs, those in the background last;
    empty if there is no legend."""
    if figure.layout.showlegend is False:
        return []
    traces = [trace.to_plotly_json() for trace in figure.data if trace.showlegend is not False and trace.name]
    shown = [trace for trace in traces if trace["type"] == "scatter"]
    ordered = sorted(shown, key=legend_order)
    entries = [
        {"name": trace_name(trace), "colour": colour_of_trace(trace), "sign": sign_of(trace)} for trace in ordered
    ]
    return entries if len(entries) > 1 else []


def legend_order(trace: Mapping[str, Any]) -> tuple[float, int]:
    """Returns the number of a trace's style, by its rank; what is in the background comes last."""
    colour = colour_of_trace(trace)
    return -float(trace.get("opacity", 1.0)), COLOURS.index(colour) if colour in COLOURS else 0


def colour_of_trace(trace: Mapping[str, Any]) -> str:
    """Returns a trace's colour."""
    return str(trace.get("fillcolor") or trace.get("marker", {}).get("color") or "inherit")


def sign_of(trace: Mapping[str, Any]) -> str:
    """Returns a trace's sign in a legend."""
    if trace.get("fill"):
        return "░"
    symbol = TEXT_SYMBOLS[SYMBOLS.index(trace.get("marker", {}).get("symbol", SYMBOLS[0]))]
    return {"markers": symbol, "lines": "━"}.get(trace.get("mode", "lines"), f"─{symbol}─")


def script_json(value: Any) -> str:
    """JSON for a script element, which no text can end."""
    text = json.dumps(rounded(value), separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def rounded(value: Any) -> Any:
    """Returns a tree with numbers of few digits; those that are not finite are null."""
    if hasattr(value, "tolist"):
        return rounded(value.tolist())
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{NUM_DIGITS}g}") if value == value and abs(value) != float("inf") else None
    return value
