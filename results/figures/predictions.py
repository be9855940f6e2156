"""Figures of predictions: confusion, scatter, reliability of probabilities, labels and errors."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from statsmodels.stats.proportion import proportion_confint

from mtlib.tasks import Task
from results.figures.draw import Panel, Trace, axis, bars, figure_of, heatmap, series
from results.stats.resampling import CONFIDENCE, Floats

NUM_BINS = 10
"""Of reliability, with about equally many examples each."""
NUM_LABEL_BINS = 10
"""Of a regression's labels."""
ERROR_EDGES = (0.2, 0.4)
"""Shares of the range of labels from which an error of a regression is large, and very large: 1 and 2 for labels 0..5,
as in Triple Threat, table 19."""
LABELS = "labels"
MAX_POINTS = 3000
"""Examples that are drawn as points; with more, pages become large and browsers slow."""
POINTS_SEED = 0
"""Of the choice of points."""
MAX_PAIRS = 12
"""Pairs of named classes that errors are counted by; where there are more, errors are of one kind, and the confusion
matrix has the pairs."""
ANY_ERROR = "another class"

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
    """(rows,)."""
    predictions: Floats
    """(rows,)."""
    probs: Floats | None
    """(rows, num_classes); None for a regression."""

    @property
    def is_right(self) -> Floats:
        """(rows,) 1 where the predicted class is right, else 0."""
        return np.asarray(self.predictions == self.labels, dtype=np.float64)


def prediction_figures(models: Sequence[Predicted]) -> list[go.Figure]:
    """All figures of one task's predictions, of models or ensembles over the same examples."""
    if models[0].task.kind == "regression":
        return [scatter_plot(models), label_counts(models), errors_by_kind(models)]
    errors = [errors_by_kind(models)] if len(error_kinds(models[0].task)) > 1 else []
    return [confusion_matrix(models), reliability(models), label_counts(models), *errors]


def class_names(task: Task) -> list[str]:
    """The names of a task's classes."""
    return list(task.labels) or [str(number) for number in range(task.num_classes)]


def confusion_matrix(models: Sequence[Predicted]) -> go.Figure:
    """How often each class is predicted for the examples of each class."""
    task = models[0].task
    names = class_names(task)
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
        cells = [[f"{share:.2f}" for share in of_label] for of_label in shares]
        grid = heatmap(names, names, shares.tolist(), cells, texts)
        x, y = axis("predicted", categories=names), axis("label", categories=names)
        panels.append(Panel(model.name, x, y, [grid]))
    return figure_of(
        name=f"confusion-{task.name}",
        title=f"{task.title}: confusion matrix",
        caption="Shares of the dev examples of each label: rows sum to 1.",
        panels=panels,
    )


def scatter_plot(models: Sequence[Predicted]) -> go.Figure:
    """Predictions against labels of a regression."""
    task = models[0].task
    low, high = task.label_range
    ends = (low - 0.03 * (high - low), high + 0.03 * (high - low))
    equal = series([low, high], [low, high], mode="lines", is_faint=True, dash="dash")
    panels, rows = [], drawn_rows(len(models[0].labels))
    for model in models:
        hover = [
            f"{model.ids[row]}\nlabel {model.labels[row]:.2f}, predicted {model.predictions[row]:.2f}"
            for row in rows.tolist()
        ]
        points = series(model.labels[rows].tolist(), model.predictions[rows].tolist(), hover=hover)
        panels.append(Panel(model.name, axis("label", ends=ends), axis("predicted", ends=ends), [equal, points]))
    return figure_of(
        name=f"scatter-{task.name}",
        title=f"{task.title}: predictions against labels",
        caption="Each point is a dev example; on the dashed line the prediction is the label."
        f"{drawn_note(len(models[0].labels))}",
        panels=panels,
    )


