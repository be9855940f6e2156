"""Counts of predictions against scikit-learn, intervals against statsmodels' formula by hand, errors at their edges."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn import metrics
from sklearn.calibration import calibration_curve

from mtlib.tasks import TASKS, Task
from results.figures.draw import is_empty
from results.figures.predictions import (
    ANY_ERROR,
    LABELS,
    MAX_PAIRS,
    MAX_POINTS,
    NUM_BINS,
    Predicted,
    confusion_matrix,
    drawn_rows,
    error_kind,
    error_kinds,
    errors_by_kind,
    label_counts,
    prediction_figures,
    reliability,
    scatter_plot,
)
from tests.results.figures.conftest import Drawn, caption_of, ends_of, panel_of, panels_of, points_of

NAMED = replace(TASKS["sst"], name="mood", label_range=(0, 2), labels=("sad", "calm", "glad"))
NAMED_PAIR = replace(TASKS["qqp"], labels=("different", "same"))


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


def test_confusion_has_labels_down_and_predictions_across() -> None:
    model = predicted(NAMED, [0, 0, 0, 2], [0, 0, 2, 2])
    panel, heatmap = panel_of(confusion_matrix([model])), heatmap_of(model)
    assert [list(row) for row in heatmap["z"]] == [
        [pytest.approx(2 / 3), 0, pytest.approx(1 / 3)],
        [0, 0, 0],
        [0, 0, 1],
    ]
    assert heatmap["y"] == heatmap["x"] == ["sad", "calm", "glad"]
    assert (panel.x["title"]["text"], panel.y["title"]["text"]) == ("predicted", "label")
    assert heatmap["text"][0] == ["0.67", "0.00", "0.33"]
    assert heatmap["hovertext"][0][2] == "labelled sad, predicted glad<br>1 examples, 33.3% of those labelled sad"


def test_each_model_has_a_panel() -> None:
    models = [predicted(NAMED, [0], [0], name=name) for name in ("best", "ensemble")]
    assert [panel.title for panel in panels_of(confusion_matrix(models))] == ["best", "ensemble"]


def test_scatter_has_each_example_and_the_diagonal() -> None:
    model = predicted(TASKS["sts"], [0.0, 5.0], [1.5, 4.25])
    equal, points = panel_of(scatter_plot([model])).traces
    assert points_of(equal) == [(0, 0), (5, 5)]
    assert points_of(points) == [(0.0, 1.5), (5.0, 4.25)]
    assert points["text"][1] == "sts-1<br>label 5.00, predicted 4.25"


def curve_of(model: Predicted) -> dict[str, Any]:
    """A model's curve of reliability."""
    (trace,) = [trace for trace in panel_of(reliability([model])).traces if trace["meta"]]
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
    assert points["meta"] == "best: expected calibration error 0.300"  # (.4 + .7 + .1 + 0) / 4
    assert points_of(points) == list(zip(confidence, [1.0, 0.0, 1.0, 1.0], strict=True))
    z = norm.ppf(0.975)
    right, wrong = (1 / (1 + z**2), 1.0), (0.0, z**2 / (1 + z**2))  # Wilson, 1 and 0 of 1
    assert ends_of(points, "y") == [pytest.approx(ends) for ends in (right, wrong, right, right)]


def test_diagonal_begins_at_the_lowest_probability_of_a_prediction() -> None:
    for task, start in ((TASKS["sst"], 0.2), (TASKS["qqp"], 0.5)):
        equal = panel_of(reliability([random_predicted(task, 20)])).traces[0]
        assert points_of(equal) == [(start, start), (1.0, 1.0)]


def counts_of(panel: Drawn) -> dict[str, list[tuple[str, int]]]:
    return {trace["meta"]: points_of(trace) for trace in panel.traces}


def test_labels_and_predictions_are_counted_by_class() -> None:
    models = [predicted(NAMED, [0, 0, 2], [0, 1, 2]), predicted(NAMED, [0, 0, 2], [2, 2, 2], name="e")]
    assert counts_of(panel_of(label_counts(models))) == {
        LABELS: [("sad", 2), ("calm", 0), ("glad", 1)],
        "best": [("sad", 1), ("calm", 1), ("glad", 1)],
        "e": [("sad", 0), ("calm", 0), ("glad", 3)],
    }


