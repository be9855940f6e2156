"""Class weights against scikit-learn, in formulas and in a fit; counts of classes as a user's own loss gets them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight

from mtlib.config.losses import Loss
from mtlib.config.methods import read_methods
from mtlib.config.network import TaskConfig
from mtlib.config.trial import TrialConfig, with_methods
from mtlib.data.token_cache import Corpus
from mtlib.loss.class_weights import all_class_weights, balanced_weights, train_counts, weights_of_labels
from mtlib.loss.losses import loss_per_example
from mtlib.model.encoder import PretrainedEncoder
from tests.recorded_details import run_whole

CONFIG = TaskConfig(loss="binary_cross_entropy", encoding="single")
COUNTED = {"loss": "counting", "batch_size": 10_000, "probe_rows": 0, "scored_train_rows": 0}

COUNTING = """\
from mtlib.config.losses import Loss

def counting_loss(logits, labels, class_counts):
    return class_counts[labels.long()] + 0 * logits.sum(1)

functions = {"classes": counting_loss, "binary": counting_loss}
LOSSES = {"counting": Loss(title="counting", description="", functions=functions, needs_class_counts=True)}
"""


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    labels = np.random.default_rng(0).choice(4, 200, p=[0.6, 0.3, 0.05, 0.05])
    expected = compute_class_weight("balanced", classes=np.arange(4), y=labels)
    counts = np.bincount(labels, minlength=5)  # the last class does not occur
    np.testing.assert_allclose(balanced_weights(counts), [*expected, 1])
    several = np.eye(4)[labels]
    expected = [compute_class_weight("balanced", classes=np.arange(2), y=column) for column in several.T]
    np.testing.assert_allclose(balanced_weights(np.stack([200 - counts[:4], counts[:4]], axis=1)), expected)


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
    counts = np.bincount(table.labels[:20].astype(int), minlength=5)
    np.testing.assert_allclose(found["sst"], balanced_weights(counts), rtol=1e-6)
    assert found["qqp"].tolist() == [1, 3]


def test_counts_are_of_own_rows_and_of_several_labels_of_their_absence_and_presence(
    tiny_config: TrialConfig, tiny_corpus: Corpus
) -> None:
    table = replace(tiny_corpus["sst", "train"], labels=np.array([0.0, 2, 2, 4]), num_own_rows=3)
    assert train_counts(tiny_config, {("sst", "train"): table}, "sst").tolist() == [1, 0, 2, 0, 0]
    table = replace(table, labels=np.array([[1, 0], [1, 1], [1, 0], [0, 0]]))
    assert train_counts(tiny_config, {("sst", "train"): table}, "sst").tolist() == [[0, 3], [2, 1]]


def test_an_own_loss_gets_the_counts_of_train_and_of_dev_each_class_counts_once(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    (tmp_path / "counting.py").write_text(COUNTING)
    config = with_methods(tiny_config, read_methods([tmp_path / "counting.py"]))
    tasks = ["sst", "qqp"]
    plan = {"tasks": tasks, "order": "max_size_cycle", "sum_losses": True, "steps_per_epoch": 1}
    chosen = {f"tasks.{task}.{key}": value for task in tasks for key, value in COUNTED.items()}
    config = config.override({"stages": [plan], "smart.weight": 0, **chosen})
    (report,) = run_whole(config, tiny_corpus, tiny_encoder).reports.values()
    losses = {(point.task, point.split): point.value for point in report.points if point.metric == "loss"}
    for task in tasks:
        labels = tiny_corpus[task, "train"].labels
        occurs = np.unique(labels, return_counts=True)[1]
        assert losses[task, "train"] == pytest.approx((occurs**2).sum() / len(labels)), "all rows are in the one batch"
        assert losses[task, "dev"] == 1


def test_a_regression_has_no_classes_to_count() -> None:
    with pytest.raises(ValueError, match="needs_class_counts must be False of a loss for regressions"):
        Loss(title="", description="", functions={"regression": "any"}, needs_class_counts=True)
