"""F1 where it is undefined."""

import warnings

import numpy as np

from mtlib.metrics.f1 import class_score, macro_f1


def test_f1_without_positives_is_0_and_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert class_score(np.zeros(3), np.zeros(3), score="f1", number=1) == 0
        assert macro_f1(np.zeros(3), np.zeros(3)) == 1
        assert macro_f1(np.array([0.0, 0, 1]), np.zeros(3), np.array([1.0, 1, 2])) == 2 * 2 / 6 / 2
