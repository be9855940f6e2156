"""A page lists its charts and tables in the order of its sections."""

import pandas as pd

from results.figures.chart import Chart
from results.page.content import Page, Section, Text, TextTable


def test_page_lists_charts_and_tables_in_order() -> None:
    charts = [Chart(name=name, title=name, caption="", panels=(), frame=pd.DataFrame()) for name in "ab"]
    table = TextTable(name="t", title="t", columns=["x"], rows=[["1"]])
    first = Section(name="one", title="One", blocks=[charts[0], Text(paragraphs=["p"])])
    page = Page(title="", subtitle="", sections=[first, Section(name="two", title="Two", blocks=[table, charts[1]])])
    assert page.charts == charts
    assert page.tables == [table]
