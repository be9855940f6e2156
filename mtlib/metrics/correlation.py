"""Correlations of predictions and labels: of numbers (Pearson) and of their ranks (Spearman)."""

import numpy as np
import numpy.typing as npt

from mtlib.metrics.metric import Floats
from mtlib.runtime.lazy_functions import load_function

CONSTANT_SHARE = 1e-12
"""A variance below this share of the mean square (both about the full sample's mean) counts as 0: far above
what rounding leaves of equal numbers, about 1e-16."""


def pearson(values: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Pearson's correlation in -1..1; 0 where one side is constant, which leaves it undefined."""
    x = np.asarray(values, dtype=np.float64)
    y = np.asarray(labels, dtype=np.float64)
    x, y = x - x.mean(), y - y.mean()
    scale = np.sqrt((x @ x) * (y @ y))
    return float(np.clip((x @ y) / scale, -1, 1)) if scale > 0 else 0.0


def spearman(values: npt.NDArray[np.floating], labels: npt.NDArray[np.floating]) -> float:
    """Spearman's correlation in -1..1: Pearson's of the ranks; equal numbers share the middle rank."""
    return pearson(ranks(values), ranks(labels))


def ranks(numbers: npt.NDArray[np.floating]) -> Floats:
    """Ranks, from 1, along the last axis; equal numbers share the middle rank.

    scipy.stats takes half a second to import: every command would, as all read the table of metrics.
    """
    return np.asarray(load_function("scipy.stats:rankdata")(numbers, axis=-1), dtype=np.float64)


def counted_pearson(values: Floats, labels: Floats, counts: Floats | None) -> Floats:
    """Pearson's correlations of predictions and labels under counts.

    With weights w, the moments are means over w: r = (E[xy] - E[x] E[y]) / sqrt(var x var y).

    Args:
        values: predictions x, (models, rows).
        labels: y, (rows,).
        counts: (resamples, rows), at least 0; None: each row counts once.

    Returns:
        (models, resamples), in -1..1; 0 where x or y is constant under the counts.
    """
    counts = np.ones((1, len(labels))) if counts is None else counts
    weights = counts / counts.sum(axis=1, keepdims=True)  # (resamples, rows)
    x = values - values.mean(axis=1, keepdims=True)  # centred, so that the variance does not cancel
    y = labels - labels.mean()
    mean_x, mean_y = weights @ x.T, (weights @ y)[:, None]  # (resamples, models), (resamples, 1)
    scale = np.sqrt(variance(weights @ (x * x).T, mean_x) * variance((weights @ (y * y))[:, None], mean_y))
    covariance = weights @ (x * y).T - mean_x * mean_y
    correlation = np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0)
    return np.asarray(np.clip(correlation, -1, 1)).T


def variance(mean_square: Floats, mean: Floats) -> Floats:
    """E[x^2] - E[x]^2; 0 where the rest is rounding."""
    difference = mean_square - mean * mean
    return np.where(difference > CONSTANT_SHARE * mean_square, difference, 0.0)


def pearson_influence(values: Floats, labels: Floats) -> Floats:
    """Returns the influence on Pearson's r: `x y - r (x^2 + y^2) / 2` for the standardised prediction x and label y.

    It is 0 if either is constant.

    Source: Devlin, Gnanadesikan and Kettenring (1975), "Robust estimation and outlier detection with correlation
    coefficients".
    """
    x, y = standardise(values), standardise(labels[None])
    return np.asarray(x * y - counted_pearson(values, labels, None) * (x * x + y * y) / 2)


def standardise(values: Floats) -> Floats:
    """Rows with mean 0 and standard deviation 1; all 0 where a row is constant."""
    centred = values - values.mean(axis=1, keepdims=True)
    scale = np.sqrt((centred * centred).mean(axis=1, keepdims=True))
    is_constant = scale <= 1e-6 * np.abs(values).max(axis=1, keepdims=True)
    return np.where(is_constant, 0.0, centred / np.where(is_constant, 1.0, scale))


def counted_spearman(values: Floats, labels: Floats, counts: Floats | None) -> Floats:
    """Spearman's correlations under counts, (models, resamples); ranks are those of the resample."""
    if counts is None:
        return counted_pearson(ranks(values), ranks(labels), None)
    weights = counts / counts.sum(axis=1, keepdims=True)
    y = middle_shares(labels, weights) - 0.5  # the mean of middle shares is 1/2
    found = [rank_correlation(weights, middle_shares(own, weights) - 0.5, y) for own in values]
    return np.stack(found)


def rank_correlation(weights: Floats, x: Floats, y: Floats) -> Floats:
    """Correlations of centred ranks, (resamples,), from arrays of (resamples, rows); 0 where either is constant."""
    covariance, x_square, y_square = ((weights * product).sum(1) for product in (x * y, x * x, y * y))
    scale = np.sqrt(x_square * y_square)
    ratio = np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > CONSTANT_SHARE)
    return np.asarray(np.clip(ratio, -1, 1))


def middle_shares(numbers: Floats, weights: Floats) -> Floats:
    """Returns the weight of lower numbers and half that of equal ones: ranks between 0 and 1, (resamples, rows).

    Args:
        numbers: (rows,).
        weights: (resamples, rows); the sum of each row is 1.
    """
    _, starts, places = np.unique(np.sort(numbers), return_index=True, return_inverse=True)
    own = np.add.reduceat(weights[:, np.argsort(numbers, kind="stable")], starts, axis=1)  # of each distinct number
    shares = np.cumsum(own, axis=1) - own / 2
    found = np.empty(weights.shape)
    found[:, np.argsort(numbers, kind="stable")] = shares[:, places]
    return found


def spearman_influence(values: Floats, labels: Floats) -> Floats:
    """Returns the influence on Spearman's correlation C / sqrt(A B).

    U and V are the ranks in 0..1, C = E[UV] - 1/4, A and B likewise. An example's weight counts in E[UV] by its own
    ranks and by those that it raises: u v + E[V; X > x] + E[U; Y > y], where ties count half. 0 where either side is
    constant.

    Source: Croux and Dehon (2010), "Influence functions of the Spearman and Kendall correlation measures", section 2.
    """
    weights = np.full((1, len(labels)), 1 / len(labels))
    v = middle_shares(labels, weights)[0]
    return np.stack([rank_influence(own, labels, middle_shares(own, weights)[0], v) for own in values])


def rank_influence(x: Floats, y: Floats, u: Floats, v: Floats) -> Floats:
    """Returns the influence of each example, (rows,), from predictions, labels and the ranks of both."""
    covariance, square_u, square_v = (float((one * other).mean()) - 0.25 for one, other in ((u, v), (u, u), (v, v)))
    if min(square_u, square_v) <= CONSTANT_SHARE:
        return np.zeros(len(x))
    scale = np.sqrt(square_u * square_v)
    by_covariance = u * v + mean_above(x, v) + mean_above(y, u)
    by_squares = (u * u + 2 * mean_above(x, u)) / square_u + (v * v + 2 * mean_above(y, v)) / square_v
    found = (by_covariance - covariance * by_squares / 2) / scale
    return np.asarray(found - found.mean())


def mean_above(numbers: Floats, others: Floats) -> Floats:
    """For each row the mean over all rows of `others` where `numbers` are higher, half of them where equal, else 0."""
    places = np.unique(numbers, return_inverse=True)[1]
    sums = np.bincount(places, others)
    return np.asarray(((sums.sum() - np.cumsum(sums)) + sums / 2)[places] / len(numbers))
