"""What a metric is: the entry of one, and what scores, standard errors and the overall score need of it.

A metric's value is what tables show. Its score is the value, or its negative where lower is better: everything that
ranks, selects, searches or compares uses scores, and `score_of` and `value_of` are the only places with the sign.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from mtlib.kinds import KINDS, Kind
from mtlib.runtime.errors import require
from mtlib.runtime.lazy_functions import Function, load_function

Floats = npt.NDArray[np.float64]

Reads = Literal["right", "class", "output"]

Numeric = TypeVar("Numeric", float, Floats)

Counted = Callable[[Floats, Floats, Floats | None], Any]
"""From values, (models, rows), labels, (rows,), and how often each row counts, (resamples, rows), or None for each
once, to the metric, (models, resamples). Labels of a multi-label task, and values unless the metric reads whether a
prediction is right, have a further dimension, (num_classes,)."""

Influence = Callable[[Floats, Floats], Any]
"""From values and labels, as of `Counted`, to each example's influence on the metric, (models, rows)."""

STEP = 1e-4
"""Change of an example's weight by which an influence is estimated where an entry has no formula: small beside one
example, and large beside the rounding of a score."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """An entry of the table of metrics (`mtlib.metrics.table`)."""

    title: str
    """Shown in tables and verdicts."""
    kinds: tuple[Kind, ...]
    """Kinds of task that it suits."""
    reads: Reads
    """What it needs of a prediction: whether it is `right`, 1 or 0 (of several labels: whether all are); the predicted
    `class`, or of several labels 1 for each predicted one; or the `output`, the prediction of a regression, or a number
    that grows with the probability of label 1, or of each label."""
    function: Function | None = None
    """A function, or `module:function`, imported when it is first used: from labels and values, (rows,) each or
    (rows, num_classes) of several labels, and optionally `sample_weight`, (rows,), to the metric, as functions of
    scikit-learn; None: it is `counted` for one model."""
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
    is_zero_of_constants: bool = False
    """Whether it is undefined where all predictions are the same, and counts as 0 there, as correlations do."""
    is_always_reported: bool = False
    """Whether it is in the curves of every task that it suits."""

    def __post_init__(self) -> None:
        require(self.function is not None or self.counted is not None, "a metric must have function or counted", "none")

    def score_of(self, value: Numeric) -> Numeric:
        """Returns the score, of which higher is better; also of differences and influences."""
        return -value if self.lower_is_better else value

    def value_of(self, score: Numeric) -> Numeric:
        """Returns the value of a score, as it is shown; also of differences."""
        return -score if self.lower_is_better else score

    def bounds(self, label_range: tuple[float, float]) -> tuple[float, float]:
        """Returns the lowest and the highest score of a task with these labels."""
        low, high = self.range
        known = low, label_range[1] - label_range[0] if high is None else high
        return (-known[1], -known[0]) if self.lower_is_better else known

    def overall_slope(self, label_range: tuple[float, float]) -> float:
        """Returns the derivative of `overall` by the score."""
        low, high = self.bounds(label_range)
        return 1 / (high - low)

    def overall(self, score: float, label_range: tuple[float, float]) -> float:
        """Returns what a score contributes to the overall score:
        its place between the lowest score, 0, and the highest, 1."""
        low, high = self.bounds(label_range)
        return max(0.0, (score - low) / (high - low))

    def evaluate(self, values: Floats, labels: Floats) -> float:
        """Returns the value for one model, (rows,) each, or (rows, num_classes) of several labels."""
        if self.function is None:
            return float(self.value_of(self.scores(values[None], labels)[0, 0]))
        with warnings.catch_warnings():  # a label that no row has is counted where the data are described
            warnings.filterwarnings("ignore", category=UserWarning, module=r"sklearn\.")
            return float(load_function(self.function)(labels, values))

    def scores(self, values: Floats, labels: Floats, counts: Floats | None = None) -> Floats:
        """Returns the scores of models on resamples, (models, resamples); arguments as of `Counted`."""
        counted = self.counted or self.count_slowly
        return np.asarray(self.score_of(np.asarray(counted(values, labels, counts), dtype=np.float64)))

    def influences(self, values: Floats, labels: Floats) -> Floats:
        """Returns each example's influence on the score, (models, rows), with mean 0 over examples."""
        influence = self.influence or self.differentiate
        return np.asarray(self.score_of(np.asarray(influence(values, labels), dtype=np.float64)))

    def count_slowly(self, values: Floats, labels: Floats, counts: Floats | None) -> Floats:
        """As `counted`, by a call of `function` for each model and resample."""
        assert self.function is not None, "counted stands in for it"
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
        found, width = np.empty(values.shape[:2]), labels.size // len(labels)
        for own, influence in zip(values, found, strict=True):
            rows = np.column_stack([labels, own])
            pairs, places, sizes = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
            own_labels = pairs[:, :width].reshape(-1, *labels.shape[1:])
            own_values = pairs[:, width:].reshape(1, -1, *own.shape[1:])
            steps = STEP * np.eye(len(sizes))
            value = self.counted or self.count_slowly
            high, low = (value(own_values, own_labels, sizes + sign * steps)[0] for sign in (1, -1))
            influence[:] = ((high - low) * (len(labels) / (2 * STEP)))[places.reshape(-1)]
        return np.asarray(found - found.mean(axis=1, keepdims=True))


def read_logits(
    metric: Metric, kind: Kind, label_range: tuple[float, float], logits: npt.ArrayLike, labels: npt.ArrayLike
) -> Floats:
    """As `values_from_outputs`, of logits, (..., rows, num_logits); a regression's are clipped to the labels' range."""
    values = np.asarray(logits, dtype=np.float64)
    outputs = np.clip(values, *label_range) if KINDS[kind].is_regression else values
    return values_from_outputs(metric, kind, outputs, labels)


def values_from_outputs(metric: Metric, kind: Kind, outputs: npt.ArrayLike, labels: npt.ArrayLike) -> Floats:
    """Returns what a metric reads of outputs, (..., rows, width), or of logits, for labels as in `KINDS`.

    Returns:
        (..., rows), or (..., rows, num_classes) of several labels unless the metric reads whether they are right.
    """
    entry, values = KINDS[kind], np.asarray(outputs)
    if metric.reads == "output":
        return np.asarray(values if entry.has_several_labels else values[..., 0], dtype=np.float64)
    predicted = entry.predict(values)
    if metric.reads == "class":
        return predicted
    is_right = predicted == np.asarray(labels)
    return np.asarray(is_right.all(-1) if entry.has_several_labels else is_right, dtype=np.float64)
