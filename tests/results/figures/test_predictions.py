"""Confusion and reliability against scikit-learn, and intervals by hand; of many examples a sample is drawn."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn import metrics
from sklearn.calibration import calibration_curve

from mtlib.tasks import TASKS, Task
from results.figures.predictions import (
    MAX_POINTS,
    NUM_BINS,
    Predicted,
    class_scores_figure,
    confusion_matrix,
    drawn_rows,
    prediction_figures,
    reliability,
    scatter_plot,
)
from tests.results.ensembles.simulated_pools import SEVERAL
from tests.results.figures.conftest import caption_of, ends_of, panel_of, panels_of, points_of

NAMED = replace(TASKS["sst"], name="mood", label_range=(0, 2), labels=("sad", "calm", "glad"))


def predicted(
    task: Task, labels: Sequence[float], predictions: Sequence[float], probs: Any = None, name: str = "best"
) -> Predicted:
    ids = [f"{task.name}-{row}" for row in range(len(labels))]
    found = None if task.kind == "regression" else np.eye(task.num_classes)[np.array(predictions, dtype=int)]
    return Predicted(
        name=name,
        task=task,
        ids=ids,
        labels=np.array(labels, dtype=float),
        predictions=np.array(predictions, dtype=float),
        probs=found if probs is None else np.array(probs, dtype=float),
    )


def random_predicted(task: Task, rows: int) -> Predicted:
    """Predictions of classes by their probabilities."""
    stream = np.random.default_rng(0)
    probs = stream.dirichlet(np.ones(task.num_classes), size=rows)
    labels = stream.integers(0, task.num_classes, rows)
    return predicted(task, labels.tolist(), probs.argmax(axis=1).tolist(), probs)


def heatmap_of(model: Predicted) -> dict[str, Any]:
    (trace,) = panel_of(confusion_matrix([model])).traces
    return trace


@pytest.mark.parametrize("task", [TASKS["sst"], TASKS["qqp"], NAMED])
def test_confusion_is_that_of_scikit_learn(task: Task) -> None:
    model = random_predicted(task, 200)
    shares = metrics.confusion_matrix(model.labels, model.predictions, normalize="true")
    np.testing.assert_allclose(heatmap_of(model)["z"], shares)


def test_confusion_has_labels_down_and_predictions_across_with_their_numbers() -> None:
    panel = panel_of(confusion_matrix([predicted(NAMED, [0, 0, 0, 2], [0, 0, 2, 2])]))
    (heatmap,) = panel.traces
    assert [list(row) for row in heatmap["z"]] == [pytest.approx([2 / 3, 0, 1 / 3]), [0, 0, 0], [0, 0, 1]]
    assert heatmap["y"] == ["sad (3)", "calm (0)", "glad (1)"]
    assert heatmap["x"] == ["sad (2)", "calm (0)", "glad (2)"]
    assert (panel.x["title"]["text"], panel.y["title"]["text"]) == ("predicted", "label")
    assert heatmap["hovertext"][0][2] == "labelled sad, predicted glad<br>1 examples, 33.3% of those labelled sad"


def test_scores_of_classes_have_the_rows_of_each_class_beside_them() -> None:
    model = predicted(NAMED, [0, 0, 2, 2], [0, 2, 2, 2])
    assert model.scores_by_class[1].tolist() == [0, 0, 0, 0]  # a class that never occurs
    (panel,) = panels_of(class_scores_figure([model]))
    (heatmap,) = panel.traces
    assert heatmap["x"] == ["precision", "recall", "F1"]
    assert heatmap["y"] == ["sad (2)", "calm (0)", "glad (2)"]
    np.testing.assert_allclose(heatmap["z"], [[1.0, 0.5, 2 / 3], [0.0, 0.0, 0.0], [2 / 3, 1.0, 0.8]])


def test_each_task_has_its_figures_with_a_panel_for_each_model() -> None:
    figures = {
        task: prediction_figures([predicted(TASKS[task], [1], [0], name=name) for name in ("best", "ensemble")])
        for task in ("sst", "sts")
    }
    names = {task: [figure.layout.meta["name"] for figure in own] for task, own in figures.items()}
    assert names == {"sst": ["confusion-sst", "labels-sst", "reliability-sst"], "sts": ["scatter-sts"]}
    for figure in (figures["sst"][0], figures["sts"][0]):
        assert [panel.title for panel in panels_of(figure)] == ["best", "ensemble"]


def test_scatter_has_each_example_and_the_diagonal() -> None:
    points, equal = panel_of(scatter_plot([predicted(TASKS["sts"], [0.0, 5.0], [1.5, 4.25])])).traces
    assert points_of(equal) == [(0, 0), (5, 5)]
    assert points_of(points) == [(0.0, 1.5), (5.0, 4.25)]
    assert points["text"][1] == "sts-1<br>label 5.00, predicted 4.25"


def curve_of(model: Predicted) -> dict[str, Any]:
    """A model's curve of reliability."""
    (trace,) = [trace for trace in panel_of(reliability([model])).traces if trace["name"]]
    return trace


