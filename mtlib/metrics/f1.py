"""F1, precision and recall of scikit-learn, 0 where they are undefined."""

import numpy as np
from sklearn.metrics import f1_score, precision_score, recall_score

from mtlib.metrics.metric import Floats


def macro_f1(labels: Floats, classes: Floats, sample_weight: Floats | None = None) -> float:
    """Returns the mean of F1 over the classes that occur among labels or predictions, (rows,)
    or (rows, num_classes) each."""
    # A column of several labels that never occurs is undefined, and scikit-learn leaves out what is NaN.
    undefined = np.nan if labels.ndim == 2 and (labels.any() or classes.any()) else 0
    return float(f1_score(labels, classes, average="macro", sample_weight=sample_weight, zero_division=undefined))


def micro_f1(labels: Floats, classes: Floats, sample_weight: Floats | None = None) -> float:
    """F1 of all labels of all examples together, (rows, num_classes) each."""
    return float(f1_score(labels, classes, average="micro", sample_weight=sample_weight, zero_division=0))


def class_score(
    labels: Floats, classes: Floats, sample_weight: Floats | None = None, *, score: str, number: int
) -> float:
    """Returns `f1`, `precision` or `recall` of the class with a number, or of that one of several labels."""
    averaged = {"labels": [number], "average": "macro"}  # over one class
    function = {"f1": f1_score, "precision": precision_score, "recall": recall_score}[score]
    return float(function(labels, classes, sample_weight=sample_weight, zero_division=0, **averaged))
