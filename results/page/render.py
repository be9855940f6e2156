"""Writes a page as one HTML file that needs no network: styles, scripts, figures and texts are all in it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from mtlib.runtime.console import COMMAND_INDENT, visible_lines
from results.figures.draw import WIDTH
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
    blocks = page.figures
    figures = list(map(plain_figure, blocks))
    places = {
        id(block): {"number": number, "height": figure["layout"]["height"]}
        for number, (block, figure) in enumerate(zip(blocks, figures, strict=True))
    }
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        finalize=shown_text,
        undefined=StrictUndefined,  # every unknown name is refused
        trim_blocks=True,
        lstrip_blocks=True,
    )
    content = environment.get_template(TEMPLATE).render(
        page=page,
        kind=lambda block: type(block).__name__,
        command_indent=COMMAND_INDENT,
        most_columns=MOST_COLUMNS,
        place_of=lambda figure: places[id(figure)],
        width=WIDTH,
        styles=Markup((FOLDER / STYLES).read_text(encoding="utf-8")),  # our own file
        script=Markup((FOLDER / PAGE_SCRIPT).read_text(encoding="utf-8")),  # our own file
        plotly=Markup(get_plotlyjs() if figures else ""),  # Plotly's own
        figures=Markup(script_json(figures)),
    )
    return str(content)


def shown_text(value: Any) -> Any:
    """Makes the characters of a text that steer a terminal visible; our own HTML and other values stay as they are."""
    return visible_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def plain_figure(figure: go.Figure) -> dict[str, Any]:
    """Returns a figure in plain data without its title, which the page shows itself, and without the room for it."""
    plain: dict[str, Any] = json.loads(figure.to_json(), parse_float=few_digits)
    layout = plain["layout"]
    layout["height"] += TOP_MARGIN - layout["margin"]["t"]
    layout["margin"]["t"] = TOP_MARGIN
    del layout["title"]
    return plain


def script_json(figures: Sequence[Mapping[str, Any]]) -> str:
    """JSON of figures for a script element, which no text can end."""
    text = json.dumps(figures, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def few_digits(number: str) -> float:
    """Returns a number of a figure with the digits that can be seen: more make the page larger and ticks longer."""
    return float(f"{float(number):.{NUM_DIGITS}g}")
