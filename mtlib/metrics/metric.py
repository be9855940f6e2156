"""What a metric is: the entry of one, and what scores, standard errors and the overall score need of it.

A metric's value is what tables show. Its score is the value, or its negative where lower is better: everything that
ranks, selects, searches or compares uses scores, and `score_of` and `value_of` are the only places with the sign.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from mtlib.runtime.lazy_functions import Function, load_function

Floats = npt.NDArray[np.float64]

Kind = Literal["classes", "binary", "regression"]
"""Of a task: labels 0, 1, 2, ...; labels 0 and 1; real labels."""

Reads = Literal["right", "class", "output"]

Numeric = TypeVar("Numeric", float, Floats)

Counted = Callable[[Floats, Floats, Floats | None], Any]
"""From values, (models, rows), labels, (rows,), and how often each row counts, (resamples, rows), or None for each
once, to the metric, (models, resamples)."""

Influence = Callable[[Floats, Floats], Any]
"""From values, (models, rows), and labels, (rows,), to each example's influence on the metric, (models, rows)."""

STEP = 1e-4
"""Change of an example's weight by which an influence is estimated where an entry has no formula."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """An entry of the table of metrics (`mtlib.metrics.table`)."""

    title: str
    """Shown in tables and verdicts."""
    kinds: tuple[Kind, ...]
    """Kinds of task that it suits."""
    reads: Reads
    """What it needs of a prediction: whether it is `right`, 1 or 0; the predicted `class`; or the `output`, the
    prediction of a regression, or for a binary task a number that grows with the probability of label 1."""
    function: Function
    """A function, or `module:function`, imported when it is first used: from labels and values, (rows,) each, and
    optionally `sample_weight`, (rows,), to the metric, as functions of scikit-learn."""
    counted: Counted | None = None
    """The same for many models and resamples at once; None: `function` is called for each with `sample_weight`."""
    influence: Influence | None = None
    """The derivative by each example's weight, times the number of examples, with mean 0 over examples; None: it is
    estimated by small changes of the weights."""
    range: tuple[float, float | None] = (0.0, 1.0)
    """Lowest and highest value; None: the width of the range of labels."""
    lower_is_better: bool = False
    is_mean: bool = False
    """Whether it is the mean of its values over examples."""
    is_scored_by_fold: bool = False
    """Whether cross-fitting scores each fold by itself, as outputs of different ensembles are not comparable."""
    num_fitted: int = 0
    """Parameters that are estimated beside the metric, by which the degrees of freedom of its variance are fewer."""
    has_scale: bool = False
    """Whether outputs must have the scale of the labels: a sum of several models' outputs will not do."""
    is_always_reported: bool = False
    """Whether it is in the curves of every task that it suits."""

    def score_of(self, value: Numeric) -> Numeric:
        """The score, of which higher is better; also of differences and influences."""
        return -value if self.lower_is_better else value

    def value_of(self, score: Numeric) -> Numeric:
        """The value of a score, as it is shown; also of differences."""
        return -score if self.lower_is_better else score

    def bounds(self, label_range: tuple[float, float]) -> tuple[float, float]:
        """The lowest and the highest score of a task with these labels."""
        low, high = self.range
        known = low, label_range[1] - label_range[0] if high is None else high
        return (-known[1], -known[0]) if self.lower_is_better else known

    def overall_slope(self, label_range: tuple[float, float]) -> float:
        """The derivative of `overall` by the score."""
        low, high = self.bounds(label_range)
        return 1 / (high - low)

    def overall(self, score: float, label_range: tuple[float, float]) -> float:
        """What a score contributes to the overall score: its place between the lowest score, 0, and the highest, 1."""
        low, high = self.bounds(label_range)
        return max(0.0, (score - low) / (high - low))

    def evaluate(self, values: Floats, labels: Floats) -> float:
        """The value for one model, (rows,) each."""
        return float(load_function(self.function)(labels, values))

    def scores(self, values: Floats, labels: Floats, counts: Floats | None = None) -> Floats:
        """The scores of models on resamples, (models, resamples); arguments as of `Counted`."""
        counted = self.counted or self.count_slowly
        return np.asarray(self.score_of(np.asarray(counted(values, labels, counts), dtype=np.float64)))

    def influences(self, values: Floats, labels: Floats) -> Floats:
        """Each example's influence on the score, (models, rows), with mean 0 over examples."""
        influence = self.influence or self.differentiate
        return np.asarray(self.score_of(np.asarray(influence(values, labels), dtype=np.float64)))

    def count_slowly(self, values: Floats, labels: Floats, counts: Floats | None) -> Floats:
        """As `counted`, by a call of `function` for each model and resample."""
        if counts is None:
            return np.array([[self.evaluate(own, labels)] for own in values])
        function, found = load_function(self.function), np.empty((len(values), len(counts)))
        for model, own in enumerate(values):
            for resample, weights in enumerate(counts):
                held = weights > 0
                found[model, resample] = function(labels[held], own[held], sample_weight=weights[held])
        return found

    def differentiate(self, values: Floats, labels: Floats) -> Floats:
        """As `influence`, by the difference of two scores with a slightly higher and lower weight.

        Examples with the same label and value have the same influence, so that it is estimated once for them all.
        """
        found = np.empty(values.shape)
        for own, influence in zip(values, found, strict=True):
            pairs, places, sizes = np.unique(np.stack([labels, own]), axis=1, return_inverse=True, return_counts=True)
            steps = STEP * np.eye(len(sizes))
            value = self.counted or self.count_slowly
            high, low = (value(pairs[1][None], pairs[0], sizes + sign * steps)[0] for sign in (1, -1))
            influence[:] = ((high - low) * (len(labels) / (2 * STEP)))[places]
        return np.asarray(found - found.mean(axis=1, keepdims=True))


def read_logits(
    metric: Metric, kind: Kind, label_range: tuple[float, float], logits: npt.ArrayLike, labels: npt.ArrayLike
) -> Floats:
    """What a metric reads of logits, (..., rows, num_logits), to (..., rows).

    Predictions of a regression are clipped to the range of labels. The predicted class is that of the highest
    logit, the first of equals; of a binary task 1 where the logit is above 0.
    """
    values = np.asarray(logits, dtype=np.float64)
    if metric.reads == "output":
        return np.asarray(np.clip(values[..., 0], *label_range) if kind == "regression" else values[..., 0])
    chosen = values.argmax(-1) if kind == "classes" else values[..., 0] > 0
    is_right = metric.reads == "right"
    return np.asarray(chosen == np.asarray(labels) if is_right else chosen, dtype=np.float64)
