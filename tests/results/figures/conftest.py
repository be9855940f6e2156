"""Charts, curves and trials with known numbers, for tests of figures."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from results.analysis.comparison.trial_scores import TOTAL
from results.analysis.ranking.rank import RankedConfiguration, Score
from results.figures.chart import Axis, Band, Bars, Chart, Heatmap, Labels, Panel, Reference, Series
from results.records.schemas import CURVES

HOSTILE = '<script>alert("1")</script> <b>bold</b> &amp; $x_1$\nsecond'
"""A text with markup, TeX and two lines."""


def chart_of(*panels: Panel, **changes: Any) -> Chart:
    values: dict[str, Any] = {"name": "drawn", "title": "Drawn", "caption": "", "frame": pd.DataFrame()}
    return Chart(**{**values, **changes}, panels=panels)


def drawn_chart(text: str = "a text") -> Chart:
    """Every kind of mark and axis, with the text in every place that has one."""
    numbers = [text, "2", "10"]
    line = Series(
        x=[1, 2, 2, 1], y=[0.5, 0.25, None, 1.0], name=text, hover=[text] * 4, adds_coordinates=True, mode="line"
    )
    steps = Series(x=[1e-5, 1e-3], y=[1, 2], name="steps", mode="steps", is_faint=True, style=9)
    interval = Series(
        x=[1e-5, 1e-3], y=[1, 2], low=[0.5, math.nan], high=[3.5, math.nan], hover=[text] * 2, name="interval"
    )
    forest = Series(x=[1, 2], y=["2", text], low=[0, 1], high=[2, 3], interval_along="x", name=text)
    bars = [Bars(categories=numbers, values=[1, 2, 3], name=f"{text}{n}", hover=[text] * 3, style=n) for n in (0, 1)]
    lying = Bars(categories=numbers, values=[1, 2, 3], along="x")
    grid = [[text] * 3] * 3
    heatmap = Heatmap(x=numbers, y=numbers, values=[[0, 0.5, 1]] * 3, texts=grid, hover=grid)
    labels = Labels(x=[0.0, 1.0], y=[text, "2"], texts=[text, "end"], sides=["left", "right"])
    category = Axis(title=text, scale="category", categories=numbers)
    log, whole = Axis(title=text, scale="log"), Axis(title=text, is_whole=True)
    ticks = Axis(ticks=((0.0, text), (1.0, "high")), range=(0, 1))
    return chart_of(
        Panel(title=text, x=whole, y=ticks, marks=[Reference(at=1.5), Reference(at=0.5, across="y"), line]),
        Panel(title=text, x=log, marks=[Band(x=[1e-5, 1e-3], low=[0, 1], high=[2, 3], name="band"), steps, interval]),
        Panel(title=text, y=category, marks=[Reference(), forest]),
        Panel(title=text, x=category, marks=bars),
        Panel(title=text, y=category, marks=[lying]),
        Panel(title=text, x=category, y=category, marks=[heatmap]),
        Panel(title=text, x=category, marks=[Series(x=[], y=[], name="nothing")]),
        Panel(title=text, y=category, marks=[labels]),
        title=text,
    )


def series_of(panel: Panel, name: str | None = None) -> Series:
    """The only series of a panel, or the only one of this name."""
    (found,) = [mark for mark in all_series_of(panel) if name in (None, mark.name)]
    return found


def all_series_of(panel: Panel) -> list[Series]:
    """The series of a panel, in their order."""
    return [mark for mark in panel.marks if isinstance(mark, Series)]


def bars_of(chart: Chart) -> dict[str, Bars]:
    """The bars of a chart by name."""
    return {mark.name: mark for panel in chart.panels for mark in panel.marks if isinstance(mark, Bars)}


def curve_frame(*curves: pd.DataFrame) -> pd.DataFrame:
    """Curves of a sweep, perhaps none, with the columns of `curves.parquet`."""
    empty: pd.DataFrame = CURVES.empty_table().to_pandas()
    return pd.concat([empty, *curves], ignore_index=True) if curves else empty


def curve(
    trial: str,
    values: Sequence[float],
    *,
    task: str = "sst",
    split: str = "dev",
    metric: str = "accuracy",
    seconds: Sequence[float] = (),
) -> pd.DataFrame:
    """A point per epoch, from the first."""
    epochs = list(range(1, len(values) + 1))
    named = {"task": task, "split": split, "metric": metric, "value": values}
    return pd.DataFrame({"trial": trial, "step": epochs, "epoch": epochs, **named, "seconds": list(seconds) or epochs})


def ranked(number: int, score: float | None = 0.5, **params: Any) -> RankedConfiguration:
    """A configuration of a ranking."""
    return RankedConfiguration(
        number=number,
        params=params or {"smart.weight": 0.5 * number},
        status="complete",
        is_finished=True,
        trials=(f"{number:04d}-r0",),
        scores={} if score is None else {TOTAL: Score(value=score, example_error=0.01, replicate_error=None)},
        best_epoch=1.0,
        failures=(),
    )
