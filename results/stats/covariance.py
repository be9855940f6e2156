"""The influence of each example on a score, and from it the covariance of many models' scores over examples.

To first order, a score differs from its value on all text of the kind by the mean over examples of their influence
(Hampel 1974). So the covariance of two models' scores is the covariance of their influence values, divided by the
number of examples, and no resampling is needed. Examples that share a text are not independent: their influence is
summed first.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from mtlib.tasks import Task
from results.stats.groups import DrawnGroups, drawn_groups, independent_groups, scaled_sums
from results.stats.resampling import Floats, Numbers, example_values


def covariance_over_examples(influence: Floats, groups: Numbers | None = None) -> Floats:
    """Covariance of the models' scores over draws of examples.

    Args:
        influence: (models, rows) of each example on the score, by the metric, with mean 0 over examples.
        groups: (rows,) number from 0 of the group that each example belongs to; whole groups are drawn. None if every
            example is drawn on its own.

    Returns:
        (models, models); all 0 where there is one group only, as nothing is known then.

    Source: the cluster-robust variance of Liang and Zeger (1986), with the sums of groups scaled so that it is unbiased
    for independent examples (Bell and McCaffrey 2002); of groups of one size by the factor groups / (groups - 1).
    """
    num_rows = influence.shape[1]
    sums = scaled_sums(influence, np.arange(num_rows) if groups is None else groups)
    if sums.shape[1] < 2:
        return np.zeros((len(influence), len(influence)))
    return np.asarray(sums @ sums.T / num_rows**2)


def score_covariance(
    task: Task,
    trials: Sequence[str],
    logits: npt.ArrayLike,
    labels: npt.ArrayLike,
    text_groups: npt.ArrayLike | None = None,
) -> tuple[pd.DataFrame, DrawnGroups]:
    """Returns the covariance over examples of trials' scores of one task, (trials, trials), and the groups of examples.

    Args:
        task: whose metric.
        trials: ids, which label rows and columns.
        logits: (trials, rows, num_logits).
        labels: (rows,).
        text_groups: as in `results.stats.groups.independent_groups`.
    """
    values = example_values(task, logits, labels)
    influence = task.metric_entry.influences(values, np.asarray(labels, dtype=np.float64))
    groups = independent_groups(text_groups, influence.shape[1])
    covariance = covariance_over_examples(influence, groups)
    return pd.DataFrame(covariance, index=list(trials), columns=list(trials)), drawn_groups(influence, groups)
