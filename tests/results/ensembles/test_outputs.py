"""Outputs are probabilities as in scipy, and can be averaged."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import expit, log_softmax, logit, softmax

from mtlib.tasks import TASKS, Task
from mtlib.training.evaluation import task_metrics
from results.ensembles.outputs import (
    logits_behind,
    margins_of,
    outputs_of,
    probabilities_of,
    values_behind,
    values_of,
)
from results.stats.resampling import Floats, example_values, score_examples
from tests.results.ensembles.simulated_pools import SEVERAL

CLASSES, BINARY, REGRESSION = TASKS["sst"], TASKS["qqp"], TASKS["sts"]
WITH_CLASSES = (CLASSES, BINARY)

Logits = npt.NDArray[np.float32]


def draw(task: Task, candidates: int = 3, rows: int = 200, seed: int = 0) -> tuple[Logits, Floats]:
    """Logits, (candidates, rows, num_logits), some outside a range of labels, and labels, (rows,)."""
    generator = np.random.default_rng(seed)
    logits = 3 * generator.normal(size=(candidates, rows, task.num_logits)).astype(np.float32)
    return logits, generator.integers(0, int(task.label_range[1]) + 1, rows).astype(np.float64)


def test_class_outputs_are_the_softmax_of_logits() -> None:
    logits, _ = draw(CLASSES)
    found = outputs_of(CLASSES, logits)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, softmax(logits.astype(np.float64), axis=-1), rtol=1e-6)


def test_binary_output_is_twice_the_probability_of_label_1_minus_1() -> None:
    logits, _ = draw(BINARY)
    found = outputs_of(BINARY, logits)
    assert found.dtype == np.float32
    assert found.shape == logits.shape
    np.testing.assert_allclose(found, 2 * expit(logits.astype(np.float64)) - 1, atol=1e-7)


def test_regression_output_is_the_prediction_clipped_to_the_labels() -> None:
    found = outputs_of(REGRESSION, [[-0.1], [0.0], [2.5], [5.0], [5.1]])
    assert found.dtype == np.float32
    assert found.tolist() == [[0.0], [0.0], [2.5], [5.0], [5.0]]


def test_logits_of_binary_outputs_are_recovered() -> None:
    logits = np.linspace(-8, 8, 101)[:, None]
    found = logits_behind(BINARY, outputs_of(BINARY, logits))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, logits, atol=1e-4)
    np.testing.assert_allclose(found, logit((1 + outputs_of(BINARY, logits).astype(np.float64)) / 2), atol=1e-9)


def test_logits_of_class_outputs_are_recovered_up_to_a_constant_per_row() -> None:
    logits, _ = draw(CLASSES)
    found = logits_behind(CLASSES, outputs_of(CLASSES, logits))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found - found[..., :1], logits - logits[..., :1], atol=1e-5)
    np.testing.assert_allclose(found, log_softmax(logits.astype(np.float64), axis=-1), atol=1e-6)


@pytest.mark.parametrize("task", WITH_CLASSES)
def test_largest_logits_give_finite_outputs(task: Task) -> None:
    limit = float(np.finfo(np.float32).max)
    for sign in (1, -1):
        logits = np.full((1, task.num_logits), -sign * limit)
        logits[0, 0] = sign * limit
        probabilities = probabilities_of(task, outputs_of(task, logits))
        assert np.isfinite(probabilities).all()
        np.testing.assert_allclose(probabilities.sum(-1), 1, rtol=1e-6)


def test_label_1_is_predicted_where_likelier_and_label_0_at_a_tie() -> None:
    assert BINARY.kind_entry.predict([[1e-7], [0.0], [-1e-7], [1.0], [-1.0]]).tolist() == [1, 0, 0, 1, 0]


def test_probabilities_match_scipy() -> None:
    logits, _ = draw(CLASSES)
    found = probabilities_of(CLASSES, outputs_of(CLASSES, logits))
    np.testing.assert_allclose(found, softmax(logits, axis=-1), rtol=1e-5)
    logits, _ = draw(BINARY)
    found = probabilities_of(BINARY, outputs_of(BINARY, logits))
    np.testing.assert_allclose(found, np.concatenate([expit(-logits), expit(logits)], axis=-1), atol=1e-6)
    np.testing.assert_array_equal(found.argmax(-1), BINARY.kind_entry.predict(outputs_of(BINARY, logits)))


@pytest.mark.parametrize("task", TASKS.values())
def test_models_outputs_have_the_values_and_score_of_its_logits(task: Task) -> None:
    logits, labels = draw(task)
    found = values_of(task, outputs_of(task, logits), labels)
    np.testing.assert_allclose(found, example_values(task, logits, labels), rtol=1e-6)
    expected = [task_metrics(task, one, labels)[task.metric] for one in logits]
    np.testing.assert_allclose(score_examples(task, found, labels), expected, rtol=1e-6)


@pytest.mark.parametrize("task", WITH_CLASSES)
def test_margins_are_positive_exactly_for_correct_predictions(task: Task) -> None:
    logits, labels = draw(task)
    outputs = outputs_of(task, logits)
    is_right = (margins_of(task, outputs, labels) > 0).all(axis=1)
    np.testing.assert_array_equal(is_right, values_of(task, outputs, labels) == 1)
    assert 0 < is_right.mean() < 1


def test_class_margins_are_differences_to_each_other_class() -> None:
    logits, labels = draw(CLASSES, candidates=2, rows=30)
    outputs = outputs_of(CLASSES, logits)
    found = margins_of(CLASSES, outputs, labels)
    assert found.dtype == np.float32
    assert found.shape == (2, 4, 30)
    for candidate in range(2):
        for row, right in enumerate(labels.astype(int)):
            probs = outputs[candidate, row]
            expected = sorted(probs[right] - probs[other] for other in range(5) if other != right)
            np.testing.assert_array_equal(np.sort(found[candidate, :, row]), expected)


@pytest.mark.parametrize("metric", ["micro_f1", "average_precision", "accuracy"])
def test_each_of_several_labels_is_a_binary_task_of_its_own(metric: str) -> None:
    task = replace(SEVERAL, metric=metric)
    logits, _ = draw(task)
    labels = np.random.default_rng(1).integers(0, 2, (200, 3)).astype(np.float64)
    outputs = outputs_of(task, logits)
    margins = margins_of(task, outputs, labels)
    for column in range(3):
        only, known = slice(column, column + 1), labels[:, column]
        one = outputs_of(BINARY, logits[..., only])
        np.testing.assert_array_equal(outputs[..., only], one)
        np.testing.assert_array_equal(task.kind_entry.predict(outputs)[..., column], BINARY.kind_entry.predict(one))
        np.testing.assert_array_equal(
            probabilities_of(task, outputs)[..., only], probabilities_of(BINARY, one)[..., 1:]
        )
        np.testing.assert_array_equal(logits_behind(task, outputs)[..., only], logits_behind(BINARY, one))
        np.testing.assert_array_equal(margins[:, only], margins_of(BINARY, one, known))
    values = values_of(task, outputs, labels)
    expected = outputs if metric == "average_precision" else example_values(task, logits, labels)
    np.testing.assert_allclose(values, expected)
    if metric != "accuracy":  # whose scores follow from margins without values
        np.testing.assert_allclose(values_behind(task, margins, labels), values)
