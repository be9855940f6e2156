"""Writes a page as one HTML file that needs no network: styles, scripts, figures and texts are all in it."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from mtlib.runtime.console import COMMAND_INDENT, visible_lines
from results.page.content import Page

FOLDER = Path(__file__).resolve().parent / "template"
TEMPLATE, STYLES, PAGE_SCRIPT = "page.html.jinja", "page.css", "page.js"
MOST_COLUMNS = 4
"""The most columns of a table whose rows stay rows on a narrow screen."""
NUM_DIGITS = 6
"""Significant digits of the numbers in figures."""
TOP_MARGIN = 40
"""Pixels above a figure's panels, for their titles and the mode bar."""


def render_page(page: Page) -> str:
    """Returns the HTML of a page. Every text is escaped."""
    figures = list(map(untitled, page.figures))
    places = {id(figure): {"number": at, "height": figures[at].layout.height} for at, figure in enumerate(page.figures)}
    content = (
        environment()
        .get_template(TEMPLATE)
        .render(
            page=page,
            kind=lambda block: type(block).__name__,
            command_indent=COMMAND_INDENT,
            most_columns=MOST_COLUMNS,
            place_of=lambda figure: places[id(figure)],
            styles=Markup((FOLDER / STYLES).read_text(encoding="utf-8")),  # our own file
            script=Markup((FOLDER / PAGE_SCRIPT).read_text(encoding="utf-8")),  # our own file
            plotly=Markup(get_plotlyjs() if figures else ""),  # Plotly's own
            figures=Markup(script_json(figures)),
        )
    )
    return str(content)


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


def untitled(figure: go.Figure) -> go.Figure:
    """Returns a figure without its title, which the page shows itself, and without the room for it."""
    height = figure.layout.height - figure.layout.margin.t + TOP_MARGIN
    return go.Figure(figure).update_layout(title=None, margin_t=TOP_MARGIN, height=height)


def script_json(figures: Sequence[go.Figure]) -> str:
    """JSON of figures for a script element, which no text can end."""
    plain = [json.loads(figure.to_json(), parse_float=few_digits) for figure in figures]
    text = json.dumps(plain, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def few_digits(number: str) -> float:
    """Returns a number of a figure with the digits that can be seen: more make the page larger and ticks longer."""
    return float(f"{float(number):.{NUM_DIGITS}g}")
