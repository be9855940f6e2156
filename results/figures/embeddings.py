"""A figure of the encoder's embeddings of dev examples: their first two principal components, coloured by label."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from mtlib.tasks import Task
from results.figures.draw import Panel, Trace, axis, figure_of, series
from results.figures.predictions import Ints, class_names, drawn_note, drawn_rows
from results.stats.resampling import Floats

NUM_LABEL_GROUPS = 5
"""Of a regression's labels."""


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """The embeddings of a task's dev examples."""

    task: Task
    ids: Sequence[str]
    labels: Floats
    """(rows,)."""
    vectors: Floats
    """(rows, hidden)."""


def embeddings(by_task: Mapping[str, Embedded], model: str) -> go.Figure:
    """The first two principal components of each task's embeddings, of those that have two.

    Args:
        by_task: the embeddings.
        model: name of the trial.
    """
    from sklearn.decomposition import PCA  # here: pages without embeddings start faster

    panels, notes = [], []
    for embedded in by_task.values():
        if min(embedded.vectors.shape) < 2:
            continue
        analysis = PCA(n_components=2, svd_solver="covariance_eigh")  # exact: others draw random numbers, or are slow
        points = analysis.fit_transform(embedded.vectors)
        shares = np.nan_to_num(analysis.explained_variance_ratio_)  # of equal embeddings they are 0 / 0
        x = axis(f"first component, {shares[0]:.0%} of the variance")
        y = axis(f"second component, {shares[1]:.0%}")
        panels.append(Panel(embedded.task.title, x, y, group_series(embedded, points)))
        notes.append(drawn_note(len(points), f"{embedded.task.title}'s"))
    return figure_of(
        name="embeddings",
        title="Embeddings of the dev examples",
        caption=f"Principal components of the pooled texts of {model}, with dropout off.{''.join(notes)}",
        panels=panels,
    )


def group_series(embedded: Embedded, points: Floats) -> list[Trace]:
    """Points, (rows, 2), by the group of their label."""
    groups, names = label_groups(embedded)
    drawn = drawn_rows(len(points))
    by_group = [drawn[groups[drawn] == group] for group in range(len(names))]
    return [
        series(
            points[rows, 0].tolist(),
            points[rows, 1].tolist(),
            hover=[f"{embedded.ids[row]}\nlabel {embedded.labels[row]:g}" for row in rows.tolist()],
            name=f"{embedded.task.title} {names[group]}",
            style=group,
        )
        for group, rows in enumerate(by_group)
    ]


def label_groups(embedded: Embedded) -> tuple[Ints, list[str]]:
    """The group of each example's label, and the groups' names: classes, or equal parts of the range."""
    task = embedded.task
    if task.kind != "regression":
        return embedded.labels.astype(np.intp), class_names(task)
    low, high = task.label_range
    edges = np.linspace(low, high, NUM_LABEL_GROUPS + 1)
    groups = np.clip(np.searchsorted(edges, embedded.labels, side="right") - 1, 0, NUM_LABEL_GROUPS - 1)
    return groups, [f"{a:g} to {b:g}" for a, b in zip(edges[:-1].round(3), edges[1:].round(3), strict=True)]
