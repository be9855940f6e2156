"""Predictions that are the same for every row: the values of metrics for them, and whether a model's are so."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from mtlib.kinds import KINDS, Kind
from mtlib.metrics.metric import Floats, Metric, values_from_outputs

SAME_LABEL_SHARE = 0.98
"""A model that predicts one label for more than this share of dev has learned little else, unless as many examples have
that label."""
SMALLEST_SPREAD = 0.01
"""Standard deviation of a regression's predictions, over the range of the labels, below which they are a constant. That
of labels that are spread evenly is 0.29."""


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


def is_constant(
    metric: Metric, kind: Kind, label_range: tuple[float, float], logits: npt.ArrayLike, labels: npt.ArrayLike
) -> bool:
    """Returns whether predictions are one label (or set of labels) for nearly all rows, or one number.

    Not of metrics that read the output of a binary or multi-label task: a threshold has no part in them.

    Args:
        metric, kind, label_range: of the task.
        logits: (rows, num_logits).
        labels: (rows,), or (rows, num_classes) of several labels.
    """
    predictions = KINDS[kind].predict(logits)
    if KINDS[kind].is_regression:
        low, high = label_range
        return bool(predictions.clip(low, high).std() < SMALLEST_SPREAD * (high - low))
    if metric.reads == "output":
        return False
    values, counts = np.unique(predictions, axis=0, return_counts=True)
    share, most = counts.max() / len(predictions), values[counts.argmax()]
    has_most = (np.asarray(labels) == most).reshape(len(predictions), -1).all(axis=1)
    return bool(share > max(SAME_LABEL_SHARE, has_most.mean()))


def collapsed_trials(constant: Mapping[str, Mapping[str, bool]]) -> list[str]:
    """Returns which trainings of one configuration have collapsed: of some task they predict one label, or one number,
    for nearly all dev examples, while another training of the configuration does not.

    `constant` says by trial and task whether predictions are constant, as `is_constant`.
    """
    learned = {task for own in constant.values() for task, is_one in own.items() if not is_one}
    return [trial for trial, own in constant.items() if any(is_one and task in learned for task, is_one in own.items())]


def constant_output(kind: Kind, prediction: Floats) -> Floats:
    """Returns the output, (width,), that `TaskKind.predict` reads as a prediction."""
    entry = KINDS[kind]
    if entry.link == "softmax":
        return np.asarray(np.eye(int(prediction) + 1)[-1])
    return np.atleast_1d(2 * prediction - 1 if entry.link == "sigmoid" else prediction)
