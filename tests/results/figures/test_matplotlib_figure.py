"""Files for papers: equal when written again, with texts as they are, on every kind of axis."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from results.figures.chart import Axis, Bars, Chart, Labels, Panel, Series
from results.figures.matplotlib_figure import SETTINGS, draw_chart, write_images
from tests.results.figures.conftest import chart_of, drawn_chart

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def draw_coarsely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("results.figures.matplotlib_figure.DPI", 20)


def drawn(chart: Chart) -> Figure:
    """A chart with its ticks placed."""
    with rc_context(SETTINGS):
        figure = draw_chart(chart)
        figure.canvas.draw()
    return figure


def svg_texts(path: Path) -> list[str]:
    """The texts of an SVG file."""
    found = ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(element.itertext()) for element in found]


def test_files_are_equal_when_written_again(tmp_path: Path) -> None:
    first, second = (write_images(drawn_chart(), tmp_path / name / "images") for name in ("a", "b"))
    assert [path.name for path in first] == ["drawn.png", "drawn.svg"]
    assert sorted(path.name for path in (tmp_path / "a" / "images").iterdir()) == ["drawn.png", "drawn.svg"]
    assert first[0].read_bytes().startswith(PNG_SIGNATURE)
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert write_images(drawn_chart("other"), tmp_path / "a" / "images") == first
    assert first[1].read_bytes() != second[1].read_bytes()


def test_texts_stay_texts_without_markup_or_tex(tmp_path: Path) -> None:
    text = "<b>&amp;</b> $x_1$"
    texts = svg_texts(write_images(drawn_chart(text), tmp_path)[1])
    assert texts.count(text) >= 7  # titles, axes, ticks, cells and the legend
    assert not [own for own in texts if "mathdefault" in own]


def test_two_lines_are_two_texts(tmp_path: Path) -> None:
    texts = svg_texts(write_images(chart_of(Panel(title="one\ntwo", marks=[])), tmp_path)[1])
    assert {"one", "two"} <= {line.strip() for text in texts for line in text.splitlines()} or "one\ntwo" in texts


@pytest.mark.parametrize(
    ("low", "high", "labels"), [(1e-5, 1e-3, {"1e-05", "1e-04", "1e-03"}), (20.0, 60.0, {"20", "30", "40", "60"})]
)
def test_ticks_of_logarithmic_axes_are_numbers(low: float, high: float, labels: set[str]) -> None:
    (axes,) = drawn(chart_of(Panel(x=Axis(scale="log"), marks=[Series(x=[low, high], y=[1, 2])]))).axes
    ticks = {
        tick.get_text().replace("\N{MINUS SIGN}", "-")
        for tick in (*axes.get_xticklabels(), *axes.get_xticklabels(minor=True))
    }
    assert labels <= ticks
    assert not [text for text in ticks if "$" in text]


def test_categories_are_from_left_to_right_and_from_top_to_bottom() -> None:
    names = Axis(scale="category", categories=["10", "9"])
    left, top = drawn(
        chart_of(
            Panel(x=names, marks=[Series(x=["9", "10"], y=[1, 2])]),
            Panel(y=names, marks=[Series(x=[1, 2], y=["9", "10"])]),
        )
    ).axes
    assert np.asarray(left.lines[0].get_xdata()).tolist() == [1.0, 0.0]
    assert np.asarray(top.lines[0].get_ydata()).tolist() == [1.0, 0.0]
    assert (left.get_xlim(), top.get_ylim()) == ((-0.5, 1.5), (1.5, -0.5))
    assert [tick.get_text() for tick in left.get_xticklabels()] == ["10", "9"]


def test_bars_of_several_marks_stand_side_by_side() -> None:
    names = Axis(scale="category", categories=["a", "b"])
    bars = [Bars(categories=["a", "b"], values=[1, 2], name=name, style=style) for style, name in enumerate("xy")]
    (axes,) = drawn(chart_of(Panel(x=names, marks=bars))).axes
    found = [(round(bar.get_x(), 6), bar.get_height()) for bar in axes.patches if isinstance(bar, Rectangle)]
    assert found == [(-0.4, 1), (0.6, 2), (0, 1), (1, 2)]


def test_gaps_interrupt_lines_and_unknown_intervals_are_not_drawn() -> None:
    line, interval, *_ = drawn(chart_of(*drawn_chart().panels[:2])).axes
    assert np.isnan(np.asarray(line.lines[-1].get_ydata(), dtype=float)).tolist() == [False, False, True, False]
    (ends,) = [own for own in interval.collections if hasattr(own, "get_segments")]
    assert next(segment.tolist() for segment in ends.get_segments()) == [[1e-5, 0.5], [1e-5, 3.5]]


def test_each_name_is_in_the_legend_once_and_a_single_name_has_none() -> None:
    marks = [Series(x=[1], y=[1], name="trial"), Series(x=[1], y=[1], name="mean", style=1)]
    figure = drawn(chart_of(Panel(marks=marks), Panel(marks=marks)))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["trial", "mean"]
    assert drawn(chart_of(Panel(marks=marks[:1]))).legends == []


def test_sign_in_the_legend_is_that_of_the_solid_line() -> None:
    dashed, solid = (Series(x=[1, 2], y=[1, 2], mode="line", name="best", dash=dash) for dash in ("dashed", "solid"))
    (legend,) = drawn(
        chart_of(Panel(marks=[dashed, solid, Bars(categories=[], values=[]), replace(solid, name="x")]))
    ).legends
    assert [line.get_linestyle() for line in legend.get_lines()] == ["-", "-"]


def test_labels_stand_within_their_panel() -> None:
    names = Axis(scale="category", categories=["a", "b"])
    labels = Labels(x=[0.0, 1.0], y=["a", "b"], texts=["low", "high"], sides=["left", "right"])
    (axes,) = drawn(chart_of(Panel(y=names, x=Axis(range=(0, 1)), marks=[labels]))).axes
    low, high = axes.texts
    assert [(text.get_text(), text.get_horizontalalignment()) for text in (low, high)] == [
        ("low", "left"),
        ("high", "right"),
    ]
    assert [text.xy for text in (low, high)] == [(0.0, 0.0), (1.0, 1.0)]  # type: ignore[attr-defined]


def test_no_display_is_needed(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; import pandas\n"
        "from results.figures.chart import Chart, Labels, Panel, Series\n"
        "from results.figures.matplotlib_figure import write_images\n"
        "panel = Panel(marks=[Series(x=[1, 2], y=[1, 2])])\n"
        "chart = Chart(name='drawn', title='', caption='', panels=[panel], frame=pandas.DataFrame())\n"
        "write_images(chart, Path(sys.argv[1]))\n"
        "assert 'matplotlib.pyplot' not in sys.modules and 'tkinter' not in sys.modules"
    )
    names = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    root = Path(__file__).resolve().parents[3]
    subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], env=names | {"MPLBACKEND": "TkAgg"}, cwd=root, check=True
    )
    assert (tmp_path / "drawn.svg").exists()
