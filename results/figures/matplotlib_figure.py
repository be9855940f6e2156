"""Draws charts with matplotlib, for papers: PNG and SVG files, without a display or a browser."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patheffects import Normal, Stroke
from matplotlib.ticker import LogFormatter, MaxNLocator

from mtlib.runtime.console import visible_lines
from results.figures.chart import Axis, Band, Bars, Chart, Heatmap, Labels, Mark, Panel, Reference, Series
from results.figures.style import (
    FAINT,
    FAINT_OPACITY,
    HEATMAP_COLOURS,
    MATPLOTLIB_DASHES,
    MATPLOTLIB_SYMBOLS,
    colour_of,
    columns_of,
    shape_number,
)

PANEL_INCHES = 3.6, 2.8
"""Inches."""
ROW_INCHES = 0.28
"""Inches of a category from top to bottom."""
LEGEND_ROW_INCHES = 0.22
LABEL_POINTS = 6
"""Points."""
HALO = [Stroke(linewidth=2, foreground="white"), Normal()]
"""Around texts that lie on lines."""
DPI = 200
FORMATS = ("png", "svg")
UNLABELLED = "_"
"""The label of what is not in the legend."""
SETTINGS: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "figures",
    "text.parse_math": False,
}
"""Texts are no formulas; SVG files hold texts as texts, and are equal for equal figures."""


def write_images(chart: Chart, folder: Path) -> list[Path]:
    """Writes `<name>.png` and `<name>.svg` into a folder, which is made if it is missing; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{chart.name}.{kind}" for kind in FORMATS]
    with rc_context(SETTINGS):
        figure = draw_chart(chart)
        for path in paths:
            metadata = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, dpi=DPI, metadata=metadata, bbox_inches="tight")
    return paths


def draw_chart(chart: Chart) -> Figure:
    """A chart as a matplotlib figure: panels in rows, one legend below them."""
    columns = columns_of(len(chart.panels))
    rows = math.ceil(len(chart.panels) / columns)
    heights = max(map(panel_inches, chart.panels))
    legend_rows = math.ceil(len(chart.legend) / (2 * columns))
    size = (PANEL_INCHES[0] * columns, heights * rows + LEGEND_ROW_INCHES * legend_rows + 0.3)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    for number, panel in enumerate(chart.panels):
        draw_panel(figure.add_subplot(rows, columns, number + 1), panel, chart.legend)
    if chart.legend:
        drawn = [axes.get_legend_handles_labels() for axes in figure.axes]
        handles = {int(label): handle for pair in drawn for handle, label in zip(*pair, strict=True)}
        names = [visible_lines(name) for name in chart.legend]
        figure.legend(
            handles.values(), [names[number] for number in handles], loc="outside lower center", ncols=2 * columns
        )
    return figure


def panel_inches(panel: Panel) -> float:
    """Inches, so that each category from top to bottom has room."""
    return max(PANEL_INCHES[1], 0.9 + ROW_INCHES * len(panel.y.categories) * (panel.y.scale == "category"))


def draw_panel(axes: Axes, panel: Panel, legend: Mapping[str, Mark]) -> None:
    """Draws one panel; marks that are in the legend have their numbers there as labels, as names may begin with _."""
    axes.set_title(visible_lines(panel.title), fontsize=10)
    set_axis(axes, "x", panel.x)
    set_axis(axes, "y", panel.y)
    bars = [mark for mark in panel.marks if isinstance(mark, Bars)]
    for mark in panel.marks:
        label = next((str(number) for number, shown in enumerate(legend.values()) if shown is mark), UNLABELLED)
        if isinstance(mark, Series):
            draw_series(axes, mark, panel, label)
        elif isinstance(mark, Band):
            area = axes.fill_between(mark.x, mark.low, mark.high, color=colour_of(mark.style), alpha=0.2, linewidth=0)
            area.set_label(label)
        elif isinstance(mark, Bars):
            draw_bars(axes, mark, (bars.index(mark), len(bars)), panel, label)
        elif isinstance(mark, Heatmap):
            draw_heatmap(axes, mark)
        elif isinstance(mark, Labels):
            draw_labels(axes, mark, panel)
        elif isinstance(mark, Reference):
            line = axes.axvline if mark.across == "x" else axes.axhline
            line(mark.at, color=FAINT, linewidth=0.8, linestyle=":")


