"""A row per slice, with its numbers of rows and groups."""

from dataclasses import replace

from mtlib.tasks import TASKS
from results.answers.slices_table import SLICE_TITLES, render_slices, slice_cells
from results.records.selection import SliceScore

FOUND = SliceScore(column="source", value="news", num_examples=1200, num_groups=40, score=0.75, interval=(0.7, 0.8125))


def test_row_has_values_of_the_metric_and_counts() -> None:
    assert slice_cells(TASKS["sst"], FOUND) == ["SST", "source", "news", "1,200", "40", "0.750", "0.700 to 0.812"]
    rmse = replace(TASKS["sts"], metric="rmse")
    assert slice_cells(rmse, replace(FOUND, score=-0.5, interval=(-0.6, -0.4)))[5:] == ["0.500", "0.400 to 0.600"]


def test_what_is_not_known_says_so() -> None:
    cells = slice_cells(TASKS["sst"], replace(FOUND, score=None, interval=()))
    assert cells[5:] == ["not defined", "not known"]


def test_table_fits_narrow_and_wide_terminals() -> None:
    assert render_slices([]) == []
    wide, narrow = (render_slices([(TASKS["sst"], FOUND)], width) for width in (120, 40))
    assert all(title in wide[0] for title in SLICE_TITLES)
    assert "0.700 to 0.812" in wide[-1]
    assert max(map(len, narrow)) <= 40
