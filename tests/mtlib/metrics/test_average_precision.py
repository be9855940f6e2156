"""Average precision by hand, and where it is undefined."""

import numpy as np
import pytest

from mtlib.metrics.average_precision import average_precision_influence, counted_average_precision


def test_average_precision_by_hand() -> None:
    labels = np.array([1.0, 0, 1, 0])
    found = counted_average_precision(np.array([[4.0, 3, 2, 1], [1, 1, 1, 1]]), labels, None)
    assert found[:, 0] == pytest.approx([(1 + 2 / 3) / 2, 0.5])


def test_without_positive_examples_it_is_0() -> None:
    values = np.array([[1.0, 2, 3]])
    assert counted_average_precision(values, np.zeros(3), None).tolist() == [[0]]
    assert counted_average_precision(values, np.eye(3)[0], np.array([[0.0, 2, 1]])).tolist() == [[0]]
    assert average_precision_influence(values, np.zeros(3)).tolist() == [[0, 0, 0]]
