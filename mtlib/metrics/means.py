"""Metrics that are a mean over examples, or the root of one."""

import numpy as np

from mtlib.metrics.metric import Floats


def counted_means(values: Floats, _labels: Floats, counts: Floats | None) -> Floats:
    """Means of values under counts, (models, resamples)."""
    weights = np.ones((1, values.shape[1])) if counts is None else counts
    return np.asarray(weights @ values.T / weights.sum(axis=1, keepdims=True)).T


def mean_influence(values: Floats, _labels: Floats) -> Floats:
    """Returns the influence on a mean: the value less the mean."""
    return np.asarray(values - values.mean(axis=1, keepdims=True))


def counted_root_errors(values: Floats, labels: Floats, counts: Floats | None) -> Floats:
    """Root mean squared errors under counts, (models, resamples)."""
    return np.sqrt(counted_means((values - labels) ** 2, labels, counts))


def root_error_influence(values: Floats, labels: Floats) -> Floats:
    """Returns the influence on the root of a mean squared error m: (e^2 - m) / (2 sqrt m); 0 where all errors are."""
    squares = (values - labels) ** 2
    mean = squares.mean(axis=1, keepdims=True)
    return np.asarray((squares - mean) / (2 * np.sqrt(np.where(mean > 0, mean, 1.0))))
