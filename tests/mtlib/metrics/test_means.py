"""Roots of means where they have no derivative; `test_table` has the rest."""

import numpy as np

from mtlib.metrics.means import root_error_influence


def test_no_error_has_no_influence() -> None:
    assert root_error_influence(np.ones((1, 3)), np.ones(3)).tolist() == [[0, 0, 0]]
