"""The sections of a sweep's page."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pandas as pd

from mtlib.runtime.command_line import counted
from mtlib.runtime.console import COMMAND_INDENT
from mtlib.runtime.errors import reason_of
from mtlib.tasks import Task, title_of
from results.analysis.comparison.trial_scores import TOTAL, Column
from results.analysis.effects.sweep_effects import SweepEffects
from results.analysis.importance import FEWEST_CONFIGURATIONS
from results.analysis.ranking.next_commands import selector_command
from results.analysis.ranking.rank import score_columns, searched_names
from results.analysis.ranking.render import (
    MAX_PARAM_COLUMNS,
    direction_of,
    epoch_cell,
    metrics_line,
    ranking_legend,
    score_parts,
    value_text,
)
from results.analysis.sweep import Sweep
from results.figures.chart import Chart
from results.figures.curves import (
    cost_chart,
    gradient_chart,
    learning_chart,
    loss_chart,
    penalty_chart,
    speed_chart,
    training_of,
)
from results.figures.effects import MAX_KEYS, effect_charts, value_charts
from results.figures.embeddings import Embedded, embeddings_chart
from results.figures.ensembles import methods_chart, pareto_chart
from results.figures.predictions import Predicted, prediction_charts
from results.figures.pruning import pruning_chart, rungs_chart
from results.figures.search import (
    history_chart,
    importance_chart,
    parallel_chart,
    slice_chart,
)
from results.page.content import Block, Findings, Section, Text, TextTable
from results.page.health import find_problems
from results.page.predictions import (
    ReadTexts,
    best_single_model,
    disagreement_table,
    error_table,
    members_table,
    predict_alike,
    selected_model,
)
from results.page.published import published_blocks
from results.page.reproduce import reproduction_blocks
from results.records.selection import Selection
from results.selection.report import gaps, optimism_sentences, verdict

NOTHING_YET = "There is nothing to show yet."
DIFFERENT_TASKS = (
    "Configurations were trained on different tasks, so that the overall scores of these figures cannot be compared. "
    "Importances, parallel coordinates and the best score so far are left out."
)
NUM_RANKED = 30
"""Configurations that the table shows at first."""


@dataclass(frozen=True, kw_only=True)
class PageInputs:
    """What a sweep's page is made of."""

    sweep: Sweep
    selection: Selection | None
    """None where no ensembles were chosen yet, or their file cannot be read."""
    selection_error: str = ""
    """Why the file of the selection cannot be read; empty: it can, or there is none."""
    read_texts: ReadTexts | None = None
    """None: examples are named by their ids alone."""
    embedded: dict[str, Embedded] | None = None
    """By task, the embeddings of dev by the best trial; None: not shown."""
    embedded_by: str = ""
    """The trial of the embeddings."""

    name: str = ""
    """Of the sweep on the page; empty: its own name."""

    @property
    def title(self) -> str:
        """Of the sweep."""
        return self.name or self.sweep.name

    def effects(self) -> SweepEffects | None:
        """The effects of the searched keys; None if they cannot be estimated."""
        try:
            return self.sweep.estimated_effects
        except ValueError:
            return None


MakeBlocks = Callable[[PageInputs], Iterator[Block]]
MakePart = Callable[[], Iterable[Block]]
"""Makes a part of a section."""


def sweep_sections(inputs: PageInputs) -> list[Section]:
    """All sections of a sweep; one that cannot be made says why, and the others are there."""
    return [
        Section(name=name, title=title, blocks=blocks_or_reason(make, inputs))
        for name, (title, make) in SECTIONS.items()
    ]


def blocks_or_reason(make: MakeBlocks, inputs: PageInputs) -> list[Block]:
    """The blocks of a section without charts that would be empty, or why there are none."""
    blocks: list[Block] = []
    try:
        for block in make(inputs):  # one by one: those before an error stay
            if not (isinstance(block, Chart) and block.is_empty):
                blocks.append(block)
    except ValueError as error:
        blocks.append(Text(paragraphs=[f"This part could not be made: {reason_of(error)}."]))
    return blocks or [Text(paragraphs=[why_empty(inputs.sweep)])]


