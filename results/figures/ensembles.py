"""Charts of a selection: what each selection method is expected to score, and what a limit of models costs."""

import pandas as pd

from mtlib.tasks import Task
from results.ensembles.methods import TITLES
from results.figures.chart import Axis, Chart, Panel, Series
from results.records.selection import MethodScore, Selection, TaskSelection


def methods_chart(selection: Selection) -> Chart:
    """The expected score of each selection method, with its 95 % interval, for each task."""
    panels, rows = [], []
    for name, chosen in selection.tasks.items():
        panels.append(methods_panel(selection, name, chosen))
        task = selection.definitions[name]
        rows += [
            (
                name,
                method.name,
                method.num_models,
                task.value_of(method.cross_fitted),
                *bounds_of(task, method),
                task.value_of(method.in_sample),
            )
            for method in methods_of(chosen)
        ]
    columns = ["task", "method", "models", "expected_score", "low", "high", "dev_score"]
    return Chart(
        name="selection-methods",
        title="Selection methods",
        caption="Expected score on new text (cross-fitted), with its 95 % interval; squares are scores on the dev "
        "examples by which the models were chosen, which are too high. The ensembles of the method marked as chosen "
        "are in selection.json.",
        panels=panels,
        frame=pd.DataFrame(rows, columns=columns),
    )


def methods_of(chosen: TaskSelection) -> list[MethodScore]:
    """The methods, the automatic choice among them last."""
    return [*chosen.methods, *([chosen.automatic] if chosen.automatic else [])]


def methods_panel(selection: Selection, name: str, chosen: TaskSelection) -> Panel:
    """The methods of one task."""
    task, methods = selection.definitions[name], methods_of(chosen)
    names = [TITLES[method.name] + " (chosen)" * (method.name == chosen.method) for method in methods]
    expected = [task.value_of(method.cross_fitted) for method in methods]
    bounds = [bounds_of(task, method) for method in methods]
    hover = [
        f"{TITLES[method.name]}, {method.num_models} models\nexpected {score:.3f} ({low:.3f} to {high:.3f})\n"
        f"dev score {task.value_of(method.in_sample):.3f}\nlead over the best single model "
        f"{task.value_of(method.lead):+.3f} ({task.bounds_text(method.lead_interval)})"
        for method, score, (low, high) in zip(methods, expected, bounds, strict=True)
    ]
    low, high = [low for low, _ in bounds], [high for _, high in bounds]
    marks = [
        Series(
            x=[task.value_of(method.in_sample) for method in methods],
            y=names,
            hover=hover,
            name="dev score",
            style=1,
        ),
        Series(x=expected, y=names, hover=hover, name="expected score", low=low, high=high, interval_along="x"),
    ]
    x, y = Axis(title=task.metric_entry.title), Axis(scale="category", categories=names)
    return Panel(title=task.title, x=x, y=y, marks=marks)


def bounds_of(task: Task, method: MethodScore) -> list[float]:
    """Low and high of the interval of a method's expected score, as values."""
    return sorted(map(task.value_of, method.interval))


def pareto_chart(selection: Selection) -> Chart:
    """Expected score against the number of models, with the Pareto front, for each task."""
    panels, rows = [], []
    for name, chosen in selection.tasks.items():
        if not chosen.trade_offs:
            continue
        task = selection.definitions[name]
        points = [(own, task.value_of(own.cross_fitted)) for own in chosen.trade_offs]
        front = sorted((own.num_models, score) for own, score in points if own.is_best)
        hover = [
            f"{TITLES[own.name]}, at most {own.max_models} models\n{own.num_models} models\nexpected {score:.3f} "
            f"±{own.standard_error:.3f}"
            for own, score in points
        ]
        marks = [
            Series(
                x=[count for count, _ in front], y=[s for _, s in front], mode="steps", name="Pareto front", style=1
            ),
            Series(
                x=[own.num_models for own, _ in points],
                y=[score for _, score in points],
                hover=hover,
                low=[score - own.standard_error for own, score in points],
                high=[score + own.standard_error for own, score in points],
                name="method and limit, ± standard error",
            ),
        ]
        x, y = Axis(title="models"), Axis(title=task.metric_entry.title)
        panels.append(Panel(title=task.title, x=x, y=y, marks=marks))
        rows += [(name, own.name, own.max_models, own.num_models, score, own.is_best) for own, score in points]
    columns = ["task", "method", "max_models", "models", "expected_score", "is_best"]
    return Chart(
        name="pareto",
        title="Score against number of models",
        caption="Prediction takes as long as its number of models. On the Pareto front, no other ensemble has as few "
        "models or fewer and a higher expected score.",
        panels=panels,
        frame=pd.DataFrame(rows, columns=columns),
    )
