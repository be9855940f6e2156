"""A page lists its figures in the order of its sections, and its contents."""

import plotly.graph_objects as go

from results.page.content import Page, Section, Text


def test_page_lists_figures_in_order() -> None:
    figures = [go.Figure(layout={"title": name}) for name in "ab"]
    first = Section(name="one", title="One", blocks=[figures[0], Text(paragraphs=["p"])])
    page = Page(title="", subtitle="", sections=[first, Section(name="two", title="Two", blocks=[figures[1]])])
    assert page.figures == figures


def test_contents_put_sections_below_those_of_their_sweep() -> None:
    levels = {"overview": 2, "first": 2, "first-answer": 3, "first-health": 3, "second": 2, "second-answer": 3}
    page = Page(
        title="", subtitle="", sections=[Section(name=n, title=n, blocks=[], level=v) for n, v in levels.items()]
    )
    found = {section.name: [part.name for part in parts] for section, parts in page.contents}
    assert found == {"overview": [], "first": ["first-answer", "first-health"], "second": ["second-answer"]}
    assert Page(title="", subtitle="").contents == []
