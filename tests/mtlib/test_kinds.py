"""Predictions of each kind of task, and the label by which rows of several labels are stratified."""

import numpy as np
import pytest

from mtlib.config.losses import losses_for
from mtlib.kinds import KINDS, Kind, rarest_label
from mtlib.metrics.table import METRICS, check_metric

VALUES = np.array([[0.2, -1.0, 0.2], [-3.0, 0.0, 4.0]])


def test_predictions_of_each_kind_by_hand() -> None:
    assert KINDS["classes"].predict(VALUES).tolist() == [0, 2]
    assert KINDS["binary"].predict(VALUES[:, :1]).tolist() == [1, 0]
    assert KINDS["multilabel"].predict(VALUES).tolist() == [[1, 0, 1], [0, 0, 1]]
    assert KINDS["regression"].predict(VALUES[:, :1]).tolist() == [0.2, -3]


@pytest.mark.parametrize("kind", KINDS)
def test_the_defaults_of_a_kind_suit_it(kind: Kind) -> None:
    assert KINDS[kind].default_loss in losses_for(kind)
    check_metric(KINDS[kind].default_metric, kind, METRICS)


def test_a_row_is_stratified_by_its_rarest_label() -> None:
    labels = np.array([[1, 1, 0], [1, 0, 1], [1, 1, 0], [0, 0, 0]])
    assert rarest_label(labels).tolist() == [1, 2, 1, -1]
    assert rarest_label([3.0, 0.5]).tolist() == [3, 0.5]