def drawn_rows(num_rows: int) -> Ints:
    """The rows of examples that are drawn as points, in order: all, or a fixed random sample of `MAX_POINTS`."""
    if num_rows <= MAX_POINTS:
        return np.arange(num_rows)
    return np.sort(np.random.default_rng(POINTS_SEED).choice(num_rows, MAX_POINTS, replace=False))


def drawn_note(num_rows: int, of: str = "the") -> str:
    """A sentence on a sample that is drawn; empty where all examples are."""
    if num_rows <= MAX_POINTS:
        return ""
    return f" Of {of} {num_rows:,} examples {MAX_POINTS:,} are drawn, chosen at random."


def reliability(models: Sequence[Predicted]) -> go.Figure:
    """How often predictions are right, against the probability that the model gave them."""
    task = models[0].task
    traces = [reliability_series(model, reliability_bins(model), style) for style, model in enumerate(models)]
    lowest = 1 / task.num_classes
    equal = series([lowest, 1.0], [lowest, 1.0], mode="lines", is_faint=True, dash="dash")
    x, y = axis("probability of the predicted class"), axis("share that is right", ends=(0.0, 1.03))
    return figure_of(
        name=f"reliability-{task.name}",
        title=f"{task.title}: reliability of probabilities",
        caption=f"Dev examples in {NUM_BINS} groups by the probability of the predicted class, with 95 % intervals "
        "(Wilson). Below the dashed line a model is over-confident. The expected calibration error is the mean "
        "distance from that line (Guo et al. 2017, with groups of equal size instead of equal width).",
        panels=[Panel("", x, y, [equal, *traces])],
    )


@dataclass(frozen=True, kw_only=True)
class ReliabilityBin:
    """Examples whose predicted class got similar probabilities."""

    num_examples: int
    """At least one."""
    num_right: int
    """Of these, how many predictions are right."""
    mean_prob: float
    """Of the predicted classes."""

    @property
    def share_right(self) -> float:
        """0 to 1."""
        return self.num_right / self.num_examples

    @property
    def interval(self) -> tuple[float, float]:
        """Low and high of that share's 95 % interval (Wilson)."""
        low, high = proportion_confint(self.num_right, self.num_examples, alpha=1 - CONFIDENCE, method="wilson")
        return float(low), float(high)


def reliability_bins(model: Predicted) -> list[ReliabilityBin]:
    """A model's examples in `NUM_BINS` bins of about equal size, from the lowest probability; fewer where there are
    fewer examples."""
    assert model.probs is not None
    confidence = model.probs.max(axis=1)
    parts = np.array_split(np.argsort(confidence, kind="stable"), NUM_BINS)
    return [
        ReliabilityBin(
            num_examples=len(rows), num_right=int(model.is_right[rows].sum()), mean_prob=float(confidence[rows].mean())
        )
        for rows in parts
        if len(rows)
    ]


def reliability_series(model: Predicted, bins: Sequence[ReliabilityBin], style: int) -> Trace:
    """A point for each bin, with the interval of its share."""
    num_examples = sum(bin.num_examples for bin in bins)
    error = sum(bin.num_examples * abs(bin.mean_prob - bin.share_right) for bin in bins) / num_examples
    return series(
        [bin.mean_prob for bin in bins],
        [bin.share_right for bin in bins],
        low=[bin.interval[0] for bin in bins],
        high=[bin.interval[1] for bin in bins],
        hover=[
            f"{model.name}\n{bin.num_examples} examples with a probability of {bin.mean_prob:.2f} on average\n"
            f"{bin.share_right:.1%} are right"
            for bin in bins
        ],
        name=f"{model.name}: expected calibration error {error:.3f}",
        style=style,
        mode="lines+markers",
    )


