"""Figures of predictions: confusion matrix or scatter plot, and reliability of probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from sklearn.metrics import precision_recall_fscore_support
from statsmodels.stats.proportion import proportion_confint

from mtlib.tasks import Task
from results.figures.draw import Panel, Trace, axis, figure_of, heatmap, series
from results.stats.resampling import CONFIDENCE, Floats

NUM_BINS = 10
"""The bins of a reliability figure, with about equally many examples each."""
MAX_POINTS = 3000
"""Examples that are drawn as points; with more, pages become large and browsers slow."""
POINTS_SEED = 0
"""The seed of the choice of points."""

Ints = np.ndarray[tuple[int], np.dtype[np.intp]]
"""(rows,)."""


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """What one model, or an ensemble, predicts for the dev examples of a task."""

    name: str
    """E.g. `best single model, 0003-r1`."""
    task: Task
    ids: Sequence[str]
    labels: Floats
    """(rows,), or (rows, num_classes) of several labels."""
    predictions: Floats
    """As `labels`."""
    probs: Floats | None
    """(rows, num_classes); None for a regression."""

    @property
    def is_right(self) -> Floats:
        """1 where the predicted class is right, else 0: (rows,), or (rows * num_classes,) of several labels."""
        return np.asarray(self.predictions == self.labels, dtype=np.float64).reshape(-1)

    @property
    def confidence(self) -> Floats:
        """The probability of what is predicted, as `is_right`."""
        assert self.probs is not None
        several = self.task.kind_entry.has_several_labels
        return np.maximum(self.probs, 1 - self.probs).reshape(-1) if several else self.probs.max(axis=1)

    @property
    def scores_by_class(self) -> Floats:
        """Precision, recall and F1 of each class, 0 where they are undefined, and the number of its examples,
        (num_classes, 4)."""
        classes = range(self.task.num_classes)
        found = precision_recall_fscore_support(self.labels, self.predictions, labels=classes, zero_division=0)
        return np.stack(found, axis=1).astype(np.float64)


def prediction_figures(models: Sequence[Predicted]) -> list[go.Figure]:
    """Returns all figures of one task's predictions, of models or ensembles over the same examples."""
    task = models[0].task
    if task.is_regression:
        return [scatter_plot(models)]
    matrix = [] if task.kind_entry.has_several_labels else [confusion_matrix(models)]
    return [*matrix, scores_by_class(models), reliability(models)]


def confusion_matrix(models: Sequence[Predicted]) -> go.Figure:
    """Returns how often each class is predicted for the examples of each class."""
    task = models[0].task
    names = task.class_names
    panels = []
    for model in models:
        counts = np.zeros((len(names), len(names)), dtype=int)
        np.add.at(counts, (model.labels.astype(int), model.predictions.astype(int)), 1)
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        texts = [
            [
                f"labelled {names[label]}, predicted {names[predicted]}\n{counts[label, predicted]} examples, "
                f"{shares[label, predicted]:.1%} of those labelled {names[label]}"
                for predicted in range(len(names))
            ]
            for label in range(len(names))
        ]
        across, down = (
            [f"{name} ({count})" for name, count in zip(names, counts.sum(axis=summed).tolist(), strict=True)]
            for summed in (0, 1)
        )
        grid = heatmap(across, down, shares.tolist(), texts)
        x, y = axis("predicted", categories=across), axis("label", categories=down)
        panels.append(Panel(model.name, x, y, [grid]))
    return figure_of(
        name=f"confusion-{task.name}",
        title=f"{task.title}: confusion matrix",
        caption="Shares of the dev examples of each label: rows sum to 1. Numbers of examples are in brackets.",
        panels=panels,
    )


def scores_by_class(models: Sequence[Predicted]) -> go.Figure:
    """Precision, recall and F1 of each class, or of each of several labels."""
    task, panels = models[0].task, []
    columns, one = ["precision", "recall", "F1"], "label" if models[0].task.kind_entry.has_several_labels else "class"
    for model in models:
        rows, counts = model.scores_by_class[:, :3].tolist(), model.scores_by_class[:, 3]
        names = [f"{name} ({count:.0f})" for name, count in zip(task.class_names, counts, strict=True)]
        texts = [
            [f"{name}: {column} {value:.3f}" for column, value in zip(columns, row, strict=True)]
            for name, row in zip(names, rows, strict=True)
        ]
        grid = heatmap(columns, names, rows, texts)
        panels.append(Panel(model.name, axis("", categories=columns), axis(one, categories=names), [grid]))
    return figure_of(
        name=f"labels-{task.name}",
        title=f"{task.title}: scores of each {one}",
        caption=f"Numbers of dev examples that have the {one} are in brackets.",
        panels=panels,
    )


