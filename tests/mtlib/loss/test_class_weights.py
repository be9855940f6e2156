"""Class weights against scikit-learn, in formulas and in a fit."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight

from mtlib.config.network import TaskConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.loss.class_weights import all_class_weights, balanced_weights, weights_of_labels
from mtlib.loss.losses import loss_per_example

CONFIG = TaskConfig(loss="binary_cross_entropy", encoding="single")


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    labels = np.random.default_rng(0).choice(4, 200, p=[0.6, 0.3, 0.05, 0.05])
    expected = compute_class_weight("balanced", classes=np.arange(4), y=labels)
    np.testing.assert_allclose(balanced_weights(labels, 5), [*expected, 1])  # the last class does not occur
    several = np.eye(4)[labels]
    expected = [compute_class_weight("balanced", classes=np.arange(2), y=column) for column in several.T]
    np.testing.assert_allclose(balanced_weights(several, 4), expected)


def test_each_of_several_labels_has_the_weight_of_its_presence() -> None:
    weights, labels = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert weights_of_labels(weights, labels).tolist() == [[2, 3], [1, 4]]
    found = loss_per_example(CONFIG, "multilabel", torch.zeros(2, 2), labels, weights)
    assert found.tolist() == pytest.approx([np.log(2) * 2.5, np.log(2) * 2.5])


def test_weights_are_taken_from_the_own_rows_of_train(tiny_config: TrialConfig, tiny_corpus: Corpus) -> None:
    config = tiny_config.override({"tasks.sst.class_weights": "balanced", "tasks.qqp.class_weights": "1,3"})
    table = tiny_corpus["sst", "train"]
    corpus = {**tiny_corpus, ("sst", "train"): replace(table, num_own_rows=20)}
    found = all_class_weights(config, corpus, torch.device("cpu"))
    assert found.keys() == {"sst", "qqp"}
    np.testing.assert_allclose(found["sst"], balanced_weights(table.labels[:20], 5), rtol=1e-6)
    assert found["qqp"].tolist() == [1, 3]
