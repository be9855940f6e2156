"""Draws charts with Plotly, for pages and notebooks."""

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mtlib.runtime.console import visible_lines
from results.figures.chart import Axis, Band, Bars, Chart, Heatmap, Labels, Panel, Reference, Series, has_content
from results.figures.style import (
    FAINT,
    FAINT_OPACITY,
    HEATMAP_COLOURS,
    PLOTLY_DASHES,
    PLOTLY_SYMBOLS,
    colour_of,
    columns_of,
    shape_number,
)

if TYPE_CHECKING:
    import plotly.graph_objects as go

FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
FAINT_LINES = "rgba(128,128,128,0.25)"
"""Of grids, on white and on black."""
PANEL_HEIGHT = 330
ROW_HEIGHT = 30
"""Of a category from top to bottom."""
MODES = {"points": "markers", "line": "lines", "line and points": "lines+markers", "steps": "lines"}
SYMBOL_OPACITY = 0.85
LABEL_PIXELS = 11
"""Pixels."""
REFERENCE_LINE = {"color": "#8a8a8a", "width": 1, "dash": "dot"}


def panel_json(panel: Panel) -> dict[str, Any]:
    """One panel as the data and layout that Plotly's script draws, without its title and legend."""
    return {
        "data": [trace_of(mark) for mark in panel.marks if not isinstance(mark, Reference)],
        "layout": {
            **layout(panel_height(panel)),
            "barmode": "group",
            "showlegend": False,
            "xaxis": axis_settings(panel.x, is_vertical=False),
            "yaxis": axis_settings(panel.y, is_vertical=True),
            "shapes": [reference_line(mark) for mark in panel.marks if isinstance(mark, Reference)],
        },
    }


def chart_figure(chart: Chart) -> "go.Figure":
    """A whole chart as one figure, for a notebook."""
    from plotly.subplots import make_subplots

    columns = columns_of(len(chart.panels))
    rows = math.ceil(len(chart.panels) / columns)
    titles = [safe(panel.title) for panel in chart.panels]
    figure = make_subplots(rows=rows, cols=columns, subplot_titles=titles)
    waiting = chart.legend
    for number, panel in enumerate(chart.panels):
        cell = {"row": number // columns + 1, "col": number % columns + 1}
        for mark in (mark for mark in panel.marks if not isinstance(mark, Reference) and has_content(mark)):
            name = mark.name if isinstance(mark, Series | Band | Bars) else ""
            is_in_legend = waiting.get(name) is mark
            figure.add_trace({**trace_of(mark), "showlegend": is_in_legend, "legendgroup": name}, **cell)
            if is_in_legend:
                del waiting[name]
        for line in (mark for mark in panel.marks if isinstance(mark, Reference)):
            add_line = figure.add_vline if line.across == "x" else figure.add_hline
            # Plotly draws no line through a panel to which nothing else was added, unless told to.
            add_line(line.at, line=REFERENCE_LINE, layer="below", exclude_empty_subplots=False, **cell)
        figure.update_xaxes(**axis_settings(panel.x, is_vertical=False), **cell)
        figure.update_yaxes(**axis_settings(panel.y, is_vertical=True), **cell)
    height = rows * (max(map(panel_height, chart.panels)) + 40) + 60
    figure.update_layout(**layout(height), barmode="group", showlegend=bool(chart.legend), title=safe(chart.title))
    figure.update_layout(template="none", margin={"l": 60, "r": 20, "t": 110, "b": 50})
    figure.update_layout(legend={"y": -0.18, "yanchor": "top"})
    return figure


def safe(text: str) -> str:
    """A text whose characters Plotly reads neither as markup nor, in a notebook, as TeX; its lines stay lines."""
    return html.escape(visible_lines(str(text)), quote=False).replace("$", "&#36;").replace("\n", "<br>")


def panel_height(panel: Panel) -> int:
    """Pixels, so that each category from top to bottom has room."""
    rows = len(panel.y.categories) if panel.y.scale == "category" else 0
    rows = max([rows, *(len(mark.categories) for mark in panel.marks if isinstance(mark, Bars) and mark.along == "x")])
    return max(PANEL_HEIGHT, 110 + ROW_HEIGHT * rows)


def layout(height: int) -> dict[str, Any]:
    """What all figures share; texts and grids are legible on white and on black."""
    return {
        "height": height,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 12, "color": "#6b7280"},
        "margin": {"l": 10, "r": 16, "t": 10, "b": 10},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "bgcolor": "rgba(0,0,0,0)"},
        "hoverlabel": {"align": "left", "namelength": 0, "font": {"family": FONT}},
        "hovermode": "closest",
    }


