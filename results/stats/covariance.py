"""The influence of each example on a score, and from it the covariance of many models' scores over examples.

To first order, a score differs from its value on all text of the kind by the mean over examples of their influence
(Hampel 1974). So the covariance of two models' scores is that of their influence values, divided by the number of
examples, and no resampling is needed. Examples that share a text are not independent: their influence is summed first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mtlib.tasks import Task, overall_slopes
from results.stats.groups import independent_groups, sum_groups
from results.stats.resampling import Floats, Numbers, example_values


def influence_values(task: Task, values: Floats, labels: npt.ArrayLike) -> Floats:
    """Each example's influence on the task's score, with mean 0 over examples.

    Args:
        task: whose metric, which gives the formula.
        values: (models, rows), from `example_values`.
        labels: (rows,).

    Returns:
        (models, rows).
    """
    return task.metric_entry.influences(values, np.asarray(labels, dtype=np.float64))


def covariance_over_examples(influence: Floats, groups: Numbers | None = None) -> Floats:
    """Covariance of the models' scores over draws of examples.

    Args:
        influence: (models, rows), from `influence_values`.
        groups: (rows,) number from 0 of the group that each example belongs to; whole groups are drawn. None if every
            example is drawn on its own.

    Returns:
        (models, models); all 0 where there is one group only, as nothing is known then.

    Source: the cluster-robust variance of Liang and Zeger (1986), with the factor groups / (groups - 1).
    """
    num_rows = influence.shape[1]
    if groups is not None:
        influence = sum_groups(influence, groups)
    num_groups = influence.shape[1]
    if num_groups < 2:
        return np.zeros((len(influence), len(influence)))
    return np.asarray(influence @ influence.T * (num_groups / (num_groups - 1) / num_rows**2))


@dataclass(frozen=True, kw_only=True)
class ScoreCovariance:
    """Covariance of trials' scores on the same examples."""

    trials: tuple[str, ...]
    matrix: Floats
    """(trials, trials)."""

    def between(self, trials: Sequence[str]) -> Floats:
        """(trials, trials) of some of the trials, in this order."""
        rows = [self.trials.index(trial) for trial in trials]
        return np.asarray(self.matrix[np.ix_(rows, rows)])

    def mean_error(self, trials: Sequence[str]) -> float:
        """Standard error over examples of the mean score of some trials."""
        return float(np.sqrt(max(0.0, self.between(trials).mean())))


def score_covariance(
    task: Task,
    trials: Sequence[str],
    logits: npt.ArrayLike,
    labels: npt.ArrayLike,
    text_groups: npt.ArrayLike | None = None,
) -> ScoreCovariance:
    """Covariance of trials' scores of one task.

    Args:
        task: whose metric.
        trials: ids.
        logits: (trials, rows, num_logits).
        labels: (rows,).
        text_groups: as in `results.stats.groups.independent_groups`.
    """
    influence = influence_values(task, example_values(task, logits, labels), labels)
    groups = independent_groups(text_groups, influence.shape[1])
    return ScoreCovariance(trials=tuple(trials), matrix=covariance_over_examples(influence, groups))


def overall_covariance(
    covariances: Mapping[str, ScoreCovariance], trials: Sequence[str], tasks: Mapping[str, Task]
) -> ScoreCovariance:
    """Covariance of trials' overall scores; the tasks' examples are drawn independently.

    Args:
        covariances: by name of the task; all tasks that count in the overall score.
        trials: ids, each in every task's covariance.
        tasks: the definitions of these tasks, or of more.
    """
    slopes = overall_slopes(covariances, tasks)
    parts = [slopes[task] ** 2 * covariance.between(trials) for task, covariance in covariances.items()]
    return ScoreCovariance(trials=tuple(trials), matrix=np.sum(parts, axis=0))
