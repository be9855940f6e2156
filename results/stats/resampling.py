"""Uncertainty of scores: a bootstrap over examples, paired between trials, and its intervals.

Every resample draws as many examples as there are, with replacement, and all trials are scored on the same resamples
(Efron and Tibshirani 1993, chapters 6 and 13). Where examples share texts, whole groups are drawn, as many as there are
(the cluster bootstrap; Davison and Hinkley 1997, section 3.8). A resample is kept as how often it holds each example,
so accuracy is one matrix product, and other metrics follow from weighted sums (`mtlib.metrics`).
"""

import math
import zlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.special import ndtr

from mtlib.metrics.metric import Floats as Floats
from mtlib.metrics.metric import read_logits
from mtlib.tasks import Task

Numbers = npt.NDArray[np.intp]
"""The numbers of rows, candidates or folds."""

NUM_RESAMPLES = 1000
"""The resamples of examples: a standard error then has an error of its own of about 2 %."""
CONFIDENCE = 0.95

BLOCK_CELLS = 4_000_000
"""Counts held at once, resamples times rows: 32 MB."""


def example_values(task: Task, logits: npt.ArrayLike, labels: npt.ArrayLike) -> Floats:
    """Returns what the task's metric reads of logits, (..., rows, num_logits), to (..., rows)
    or (..., rows, num_classes).

    E.g. 1 where the prediction is right and 0 where it is wrong, or the prediction of a regression, clipped to the
    task's `label_range`.
    """
    return read_logits(task.metric_entry, task.kind, task.label_range, logits, labels)


def score_examples(task: Task, values: Floats, labels: npt.ArrayLike) -> Floats:
    """Returns the task's score, (trials,), from `example_values`, (trials, rows), on the examples as they are."""
    return task.metric_entry.scores(values, np.asarray(labels, dtype=np.float64))[:, 0]


def bootstrap_scores(
    task: Task,
    values: Floats,
    labels: npt.ArrayLike,
    *,
    groups: Numbers | None = None,
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
) -> Floats:
    """Returns the task's score on resampled examples, as `score_examples`: the same resamples for every trial.

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
    """Returns the scores on resamples, given as counts of examples: (trials, resamples)."""
    return task.metric_entry.scores(values, np.asarray(labels, dtype=np.float64), counts)


def replicate_error(scores: npt.ArrayLike) -> float | None:
    """Standard error of the mean over replicates, (replicates,); None where there are fewer than two."""
    values = np.asarray(scores, dtype=np.float64)
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def percentile_interval(resampled: Floats, degrees: float = math.inf, *, scale: float = 1.0) -> tuple[float, float]:
    """Low and high of the percentile interval of resampled scores, (resamples,), at `CONFIDENCE`.

    Args:
        degrees: of freedom of their variance, which decide the tails.
        scale: by how much their standard deviation is too small, which the tails correct: resampled groups, n of them,
            have n - 1 where n were to be.

    Source: Hesterberg (2015), "What teachers should know about the bootstrap", section 3.2.
    """
    tail = (1 - CONFIDENCE) / 2
    if not math.isinf(degrees):
        tail = float(ndtr(scale * stats.t.ppf(tail, degrees)))
    low, high = np.quantile(resampled, (tail, 1 - tail)).tolist()
    return low, high
