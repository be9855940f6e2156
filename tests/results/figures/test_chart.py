"""A chart is empty where no mark shows data."""

import pytest

from results.figures.chart import Band, Bars, Heatmap, Mark, Panel, Reference, Series, has_content
from tests.results.figures.drawn_sweep import chart_of

FULL = (
    Series(x=[1], y=[None]),
    Band(x=[1], low=[0], high=[1]),
    Bars(categories=["a"], values=[0]),
    Heatmap(x=["a"], y=["a"], values=[[0]], texts=[[""]], hover=[[""]]),
)
EMPTY: tuple[Mark, ...] = (
    Series(x=[], y=[], name="named"),
    Band(x=[], low=[], high=[]),
    Bars(categories=[], values=[]),
    Heatmap(x=[], y=[], values=[], texts=[], hover=[]),
    Reference(at=1.0),
)


@pytest.mark.parametrize("mark", FULL)
def test_one_mark_with_data_is_enough(mark: Mark) -> None:
    assert has_content(mark)
    assert not chart_of(Panel(marks=[]), Panel(marks=[*EMPTY, mark])).is_empty


def test_chart_without_data_is_empty() -> None:
    assert not any(map(has_content, EMPTY))
    assert chart_of().is_empty
    assert chart_of(Panel(marks=[]), Panel(marks=EMPTY)).is_empty