def why_empty(sweep: Sweep) -> str:
    """Why a section has nothing to show."""
    are_lost = sweep.curves.empty and any(record.best for record in sweep.records)
    return f"There is nothing to show: the curves of {sweep.path} are missing." if are_lost else NOTHING_YET


def blocks_of_parts(parts: Mapping[str, MakePart]) -> Iterator[Block]:
    """The blocks of each part; one that cannot be made does not drop the others.

    Args:
        parts: what makes each part, by its name.

    Returns:
        The blocks; at the end the reasons, a line each, with the names of the parts that could not be made.
    """
    names: dict[str, list[str]] = {}
    for name, make in parts.items():
        try:
            yield from make()
        except ValueError as error:
            names.setdefault(reason_of(error), []).append(name)
    for reason, failed in names.items():
        yield Text(paragraphs=[f"{', '.join(failed)}: could not be made: {reason}."])


def answer_blocks(inputs: PageInputs) -> Iterator[Block]:
    """The answer in words, the effects, the scores against each value, and the ranking."""
    sweep, effects = inputs.sweep, inputs.effects()
    question, *answer = sweep.answer()
    yield Text(paragraphs=[question], is_lead=True)
    if answer:
        yield Text(paragraphs=answer)
    parts: dict[str, MakePart] = {}
    if effects is not None:
        parts["Effects"] = lambda: effect_charts(effects)
        parts["Scores by value"] = lambda: value_blocks(sweep, effects)
    yield from blocks_of_parts({**parts, "Ranking": lambda: ranking_blocks(sweep)})


def value_blocks(sweep: Sweep, effects: SweepEffects) -> Iterator[Block]:
    """The scores against each value, and which keys or tasks have no such chart."""
    charts = value_charts(effects, sweep.records, sweep.scores)
    yield from charts
    if len(effects.keys) > MAX_KEYS:
        shown = f"{len(charts)} of {counted(len(effects.keys), 'searched key')}" if charts else "no key"
        yield Text(
            paragraphs=[
                f"Charts of scores by value are of {shown}: of more than {MAX_KEYS} keys, only those whose effect on "
                f"{title_of(effects.metric, sweep.tasks)} could be estimated have one, of that score alone. Slices of "
                "all keys are in Search."
            ]
        )


def ranking_blocks(sweep: Sweep) -> Iterator[Block]:
    """The ranking, and how to read it."""
    yield ranking_block(sweep)
    yield Text(paragraphs=ranking_legend(sweep.ranked))


def ranking_block(sweep: Sweep) -> TextTable:
    """The ranking as on the command line."""
    rows, tasks = sweep.ranked, sweep.tasks
    names = searched_names(rows)
    columns = score_columns(rows, tasks)
    titles = [ranking_title(column, tasks) for column in columns]
    is_wide = len(names) > MAX_PARAM_COLUMNS  # then scores come first, so that they are in view
    cells = []
    for row in rows:
        values = [value_text(row.params[name]) if name in row.params else "" for name in names]
        scores = [" ".join(score_parts(row, column, tasks)) for column in columns]
        scores += [epoch_cell(row), row.status]
        cells.append([f"{row.number:04d}", *(scores + values if is_wide else values + scores)])
    scored = [*titles, "epoch", "status"]
    return TextTable(
        name="ranking",
        title="Ranking",
        columns=["configuration", *(scored + names if is_wide else names + scored)],
        rows=cells,
        num_shown=NUM_RANKED,
        num_text_columns=1 if is_wide else 1 + len(names),
        caption=" ".join(metrics_line([tasks[task] for task, split in columns if split == "dev" and task in tasks])),
        marked=frozenset(number for number, row in enumerate(rows) if row.may_be_best and row.margin is not None),
        frame=sweep.ranking(),
    )


def ranking_title(column: Column, tasks: Mapping[str, Task]) -> str:
    """E.g. `SST dev`, `Grades dev, lower is better`, `overall`."""
    task, split = column
    return title_of(task, tasks) if column == TOTAL else f"{title_of(task, tasks)} {split}{direction_of(tasks[task])}"


