"""Plotly figures: traces in common colours and symbols, axes, and panels side by side.

A figure's `layout.meta` has its `name`, of its files, its `title` and its `caption`: what is shown, and how to read it.
Each panel is a subplot. Kinds of points differ in colour, symbol and dashes, so also without colour vision; colours are
those of Okabe and Ito (2008), "Color Universal Design", in shades that stand out on white and on black. Texts are
escaped here: Plotly reads markup, and a notebook TeX.
"""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from mtlib.runtime.console import visible_lines

Mode = Literal["markers", "lines", "lines+markers"]
Dash = Literal["solid", "dash"]
Coordinate = float | str
"""A number, or the name of a category."""
Trace = dict[str, Any]
"""A trace in Plotly's terms."""
Axis = dict[str, Any]
"""Settings of an axis in Plotly's terms."""

COLOURS = ("#0f7bc0", "#d55e00", "#009e73", "#c25e9b", "#b78103", "#4fa3d9", "#7f6fd0", "#8a8a8a")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "triangle-down", "cross")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "5px,2px", "2px,4px")
FAINT = "#8a8a8a"
"""The colour of what is in the background."""
FAINT_OPACITY = 0.4
HEATMAP_COLOURS = ("#f4f7fb", "#0b4f80")
"""The colours of 0 and 1."""
FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
FAINT_LINES = "rgba(128,128,128,0.25)"
"""The colour of grids, on white and on black."""
PANEL_HEIGHT = 180
"""Pixels."""
ROW_HEIGHT = 26
"""Pixels of a category from top to bottom."""
WIDTH = 1000
"""Pixels of a figure: of images, of print, and the least on a page. Gaps are chosen for it."""
PANEL_GAP = 70
"""Pixels between two panels side by side, for the ticks and the title of an axis, besides labels of categories."""
ROW_GAP = 90
"""Pixels between two rows of panels, for the title of an axis and of a panel."""
LETTER_WIDTH = 6.5
"""Pixels of a letter, on average."""
MAX_LETTERS = 40
"""Letters that are shown of a category and of a panel's title."""
MAX_LEGEND_LETTERS = 120
"""Letters that are shown of a name in the legend, which Plotly does not wrap."""
NARROW_LABEL = 100
"""Pixels of the longest label of a category with which three panels fit in a row."""
SIGN_LETTERS = 8
"""How many letters have the width of a sign in the legend."""
LEGEND_LINE = 29
"""Pixels of a line of the legend."""
LEGEND_PLACE = {"x": 0, "y": 0, "yref": "container", "yanchor": "bottom"}
MARGINS = {"l": 60, "r": 20, "t": 90, "b": 60}
"""Pixels around the panels, besides labels of categories on the left and the legend below."""
NUM_TICKS = 8
"""About how many ticks an axis of whole numbers has."""
AXIS_STYLE = {
    "automargin": True,
    "gridcolor": FAINT_LINES,
    "zeroline": False,
    "linecolor": FAINT_LINES,
    "ticks": "outside",
    "tickcolor": FAINT_LINES,
}
REFERENCE_LINE = {"color": "#8a8a8a", "width": 1, "dash": "dot"}


@dataclass(frozen=True)
class Panel:
    """One pair of axes with traces."""

    title: str
    x: Axis
    y: Axis
    traces: Sequence[Trace]
    vertical_lines: Sequence[float] = ()
    """Where thin lines cross the x axis."""


