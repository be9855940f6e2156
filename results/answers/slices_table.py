"""Shows scores on slices of the examples as a table."""

from collections.abc import Iterable

from mtlib.runtime.console import PLAIN_WIDTH, PrintedTable, table_lines
from mtlib.tasks import Task
from results.records.selection import SliceScore

SLICE_TITLES = ("task", "column", "value", "examples", "groups", "score", "95 % interval")
"""The first three are texts, the others numbers."""


def slice_cells(task: Task, found: SliceScore) -> list[str]:
    """Returns the cells of one slice's row."""
    score = "not defined" if found.score is None else f"{task.value_of(found.score):.3f}"
    counts = [f"{number:,}" for number in (found.num_examples, found.num_groups)]
    return [task.title, found.column, found.value, *counts, score, task.bounds_text(found.interval)]


def render_slices(rows: Iterable[tuple[Task, SliceScore]], width: int = PLAIN_WIDTH) -> list[str]:
    """Returns the table in lines of at most `width` columns; none without rows."""
    cells = [slice_cells(task, found) for task, found in rows]
    table = PrintedTable(titles=SLICE_TITLES, rows=cells, numbers=set(range(3, len(SLICE_TITLES))))
    return table_lines(width, table) if cells else []
