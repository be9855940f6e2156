"""The scores of models on slices of the examples: those that have one value in a column of the data."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import stats

from mtlib.tasks import Task
from results.records.selection import SliceScore
from results.stats.covariance import covariance_over_examples
from results.stats.groups import DrawnGroups, drawn_groups, independent_groups
from results.stats.resampling import CONFIDENCE, Floats, Numbers, score_examples

MOST_VALUES = 20
"""Values of a column that have a score of their own; rows with the others are one slice."""
BLANK = "(blank)"
"""Shown for an empty cell."""


@dataclass(frozen=True, kw_only=True)
class SlicedModels:
    """The scores of models on one slice."""

    column: str
    value: str
    scores: Floats
    """(models,), nan where the metric is not defined."""
    covariance: Floats
    """(models, models) of the scores over draws of examples."""
    drawn: DrawnGroups
    """The groups of the slice's examples."""

    def score(self, task: Task, models: Numbers) -> SliceScore:
        """Returns the mean score of some models.

        Few predictions may all be right: the standard error of a classification is at least the one of a share of 2
        among n + 4, for n groups (Agresti and Coull 1998).
        """
        value, drawn = float(self.scores[models].mean()), self.drawn
        found = SliceScore(
            column=self.column,
            value=self.value,
            num_examples=drawn.num_examples,
            num_groups=drawn.num_groups,
            score=None if np.isnan(value) else value,
        )
        if found.score is None or not drawn.degrees:
            return found
        share = 0.0 if task.is_regression else 2 / (drawn.num_groups + 4)
        variance = max(float(self.covariance[np.ix_(models, models)].mean()), share * (1 - share) / drawn.num_groups)
        half = float(stats.t.isf((1 - CONFIDENCE) / 2, drawn.degrees) * np.sqrt(variance))
        bounds = np.clip([value - half, value + half], *task.metric_entry.bounds(task.label_range))
        return replace(found, interval=tuple(bounds.tolist()))


def slice_rows(columns: Mapping[str, Sequence[str]]) -> list[tuple[str, str, Numbers]]:
    """Returns each slice as its column, value and numbers of rows; in each column the largest slice first.

    Rows whose values have no score of their own (`MOST_VALUES`) are the last slice of their column.
    """
    found = []
    for column, cells in columns.items():
        counts, values = Counter(cells), np.asarray(cells, dtype=object)
        ordered = sorted(counts, key=lambda value: (-counts[value], value))
        found += [(column, value or BLANK, np.flatnonzero(values == value)) for value in ordered[:MOST_VALUES]]
        if others := ordered[MOST_VALUES:]:
            found.append((column, f"{len(others)} other values", np.flatnonzero(np.isin(values, others))))
    return found


def slice_models(
    task: Task, values: Floats, labels: npt.ArrayLike, groups: Numbers, columns: Mapping[str, Sequence[str]]
) -> list[SlicedModels]:
    """Returns the scores of models on all slices.

    Args:
        task: whose metric.
        values: (models, rows) or (models, rows, num_classes), as `results.stats.resampling.example_values`.
        labels: (rows,).
        groups: (rows,) as `results.stats.groups.independent_groups`.
        columns: the cells of each column, one per row.
    """
    found, every = [], np.asarray(labels, dtype=np.float64)
    for column, value, rows in slice_rows(columns):
        with np.errstate(invalid="ignore", divide="ignore"):  # a correlation of one row has no value
            scores = score_examples(task, values[:, rows], every[rows])
            influence = task.metric_entry.influences(values[:, rows], every[rows])
        own = independent_groups(groups[rows], len(rows))
        # A correlation with equal labels, or the F1 of a class that no row has, is 0 whatever is predicted.
        is_void = not task.metric_entry.is_mean and not influence.any() and not scores.any()
        is_defined = not is_void and bool(np.isfinite(influence).all() and np.isfinite(scores).all())
        found.append(
            SlicedModels(
                column=column,
                value=value,
                scores=scores if is_defined else np.full(len(scores), np.nan),
                covariance=covariance_over_examples(influence, own),
                drawn=drawn_groups(influence, own),
            )
        )
    return found
