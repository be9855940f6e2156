"""Uncertainty of scores: a bootstrap over examples, paired between trials, and its intervals.

Every resample draws as many examples as there are, with replacement, and all trials are scored on the same resamples
(Efron and Tibshirani 1993, chapters 6 and 13). Where examples share texts, whole groups are drawn, as many as there are
(the cluster bootstrap; Davison and Hinkley 1997, section 3.8). A resample is kept as how often it holds each example,
so accuracy is one matrix product, and Pearson's correlation follows from a few weighted moments.
"""

import zlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mtlib.tasks import Task

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.intp]
"""Of rows, candidates or folds."""

NUM_RESAMPLES = 1000
CONFIDENCE = 0.95

BLOCK_CELLS = 4_000_000
"""Counts held at once, resamples times rows: 32 MB."""

CONSTANT_SHARE = 1e-12
"""A variance below this share of the mean square (both about the full sample's mean) counts as 0."""


def example_values(task: Task, logits: npt.ArrayLike, labels: npt.ArrayLike) -> Floats:
    """An example's contribution to its task's score, from logits, (..., rows, num_logits), to (..., rows).

    For accuracy 1 where the prediction is right and 0 where it is wrong (`classes`: the highest logit's class;
    `binary`: label 1 where the logit is above 0); for Pearson the prediction, clipped to the task's `label_range`.
    """
    values = np.asarray(logits, dtype=np.float64)
    if task.kind == "regression":
        return np.asarray(np.clip(values[..., 0], *task.label_range))
    chosen = values.argmax(-1) if task.kind == "classes" else values[..., 0] > 0
    return np.asarray(chosen == np.asarray(labels), dtype=np.float64)


def score_examples(task: Task, values: Floats, labels: npt.ArrayLike) -> Floats:
    """The task's main metric, (trials,), from `example_values`, (trials, rows), on the examples as they are.

    Accuracy in 0..1, or Pearson's correlation in -1..1, which is 0 by convention (as in `mtlib.training.evaluation`)
    where predictions or labels are constant and it is undefined.
    """
    return score_counts(task, np.ones((1, values.shape[1])), values, labels)[:, 0]


def bootstrap_scores(
    task: Task,
    values: Floats,
    labels: npt.ArrayLike,
    *,
    groups: Numbers | None = None,
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
) -> Floats:
    """The task's main metric on resampled examples, as `score_examples`: the same resamples for every trial.

    Args:
        task: tasks have different examples, so their resamples are drawn independently.
        values: (trials, rows), from `example_values`.
        labels: (rows,).
        groups: as in `draw_counts`.
        num_resamples: at least 2.
        seed: equal seeds give equal resamples, however many trials there are.

    Returns:
        (trials, num_resamples).
    """
    blocks = draw_counts(values.shape[1], num_resamples, (seed, zlib.crc32(task.name.encode())), groups)
    return np.concatenate([score_counts(task, counts, values, labels) for counts in blocks], axis=1)


def draw_counts(
    num_rows: int, num_resamples: int, seed: tuple[int, ...], groups: Numbers | None = None
) -> Iterator[Floats]:
    """Blocks of resamples, (some resamples, rows) each: how often a resample holds each row.

    `groups`, (rows,), are numbers of groups of rows that are drawn together; None: each row is drawn by itself.
    """
    numbers = np.unique(np.arange(num_rows) if groups is None else groups, return_inverse=True)[1]
    num_groups = int(numbers.max()) + 1
    generator = np.random.default_rng(seed)
    block = max(1, BLOCK_CELLS // num_rows)
    for start in range(0, num_resamples, block):
        size = min(block, num_resamples - start)
        drawn = generator.integers(num_groups, size=(size, num_groups)) + num_groups * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * num_groups).reshape(size, num_groups)
        yield np.take(counts, numbers, axis=1).astype(np.float64)


def score_counts(task: Task, counts: Floats, values: Floats, labels: npt.ArrayLike) -> Floats:
    """The main metric on resamples, given as counts of examples: (trials, resamples)."""
    if task.metric == "pearson":
        return weighted_pearson(counts, values, np.asarray(labels, dtype=np.float64))
    return np.asarray(counts @ values.T / counts.sum(axis=1, keepdims=True)).T


def weighted_pearson(counts: Floats, values: Floats, labels: Floats) -> Floats:
    """Pearson's correlation of predictions and labels under counts.

    With weights w, the moments are means over w: r = (E[xy] - E[x] E[y]) / sqrt(var x var y).

    Args:
        counts: (resamples, rows), at least 0.
        values: predictions x, (trials, rows).
        labels: y, (rows,).

    Returns:
        (trials, resamples), in -1..1; 0 where x or y is constant under the counts.
    """
    weights = counts / counts.sum(axis=1, keepdims=True)  # (resamples, rows)
    x = values - values.mean(axis=1, keepdims=True)  # centred, so that the variance does not cancel
    y = labels - labels.mean()
    mean_x, mean_y = weights @ x.T, (weights @ y)[:, None]  # (resamples, trials), (resamples, 1)
    scale = np.sqrt(variance(weights @ (x * x).T, mean_x) * variance((weights @ (y * y))[:, None], mean_y))
    covariance = weights @ (x * y).T - mean_x * mean_y
    correlation = np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0)
    return np.asarray(np.clip(correlation, -1, 1)).T


def variance(mean_square: Floats, mean: Floats) -> Floats:
    """E[x^2] - E[x]^2; 0 where the rest is rounding."""
    difference = mean_square - mean * mean
    return np.where(difference > CONSTANT_SHARE * mean_square, difference, 0.0)


def replicate_error(scores: npt.ArrayLike) -> float | None:
    """Standard error of the mean over replicates, (replicates,); None where there are fewer than two."""
    values = np.asarray(scores, dtype=np.float64)
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def percentile_interval(resampled: Floats) -> tuple[Floats, Floats]:
    """Low and high of the percentile interval at `CONFIDENCE`: (..., resamples) -> (...) each."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(resampled, (tail, 1 - tail), axis=-1)
    return low, high
