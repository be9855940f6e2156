"""A figure as data: panels with axes and marks, which Plotly shows in a page and matplotlib in a paper."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

Coordinate = float | str
"""A number, or the name of a category."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points of one kind, joined by a line or not."""

    x: Sequence[Coordinate]
    y: Sequence[Coordinate | None]
    """None interrupts a line."""
    name: str = ""
    """In the legend; empty: not there. Marks of one name have one entry, which shows and hides them together."""
    hover: Sequence[str] = ()
    """A text for each point; empty: its coordinates."""
    adds_coordinates: bool = False
    """Whether hovering shows the coordinates below the text."""
    mode: Literal["points", "line", "line and points", "steps"] = "points"
    style: int = 0
    """Number of its colour, symbol and dashes (`results.figures.style`)."""
    dash: Literal["style", "solid", "dashed"] = "style"
    """How its line is interrupted: as in its style, or in one way for all styles."""
    is_faint: bool = False
    """Whether it is in the background."""
    low: Sequence[float] = ()
    """Lower end of each point's interval; empty: no intervals. A point with nan has none."""
    high: Sequence[float] = ()
    """Upper end, likewise."""
    interval_along: Literal["x", "y"] = "y"
    """The axis of the intervals."""


@dataclass(frozen=True, kw_only=True)
class Band:
    """The area between two lines."""

    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    name: str = ""
    """In the legend, as of a `Series`."""
    style: int = 0
    """Number of its colour."""


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Bars from zero, one for each category; those of several marks stand side by side."""

    categories: Sequence[str]
    values: Sequence[float]
    name: str = ""
    """In the legend, as of a `Series`."""
    hover: Sequence[str] = ()
    """A text for each bar; empty: its coordinates."""
    style: int = 0
    """Number of its colour and pattern."""
    along: Literal["x", "y"] = "y"
    """The axis of the values."""


@dataclass(frozen=True, kw_only=True)
class Heatmap:
    """Numbers from 0 to 1 in a grid, with their texts."""

    x: Sequence[str]
    y: Sequence[str]
    """From top to bottom."""
    values: Sequence[Sequence[float]]
    """(y, x)."""
    texts: Sequence[Sequence[str]]
    """In the cells."""
    hover: Sequence[Sequence[str]]
    """What hovering a cell shows."""


@dataclass(frozen=True, kw_only=True)
class Labels:
    """Texts above points that are not drawn."""

    x: Sequence[float]
    y: Sequence[Coordinate]
    texts: Sequence[str]
    sides: Sequence[Literal["left", "centre", "right"]]
    """Which side of each text is at its point."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A straight line through the whole panel."""

    at: float = 0.0
    across: Literal["x", "y"] = "x"
    """The axis that it crosses at `at`."""


Mark = Series | Band | Bars | Heatmap | Labels | Reference


@dataclass(frozen=True, kw_only=True)
class Axis:
    """An axis of a panel."""

    title: str = ""
    scale: Literal["linear", "log", "category"] = "linear"
    categories: Sequence[str] = ()
    """Of a category axis: from left to right, or from top to bottom."""
    range: tuple[float, float] | None = None
    """None: all marks."""
    is_whole: bool = False
    """Whether its numbers are whole ones, such as epochs."""
    ticks: Sequence[tuple[float, str]] = ()
    """Coordinates and texts; empty: chosen."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One pair of axes with marks."""

    title: str = ""
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    marks: Sequence[Mark]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One figure."""

    name: str
    """Of its files, letters, digits and hyphens."""
    title: str
    caption: str
    """What is shown, and how to read it."""
    panels: Sequence[Panel]
    frame: pd.DataFrame
    """The numbers that are shown."""

    @property
    def legend(self) -> "dict[str, Series | Band | Bars]":
        """By name, the mark whose sign is in the legend: a solid line rather than a dashed one; empty if all have one
        name."""
        marks = [mark for panel in self.panels for mark in panel.marks if has_content(mark)]
        named = [mark for mark in marks if isinstance(mark, Series | Band | Bars) and mark.name]
        signs: dict[str, Series | Band | Bars] = {}
        for mark in sorted(named, key=lambda mark: isinstance(mark, Series) and mark.dash == "dashed"):
            signs.setdefault(mark.name, mark)
        return signs if len(signs) > 1 else {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be drawn."""
        return not any(has_content(mark) for panel in self.panels for mark in panel.marks)


def has_content(mark: Mark) -> bool:
    """Whether a mark shows data."""
    if isinstance(mark, Reference):
        return False
    if isinstance(mark, Bars | Heatmap):
        return len(mark.values) > 0
    return len(mark.x) > 0
