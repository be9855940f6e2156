"""A model's outputs as numbers that can be averaged over models, and predictions from an average.

Classes: probabilities, (num_classes,). A binary task: twice the probability of label 1, less 1; of several labels this
for each, (num_classes,). Regression: the prediction, clipped to the task's range.
"""

import numpy as np
import numpy.typing as npt

from mtlib.metrics.metric import values_from_outputs
from mtlib.tasks import Task
from results.stats.resampling import Floats

Outputs = npt.NDArray[np.float32]
"""(..., rows, width): width is the task's number of logits."""


def outputs_of(task: Task, logits: npt.ArrayLike) -> Outputs:
    """Converts a head's logits, (..., rows, num_logits), to outputs, (..., rows, width)."""
    values = np.asarray(logits, dtype=np.float64)
    if task.is_regression:
        return np.clip(values, *task.label_range).astype(np.float32)
    if task.kind_entry.link == "sigmoid":
        return np.tanh(values / 2).astype(np.float32)
    powers = np.exp(values - values.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True), dtype=np.float32)


def logits_behind(task: Task, outputs: npt.ArrayLike) -> Floats:
    """Returns the inverse of `outputs_of` for classification, of the same shape, up to a constant for each row.

    Outputs that single precision rounds to certainty give a logit of 17.3 (sigmoid), or -103 for the other class.
    """
    assert not task.is_regression
    values = np.asarray(outputs, dtype=np.float64)
    if task.kind_entry.link == "sigmoid":
        most = 1 - np.finfo(np.float32).epsneg
        return np.asarray(2 * np.arctanh(np.clip(values, -most, most)))
    return np.log(np.maximum(values, np.finfo(np.float32).smallest_subnormal))


def probabilities_of(task: Task, outputs: npt.ArrayLike) -> Floats:
    """Returns the probability of each class or label, (..., rows, num_classes), of a task that is no regression."""
    assert not task.is_regression
    values = np.asarray(outputs, dtype=np.float64)
    if task.kind_entry.link == "softmax":
        return values
    if task.kind_entry.has_several_labels:
        return (1 + values) / 2
    return np.concatenate([1 - values, 1 + values], axis=-1) / 2


def values_of(task: Task, outputs: npt.ArrayLike, labels: npt.ArrayLike) -> Floats:
    """As `results.stats.resampling.example_values`, of outputs, (..., rows, width)."""
    return values_from_outputs(task.metric_entry, task.kind, outputs, labels)


def values_behind(task: Task, margins: Outputs, labels: npt.ArrayLike) -> Floats:
    """As `values_of`, from margins, (sums, others, rows), for metrics of classes or outputs.

    The predicted class is the right one if all its margins are above 0, else the one with the lowest margin.
    """
    if task.is_regression:
        return margins[:, 0].astype(np.float64)
    if task.kind_entry.has_several_labels:
        known, ahead = np.asarray(labels, dtype=np.float64), margins.transpose(0, 2, 1).astype(np.float64)
        return ahead * signs(known) if task.metric_entry.reads == "output" else np.where(ahead > 0, known, 1 - known)
    right = np.asarray(labels).astype(int)
    if task.metric_entry.reads == "output":
        return margins[:, 0].astype(np.float64) * signs(right)
    other = (right + 1 + margins.argmin(axis=1)) % task.num_classes
    return np.where((margins > 0).all(axis=1), right, other).astype(np.float64)


def signs(labels: npt.ArrayLike) -> Floats:
    """1 for label 1 and -1 for label 0, of the same shape."""
    return np.where(np.asarray(labels) == 1, 1.0, -1.0)


def margins_of(task: Task, outputs: Outputs, labels: npt.ArrayLike) -> Outputs:
    """Returns the margin of the right answer over each other one;
    the margins of a sum of outputs are the sum of their margins.

    Args:
        outputs: (candidates, rows, width).
        labels: (rows,), or (rows, num_classes) of several labels.

    Returns:
        (candidates, others, rows): the right class's probability minus each other one's; all above 0 where the
        prediction is right, and 0 in a tie. Of several labels (candidates, num_classes, rows): the probability that
        each is right about the row minus that it is not. For regression the prediction itself, (candidates, 1, rows).
    """
    if task.is_regression:
        return outputs.transpose(0, 2, 1)
    if task.kind_entry.link == "sigmoid":
        known = signs(labels).astype(np.float32)
        return (outputs * (known if known.ndim == 2 else known[:, None])).transpose(0, 2, 1)
    rows = np.arange(outputs.shape[1])
    right = np.asarray(labels).astype(int)
    others = (right[:, None] + np.arange(1, outputs.shape[2])) % outputs.shape[2]  # (rows, others)
    ahead = outputs[:, rows, right][:, :, None] - outputs[:, rows[:, None], others]
    return ahead.transpose(0, 2, 1)
