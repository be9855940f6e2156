"""Average precision where it is undefined; `test_table` has the rest."""

import numpy as np

from mtlib.metrics.average_precision import average_precision_influence, counted_average_precision


def test_without_positive_examples_it_is_0() -> None:
    values = np.array([[1.0, 2, 3]])
    assert counted_average_precision(values, np.zeros(3), None).tolist() == [[0]]
    assert counted_average_precision(values, np.eye(3)[0], np.array([[0.0, 2, 1]])).tolist() == [[0]]
    assert average_precision_influence(values, np.zeros(3)).tolist() == [[0, 0, 0]]
