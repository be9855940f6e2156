"""The scores on slices of the ranked configurations."""

from collections.abc import Iterator, Sequence

import pandas as pd

from results.records.selection import SliceScore
from results.stats.ranking import RankedConfiguration
from results.stats.trial_scores import TrialScores

TYPES = {
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
    return pd.DataFrame(found, columns=list(TYPES)).astype(TYPES)
