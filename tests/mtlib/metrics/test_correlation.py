"""Correlations and their influences where they are undefined; `test_table` has the rest."""

import numpy as np
import pytest

from mtlib.metrics.correlation import (
    counted_spearman,
    pearson_influence,
    spearman_influence,
)


@pytest.mark.parametrize("influence", [pearson_influence, spearman_influence])
def test_constant_numbers_have_no_influence(influence: object) -> None:
    labels = np.arange(5.0)
    assert callable(influence)
    assert influence(np.full((1, 5), 2.0), labels).tolist() == [[0] * 5]
    assert influence(labels[None], np.full(5, 2.0)).tolist() == [[0] * 5]


def test_a_resample_of_one_example_has_no_rank_correlation() -> None:
    counts = np.array([[0.0, 5, 0, 0, 0], [1, 1, 1, 1, 1]])
    assert counted_spearman(np.arange(5.0)[None], np.arange(5.0), counts).tolist() == [[0, 1]]
