"""Correlations under weights, and their influences where they are undefined."""

import numpy as np
import pytest
from scipy.stats import rankdata

from mtlib.metrics.correlation import (
    counted_spearman,
    mean_above,
    middle_shares,
    pearson_influence,
    spearman,
    spearman_influence,
)


def test_middle_shares_are_ranks() -> None:
    numbers = np.array([3.0, 1.0, 3.0, 2.0, 3.0])
    found = middle_shares(numbers, np.full((1, 5), 0.2))
    np.testing.assert_allclose(found[0], (rankdata(numbers) - 0.5) / 5)


def test_the_mean_above_counts_ties_half() -> None:
    assert mean_above(np.array([1.0, 2.0, 2.0, 3.0]), np.array([8.0, 4.0, 4.0, 4.0])).tolist() == [4, 2, 2, 0.5]


@pytest.mark.parametrize("influence", [pearson_influence, spearman_influence])
def test_constant_numbers_have_no_influence(influence: object) -> None:
    labels = np.arange(5.0)
    assert callable(influence)
    assert influence(np.full((1, 5), 2.0), labels).tolist() == [[0] * 5]
    assert influence(labels[None], np.full(5, 2.0)).tolist() == [[0] * 5]


def test_a_resample_of_one_example_has_no_rank_correlation() -> None:
    counts = np.array([[0.0, 5, 0, 0, 0], [1, 1, 1, 1, 1]])
    assert counted_spearman(np.arange(5.0)[None], np.arange(5.0), counts).tolist() == [[0, 1]]


def test_a_monotone_relation_is_a_rank_correlation_of_1() -> None:
    labels = np.linspace(0, 3, 20)
    assert spearman(np.exp(labels), labels) == pytest.approx(1)
    assert spearman(-np.exp(labels), labels) == pytest.approx(-1)