def test_reliability_is_that_of_scikit_learn() -> None:
    model = random_predicted(TASKS["sst"], 500)
    points = curve_of(model)
    assert model.probs is not None
    confidence = model.probs.max(axis=1)
    shares, means = calibration_curve(model.is_right, confidence, n_bins=NUM_BINS, strategy="quantile")
    np.testing.assert_allclose(points["x"], means)
    np.testing.assert_allclose(points["y"], shares)


def test_expected_calibration_error_and_intervals_by_hand() -> None:
    confidence = [0.6, 0.7, 0.9, 1.0]
    model = predicted(TASKS["qqp"], [1, 0, 1, 1], [1, 1, 1, 1], [[1 - own, own] for own in confidence])
    points = curve_of(model)
    assert points["name"] == "best: expected calibration error 0.300"  # (.4 + .7 + .1 + 0) / 4
    assert points_of(points) == list(zip(confidence, [1.0, 0.0, 1.0, 1.0], strict=True))
    z = norm.ppf(0.975)
    right, wrong = (1 / (1 + z**2), 1.0), (0.0, z**2 / (1 + z**2))  # Wilson, 1 and 0 of 1
    assert ends_of(points, "y") == [pytest.approx(ends) for ends in (right, wrong, right, right)]
    equal = panel_of(reliability([model])).traces[0]
    assert points_of(equal) == [(0.5, 0.5), (1.0, 1.0)], "a predicted class has at least half of the probability"


@pytest.mark.parametrize("num_rows", [MAX_POINTS, MAX_POINTS + 1])
def test_of_many_examples_a_fixed_sample_is_drawn(num_rows: int) -> None:
    rows = drawn_rows(num_rows)
    assert len(rows) == len(set(rows.tolist())) == MAX_POINTS
    np.testing.assert_array_equal(rows, np.sort(drawn_rows(num_rows)))
    labels = np.linspace(0, 5, num_rows)
    models = [predicted(TASKS["sts"], labels.tolist(), (labels + shift).tolist()) for shift in (0.0, 0.5)]
    figure = scatter_plot(models)
    first, second = (panel.traces[0] for panel in panels_of(figure))
    assert first["x"] == second["x"] == labels[rows].tolist()
    assert len(first["text"]) == MAX_POINTS
    note = " Of the 3,001 examples 3,000 are drawn, chosen at random."
    assert caption_of(figure).endswith(note) == (num_rows > MAX_POINTS)


def test_scores_of_several_labels_are_those_of_scikit_learn() -> None:
    stream, task = np.random.default_rng(0), SEVERAL
    probs = stream.random((200, 3))
    labels = (probs + stream.normal(0, 0.4, probs.shape) > 0.5).astype(float)
    ids = list(map(str, range(200)))
    model = Predicted(
        name="m", task=task, ids=ids, labels=labels, predictions=np.where(probs > 0.5, 1.0, 0.0), probs=probs
    )
    (trace,) = panel_of(class_scores_figure([model])).traces
    expected = metrics.precision_recall_fscore_support(labels, probs > 0.5)
    np.testing.assert_allclose(trace["z"], np.transpose(expected[:3]))
    assert len(prediction_figures([model])) == 2
    binary = probs.ravel()
    is_right = (binary > 0.5) == labels.ravel()
    assert model.is_right.tolist() == is_right.tolist()
    np.testing.assert_allclose(model.confidence, np.maximum(binary, 1 - binary))
