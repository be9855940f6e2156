"""Covariance over examples of trials' scores, of single tasks and overall, from their influence values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mtlib.tasks import Task, overall_slopes
from results.analysis.comparison.bootstrap import Floats, example_values
from results.analysis.comparison.groups import independent_groups
from results.analysis.comparison.influence import covariance_over_examples, influence_values


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
        text_groups: as in `results.analysis.comparison.groups.independent_groups`.
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
