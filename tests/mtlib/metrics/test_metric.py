"""Metrics without formulas of their own, and what metrics read of logits."""

from dataclasses import replace

import numpy as np
import pytest

from mtlib.metrics.metric import Metric, read_logits
from mtlib.metrics.table import METRICS
from tests.mtlib.metrics.simulated import ALL_METRICS, CASES, draw


@pytest.mark.parametrize(
    ("name", "several"), [case for case in CASES if case[0] in ("matthews", "average_precision", "rmse")]
)
def test_a_function_alone_gives_the_same_scores_and_influences(name: str, several: bool) -> None:
    values, labels = draw(name, 60, several=several, num_models=1)
    counts = np.random.default_rng(0).multinomial(60, np.full(60, 1 / 60), size=2).astype(np.float64)
    metric, plain = ALL_METRICS[name], replace(ALL_METRICS[name], counted=None, influence=None)
    np.testing.assert_allclose(plain.scores(values, labels), metric.scores(values, labels), rtol=1e-12)
    np.testing.assert_allclose(plain.scores(values, labels, counts), metric.scores(values, labels, counts), rtol=1e-9)
    found, wanted = plain.influences(values, labels), metric.influences(values, labels)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_metric_needs_a_function_or_its_counted_form() -> None:
    with pytest.raises(ValueError, match="a metric must have function or counted"):
        Metric(title="nothing", kinds=("classes",), reads="class")


@pytest.mark.filterwarnings("error")
def test_a_label_that_no_row_has_is_scored_without_a_warning() -> None:
    values = np.array([[0.9, 0.2], [0.1, 0.3]])
    assert METRICS["average_precision"].evaluate(values, np.array([[1, 0], [0, 0]])) == 0.5
    assert METRICS["matthews"].evaluate(np.zeros(3), np.zeros(3)) == 0
    assert METRICS["pearson"].evaluate(np.zeros(3), np.arange(3.0)) == 0


def test_values_are_read_from_logits() -> None:
    logits, labels = np.array([[0.1, 0.9, 0.3], [5, 1, 1], [2, 2, 1]]), np.array([1, 1, 0])
    assert read_logits(METRICS["accuracy"], "classes", (0, 2), logits, labels).tolist() == [1, 0, 1]
    assert read_logits(METRICS["macro_f1"], "classes", (0, 2), logits, labels).tolist() == [1, 0, 0]
    assert read_logits(METRICS["matthews"], "binary", (0, 1), logits[:, :1] - 1, [1, 0, 0]).tolist() == [0, 1, 1]
    assert read_logits(METRICS["average_precision"], "binary", (0, 1), logits[:, :1], [1, 0, 0]).tolist() == [0.1, 5, 2]
    several = [[1, 1, 1], [1, 1, 1], [0, 0, 0]]
    assert read_logits(METRICS["accuracy"], "multilabel", (0, 2), logits, several).tolist() == [1, 1, 0]
    assert read_logits(METRICS["micro_f1"], "multilabel", (0, 2), -logits, several).tolist() == [[0, 0, 0]] * 3
    assert read_logits(METRICS["average_precision"], "multilabel", (0, 2), logits, several).tolist() == logits.tolist()
    assert read_logits(METRICS["rmse"], "regression", (0, 4), logits[:, :1], [1, 0, 0]).tolist() == [0.1, 4, 2]
