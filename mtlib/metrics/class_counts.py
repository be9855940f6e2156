"""Metrics of predicted classes, from three numbers of each class: right predictions, all predictions, labels."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mtlib.metrics.metric import Floats

CLASS_SCORES = {"f1": (2.0, 1.0, 1.0), "precision": (1.0, 1.0, 0.0), "recall": (1.0, 0.0, 1.0)}
"""By name a score of one class, a T / (b P + c A): a, b and c, of its right predictions, its predictions and its
labels."""


@dataclass(frozen=True, kw_only=True)
class ClassCounts:
    """Weights of examples by class, (..., classes) each."""

    right: Floats
    """The total weight of examples of the class that are predicted as it."""
    predicted: Floats
    """The total weight of all examples that are predicted as the class."""
    actual: Floats
    """The total weight of all examples of the class."""


def count_classes(values: Floats, labels: Floats, counts: Floats | None) -> ClassCounts:
    """Counts the classes of models on resamples, (models, resamples, classes); arguments as of
    `mtlib.metrics.metric.Counted`."""
    if labels.ndim == 2:
        return count_labels(values, labels, counts)
    classes, answers = values.astype(np.intp), labels.astype(np.intp)
    num_classes = int(max(classes.max(), answers.max())) + 1
    is_right = (classes == answers).astype(np.float64)
    if counts is None:
        labelled = np.bincount(answers, minlength=num_classes).astype(np.float64)
        actual = np.broadcast_to(labelled, (len(classes), num_classes))
        cells = classes + num_classes * np.arange(len(classes))[:, None]
        predicted, right = (
            np.asarray(np.bincount(cells.ravel(), weights.ravel(), actual.size), dtype=np.float64).reshape(actual.shape)
            for weights in (np.ones(is_right.shape), is_right)
        )
        return ClassCounts(right=right[:, None], predicted=predicted[:, None], actual=actual[:, None])
    one_hot = np.eye(num_classes)
    predictions = np.stack([counts @ one_hot[own] for own in classes])
    right = np.stack([counts @ (one_hot[own] * held[:, None]) for own, held in zip(classes, is_right, strict=True)])
    actual = np.broadcast_to(counts @ one_hot[answers], right.shape)
    return ClassCounts(right=np.asarray(right, dtype=np.float64), predicted=predictions, actual=actual)


def count_labels(values: Floats, labels: Floats, counts: Floats | None) -> ClassCounts:
    """As `count_classes`, of several labels: values are (models, rows, classes), labels (rows, classes)."""
    weights = np.ones((1, len(labels))) if counts is None else counts
    predicted = np.stack([weights @ own for own in values])
    right = np.stack([weights @ (own * labels) for own in values])
    return ClassCounts(right=right, predicted=predicted, actual=np.broadcast_to(weights @ labels, right.shape))


def divide(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> Floats:
    """Returns the ratio; 0 where the denominator is."""
    top, bottom = np.broadcast_arrays(np.asarray(numerator, dtype=np.float64), np.asarray(denominator))
    return np.asarray(np.divide(top, bottom, out=np.zeros(top.shape), where=bottom > 0))


def class_scores(found: ClassCounts, score: str) -> Floats:
    """A score of `CLASS_SCORES` of each class, (..., classes); 0 where it is undefined."""
    right, predicted, actual = CLASS_SCORES[score]
    return divide(right * found.right, predicted * found.predicted + actual * found.actual)


def is_present(found: ClassCounts) -> npt.NDArray[np.bool_]:
    """Returns whether a class is a label or a prediction of some row, (..., classes)."""
    return np.asarray(found.predicted + found.actual > 0)


def counted_macro_f1(values: Floats, labels: Floats, counts: Floats | None) -> Floats:
    """Returns the mean of F1 over the classes that occur, (models, resamples); 0 where none of several labels does."""
    found = count_classes(values, labels, counts)
    return divide(class_scores(found, "f1").sum(-1), is_present(found).sum(-1))


def counted_micro_f1(values: Floats, labels: Floats, counts: Floats | None) -> Floats:
    """F1 of all labels together, (models, resamples)."""
    found = count_classes(values, labels, counts)
    return divide(2 * found.right.sum(-1), (found.predicted + found.actual).sum(-1))


def counted_class_score(values: Floats, labels: Floats, counts: Floats | None, *, score: str, number: int) -> Floats:
    """Returns a score of `CLASS_SCORES` of the class with a number, (models, resamples)."""
    scores = class_scores(count_classes(values, labels, counts), score)
    return scores[..., number] if number < scores.shape[-1] else np.zeros(scores.shape[:-1])


def class_derivatives(values: Floats, labels: Floats, score: str) -> tuple[Floats, ClassCounts]:
    """Each example's influence on each class's score S = a T / (b P + c A), (models, rows, classes), and the counts.

    An example adds t, p and q to T, P and A of class k: (a t - S (b p + c q)) / (b P + c A).
    """
    found, (of_right, of_predicted, of_actual) = count_classes(values, labels, None), CLASS_SCORES[score]
    predicted, actual = values, labels
    if labels.ndim == 1:
        one_hot = np.eye(found.right.shape[-1])
        predicted, actual = one_hot[values.astype(np.intp)], one_hot[labels.astype(np.intp)]
    total = of_predicted * found.predicted + of_actual * found.actual
    own = of_predicted * predicted + of_actual * actual
    change = of_right * predicted * actual - class_scores(found, score) * own
    return len(labels) * divide(change, total), found


def macro_f1_influence(values: Floats, labels: Floats) -> Floats:
    """Returns the influence on macro F1, the mean over the classes that occur."""
    derivatives, found = class_derivatives(values, labels, "f1")
    return divide(derivatives.sum(-1), is_present(found).sum(-1))


def micro_f1_influence(values: Floats, labels: Floats) -> Floats:
    """Returns the influence on micro F1, by the formula of `class_derivatives` for the sums over all labels."""
    found = count_classes(values, labels, None)
    total = (found.predicted + found.actual).sum(-1)  # (models, 1)
    change = 2 * (values * labels).sum(-1) - divide(2 * found.right.sum(-1), total) * (values + labels).sum(-1)
    return len(labels) * divide(change, total)


def class_score_influence(values: Floats, labels: Floats, *, score: str, number: int) -> Floats:
    """Returns the influence on a score of `CLASS_SCORES` of the class with a number."""
    derivatives, _ = class_derivatives(values, labels, score)
    return derivatives[..., number] if number < derivatives.shape[-1] else np.zeros(derivatives.shape[:-1])


def matthews_parts(found: ClassCounts) -> tuple[Floats, Floats, Floats]:
    """With n the sum of weights: n right - sum P A, n^2 - sum P^2 and n^2 - sum A^2, of which two are variances."""
    size = found.actual.sum(-1)
    covariance = size * found.right.sum(-1) - (found.predicted * found.actual).sum(-1)
    return covariance, size**2 - (found.predicted**2).sum(-1), size**2 - (found.actual**2).sum(-1)


def counted_matthews(values: Floats, labels: Floats, counts: Floats | None) -> Floats:
    """Matthews' correlation, (models, resamples); 0 where labels or predictions are of one class.

    Source: Gorodkin (2004), "Comparing two K-category assignments by a K-category correlation coefficient".
    """
    covariance, of_predictions, of_labels = matthews_parts(count_classes(values, labels, counts))
    return divide(covariance, np.sqrt(of_predictions * of_labels))


def matthews_influence(values: Floats, labels: Floats) -> Floats:
    """Returns the influence on r = C / sqrt(V W): (dC - C (dV / V + dW / W) / 2) / sqrt(V W), by an example's weight.

    One of class l that is predicted as k adds to the parts of `matthews_parts`: n [k = l] + T - A_k - P_l, 2 n - 2 P_k
    and 2 n - 2 A_l, where T is the number of right ones.
    """
    found, size = count_classes(values, labels, None), len(labels)
    covariance, of_predictions, of_labels = matthews_parts(found)  # (models, 1)
    classes, answers = values.astype(np.intp), np.broadcast_to(labels.astype(np.intp), values.shape)
    predicted, actual = found.predicted[:, 0], found.actual[:, 0]
    by_covariance = (
        size * (classes == answers)
        + found.right.sum(-1)
        - np.take_along_axis(actual, classes, axis=1)
        - np.take_along_axis(predicted, answers, axis=1)
    )
    by_predictions = divide(2 * (size - np.take_along_axis(predicted, classes, axis=1)), of_predictions)
    by_labels = divide(2 * (size - np.take_along_axis(actual, answers, axis=1)), of_labels)
    change = by_covariance - covariance * (by_predictions + by_labels) / 2
    return size * divide(change, np.sqrt(of_predictions * of_labels))
