"""The scores of configurations on slices of dev: as a data frame, and as tables in lines."""

from collections.abc import Iterable, Iterator, Sequence

import pandas as pd

from mtlib.runtime.console import PLAIN_WIDTH, PrintedTable, table_lines
from mtlib.tasks import Task
from results.records.selection import SliceScore
from results.stats.ranking import RankedConfiguration
from results.stats.trial_scores import TrialScores

SLICE_TYPES = {
    "number": "int64",
    "task": "string",
    "column": "string",
    "value": "string",
    "num_examples": "int64",
    "num_groups": "int64",
    "score": "float64",
    "low": "float64",
    "high": "float64",
}
"""Columns of the data frame."""
SLICE_TITLES = ("task", "column", "value", "examples", "groups", "score", "95 % interval")
"""The first three are texts, the others numbers."""


def slices_of(row: RankedConfiguration, scores: TrialScores) -> Iterator[tuple[str, SliceScore]]:
    """Yields the scores of a configuration on all slices, each with its task."""
    for task, own in scores.slices.items():
        trials = [trial for trial in row.trials if trial in scores.values[task, "dev"]]
        for sliced in own.scores_of(scores.places((task, "dev"), trials)) if trials else ():
            yield task, sliced.score


def slices_frame(rows: Sequence[RankedConfiguration], scores: TrialScores) -> pd.DataFrame:
    """Returns the scores as a data frame, which `Sweep.slices` describes; values as the metrics have them."""
    found = []
    for row in rows:
        for task, own in slices_of(row, scores):
            value_of = scores.tasks[task].value_of
            score = None if own.score is None else value_of(own.score)
            low, high = sorted(map(value_of, own.interval)) or (None, None)
            found.append((row.number, task, own.column, own.value, own.num_examples, own.num_groups, score, low, high))
    return pd.DataFrame(found, columns=list(SLICE_TYPES)).astype(SLICE_TYPES)


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
