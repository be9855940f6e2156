"""The scores of models on slices of the examples: those that have one value in a column of the data."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from mtlib.tasks import Task
from results.records.selection import SliceScore
from results.stats.covariance import covariance_over_examples
from results.stats.groups import DrawnGroups, drawn_groups
from results.stats.resampling import CONFIDENCE, Floats, Numbers, score_examples

MOST_SLICES = 20
"""Values of a column that have a score of their own; rows with the others are one slice."""
BLANK = "(blank)"
"""Shown for an empty cell."""


@dataclass(frozen=True, kw_only=True)
class SlicedModels:
    """The scores of models on one slice."""

    task: Task
    column: str
    value: str
    scores: Floats
    """(models,), nan where the metric is not defined."""
    covariance: Floats
    """(models, models) of the scores over draws of examples."""
    drawn: DrawnGroups
    """The groups of the slice's examples."""

    @property
    def score(self) -> SliceScore:
        """The mean score of the models.

        Few predictions may be wrong: the standard error of a classification is at least the one of a share of 2 among
        n + 4 examples, or among n + 4 groups where no group differs from the others (Agresti and Coull 1998).
        """
        value, drawn, number = float(self.scores.mean()), self.drawn, len(self.drawn.sizes)
        variance = float(self.covariance.mean())
        found = SliceScore(
            column=self.column,
            value=self.value,
            num_examples=drawn.num_examples,
            num_groups=number,
            score=None if np.isnan(value) else value,
        )
        degrees = drawn.degrees_of_mean(np.arange(len(self.scores)))
        if found.score is None or not degrees:
            return found
        count = drawn.num_examples if variance > 0 else number
        share = 0.0 if self.task.is_regression else 2 / (count + 4)
        half = float(stats.t.isf((1 - CONFIDENCE) / 2, degrees) * np.sqrt(max(variance, share * (1 - share) / count)))
        bounds = np.clip([value - half, value + half], *self.task.metric_entry.bounds(self.task.label_range))
        return replace(found, interval=tuple(bounds.tolist()))


@dataclass(frozen=True, kw_only=True, eq=False)
class SlicedRows:
    """Examples that have slices, and what models predict for them."""

    task: Task
    values: Floats
    """(models, rows) or (models, rows, num_classes), as `results.stats.resampling.example_values`."""
    labels: Floats
    """(rows,)."""
    groups: Numbers
    """(rows,) as `results.stats.groups.independent_groups`."""
    columns: Mapping[str, Sequence[str]]
    """The cells of each column, one per row."""

    def scores_of(self, models: Numbers) -> list[SlicedModels]:
        """Returns the scores of some models on all slices."""
        return [
            slice_models(self.task, column, value, self.values[models][:, rows], self.labels[rows], self.groups[rows])
            for column, value, rows in slice_rows(self.columns)
        ]


def slice_rows(columns: Mapping[str, Sequence[str]]) -> list[tuple[str, str, Numbers]]:
    """Returns each slice as its column, value and numbers of rows; in each column the largest slice first.

    Rows whose values have no score of their own (`MOST_SLICES`) are the last slice of their column.
    """
    found = []
    for column, cells in columns.items():
        counts, values = Counter(cells), np.asarray(cells, dtype=object)
        ordered = sorted(counts, key=lambda value: (-counts[value], value))
        found += [(column, value or BLANK, np.flatnonzero(values == value)) for value in ordered[:MOST_SLICES]]
        if others := ordered[MOST_SLICES:]:
            found.append((column, f"{len(others)} other values", np.flatnonzero(np.isin(values, others))))
    return found


def slice_models(task: Task, column: str, value: str, values: Floats, labels: Floats, groups: Numbers) -> SlicedModels:
    """Returns the scores of models on one slice; arguments as of `SlicedRows`, with the rows of the slice alone."""
    scores, influence = np.full(len(values), np.nan), np.zeros((len(values), len(labels)))
    if is_defined_on(task, labels):
        with np.errstate(invalid="ignore", divide="ignore"):
            found = score_examples(task, values, labels), task.metric_entry.influences(values, labels)
        if all(np.isfinite(part).all() for part in found):
            scores, influence = found
    covariance, drawn = covariance_over_examples(influence, groups), drawn_groups(influence, groups)
    return SlicedModels(task=task, column=column, value=value, scores=scores, covariance=covariance, drawn=drawn)


def is_defined_on(task: Task, labels: Floats) -> bool:
    """Returns whether predictions that are all right would score above the worst on some examples: a correlation with
    equal labels is 0 whatever is predicted, as is the F1 of a class that no example has."""
    perfect = np.ones(len(labels)) if task.metric_entry.reads == "right" else labels
    low, _ = task.metric_entry.bounds(task.label_range)
    try:
        with np.errstate(invalid="ignore", divide="ignore"):
            score = float(score_examples(task, perfect[None], labels)[0])
    except ValueError:  # a metric of the user's own that these labels are too few for
        return False
    return bool(score > max(low, 0.0) or (score == 0 and task.metric_entry.lower_is_better))