def test_regression_is_counted_in_equal_parts_of_its_range() -> None:
    found = counts_of(panel_of(label_counts([predicted(TASKS["sts"], [0.0, 0.49, 0.5, 5.0], [-1.0, 6.0, 2.4, 2.5])])))
    assert [name for name, _ in found[LABELS]][::9] == ["0 to 0.5", "4.5 to 5"]
    assert [count for _, count in found[LABELS]] == [2, 1, *[0] * 7, 1]
    assert [count for _, count in found["best"]] == [1, 0, 0, 0, 1, 1, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("label", "prediction", "kind"),
    [
        (3, 3, ""),
        (3, 3.99, ""),
        (3, 4, "1 to 2 too high"),
        (3, 5, "1 to 2 too high"),
        (2, 4.01, "over 2 too high"),
        (3, 2.01, ""),
        (3, 2, "1 to 2 too low"),
        (3, 1, "1 to 2 too low"),
        (3, 0.99, "over 2 too low"),
    ],
)
def test_errors_of_a_regression_at_their_edges(label: float, prediction: float, kind: str) -> None:
    assert error_kind(predicted(TASKS["sts"], [label], [prediction])).tolist() == [kind]


@pytest.mark.parametrize(
    ("task", "label", "prediction", "kind"),
    [
        (NAMED_PAIR, 1, 0, "same, predicted different"),
        (NAMED_PAIR, 0, 1, "different, predicted same"),
        (NAMED_PAIR, 1, 1, ""),
        (TASKS["qqp"], 1, 0, "1, predicted 0"),
        (TASKS["qqp"], 0, 1, "0, predicted 1"),
        (NAMED, 2, 0, "glad, predicted sad"),
        (NAMED, 0, 2, "sad, predicted glad"),
        (NAMED, 1, 1, ""),
        (TASKS["sst"], 2, 0, "two or more too low"),
        (TASKS["sst"], 2, 1, "one too low"),
        (TASKS["sst"], 2, 2, ""),
        (TASKS["sst"], 2, 3, "one too high"),
        (TASKS["sst"], 0, 4, "two or more too high"),
    ],
)
def test_errors_of_classes_have_their_kinds(task: Task, label: int, prediction: int, kind: str) -> None:
    model = predicted(task, [label], [prediction])
    assert error_kind(model).tolist() == [kind]
    counts = counts_of(panel_of(errors_by_kind([model])))["best"]
    assert counts == [(name, int(name == kind)) for name in error_kinds(task)]


@pytest.mark.parametrize(("num_classes", "num_kinds"), [(4, MAX_PAIRS), (5, 1)])
def test_errors_of_many_named_classes_are_of_one_kind(num_classes: int, num_kinds: int) -> None:
    labels = tuple(f"class {number}" for number in range(num_classes))
    task = replace(NAMED, labels=labels, label_range=(0, num_classes - 1))
    model = predicted(task, [0, 1], [1, 1])
    assert len(error_kinds(task)) == num_kinds
    kind = "class 0, predicted class 1" if num_kinds > 1 else ANY_ERROR
    assert error_kind(model).tolist() == [kind, ""]
    assert len(prediction_figures([model])) == (4 if num_kinds > 1 else 3), "one bar is no figure"


@pytest.mark.parametrize("task", [*TASKS.values(), NAMED, NAMED_PAIR])
def test_one_example_is_enough(task: Task) -> None:
    figures = prediction_figures([predicted(task, [1], [0])])
    assert not any(map(is_empty, figures))
    assert len(figures) == (3 if task.kind == "regression" else 4)


@pytest.mark.parametrize("num_rows", [0, 1, MAX_POINTS, MAX_POINTS + 1])
def test_at_most_a_fixed_sample_of_examples_is_drawn(num_rows: int) -> None:
    rows = drawn_rows(num_rows)
    assert len(rows) == min(num_rows, MAX_POINTS)
    assert len(set(rows.tolist())) == len(rows)
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, drawn_rows(num_rows))


@pytest.mark.parametrize("num_rows", [MAX_POINTS, MAX_POINTS + 1])
def test_scatter_of_many_examples_says_how_many_are_drawn(num_rows: int) -> None:
    labels = np.linspace(0, 5, num_rows)
    models = [predicted(TASKS["sts"], labels.tolist(), (labels + shift).tolist()) for shift in (0.0, 0.5)]
    figure = scatter_plot(models)
    first, second = (panel.traces[1] for panel in panels_of(figure))
    assert (len(first["x"]), len(first["text"])) == (MAX_POINTS, MAX_POINTS)
    assert first["x"] == second["x"]
    assert [y - x for x, y in points_of(second)] == pytest.approx([0.5] * MAX_POINTS)
    note = " Of the 3,001 examples 3,000 are drawn, chosen at random."
    assert caption_of(figure).endswith(note) == (num_rows > MAX_POINTS)
