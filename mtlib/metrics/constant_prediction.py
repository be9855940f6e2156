"""The values of metrics if every row gets the same prediction: what a model must exceed to have learned anything."""

from collections.abc import Mapping

import numpy as np

from mtlib.kinds import KINDS, Kind
from mtlib.metrics.metric import Floats, Metric, values_from_outputs


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


def constant_output(kind: Kind, prediction: Floats) -> Floats:
    """Returns the output, (width,), that `TaskKind.predict` reads as a prediction."""
    entry = KINDS[kind]
    if entry.link == "softmax":
        return np.asarray(np.eye(int(prediction) + 1)[-1])
    return np.atleast_1d(2 * prediction - 1 if entry.link == "sigmoid" else prediction)
