"""Means and roots of means by hand."""

import numpy as np

from mtlib.metrics.means import counted_means, counted_root_errors, mean_influence, root_error_influence


def test_a_mean_under_counts_is_that_of_the_repeated_examples() -> None:
    found = counted_means(np.array([[1.0, 0.0, 1.0]]), np.zeros(3), np.array([[2.0, 1.0, 1.0], [0.0, 3.0, 0.0]]))
    assert found.tolist() == [[0.75, 0.0]]
    assert mean_influence(np.array([[1.0, 0.0]]), np.zeros(2)).tolist() == [[0.5, -0.5]]


def test_the_root_error_of_3_and_4_is_that_of_their_mean_square() -> None:
    values, labels = np.array([[3.0, 4.0]]), np.zeros(2)
    assert counted_root_errors(values, labels, None)[0, 0] == np.sqrt(12.5)
    np.testing.assert_allclose(root_error_influence(values, labels), [[-1.75 / np.sqrt(12.5), 1.75 / np.sqrt(12.5)]])


def test_no_error_has_no_influence() -> None:
    assert root_error_influence(np.ones((1, 3)), np.ones(3)).tolist() == [[0, 0, 0]]
