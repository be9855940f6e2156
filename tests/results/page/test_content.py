"""A page lists its figures in the order of its sections, and its contents."""

import plotly.graph_objects as go

from results.page.content import Page, Section, Text


def test_page_lists_figures_in_order() -> None:
    figures = [go.Figure(layout={"title": name}) for name in "ab"]
    first = Section(name="one", title="One", blocks=[figures[0], Text(paragraphs=["p"])])
    page = Page(title="", subtitle="", sections=[first, Section(name="two", title="Two", blocks=[figures[1]])])
    assert page.figures == figures