def axis_settings(axis: Axis, *, is_vertical: bool) -> dict[str, Any]:
    """An axis in Plotly's terms."""
    settings: dict[str, Any] = {
        "title": {"text": safe(axis.title), "standoff": 8},
        "automargin": True,
        "gridcolor": FAINT_LINES,
        "zeroline": False,
        "linecolor": FAINT_LINES,
        "ticks": "outside",
        "tickcolor": FAINT_LINES,
        "type": axis.scale,
    }
    if axis.scale == "category":
        names = list(map(safe, axis.categories))
        settings |= {"categoryorder": "array", "categoryarray": names}
        settings |= {"range": [len(names) - 0.5, -0.5] if is_vertical else [-0.5, len(names) - 0.5]}
    elif axis.range:
        settings["range"] = [math.log10(end) for end in axis.range] if axis.scale == "log" else list(axis.range)
    if axis.ticks:
        settings |= {"tickvals": [at for at, _ in axis.ticks], "ticktext": [safe(text) for _, text in axis.ticks]}
    elif axis.scale == "log":
        settings |= {"exponentformat": "power", "nticks": 5}
    elif axis.is_whole:
        settings |= {"tickformat": "d", "tickmode": "auto", "nticks": 8, "minallowed": 0}
    return settings


def trace_of(mark: Series | Band | Bars | Heatmap | Labels) -> dict[str, Any]:
    """A mark as a trace; `meta` is its name as it is, for the legend."""
    if isinstance(mark, Series):
        return {**series_trace(mark), "meta": visible_lines(mark.name)}
    if isinstance(mark, Band):
        return {**band_trace(mark), "meta": visible_lines(mark.name)}
    if isinstance(mark, Bars):
        return {**bars_trace(mark), "meta": visible_lines(mark.name)}
    return heatmap_trace(mark) if isinstance(mark, Heatmap) else labels_trace(mark)


def series_trace(mark: Series) -> dict[str, Any]:
    """Points or lines; hovering shows their texts."""
    colour = FAINT if mark.is_faint else colour_of(mark.style)
    hover = [*(["%{text}"] if mark.hover else []), *(["%{x}, %{y}"] if mark.adds_coordinates or not mark.hover else [])]
    by_style = "solid" if mark.is_faint else PLOTLY_DASHES[shape_number(mark.style)]
    dash = {"style": by_style, "solid": "solid", "dashed": "dash"}[mark.dash]
    trace: dict[str, Any] = {
        "type": "scatter",
        "x": coordinates(mark.x),
        "y": coordinates(mark.y),
        "name": safe(mark.name),
        "mode": MODES[mark.mode],
        "opacity": FAINT_OPACITY if mark.is_faint else 1.0,
        "marker": {
            "color": colour,
            "symbol": PLOTLY_SYMBOLS[shape_number(mark.style)],
            "size": 6 if mark.is_faint or mark.mode != "points" else 8,
            "opacity": SYMBOL_OPACITY,
        },
        "line": {
            "color": colour,
            "width": 1 if mark.is_faint else 2,
            "dash": dash,
            "shape": "hv" if mark.mode == "steps" else "linear",
        },
        "hovertemplate": f"{'<br>'.join(hover)}<extra></extra>",
    }
    if mark.hover:
        trace["text"] = [safe(text) for text in mark.hover]
    if mark.low:
        centres = mark.x if mark.interval_along == "x" else mark.y
        centre = [math.nan if value is None else float(value) for value in centres]
        above = [high - middle for high, middle in zip(mark.high, centre, strict=True)]
        below = [middle - low for low, middle in zip(mark.low, centre, strict=True)]
        error = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
        error |= {"color": colour, "thickness": 1.6, "width": 4}
        trace[f"error_{mark.interval_along}"] = error
    return trace


