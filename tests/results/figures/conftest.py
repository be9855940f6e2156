"""Figures taken apart, and curves and trials with known numbers, for tests of figures."""

import html
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
import plotly.graph_objects as go
import pytest

from results.records.schemas import CURVES
from results.stats.ranking import RankedConfiguration, Score
from results.stats.trial_scores import TOTAL

HOSTILE = '<script>alert("1")</script> <b>bold</b> &amp; $x_1$\nsecond'
"""A text with markup, TeX and two lines."""


class Drawn(NamedTuple):
    """One panel of a figure."""

    title: str
    x: dict[str, Any]
    y: dict[str, Any]
    traces: list[dict[str, Any]]
    lines: list[float]
    """Where vertical lines cross the x axis."""

    def named(self, name: str) -> dict[str, Any]:
        """The only trace of a name."""
        (found,) = [trace for trace in self.traces if html.unescape(trace["name"]) == name]
        return found


def panels_of(figure: go.Figure) -> list[Drawn]:
    """The panels of a figure that has points."""
    if not figure.data:
        return []
    tree = figure.to_plotly_json()
    layout = tree["layout"]
    suffixes = {trace.get("xaxis", "x")[1:]: None for trace in tree["data"]}
    return [
        Drawn(
            title_above(layout, suffix),
            layout[f"xaxis{suffix}"],
            layout[f"yaxis{suffix}"],
            [trace for trace in tree["data"] if trace.get("xaxis", "x") == f"x{suffix}"],
            [shape["x0"] for shape in layout.get("shapes", ()) if shape["xref"] == f"x{suffix}"],
        )
        for suffix in suffixes
    ]


def title_above(layout: dict[str, Any], suffix: str) -> str:
    """The text in the middle above a panel, with its characters as they were; empty if there is none."""
    (left, right), (_, top) = layout[f"xaxis{suffix}"]["domain"], layout[f"yaxis{suffix}"]["domain"]
    above = [
        text
        for text in layout.get("annotations", ())
        if (text["x"], text["y"]) == (pytest.approx((left + right) / 2), top)
    ]
    return html.unescape(above[0]["text"]) if above else ""


def panel_of(figure: go.Figure) -> Drawn:
    """The only panel of a figure."""
    (panel,) = panels_of(figure)
    return panel


def points_of(trace: dict[str, Any]) -> list[tuple[Any, Any]]:
    """The coordinates of a trace's points."""
    return list(zip(trace["x"], trace["y"], strict=True))


def ends_of(trace: dict[str, Any], along: str = "x") -> list[tuple[float, float]]:
    """Low and high of a trace's intervals."""
    sizes = trace[f"error_{along}"]
    ends = zip(trace[along], sizes["arrayminus"], sizes["array"], strict=True)
    return [(centre - below, centre + above) for centre, below, above in ends]


def caption_of(figure: go.Figure) -> str:
    return str(figure.layout.meta["caption"])


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
