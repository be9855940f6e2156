"""F1 of scikit-learn, 0 where it is undefined."""

import numpy as np
from sklearn.metrics import f1_score

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


def positive_f1(labels: Floats, classes: Floats, sample_weight: Floats | None = None) -> float:
    """F1 of class 1."""
    return float(f1_score(labels, classes, pos_label=1, sample_weight=sample_weight, zero_division=0))