def coordinates(values: Sequence[float | str | None]) -> list[float | str | None]:
    """Coordinates with safe texts."""
    return [safe(value) if isinstance(value, str) else value for value in values]


def band_trace(mark: Band) -> dict[str, Any]:
    """The area as a closed line."""
    red, green, blue = (int(colour_of(mark.style)[start : start + 2], 16) for start in (1, 3, 5))
    return {
        "type": "scatter",
        "x": [*mark.x, *reversed(mark.x)],
        "y": [*mark.high, *reversed(mark.low)],
        "name": safe(mark.name),
        "fill": "toself",
        "mode": "lines",
        "line": {"width": 0},
        "fillcolor": f"rgba({red},{green},{blue},0.2)",
        "hoverinfo": "skip",
    }


def bars_trace(mark: Bars) -> dict[str, Any]:
    """Bars; hovering shows their texts."""
    names, is_horizontal = [safe(name) for name in mark.categories], mark.along == "x"
    return {
        "type": "bar",
        "x": list(mark.values) if is_horizontal else names,
        "y": names if is_horizontal else list(mark.values),
        "orientation": "h" if is_horizontal else "v",
        "name": safe(mark.name),
        "marker": {
            "color": colour_of(mark.style),
            "line": {"width": 0},
            "pattern": {
                "shape": ("", "/", ".", "x", "-", "+", "|", "\\")[shape_number(mark.style)],
                "fgcolor": "rgba(255,255,255,0.7)",
                "fillmode": "overlay",
            },
        },
        "text": [safe(text) for text in mark.hover],
        "textposition": "none",
        "hovertemplate": "%{text}<extra></extra>" if mark.hover else "%{x}, %{y}<extra></extra>",
    }


def heatmap_trace(mark: Heatmap) -> dict[str, Any]:
    """A grid whose cells show their texts."""
    return {
        "type": "heatmap",
        "x": [safe(name) for name in mark.x],
        "y": [safe(name) for name in mark.y],
        "z": [list(row) for row in mark.values],
        "text": [[safe(text) for text in row] for row in mark.texts],
        "hovertext": [[safe(text) for text in row] for row in mark.hover],
        "texttemplate": "%{text}",
        "hovertemplate": "%{hovertext}<extra></extra>",
        "colorscale": [[0, HEATMAP_COLOURS[0]], [1, HEATMAP_COLOURS[1]]],
        "zmin": 0,
        "zmax": 1,
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
    }


def labels_trace(mark: Labels) -> dict[str, Any]:
    """Texts alone; a text whose left side is at its point stands to the right of it."""
    positions = {"left": "top right", "centre": "top center", "right": "top left"}
    return {
        "type": "scatter",
        "mode": "text",
        "x": list(mark.x),
        "y": coordinates(mark.y),
        "text": [safe(text) for text in mark.texts],
        "textposition": [positions[side] for side in mark.sides],
        "textfont": {"size": LABEL_PIXELS},
        "hoverinfo": "skip",
    }


def reference_line(mark: Reference) -> dict[str, Any]:
    """A thin dotted line through the whole panel."""
    along = "y" if mark.across == "x" else "x"
    ends = {f"{mark.across}0": mark.at, f"{mark.across}1": mark.at, f"{along}0": 0, f"{along}1": 1}
    refs = {f"{mark.across}ref": mark.across, f"{along}ref": f"{along} domain"}
    return {"type": "line", "line": REFERENCE_LINE, "layer": "below", **ends, **refs}
