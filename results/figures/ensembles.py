"""Charts of selections: what methods and ensembles are expected to score, and what a limit of models costs."""

from collections.abc import Mapping, Sequence

import pandas as pd

from mtlib.tasks import Task
from results.ensembles.methods import TITLES
from results.figures.chart import Axis, Chart, Panel, Series
from results.records.selection import MethodScore, Selection, TaskSelection, TradeOff


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
        "examples by which the models were chosen, which are too good. The ensembles of the method marked as chosen "
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
    hover = [
        f"{TITLES[method.name]}, {method.num_models} models\n{expected_text(task, method)}\n"
        f"dev score {task.value_of(method.in_sample):.3f}\nlead over the best single model "
        f"{task.value_of(method.lead):+.3f} ({task.bounds_text(method.lead_interval)})"
        for method in methods
    ]
    marks = [
        Series(
            x=[task.value_of(method.in_sample) for method in methods],
            y=names,
            hover=hover,
            name="dev score",
            style=1,
        ),
        expected_series(task, names, methods, hover),
    ]
    x, y = Axis(title=task.metric_entry.title), Axis(scale="category", categories=names)
    return Panel(title=task.title, x=x, y=y, marks=marks)


def expected_series(task: Task, names: Sequence[str], scores: Sequence[MethodScore], hover: Sequence[str]) -> Series:
    """Expected scores with their intervals, from top to bottom."""
    bounds = [bounds_of(task, score) for score in scores]
    return Series(
        x=[task.value_of(score.cross_fitted) for score in scores],
        y=names,
        hover=hover,
        name="expected score",
        low=[low for low, _ in bounds],
        high=[high for _, high in bounds],
        interval_along="x",
    )


def expected_text(task: Task, score: MethodScore) -> str:
    """An expected score with its interval."""
    return f"expected {task.value_of(score.cross_fitted):.3f} ({task.bounds_text(score.interval)})"


def bounds_of(task: Task, method: MethodScore) -> list[float]:
    """Low and high of the interval of a method's expected score, as values."""
    return sorted(map(task.value_of, method.interval))


def expected_chart(selections: Mapping[str, Selection]) -> Chart:
    """The expected scores of the selected ensembles of several sweeps, with their 95 % intervals, for each task.

    Args:
        selections: by the name of the sweep.
    """
    tasks = {name: task for selection in selections.values() for name, task in selection.definitions.items()}
    panels, rows = [], []
    for name, task in tasks.items():
        scores = {sweep: chosen.tasks[name].score for sweep, chosen in selections.items() if name in chosen.tasks}
        if not scores:
            continue
        hover = [f"{sweep}\n{expected_text(task, score)}" for sweep, score in scores.items()]
        series = expected_series(task, list(scores), list(scores.values()), hover)
        x, y = Axis(title=task.metric_entry.title), Axis(scale="category", categories=list(scores))
        panels.append(Panel(title=task.title, x=x, y=y, marks=[series]))
        rows += [
            (name, sweep, task.value_of(score.cross_fitted), *bounds_of(task, score)) for sweep, score in scores.items()
        ]
    return Chart(
        name="expected-scores",
        title="Expected scores of the ensembles",
        caption="Cross-fitted scores of each sweep's selected ensembles, with their 95 % intervals.",
        panels=panels,
        frame=pd.DataFrame(rows, columns=["task", "sweep", "expected_score", "low", "high"]),
    )


def pareto_chart(selection: Selection) -> Chart:
    """Expected score against the number of models, with the Pareto front, for each task."""
    panels, rows = [], []
    for name, chosen in selection.tasks.items():
        if not chosen.trade_offs:
            continue
        task = selection.definitions[name]
        limits = [(limit, task.value_of(limit.cross_fitted)) for limit in chosen.trade_offs]
        panels.append(pareto_panel(task, limits))
        rows += [
            (name, limit.name, limit.max_models, limit.num_models, score, limit.is_best) for limit, score in limits
        ]
    columns = ["task", "method", "max_models", "models", "expected_score", "is_best"]
    return Chart(
        name="pareto",
        title="Score against number of models",
        caption="Prediction takes as long as its number of models. On the Pareto front, no other ensemble has as few "
        "models or fewer and a better expected score.",
        panels=panels,
        frame=pd.DataFrame(rows, columns=columns),
    )


def pareto_panel(task: Task, limits: Sequence[tuple[TradeOff, float]]) -> Panel:
    """One task's methods and limits with the values of their expected scores."""
    front = sorted((limit.num_models, score) for limit, score in limits if limit.is_best)
    hover = [
        f"{TITLES[limit.name]}, at most {limit.max_models} models\n{limit.num_models} models\nexpected {score:.3f} "
        f"±{limit.standard_error:.3f}"
        for limit, score in limits
    ]
    marks = [
        Series(x=[count for count, _ in front], y=[s for _, s in front], mode="steps", name="Pareto front", style=1),
        Series(
            x=[limit.num_models for limit, _ in limits],
            y=[score for _, score in limits],
            hover=hover,
            low=[score - limit.standard_error for limit, score in limits],
            high=[score + limit.standard_error for limit, score in limits],
            name="method and limit, ± standard error",
        ),
    ]
    return Panel(title=task.title, x=Axis(title="models"), y=Axis(title=task.metric_entry.title), marks=marks)