def training_blocks(inputs: PageInputs) -> Iterator[Block]:
    """Learning curves, losses, penalties, speed, and scores against their cost."""
    sweep = inputs.sweep
    try:
        training = sweep.plot.training
    except ValueError as error:
        yield Text(paragraphs=[f"The best configurations have no colours: {reason_of(error)}."])
        training = training_of(sweep.curves, sweep.records, sweep.tasks, ())
    parts: dict[str, MakePart] = {
        "Learning curves": lambda: [learning_chart(training)],
        "Losses": lambda: [loss_chart(training)],
        "Penalties": lambda: [penalty_chart(training)],
        "Gradient norms": lambda: [gradient_chart(training)],
        "Speed": lambda: [speed_chart(training)],
        "Cost": lambda: [cost_chart({inputs.title: inputs.sweep.records})],
    }
    yield from blocks_of_parts(parts)


def search_blocks(inputs: PageInputs) -> Iterator[Block]:
    """History, importance, slices, parallel coordinates, pruning and rungs."""
    sweep, score = inputs.sweep, inputs.sweep.plot.searched_score
    if not score.is_comparable(sweep.records):
        yield Text(paragraphs=[DIFFERENT_TASKS])
    parts: dict[str, MakePart] = {
        "History": lambda: [history_chart(sweep.records, score)],
        "Searched keys": lambda: searched_key_blocks(sweep),
    }
    if any(record.status == "pruned" for record in sweep.records):
        parts["Pruning"] = lambda: [pruning_chart(sweep.records)]
    if sweep.info.get("scheduler") == "asha":
        parts["Rungs"] = lambda: [rungs_chart(sweep.records, sweep.curves, sweep.tasks, score.name)]
    yield from blocks_of_parts(parts)


def searched_key_blocks(sweep: Sweep) -> Iterator[Block]:
    """Importance, slices and parallel coordinates, where several keys were searched; slices alone where scores are not
    comparable."""
    keys, score = sweep.plot.keys, sweep.plot.searched_score
    if len(keys) < 2:
        return
    parts: dict[str, MakePart] = {"Slices": lambda: [slice_chart(sweep.records, keys, score)]}
    if score.is_comparable(sweep.records):
        importances = sweep.plot.importances
        parts = {
            "Importance": lambda: [importance_block(importances)],
            **parts,
            "Parallel coordinates": lambda: [parallel_chart(sweep.records, keys, score, importances)],
        }
    yield from blocks_of_parts(parts)


def importance_block(importances: Mapping[str, float]) -> Block:
    """How much each key matters, or why that is not known."""
    rule = f"Importances need {FEWEST_CONFIGURATIONS} finished configurations with different scores."
    return importance_chart(importances) if importances else Text(paragraphs=[rule])


def prediction_blocks(inputs: PageInputs) -> Iterator[Block]:
    """The predictions of the best single model and of the selected ensemble, task by task."""
    parts: dict[str, MakePart] = {}
    for name, task in inputs.sweep.tasks.items():
        parts[f"Charts of {task.title}"] = partial(task_charts, inputs, name)
        parts[f"Disagreement on {task.title}"] = partial(disagreement_blocks, inputs, name)
    embedded = inputs.embedded
    if embedded is not None:
        parts["Embeddings"] = lambda: [embeddings_chart(embedded, inputs.embedded_by)]
    yield from blocks_of_parts(parts)


def task_charts(inputs: PageInputs, name: str) -> Iterator[Block]:
    """The predictions for one task, and the texts of the worst errors, if texts are read.

    What was selected stands beside the best single model where it predicts anything else.
    """
    single = best_single_model(inputs.sweep, name)
    if single is None:
        return
    models = [single]
    if inputs.selection is not None:
        try:
            selected = selected_model(inputs.sweep, inputs.selection, single)
            models += [] if predict_alike(selected, single) else [selected]
        except ValueError as error:
            yield Text(paragraphs=[f"{single.task.title}: what was selected is not shown: {reason_of(error)}."])
    yield from prediction_charts(models)
    read_texts = inputs.read_texts
    if read_texts is not None:
        name_of_texts = f"Errors on {single.task.title} with their texts"
        yield from blocks_of_parts({name_of_texts: lambda: [error_block(models[-1], read_texts)]})


