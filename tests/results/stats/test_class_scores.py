"""Scores of each class against scikit-learn; their frame is tested in `tests/results/test_sweep.py`."""

from dataclasses import replace

import numpy as np
from sklearn.metrics import f1_score, recall_score

from mtlib.tasks import TASKS
from results.stats.class_scores import scores_by_class


def test_each_of_several_labels_has_its_scores() -> None:
    task = replace(TASKS["sst"], kind="multilabel", metric="", label_range=(0, 2))
    stream = np.random.default_rng(0)
    labels, predictions = stream.integers(0, 2, (2, 50, 3))
    found = scores_by_class(task, labels, predictions)
    np.testing.assert_allclose(found[:, 1], recall_score(labels, predictions, average=None))
    np.testing.assert_allclose(found[:, 2], f1_score(labels, predictions, average=None))
    assert found[:, 3].tolist() == labels.sum(axis=0).tolist()


def test_a_class_that_never_occurs_scores_0() -> None:
    assert scores_by_class(TASKS["sst"], [0.0, 1], [0.0, 1])[4].tolist() == [0, 0, 0, 0]
