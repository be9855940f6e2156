"""Average precision: the mean over positive examples of the precision among all that are scored at least as high."""

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from mtlib.metrics.metric import Floats


def counted_average_precision(values: Floats, labels: Floats, counts: Floats | None) -> Floats:
    """Average precision under counts, (models, resamples), or its mean over several labels; 0 without positives."""
    weights = np.ones((1, len(labels))) if counts is None else counts
    return np.stack([mean_over_labels(partial(average_precision, weights), own, labels) for own in values])


def mean_over_labels(function: Callable[[Floats, Floats], Floats], values: Floats, labels: Floats) -> Floats:
    """Returns a function of one model's values and labels, (rows,) each;
    of (rows, num_classes) its mean over the columns."""
    if labels.ndim == 1:
        return function(values, labels)
    return np.asarray(np.mean([function(*column) for column in zip(values.T, labels.T, strict=True)], axis=0))


def average_precision(weights: Floats, values: Floats, labels: Floats) -> Floats:
    """Returns one model's average precision, (resamples,), from weights, (resamples, rows), and values and labels,
    (rows,) each."""
    order, starts = descending(values)
    own = np.add.reduceat(weights[:, order], starts, axis=1)  # of each distinct value, the highest first
    positive = np.add.reduceat((weights * labels)[:, order], starts, axis=1)
    total, right = np.cumsum(own, axis=1), np.cumsum(positive, axis=1)
    precision = np.divide(right, total, out=np.zeros_like(right), where=total > 0)
    size = right[:, -1]
    found = np.divide((positive * precision).sum(1), size, out=np.zeros_like(size), where=size > 0)
    return np.asarray(found)


def descending(values: Floats) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Returns the order of the rows, the highest value first, and where in it each distinct value starts."""
    order = np.argsort(-values, kind="stable")
    return order, np.flatnonzero(np.concatenate([[True], np.diff(values[order]) != 0]))


def average_precision_influence(values: Floats, labels: Floats) -> Floats:
    """Returns the influence on average precision; 0 where no example is positive."""
    return np.stack([mean_over_labels(derivative, own, labels) for own in values])


def derivative(values: Floats, labels: Floats) -> Floats:
    """Returns the influence of each example, (rows,).

    With P positive examples, and T of N examples positive among those scored at least as high as s, AP = sum T / N / P
    over the positive ones. An example at s adds 1 to N, and to T if it is positive, of all values up to s: the sum over
    positive examples at these of (1 or 0) / N - T / N^2, over P; a positive one adds (T / N - AP) / P itself.
    """
    size = labels.sum()
    if size == 0:
        return np.zeros(len(values))
    order, starts = descending(values)
    places = np.empty(len(values), dtype=np.intp)
    places[order] = np.cumsum(np.isin(np.arange(len(values)), starts)) - 1
    positive = np.bincount(places, labels)  # of each distinct value, the highest first
    total, right = np.cumsum(np.bincount(places)), np.cumsum(positive)
    precision = right / total
    loss, gain = (np.cumsum(one[::-1])[::-1] for one in (positive * right / total**2, positive / total))
    mean = float((positive * precision).sum() / size)
    own = labels * (precision - mean + gain)[places] - loss[places]
    return np.asarray(own * (len(values) / size))
