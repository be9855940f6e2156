"""Predictions that are the same for every row: the values of metrics for them, and when a model counts as such."""

from collections.abc import Mapping

import numpy as np

from mtlib.kinds import KINDS, Kind
from mtlib.metrics.metric import Floats, Metric, values_from_outputs

SAME_LABEL_SHARE = 0.98
"""A model that predicts one label for more than this share of dev has learned little else, unless as many examples have
that label."""
SMALLEST_SPREAD = 0.01
"""Standard deviation of a regression's predictions, over the range of the labels, below which they are a constant.
Labels that are spread evenly have 0.29."""


def constant_prediction(kind: Kind, labels: Floats, num_classes: int) -> Floats:
    """Returns the prediction that suits most rows: the most frequent class, of several labels each with 1 if most rows
    have it, or the mean of numbers.

    Args:
        labels: of train, (rows,), or (rows, num_classes) of several labels.

    Returns:
        A scalar, or (num_classes,) of several labels. The lowest of equally frequent classes.
    """
    if KINDS[kind].has_several_labels:
        return np.asarray(labels.mean(axis=0) > 0.5, dtype=np.float64)
    if KINDS[kind].is_regression:
        return np.asarray(labels.mean(), dtype=np.float64)
    return np.asarray(np.bincount(labels.astype(int), minlength=num_classes).argmax(), dtype=np.float64)


def constant_values(metrics: Mapping[str, Metric], kind: Kind, prediction: Floats, labels: Floats) -> dict[str, float]:
    """Returns the value of each metric that suits a kind of task where all rows have one prediction;
    NaN where it is undefined.

    Args:
        metrics: by name.
        prediction: as of `constant_prediction`.
        labels: of dev, as there.
    """
    outputs = np.tile(constant_output(kind, prediction), (len(labels), 1))
    return {
        name: np.nan
        if metric.is_zero_of_constants
        else metric.evaluate(values_from_outputs(metric, kind, outputs, labels), labels)
        for name, metric in metrics.items()
        if kind in metric.kinds
    }


def collapsed_tasks(constant: Mapping[str, Mapping[str, bool]]) -> dict[str, set[str]]:
    """Returns which trainings of one configuration have collapsed, each with the tasks for which it predicts one label,
    or one number, for nearly all dev examples, while another training of the configuration does not.

    `constant` says by trial and task whether predictions are constant.
    """
    learned = {task for own in constant.values() for task, is_one in own.items() if not is_one}
    found = {trial: {task for task, is_one in own.items() if is_one} & learned for trial, own in constant.items()}
    return {trial: tasks for trial, tasks in found.items() if tasks}


def constant_output(kind: Kind, prediction: Floats) -> Floats:
    """Returns the output, (width,), that `TaskKind.predict` reads as a prediction."""
    entry = KINDS[kind]
    if entry.link == "softmax":
        return np.asarray(np.eye(int(prediction) + 1)[-1])
    return np.atleast_1d(2 * prediction - 1 if entry.link == "sigmoid" else prediction)
