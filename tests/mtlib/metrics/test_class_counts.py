"""Scores of classes that are not there or not predicted; `test_table` has the rest."""

import warnings

import numpy as np

from mtlib.metrics.class_counts import counted_class_score, counted_macro_f1, counted_matthews
from mtlib.metrics.table import METRICS

LABELS = np.array([0.0, 0, 1, 1, 2])
VALUES = np.array([[0.0, 1, 1, 1, 1], [0, 0, 0, 0, 0]])


def test_a_class_that_a_resample_lacks_does_not_count() -> None:
    counts = np.array([[1.0, 0, 1, 1, 0]])
    assert counted_macro_f1(VALUES[:1], LABELS, counts).tolist() == [[1]]
    assert counted_class_score(np.zeros((1, 3)), np.zeros(3), None, score="f1", number=1).tolist() == [[0]]


def test_a_label_that_is_neither_there_nor_predicted_does_not_count() -> None:
    labels, values = np.array([[1.0, 0, 0], [1, 1, 0]]), np.array([[[1.0, 1, 0], [0, 1, 0]]])
    np.testing.assert_allclose(counted_macro_f1(values, labels, None), [[2 / 3]])
    np.testing.assert_allclose(METRICS["macro_f1"].evaluate(values[0], labels), 2 / 3)


def test_predictions_of_one_class_have_no_correlation() -> None:
    assert counted_matthews(VALUES, LABELS, None)[1, 0] == 0


def test_f1_without_positives_is_0_and_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert METRICS["f1"].evaluate(np.zeros(3), np.zeros(3)) == 0
        assert METRICS["macro_f1"].evaluate(np.zeros(3), np.zeros(3)) == 1
        counts = np.array([[1.0, 1, 2]])
        assert METRICS["macro_f1"].scores(np.zeros((1, 3)), np.array([0.0, 0, 1]), counts) == 2 * 2 / 6 / 2
