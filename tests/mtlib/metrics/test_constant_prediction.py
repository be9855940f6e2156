"""Metrics of one prediction for all rows, against scikit-learn and formulas by hand."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, root_mean_squared_error

from mtlib.metrics.constant_prediction import collapsed_tasks, constant_prediction, constant_values
from mtlib.metrics.table import METRICS
from mtlib.tasks import TASKS

STREAM = np.random.default_rng(0)


def test_classes_are_predicted_as_the_most_frequent_one_of_train() -> None:
    train, dev = np.array([0, 2, 2, 1, 1, 3]), STREAM.integers(0, 4, 50).astype(float)
    assert constant_prediction("classes", train, 4) == 1  # the lowest of the two
    values = constant_values(METRICS, "classes", np.array(1.0), dev)
    same = np.ones(50)
    assert values["accuracy"] == accuracy_score(dev, same)
    assert values["macro_f1"] == pytest.approx(f1_score(dev, same, average="macro"))
    assert np.isnan(values["matthews"])
    assert set(values) == {name for name, metric in METRICS.items() if "classes" in metric.kinds}


@pytest.mark.parametrize("label", [0, 1])
def test_a_binary_task_has_the_f1_and_average_precision_of_a_constant(label: int) -> None:
    dev = STREAM.integers(0, 2, 40).astype(float)
    values = constant_values(METRICS, "binary", constant_prediction("binary", np.array([label] * 3), 2), dev)
    assert values["accuracy"] == np.mean(dev == label)
    assert values["f1"] == pytest.approx(label * 2 * dev.mean() / (1 + dev.mean()))
    assert values["average_precision"] == pytest.approx(dev.mean())


def test_each_of_several_labels_is_predicted_if_most_rows_of_train_have_it() -> None:
    train, dev = np.array([[1, 0, 1], [1, 0, 0], [0, 0, 1]]), STREAM.integers(0, 2, (30, 3)).astype(float)
    prediction = constant_prediction("multilabel", train, 3)
    assert prediction.tolist() == [1, 0, 1]
    values, same = constant_values(METRICS, "multilabel", prediction, dev), np.tile([1, 0, 1], (30, 1))
    assert values["accuracy"] == accuracy_score(dev, same)
    assert values["micro_f1"] == pytest.approx(f1_score(dev, same, average="micro"))
    assert values["average_precision"] == pytest.approx(average_precision_score(dev, same))


def test_numbers_are_predicted_as_their_mean_and_correlations_are_undefined() -> None:
    train, dev = STREAM.uniform(0, 5, 40), STREAM.uniform(0, 5, 30)
    values = constant_values(METRICS, "regression", constant_prediction("regression", train, 1), dev)
    assert values["rmse"] == pytest.approx(root_mean_squared_error(dev, np.full(30, train.mean())))
    assert np.isnan(values["pearson"])
    assert np.isnan(values["spearman"])


@pytest.mark.parametrize(
    ("num_predicted", "num_labels", "expected"),
    [(98, 60, False), (99, 60, True), (100, 60, True), (99, 0, True), (99, 99, False), (100, 99, True)],
)
def test_boundary_of_one_label_for_nearly_all(num_predicted: int, num_labels: int, *, expected: bool) -> None:
    logits = np.where(np.arange(100) < num_predicted, 1.0, -1.0)[:, None]
    labels = (np.arange(100) < num_labels).astype(float)
    assert TASKS["qqp"].has_one_prediction(logits, labels) is expected
    ranked = replace(TASKS["qqp"], metric="average_precision")
    assert not ranked.has_one_prediction(logits, labels)  # it needs no threshold


@pytest.mark.parametrize(("spread", "expected"), [(0.0, True), (0.049, True), (0.051, False), (1.4, False)])
def test_boundary_of_a_constant_regression(spread: float, *, expected: bool) -> None:
    logits = 2.5 + spread * np.array([-1.0, 1.0] * 20)[:, None]
    assert TASKS["sts"].has_one_prediction(logits, np.zeros(40)) is expected


def test_training_collapses_where_it_predicts_one_label_and_another_of_its_configuration_does_not() -> None:
    one, other = {"sst": True, "sts": False}, {"sst": False, "sts": False}
    assert collapsed_tasks({"r0": one, "r1": other, "r2": one}) == {"r0": {"sst"}, "r2": {"sst"}}
    assert collapsed_tasks({"r0": one, "r1": one}) == {}
    assert collapsed_tasks({"r0": one}) == {}
    assert collapsed_tasks({"r0": {"sst": True}, "r1": {"sts": False}}) == {}
    assert collapsed_tasks({"r0": one, "r1": {"sst": False, "sts": True}}) == {"r0": {"sst"}, "r1": {"sts"}}
    assert collapsed_tasks({"r0": {"sst": True, "sts": True}, "r1": one}) == {"r0": {"sts"}}