def scatter_plot(models: Sequence[Predicted]) -> go.Figure:
    """Predictions against labels of a regression."""
    task = models[0].task
    low, high = task.label_range
    ends = (low - 0.03 * (high - low), high + 0.03 * (high - low))
    equal = series([low, high], [low, high], mode="lines", is_faint=True, dash="dash")
    num_rows = len(models[0].labels)
    panels, rows = [], drawn_rows(num_rows)
    note = f" Of the {num_rows:,} examples {MAX_POINTS:,} are drawn, chosen at random."
    for model in models:
        hover = [
            f"{model.ids[row]}\nlabel {model.labels[row]:.2f}, predicted {model.predictions[row]:.2f}"
            for row in rows.tolist()
        ]
        points = series(model.labels[rows].tolist(), model.predictions[rows].tolist(), hover=hover)
        panels.append(Panel(model.name, axis("label", ends=ends), axis("predicted", ends=ends), [points, equal]))
    return figure_of(
        name=f"scatter-{task.name}",
        title=f"{task.title}: predictions against labels",
        caption="Each point is a dev example; on the dashed line the prediction is the label."
        f"{note * (num_rows > MAX_POINTS)}",
        panels=panels,
    )


def drawn_rows(num_rows: int) -> Ints:
    """Returns the rows of examples that are drawn as points, in order:
    all, or a fixed random sample of `MAX_POINTS`."""
    if num_rows <= MAX_POINTS:
        return np.arange(num_rows)
    return np.sort(np.random.default_rng(POINTS_SEED).choice(num_rows, MAX_POINTS, replace=False))


def reliability(models: Sequence[Predicted]) -> go.Figure:
    """Returns how often predictions are right, against the probability that the model gave them."""
    task = models[0].task
    lowest = 0.5 if task.kind_entry.has_several_labels else 1 / task.num_classes
    equal = series([lowest, 1.0], [lowest, 1.0], mode="lines", is_faint=True, dash="dash")
    x, y = axis("probability of the predicted class"), axis("share that is right", ends=(0.0, 1.03))
    return figure_of(
        name=f"reliability-{task.name}",
        title=f"{task.title}: reliability of probabilities",
        caption=f"Dev examples in {NUM_BINS} groups by the probability of the predicted class, with 95 % intervals "
        "(Wilson). Below the dashed line a model is over-confident. The expected calibration error is the mean "
        "distance from that line (Guo et al. 2017, with groups of equal size instead of equal width).",
        panels=[Panel("", x, y, [equal, *(reliability_series(model, style) for style, model in enumerate(models))])],
    )


def reliability_series(model: Predicted, style: int) -> Trace:
    """Returns a point for each of `NUM_BINS` groups of about equal size, fewer where there are fewer examples, with the
    interval of its share of right predictions."""
    confidence = model.confidence
    parts = np.array_split(np.argsort(confidence, kind="stable"), min(NUM_BINS, len(confidence)))
    sizes = np.array([len(rows) for rows in parts])
    means = np.array([confidence[rows].mean() for rows in parts])
    num_right = np.array([model.is_right[rows].sum() for rows in parts])
    shares = num_right / sizes
    low, high = proportion_confint(num_right, sizes, alpha=1 - CONFIDENCE, method="wilson")
    error = np.average(np.abs(means - shares), weights=sizes)
    return series(
        means.tolist(),
        shares.tolist(),
        low=low.tolist(),
        high=high.tolist(),
        hover=[
            f"{model.name}\n{size} examples with a probability of {mean:.2f} on average\n{share:.1%} are right"
            for size, mean, share in zip(sizes, means, shares, strict=True)
        ],
        name=f"{model.name}: expected calibration error {error:.3f}",
        style=style,
        mode="lines+markers",
    )