def label_counts(models: Sequence[Predicted]) -> go.Figure:
    """How often each label occurs, and how often it is predicted."""
    task = models[0].task
    shown = [(LABELS, models[0].labels), *((model.name, model.predictions) for model in models)]
    if task.kind == "regression":
        edges = np.linspace(*task.label_range, NUM_LABEL_BINS + 1)
        names = [f"{low:g} to {high:g}" for low, high in zip(edges[:-1].round(3), edges[1:].round(3), strict=True)]
        counts = [np.histogram(np.clip(values, *task.label_range), edges)[0] for _, values in shown]
    else:
        names = class_names(task)
        counts = [np.bincount(values.astype(int), minlength=len(names)) for _, values in shown]
    traces = [
        bars(
            names,
            of_labels.tolist(),
            name=name,
            hover=[f"{name}\n{label}: {count} examples" for label, count in zip(names, of_labels, strict=True)],
            style=style,
        )
        for style, ((name, _), of_labels) in enumerate(zip(shown, counts, strict=True))
    ]
    return figure_of(
        name=f"labels-{task.name}",
        title=f"{task.title}: labels and predictions",
        caption="Dev examples by label, and by predicted label.",
        panels=[Panel("", axis("label", categories=names), axis("examples"), traces)],
    )


def errors_by_kind(models: Sequence[Predicted]) -> go.Figure:
    """The wrong predictions by kind."""
    task = models[0].task
    kinds = error_kinds(task)
    traces = []
    for style, model in enumerate(models):
        of_rows = error_kind(model)
        counts = [int(np.sum(of_rows == kind)) for kind in kinds]
        hover = [
            f"{model.name}\n{kind}: {count} of {len(of_rows)} examples"
            for kind, count in zip(kinds, counts, strict=True)
        ]
        traces.append(bars(kinds, counts, name=model.name, hover=hover, style=style + 1))
    return figure_of(
        name=f"errors-{task.name}",
        title=f"{task.title}: errors by kind",
        caption="Dev examples that are wrong, by kind of error, as in Triple Threat, tables 17 to 19.",
        panels=[Panel("", axis("error", categories=kinds), axis("examples"), traces)],
    )


def error_kinds(task: Task) -> list[str]:
    """The kinds of errors, in their order."""
    if task.kind == "binary":
        negative, positive = class_names(task)
        return [f"{positive}, predicted {negative}", f"{negative}, predicted {positive}"]
    if task.kind == "regression":
        large, very_large = regression_edges(task)
        middle = f"{large:g} to {very_large:g}"
        return [
            f"over {very_large:g} too low",
            f"{middle} too low",
            f"{middle} too high",
            f"over {very_large:g} too high",
        ]
    if task.labels:  # no order is known
        if num_pairs(task) > MAX_PAIRS:
            return [ANY_ERROR]
        return [f"{label}, predicted {other}" for label, other in itertools.permutations(task.labels, 2)]
    return ["two or more too low", "one too low", "one too high", "two or more too high"]


def num_pairs(task: Task) -> int:
    """The number of pairs of a class and another one that is predicted instead."""
    return task.num_classes * (task.num_classes - 1)


def regression_edges(task: Task) -> tuple[float, float]:
    """Errors from which a regression's prediction is far off, and very far."""
    low, high = task.label_range
    large, very_large = (round(edge * (high - low), 6) for edge in ERROR_EDGES)
    return large, very_large


def error_kind(model: Predicted) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    """(rows,) the kind of each example's error, empty where there is none, or only a small one."""
    kinds, distance = error_kinds(model.task), model.predictions - model.labels
    if model.task.kind == "binary":
        conditions = [distance < 0, distance > 0]
    elif model.task.kind == "regression":
        large, very_large = regression_edges(model.task)
        conditions = [distance < -very_large, distance <= -large, distance > very_large, distance >= large]
        kinds = [kinds[number] for number in (0, 1, 3, 2)]
    elif model.task.labels:
        pairs = itertools.permutations(range(model.task.num_classes), 2)
        each = [(model.labels == label) & (model.predictions == other) for label, other in pairs]
        conditions = [distance != 0] if kinds == [ANY_ERROR] else each
    else:
        conditions = [distance <= -2, distance == -1, distance == 1, distance >= 2]
    return np.select(conditions, kinds, default="")
