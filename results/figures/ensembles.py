"""Figures of selections: what methods and ensembles are expected to score."""

import math

import plotly.graph_objects as go

from mtlib.runtime.command_line import counted
from results.ensembles.methods import title_of_method
from results.figures.draw import Panel, axis, figure_of, series
from results.records.selection import Selection, TaskSelection


def selection_methods(selection: Selection) -> go.Figure:
    """Returns the expected score of each selection method, with its 95 % interval, for each task."""
    return figure_of(
        name="selection-methods",
        title="Selection methods",
        caption="Expected score on new text (cross-fitted), with its 95 % interval; squares are scores on the dev "
        "examples by which the models were chosen, which are too good. The ensembles of the method marked as chosen "
        "are in selection.json. Choosing among them: the method, too, is chosen without the examples that it is "
        "scored on; where there is such a row, it is what to expect.",
        panels=[methods_panel(selection, name, chosen) for name, chosen in selection.tasks.items()],
    )


def methods_panel(selection: Selection, name: str, chosen: TaskSelection) -> Panel:
    """Returns the methods of one task, the automatic choice among them last."""
    task, methods = selection.definitions[name], [*chosen.methods, *([chosen.automatic] if chosen.automatic else [])]
    titles = [title_of_method(method.name, chosen.titles) for method in methods]
    names = [
        title + " (chosen)" * (method.name == chosen.method) for title, method in zip(titles, methods, strict=True)
    ]
    hover = [
        f"{title}, {counted(method.num_models, 'model')}\n"
        f"expected {task.value_of(method.cross_fitted):.3f} ({task.bounds_text(method.interval)})\n"
        f"dev score {task.value_of(method.in_sample):.3f}\nlead over the best single model "
        f"{task.value_of(method.lead):+.3f} ({task.bounds_text(method.lead_interval)})"
        for title, method in zip(titles, methods, strict=True)
    ]
    bounds = [sorted(map(task.value_of, method.interval)) or [math.nan] * 2 for method in methods]
    on_dev = [task.value_of(method.in_sample) for method in methods]
    traces = [
        series(on_dev, names, hover=hover, name="dev score", style=1),
        series(
            [task.value_of(method.cross_fitted) for method in methods],
            names,
            hover=hover,
            name="expected score",
            low=[low for low, _ in bounds],
            high=[high for _, high in bounds],
            along="x",
        ),
    ]
    return Panel(task.title, axis(task.metric_entry.title), axis(categories=names), traces)