def set_axis(axes: Axes, along: str, axis: Axis) -> None:
    """Title, scale, range and ticks of an axis."""
    axes.set(**{f"{along}label": visible_lines(axis.title)})
    if axis.scale == "category":
        is_long = along == "x" and sum(map(len, axis.categories)) > 40
        turned: dict[str, Any] = {"rotation": 35, "ha": "right"} if is_long else {}
        setter = axes.set_xticks if along == "x" else axes.set_yticks
        setter(list(range(len(axis.categories))), list(map(visible_lines, axis.categories)), **turned)
        ends = (-0.5, len(axis.categories) - 0.5)
        axes.set(**{f"{along}lim": ends if along == "x" else ends[::-1]})
        return
    axes.set(**{f"{along}scale": axis.scale})
    drawn = axes.xaxis if along == "x" else axes.yaxis
    if axis.scale == "log":  # without TeX, which `SETTINGS` turns off
        drawn.set_major_formatter(LogFormatter())
        drawn.set_minor_formatter(LogFormatter(labelOnlyBase=False))
    if axis.is_whole:
        drawn.set_major_locator(MaxNLocator(integer=True))
    if axis.range:
        axes.set(**{f"{along}lim": axis.range})
    if axis.ticks:
        setter = axes.set_xticks if along == "x" else axes.set_yticks
        setter([at for at, _ in axis.ticks], [visible_lines(text) for _, text in axis.ticks])


def coordinates_of(values: Sequence[float | str | None], axis: Axis) -> list[float]:
    """Coordinates as numbers; nan interrupts a line."""
    categories = {name: float(number) for number, name in enumerate(axis.categories)}
    return [categories[value] if isinstance(value, str) else math.nan if value is None else value for value in values]


def draw_series(axes: Axes, mark: Series, panel: Panel, label: str) -> None:
    """Points or lines, with their intervals."""
    colour = FAINT if mark.is_faint else colour_of(mark.style)
    has_line, has_points = mark.mode != "points", "points" in mark.mode
    by_style = "-" if mark.is_faint else MATPLOTLIB_DASHES[shape_number(mark.style)]
    dash = {"style": by_style, "solid": "-", "dashed": "--"}[mark.dash]
    x, y = coordinates_of(mark.x, panel.x), coordinates_of(mark.y, panel.y)
    axes.plot(
        x,
        y,
        color=colour,
        alpha=FAINT_OPACITY if mark.is_faint else 0.9,
        linestyle=dash if has_line else "none",
        linewidth=0.8 if mark.is_faint else 1.5,
        marker=MATPLOTLIB_SYMBOLS[shape_number(mark.style)] if has_points else "none",
        markersize=4,
        drawstyle="steps-post" if mark.mode == "steps" else "default",
        label=label,
    )
    if mark.low:
        centre = np.array(x if mark.interval_along == "x" else y)
        sizes = np.abs(np.stack([centre - np.array(mark.low), np.array(mark.high) - centre]))
        axes.errorbar(x, y, **{f"{mark.interval_along}err": sizes}, fmt="none", ecolor=colour, capsize=2, linewidth=1.2)


def draw_bars(axes: Axes, mark: Bars, number_of: tuple[int, int], panel: Panel, label: str) -> None:
    """Bars beside those of the other marks.

    Args:
        axes: of the panel.
        mark: what is drawn.
        number_of: the mark's number among those of its kind, from 0, and how many these are.
        panel: has the categories.
        label: in the legend.
    """
    number, num_marks = number_of
    width = 0.8 / num_marks
    axis = panel.x if mark.along == "y" else panel.y
    centres = [at + (number - (num_marks - 1) / 2) * width for at in coordinates_of(mark.categories, axis)]
    settings: dict[str, Any] = {"color": colour_of(mark.style), "label": label}
    settings["hatch"] = ("", "//", "..", "xx", "--", "++", "||", "\\\\")[shape_number(mark.style)]
    if mark.along == "y":
        axes.bar(centres, mark.values, width, edgecolor="white", linewidth=0, **settings)
    else:
        axes.barh(centres, mark.values, width, edgecolor="white", linewidth=0, **settings)


def draw_labels(axes: Axes, mark: Labels, panel: Panel) -> None:
    """Texts above their points."""
    sides: dict[str, Literal["left", "center", "right"]] = {"left": "left", "centre": "center", "right": "right"}
    offset: dict[str, Any] = {"xytext": (0, 2), "textcoords": "offset points"}
    for x, y, text, side in zip(mark.x, coordinates_of(mark.y, panel.y), mark.texts, mark.sides, strict=True):
        axes.annotate(
            visible_lines(text), (x, y), ha=sides[side], va="bottom", fontsize=LABEL_POINTS, path_effects=HALO, **offset
        )


def draw_heatmap(axes: Axes, mark: Heatmap) -> None:
    """A grid whose cells show their texts."""
    colours = LinearSegmentedColormap.from_list("shares", HEATMAP_COLOURS)
    axes.imshow(np.array(mark.values), cmap=colours, vmin=0, vmax=1, aspect="auto")
    axes.grid(visible=False)
    for row, texts in enumerate(mark.texts):
        for column, text in enumerate(texts):
            colour = "white" if mark.values[row][column] > 0.5 else "black"
            axes.text(column, row, visible_lines(text), ha="center", va="center", color=colour, fontsize=8)