def figure_of(name: str, title: str, caption: str, panels: Sequence[Panel]) -> go.Figure:
    """Returns a figure of panels; those without a point to show are left out.

    Args:
        name: letters, digits and hyphens.
        title: of the figure.
        caption: what is shown, and how to read it.
        panels: up to three stand side by side, two where labels of categories are long.
    """
    panels = [panel for panel in panels if any(map(has_points, panel.traces))]
    label_width = LETTER_WIDTH * max((num_letters(panel.y) for panel in panels), default=0)
    num_columns = max(1, min(len(panels), 2 if len(panels) == 4 or label_width > NARROW_LABEL else 3))
    num_rows = max(1, math.ceil(len(panels) / num_columns))
    left = MARGINS["l"] + label_width
    plot_width = WIDTH - left - MARGINS["r"]
    most_categories = max((len(panel.y.get("categoryarray") or ()) for panel in panels), default=0)
    row_height = max(PANEL_HEIGHT, ROW_HEIGHT * most_categories)
    plot_height = num_rows * row_height + (num_rows - 1) * ROW_GAP
    shown = legend_traces(panels)
    has_legend = bool(shown)  # each name is taken out once it is drawn
    letters = sum(len(name) + SIGN_LETTERS for name in shown)
    bottom = MARGINS["b"] + LEGEND_LINE * math.ceil(letters * LETTER_WIDTH / plot_width)
    figure = make_subplots(
        rows=num_rows,
        cols=num_columns,
        subplot_titles=[safe(shortened(panel.title)) for panel in panels],
        horizontal_spacing=(PANEL_GAP + label_width) / plot_width,
        vertical_spacing=ROW_GAP / plot_height,
    )
    figure.update_annotations(font_size=14)  # the titles of panels
    for number, panel in enumerate(panels):
        cell = {"row": number // num_columns + 1, "col": number % num_columns + 1}
        for trace in filter(has_points, panel.traces):
            is_shown = shown.get(trace.get("name", "")) is trace
            figure.add_trace({**trace, "showlegend": is_shown, "legendgroup": trace.get("name", "")}, **cell)
            if is_shown:
                del shown[trace["name"]]
        for at in panel.vertical_lines:
            # Plotly draws no line through a panel to which nothing else was added, unless told to.
            figure.add_vline(at, line=REFERENCE_LINE, layer="below", exclude_empty_subplots=False, **cell)
        figure.update_xaxes(**panel.x, **cell)
        from_top = {"range": panel.y["range"][::-1]} if panel.y.get("type") == "category" else {}
        figure.update_yaxes(**{**panel.y, **from_top}, **cell)
    figure.update_xaxes(AXIS_STYLE)
    figure.update_yaxes(AXIS_STYLE)
    figure.update_layout(
        template="none",
        title=safe(title),
        meta={"name": name, "title": title, "caption": caption},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": FONT, "size": 12, "color": "#6b7280"},
        margin={**MARGINS, "l": left, "b": bottom},
        legend={**LEGEND_PLACE, "orientation": "h", "bgcolor": "rgba(0,0,0,0)"},
        hoverlabel={"align": "left", "namelength": 0, "font": {"family": FONT}},
        hovermode="closest",
        height=plot_height + MARGINS["t"] + bottom,
        showlegend=has_legend,
    )
    return figure


def is_empty(figure: go.Figure) -> bool:
    """Returns whether a figure shows nothing."""
    return len(figure.data) == 0


def has_points(trace: Trace) -> bool:
    """Returns whether a trace shows data."""
    return any(len(trace.get(key, ())) > 0 for key in ("x", "y", "z"))


def legend_traces(panels: Sequence[Panel]) -> dict[str, Trace]:
    """By name the traces whose signs are in the legend, a solid line rather than a dashed one;
    none if all have one name."""
    traces = [trace for panel in panels for trace in panel.traces if has_points(trace) and trace.get("name")]
    signs: dict[str, Trace] = {}
    for trace in sorted(traces, key=lambda trace: trace.get("line", {}).get("dash") == "dash"):
        signs.setdefault(trace["name"], trace)
    return signs if len(signs) > 1 else {}


def safe(text: str) -> str:
    """Returns a text whose characters Plotly reads neither as markup nor, in a notebook, as TeX;
    its lines stay lines."""
    return html.escape(visible_lines(str(text)), quote=False).replace("$", "&#36;").replace("\n", "<br>")


def shortened(text: str, most: int = MAX_LETTERS) -> str:
    """Returns a text without its middle where it is longer than `most` letters: its ends tell it from others."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-(most - most // 2 - 1) :]}"


def num_letters(y: Mapping[str, Any]) -> int:
    """Returns the letters of the longest label of a category on a y axis; 0 on an axis of numbers."""
    lines = [line for label in y.get("ticktext", ()) for line in html.unescape(label).split("<br>")]
    return max(map(len, lines), default=0)


def safe_coordinates(values: Sequence[Coordinate | None]) -> list[Coordinate | None]:
    """Coordinates with safe texts."""
    return [safe(value) if isinstance(value, str) else value for value in values]


def colour_of(style: int) -> str:
    """Returns the colour of a style; after the last the first follows."""
    return COLOURS[style % len(COLOURS)]


def shape_number(style: int) -> int:
    """Returns the number of a style's symbol and dashes;
    after the last colour every style takes the next symbol and dashes."""
    return (style + style // len(COLOURS)) % len(COLOURS)


def axis(
    title: str = "",
    *,
    scale: Literal["linear", "log"] = "linear",
    categories: Sequence[str] | None = None,
    ends: tuple[float, float] | None = None,
    whole_to: int | None = None,
) -> Axis:
    """Returns an axis.

    Args:
        title: beside it.
        scale: of numbers.
        categories: from left to right or from top to bottom; None for an axis of numbers.
        ends: lowest and highest number of a linear axis; None: all points.
        whole_to: highest of its numbers, where these are whole ones, such as epochs.
    """
    settings: Axis = {
        "title": {"text": safe(title), "standoff": 8},
        "type": scale if categories is None else "category",
    }
    if categories is not None:
        names = list(map(safe, categories))
        settings |= {"categoryorder": "array", "categoryarray": names}
        settings |= {"tickvals": names, "ticktext": [safe(shortened(name)) for name in categories]}
        settings |= {"range": [-0.5, len(categories) - 0.5]}  # also of those without a point
    elif ends is not None:
        settings["range"] = list(ends)
    if settings["type"] == "log":
        settings |= {"exponentformat": "power", "nticks": 5}
    elif whole_to is not None:
        # No tick lies between two whole numbers.
        settings |= {"tick0": 0, "dtick": max(1, math.ceil(whole_to / NUM_TICKS)), "minallowed": 0}
    return settings


def series(
    x: Sequence[Coordinate],
    y: Sequence[Coordinate | None],
    *,
    name: str = "",
    hover: Sequence[str] = (),
    adds_coordinates: bool = False,
    mode: Mode = "markers",
    style: int = 0,
    dash: Dash | None = None,
    is_faint: bool = False,
    is_hollow: bool = False,
    low: Sequence[float] = (),
    high: Sequence[float] = (),
    along: Literal["x", "y"] = "y",
) -> Trace:
    """Points of one kind, joined by a line or not.

    Args:
        x: (points,).
        y: (points,); None interrupts a line.
        name: in the legend; empty: not there. Traces of one name have one entry, which shows and hides them together.
        hover: a text for each point; empty: its coordinates.
        adds_coordinates: whether hovering shows the coordinates below the text.
        mode: of Plotly.
        style: number of its colour, symbol and dashes.
        dash: of its line; None: its style's.
        is_faint: whether it is in the background.
        is_hollow: whether its signs are outlines.
        low: lower end of each point's interval; empty: no intervals. A point with nan has none.
        high: upper end, likewise.
        along: the axis of the intervals.
    """
    colour = FAINT if is_faint else colour_of(style)
    shown = [*(["%{text}"] if hover else []), *(["%{x}, %{y}"] if adds_coordinates or not hover else [])]
    trace: Trace = {
        "type": "scatter",
        "x": safe_coordinates(x),
        "y": safe_coordinates(y),
        "name": safe(shortened(name, MAX_LEGEND_LETTERS)),
        "legendrank": 2000 if is_faint else 1000 + style,
        "mode": mode,
        "opacity": FAINT_OPACITY if is_faint else 1.0,
        "marker": {
            "color": colour,
            "symbol": SYMBOLS[shape_number(style)] + "-open" * is_hollow,
            "size": 6 if is_faint or mode != "markers" else 8,
            "opacity": 0.85,
        },
        "line": {
            "color": colour,
            "width": 1 if is_faint else 2,
            "dash": dash or ("solid" if is_faint else DASHES[shape_number(style)]),
        },
        "hovertemplate": f"{'<br>'.join(shown)}<extra></extra>",
    }
    if hover:
        trace["text"] = list(map(safe, hover))
    if low:
        centre = [math.nan if value is None else float(value) for value in (x if along == "x" else y)]
        above = [end - middle for end, middle in zip(high, centre, strict=True)]
        below = [middle - end for end, middle in zip(low, centre, strict=True)]
        sizes = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
        trace[f"error_{along}"] = {**sizes, "color": colour, "thickness": 1.6, "width": 4}
    return trace


def band(x: Sequence[float], low: Sequence[float], high: Sequence[float], *, name: str, style: int = 0) -> Trace:
    """Returns the area between two lines, as a closed line."""
    red, green, blue = (int(colour_of(style)[start : start + 2], 16) for start in (1, 3, 5))
    return {
        "type": "scatter",
        "x": [*x, *reversed(x)],
        "y": [*high, *reversed(low)],
        "name": safe(name),
        "legendrank": 1000 + style,
        "fill": "toself",
        "mode": "lines",
        "line": {"width": 0},
        "fillcolor": f"rgba({red},{green},{blue},0.2)",
        "hoverinfo": "skip",
    }


def heatmap(
    x: Sequence[str], y: Sequence[str], values: Sequence[Sequence[float]], hover: Sequence[Sequence[str]]
) -> Trace:
    """Numbers from 0 to 1 in a grid, (y, x), and texts that hovering a cell shows."""
    return {
        "type": "heatmap",
        "x": list(map(safe, x)),
        "y": list(map(safe, y)),
        "z": [list(row) for row in values],
        "text": [[f"{value:.2f}" for value in row] for row in values],
        "hovertext": [list(map(safe, row)) for row in hover],
        "texttemplate": "%{text}",
        "hovertemplate": "%{hovertext}<extra></extra>",
        "colorscale": [[0, HEATMAP_COLOURS[0]], [1, HEATMAP_COLOURS[1]]],
        "zmin": 0,
        "zmax": 1,
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
    }
