"""Intervals of scores over the examples that they were measured on."""

import numpy as np
import numpy.typing as npt

from mtlib.tasks import Task
from results.stats.groups import drawn_groups
from results.stats.resampling import Floats, Numbers, bootstrap_scores, percentile_interval


def score_interval(
    task: Task, values: Floats, labels: npt.ArrayLike, groups: Numbers, *, seed: int = 0
) -> tuple[float, ...]:
    """Returns low and high of the 95 % interval of a score, or of the difference of two, over examples.

    Args:
        task: whose metric.
        values: (1, rows) or (2, rows), as `results.stats.resampling.example_values`; of two the first less the second.
        labels: (rows,).
        groups: (rows,) as `results.stats.groups.independent_groups`.
        seed: of the resamples.

    Returns:
        Nothing where examples are in too few groups.
    """
    influence = task.metric_entry.influences(values, np.asarray(labels, dtype=np.float64))
    resampled = bootstrap_scores(task, values, labels, groups=groups, seed=seed)
    if len(values) == 2:
        influence, resampled = influence[:1] - influence[1:], resampled[:1] - resampled[1:]
    drawn = drawn_groups(influence, groups)
    degrees, number = drawn.degrees_of_mean(np.arange(1)), len(drawn.sizes)
    return percentile_interval(resampled[0], degrees, scale=(number / (number - 1)) ** 0.5) if degrees else ()
