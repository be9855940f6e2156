"""The first section of a page of several sweeps: their answers, scores and costs side by side."""

from collections.abc import Iterator, Sequence

import pandas as pd

from mtlib.runtime.errors import first_line
from results.analysis.sweep import Sweep
from results.figures.chart import Axis, Chart, Panel, Series
from results.figures.hover import trial_text
from results.page.content import Block, TextTable
from results.page.sections import PageInputs
from results.records.trials import OVERALL


def overview_blocks(found: Sequence[PageInputs]) -> Iterator[Block]:
    """A table of the sweeps, their scores against their cost, and what to expect of their ensembles."""
    yield sweeps_table(found)
    yield cost_of_all(found)
    yield expected_of_all(found)


def sweeps_table(found: Sequence[PageInputs]) -> TextTable:
    """Question, answer and best configuration of each sweep."""
    rows = []
    for inputs in found:
        sweep = inputs.sweep
        question, *answer = sweep.answer()
        done = sum(record.status in ("complete", "reused") for record in sweep.records)
        first = answer[0].split(". ")[0].rstrip(".") if answer else ""
        rows.append([inputs.title, question, f"{first}.", f"{done} of {len(sweep.records)}", best_text(sweep)])
    return TextTable(
        name="sweeps",
        title="Sweeps",
        columns=["sweep", "question", "answer", "trials completed", "best overall score"],
        rows=rows,
        num_text_columns=3,
        caption="Scores of sweeps on other data, or with other tasks, are not comparable.",
    )


def best_text(sweep: Sweep) -> str:
    """The highest mean overall score of a configuration."""
    try:
        scored = [row for row in sweep.ranked if row.scores]
    except ValueError as error:
        return first_line(error)
    return f"{scored[0].scores[OVERALL, 'dev'].value:.3f}" if scored else "none yet"


def cost_of_all(found: Sequence[PageInputs]) -> Chart:
    """The overall scores of all trials against their device-seconds, by sweep."""
    marks, rows = [], []
    for style, inputs in enumerate(found):
        own = [record for record in inputs.sweep.records if OVERALL in record.best and record.device_seconds > 0]
        name = inputs.title
        marks.append(
            Series(
                x=[record.device_seconds for record in own],
                y=[record.best[OVERALL] for record in own],
                hover=[f"{name}\n{trial_text(record, f'{OVERALL} {record.best[OVERALL]:.3f}')}" for record in own],
                name=name,
                style=style,
            )
        )
        rows += [(name, record.trial_id, record.device_seconds, record.best[OVERALL]) for record in own]
    return Chart(
        name="cost-of-all",
        title="Scores against device-seconds",
        caption="Each point is a trial with its highest overall dev score. Work reused from others costs nothing.",
        panels=[Panel(x=Axis(title="device-seconds"), y=Axis(title=OVERALL), marks=marks)],
        frame=pd.DataFrame(rows, columns=["sweep", "trial", "device_seconds", OVERALL]),
    )


def expected_of_all(found: Sequence[PageInputs]) -> Chart:
    """The expected scores of each sweep's ensembles, with their 95 % intervals, for each task."""
    panels, rows = [], []
    tasks = {name: task for inputs in found if inputs.selection for name, task in inputs.selection.definitions.items()}
    for name, task in tasks.items():
        own = [
            (inputs.title, inputs.selection.tasks[name].score)
            for inputs in found
            if inputs.selection is not None and name in inputs.selection.tasks
        ]
        if not own:
            continue
        names = [sweep for sweep, _ in own]
        values = [task.value_of(score.cross_fitted) for _, score in own]
        bounds = [sorted(map(task.value_of, score.interval)) for _, score in own]
        mark = Series(
            x=values,
            y=names,
            low=[low for low, _ in bounds],
            high=[high for _, high in bounds],
            interval_along="x",
            hover=[
                f"{n}\n{v:.3f} ({low:.3f} to {high:.3f})"
                for n, v, (low, high) in zip(names, values, bounds, strict=True)
            ],
        )
        x, y = Axis(title=task.metric_entry.title), Axis(scale="category", categories=names)
        panels.append(Panel(title=task.title, x=x, y=y, marks=[mark]))
        rows += [(name, n, v, *pair) for n, v, pair in zip(names, values, bounds, strict=True)]
    return Chart(
        name="expected-of-all",
        title="Expected scores of the ensembles",
        caption="Cross-fitted scores of each sweep's selected ensembles, with their 95 % intervals.",
        panels=panels,
        frame=pd.DataFrame(rows, columns=["task", "sweep", "expected_score", "low", "high"]),
    )