def error_block(model: Predicted, read_texts: ReadTexts) -> Block:
    """The worst errors of a model with their texts, or that there are none."""
    table = error_table(model, read_texts)
    none = f"{model.task.title}: {model.name} makes no error of the kinds above, so there are no texts of errors."
    return table if table.rows else Text(paragraphs=[none])


def disagreement_blocks(inputs: PageInputs, name: str) -> Iterator[Block]:
    """The examples of a task on which trials disagree, if there are any."""
    table = disagreement_table(inputs.sweep, name, inputs.read_texts)
    if table is not None and table.rows:
        yield table


def ensemble_blocks(inputs: PageInputs) -> Iterator[Block]:
    """What was selected, what to expect, and the Pareto front."""
    selection, command = inputs.selection, selector_command(inputs.sweep.path)
    if inputs.selection_error:
        error = f"The chosen ensembles cannot be shown: {inputs.selection_error}."
        yield Text(paragraphs=[f"{error} To choose ensembles again:\n{COMMAND_INDENT}{command}"])
        return
    if selection is None:
        yield Text(paragraphs=[f"No ensembles were chosen yet. To choose them:\n{COMMAND_INDENT}{command}"])
        return
    verdicts = [" ".join(verdict(selection.definitions[name], chosen)) for name, chosen in selection.tasks.items()]
    optimism = " ".join(optimism_sentences(selection))
    yield Text(paragraphs=[*verdicts, *gaps(selection), *([optimism] if optimism else [])])
    parts: dict[str, MakePart] = {
        "Selection methods": lambda: [methods_chart(selection)],
        "Pareto front": lambda: [pareto_chart(selection)],
        "Members": lambda: [members_table(selection)],
    }
    if selection.evaluations:
        parts["Held-out scores"] = lambda: [held_out_table(selection)]
    yield from blocks_of_parts(parts)


def held_out_table(selection: Selection) -> TextTable:
    """The scores on the rows that were held out, beside the expected ones."""
    rows, numbers = [], []
    for scores in selection.evaluations:
        for name, score in scores.scores.items():
            task, expected = selection.definitions[name], selection.tasks.get(name)
            known = None if expected is None else task.value_of(expected.score.cross_fitted)
            shown = "" if known is None else f"{known:.3f}"
            interval = task.bounds_text(scores.intervals[name])
            rows.append([task.title, scores.time, f"{task.value_of(score):.3f}", interval, shown])
            bounds = sorted(map(task.value_of, scores.intervals[name]))
            numbers.append((name, scores.time, task.value_of(score), *bounds, known))
    return TextTable(
        name="held-out-scores",
        title="Scores on held-out rows",
        columns=["task", "scored at", "held out", "95 % interval", "expected"],
        rows=rows,
        num_text_columns=2,
        caption="Only the first score of held-out rows is unbiased.",
        frame=pd.DataFrame(numbers, columns=["task", "scored_at", "held_out_score", "low", "high", "expected_score"]),
    )


def health_blocks(inputs: PageInputs) -> Iterator[Block]:
    """What to distrust, and what to do about it."""
    yield Findings(found=find_problems(inputs.sweep), nothing="Nothing suspicious was found.")


def comparison_blocks(inputs: PageInputs) -> Iterator[Block]:
    """The sweep beside published tables."""
    yield from published_blocks(inputs.sweep)


def reproduce_blocks(inputs: PageInputs) -> Iterator[Block]:
    """How to run it again."""
    yield from reproduction_blocks(inputs.sweep)


SECTIONS: dict[str, tuple[str, MakeBlocks]] = {
    "answer": ("Answer", answer_blocks),
    "health": ("Health", health_blocks),
    "published": ("Beside published results", comparison_blocks),
    "training": ("Training", training_blocks),
    "search": ("Search", search_blocks),
    "predictions": ("Predictions", prediction_blocks),
    "ensembles": ("Ensembles", ensemble_blocks),
    "reproduce": ("How to reproduce", reproduce_blocks),
}
"""By anchor: the title, and what makes the blocks."""
