"""A chart is empty where no mark shows data; its legend has each name once."""

import pytest

from results.figures.chart import Band, Bars, Heatmap, Labels, Mark, Panel, Reference, Series, has_content
from tests.results.figures.conftest import chart_of

FULL = (
    Series(x=[1], y=[None]),
    Band(x=[1], low=[0], high=[1]),
    Bars(categories=["a"], values=[0]),
    Heatmap(x=["a"], y=["a"], values=[[0]], texts=[[""]], hover=[[""]]),
    Labels(x=[0], y=["a"], texts=[""], sides=["left"]),
)
EMPTY: tuple[Mark, ...] = (
    Series(x=[], y=[], name="named"),
    Band(x=[], low=[], high=[]),
    Bars(categories=[], values=[]),
    Heatmap(x=[], y=[], values=[], texts=[], hover=[]),
    Labels(x=[], y=[], texts=[], sides=[]),
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


def test_sign_of_a_name_is_that_of_its_solid_line() -> None:
    dashed, solid = (Series(x=[1, 2], y=[1, 2], mode="line", name="best", dash=dash) for dash in ("dashed", "solid"))
    other = Bars(categories=["a"], values=[1], name="other")
    legend = chart_of(Panel(marks=[*EMPTY, dashed, FULL[0]]), Panel(marks=[other, solid, solid])).legend
    assert list(legend) == ["other", "best"]
    assert legend["best"] is solid
    assert chart_of(Panel(marks=[dashed, other])).legend["best"] is dashed


def test_one_name_has_no_legend() -> None:
    line = Series(x=[1], y=[1], name="best")
    assert chart_of(Panel(marks=[line, *EMPTY]), Panel(marks=[line])).legend == {}
    assert chart_of().legend == {}
