"""Charts of selections: what methods and ensembles are expected to score, and what a limit of models costs."""

from collections.abc import Mapping, Sequence

import pandas as pd

from mtlib.runtime.command_line import counted
from mtlib.tasks import Task
from results.ensembles.methods import TITLES
from results.figures.chart import Axis, Chart, Panel, Series
from results.figures.hover import score_title
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
        "are in selection.json. Choosing among them: the method, too, is chosen without the examples that it is "
        "scored on; where there is such a row, it is what to expect.",
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
        f"{TITLES[method.name]}, {counted(method.num_models, 'model')}\n{expected_text(task, method)}\n"
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

    Returns:
        A chart with a panel for each task and metric: sweeps may score a task of the same name by different ones.
    """
    by_metric: dict[tuple[str, str], dict[str, MethodScore]] = {}
    definitions: dict[tuple[str, str], Task] = {}
    for sweep, selection in selections.items():
        for name, chosen in selection.tasks.items():
            task = selection.definitions[name]
            by_metric.setdefault((name, task.metric), {})[sweep] = chosen.score
            definitions.setdefault((name, task.metric), task)
    panels, rows = [], []
    for (name, metric), scores in by_metric.items():
        task = definitions[name, metric]
        hover = [f"{sweep}\n{expected_text(task, score)}" for sweep, score in scores.items()]
        series = expected_series(task, list(scores), list(scores.values()), hover)
        x, y = Axis(title=task.metric_entry.title), Axis(scale="category", categories=list(scores))
        panels.append(Panel(title=score_title(name, {name: task}), x=x, y=y, marks=[series]))
        rows += [
            (name, metric, sweep, task.value_of(score.cross_fitted), *bounds_of(task, score))
            for sweep, score in scores.items()
        ]
    return Chart(
        name="expected-scores",
        title="Expected scores of the ensembles",
        caption="Cross-fitted scores of each sweep's selected ensembles, with their 95 % intervals.",
        panels=panels,
        frame=pd.DataFrame(rows, columns=["task", "metric", "sweep", "expected_score", "low", "high"]),
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
            (
                name,
                limit.name,
                limit.max_models,
                limit.num_models,
                score,
                score - limit.standard_error,
                score + limit.standard_error,
                limit.is_best,
            )
            for limit, score in limits
        ]
    columns = ["task", "method", "max_models", "models", "expected_score", "low", "high", "is_best"]
    return Chart(
        name="pareto",
        title="Score against number of models",
        caption="The time of a prediction grows with the number of models. On the Pareto front, no other ensemble has "
        "as few models or fewer and a better expected score.",
        panels=panels,
        frame=pd.DataFrame(rows, columns=columns),
    )


def pareto_panel(task: Task, limits: Sequence[tuple[TradeOff, float]]) -> Panel:
    """One task's methods and limits with the values of their expected scores."""
    hover = [
        f"{TITLES[limit.name]}, at most {counted(limit.max_models, 'model')}\n{counted(limit.num_models, 'model')}\n"
        f"expected {score:.3f} ±{limit.standard_error:.3f}"
        for limit, score in limits
    ]
    on_front = [
        (limit.num_models, score, text) for (limit, score), text in zip(limits, hover, strict=True) if limit.is_best
    ]
    front = sorted(on_front)
    marks = [
        Series(
            x=[count for count, _, _ in front],
            y=[score for _, score, _ in front],
            hover=[f"Pareto front\n{text}" for _, _, text in front],
            mode="steps",
            name="Pareto front",
            style=1,
        ),
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
