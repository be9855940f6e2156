"""The sections of a sweep's page."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import plotly.graph_objects as go

from mtlib.runtime.console import COMMAND_INDENT
from mtlib.runtime.errors import reason_of
from mtlib.tasks import Task, title_of
from results.answers.next_commands import selector_command
from results.answers.ranking_table import (
    MAX_PARAM_COLUMNS,
    direction_of,
    epoch_cell,
    metrics_line,
    ranking_legend,
    score_parts,
)
from results.answers.slices_table import SLICE_TITLES, slice_cells, slices_of
from results.figures import curves, effects, ensembles, predictions
from results.figures.draw import is_empty
from results.health.checks import find_problems
from results.page.content import Block, Findings, Fold, Section, Text, TextTable
from results.page.predictions import (
    ReadTexts,
    error_tables,
    members_table,
    predict_alike,
    selected_model,
)
from results.page.published import published_blocks
from results.page.reproduce import reproduction_blocks
from results.records.selection import Selection, SliceScore
from results.selection.report import gaps, one_model_sentences, optimism_sentences, verdict
from results.stats.effects.sweep_effects import SweepEffects
from results.stats.ranking import score_columns, searched_names
from results.stats.texts import value_text
from results.stats.trial_scores import TOTAL, Column
from results.sweep import Sweep

CONDITIONS = "How the trials were trained, and what does not count"
"""Title of what the answer rests on."""
NOTHING_YET = "There is nothing to show yet."
OPTIONAL = ("published",)
"""Sections that a sweep may have nothing for."""
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


MakeBlocks = Callable[[PageInputs], Iterable[Block]]
MakePart = Callable[[], Iterable[Block]]
"""Makes a part of a section."""


def sweep_sections(inputs: PageInputs) -> list[Section]:
    """Returns all sections of a sweep; one that cannot be made says why, and the others are there."""
    return [section for name in SECTIONS if (section := make_section(inputs, name)) is not None]


def make_section(inputs: PageInputs, name: str) -> Section | None:
    """Returns one of `SECTIONS`; None if it is optional and the sweep has nothing for it."""
    title, make = SECTIONS[name]
    blocks = list(without_empty(blocks_of_parts({"This part": partial(make, inputs)})))
    if blocks:
        return Section(name=name, title=title, blocks=blocks)
    if name in OPTIONAL:
        return None
    sweep = inputs.sweep
    are_lost = sweep.curves.empty and any(record.best for record in sweep.records)
    why_empty = f"There is nothing to show: the curves of {sweep.path} are missing." if are_lost else NOTHING_YET
    return Section(name=name, title=title, blocks=[Text(paragraphs=[why_empty])])


def without_empty(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yields the blocks without figures that show nothing, and without folds that have no other block."""
    for block in blocks:
        if isinstance(block, Fold):
            shown = list(without_empty(block.blocks))
            if shown:
                yield replace(block, blocks=shown)
        elif not (isinstance(block, go.Figure) and is_empty(block)):
            yield block


def blocks_of_parts(parts: Mapping[str, MakePart]) -> Iterator[Block]:
    """Yields the blocks of each part; one that cannot be made does not drop the others.

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
        yield Text(paragraphs=[f"{', '.join(failed)} could not be made: {reason}."])


def answer_blocks(inputs: PageInputs) -> Iterator[Block]:
    """Yields the question, what to do as one bold line with its intervals, what else is known, and folded how it was
    found out."""
    sweep = inputs.sweep
    answer = sweep.find_answer()
    first, *others = answer.found
    yield Text(paragraphs=[answer.question])
    yield Text(paragraphs=[first], is_lead=True)
    parts: dict[str, MakePart] = {}
    with contextlib.suppress(ValueError):  # then the answer says why there are no effects
        found = sweep.estimated_effects
        parts["The answer's figure"] = lambda: effects.answer_figures(found, sweep.records, sweep.scores)
    yield from blocks_of_parts(parts)
    if others:
        yield Text(paragraphs=others)
    yield Fold(title=CONDITIONS, blocks=[Text(paragraphs=answer.conditions)] if answer.conditions else [])


def effect_blocks(inputs: PageInputs) -> Iterator[Block]:
    """Yields the effects, the scores against each value, and the ranking."""
    sweep, parts = inputs.sweep, dict[str, MakePart]()
    with contextlib.suppress(ValueError):  # then the answer, above, says why there are no effects
        found = sweep.estimated_effects
        parts["Effects"] = lambda: effects.forest_plots(found)
        parts["Scores by value"] = lambda: value_blocks(sweep, found)
    parts["Slices"] = lambda: [slices_block(sweep)] if sweep.ranked and sweep.scores.slices else []
    parts["Ranking"] = lambda: [ranking_block(sweep), Text(paragraphs=ranking_legend(sweep.ranked))]
    yield from blocks_of_parts(parts)


def slices_block(sweep: Sweep) -> TextTable:
    """Returns the scores of the first configuration on slices of dev."""
    first = sweep.ranked[0]
    return TextTable(
        title="Slices",
        columns=SLICE_TITLES,
        rows=[slice_cells(sweep.tasks[task], own) for task, own in slices_of(first, sweep.scores)],
        num_text_columns=3,
        caption=f"Scores of {first.number:04d}, the first of the ranking, on dev examples with one value of a column.",
    )


def value_blocks(sweep: Sweep, found: SweepEffects) -> Iterator[Block]:
    """Yields the scores against each value, and how many keys have no such figure."""
    figures = effects.value_figures(found, sweep.records, sweep.scores)
    yield from figures
    if len(found.keys) > effects.MAX_KEYS:
        yield Text(
            paragraphs=[
                f"Of {len(found.keys)} searched keys, the {len(figures)} whose effect on "
                f"{title_of(found.metric, sweep.tasks)} could be estimated have a figure of scores by value."
            ]
        )


def ranking_block(sweep: Sweep) -> TextTable:
    """Returns the ranking as on the command line."""
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
        title="Ranking",
        columns=["configuration", *(scored + names if is_wide else names + scored)],
        rows=cells,
        num_shown=NUM_RANKED,
        num_text_columns=1 if is_wide else 1 + len(names),
        caption=" ".join(metrics_line(columns, tasks)),
        marked=frozenset(number for number, row in enumerate(rows) if row.may_be_best and row.margin is not None),
    )


def ranking_title(column: Column, tasks: Mapping[str, Task]) -> str:
    """E.g. `SST dev`, `Grades dev, lower is better`, `overall`."""
    task, split = column
    return title_of(task, tasks) if column == TOTAL else f"{title_of(task, tasks)} {split}{direction_of(tasks[task])}"


def training_blocks(inputs: PageInputs) -> Iterator[Block]:
    """Learning curves, losses and penalties."""
    sweep = inputs.sweep
    try:
        training = sweep.plot.training
    except ValueError as error:
        yield Text(paragraphs=[f"The best configurations have no colours: {reason_of(error)}."])
        training = curves.training_of(sweep.curves, sweep.records, sweep.tasks, ())
    parts: dict[str, MakePart] = {
        "Learning curves": lambda: [curves.learning_curves(training)],
        "Losses": lambda: [curves.losses(training)],
    }
    yield from blocks_of_parts(parts)
    penalties: dict[str, MakePart] = {"Penalties": lambda: [curves.penalties(training)]}
    yield Fold(title="Penalties", blocks=list(blocks_of_parts(penalties)))


def prediction_blocks(inputs: PageInputs) -> Iterator[Block]:
    """Yields the predictions of the best single model and of the selected ensemble, task by task."""
    tasks = inputs.sweep.tasks
    yield from blocks_of_parts({task.title: partial(task_blocks, inputs, name) for name, task in tasks.items()})


def task_blocks(inputs: PageInputs, name: str) -> Iterator[Block]:
    """Yields the predictions for one task; folded, if texts are read, errors.

    What was selected stands beside the best single model where it predicts anything else.
    """
    if not inputs.sweep.plot.dev_scores(name):  # yet
        return
    single = inputs.sweep.plot.predicted(name)
    models = [single]
    if inputs.selection is not None:
        try:
            selected = selected_model(inputs.sweep, inputs.selection, single)
            models += [] if predict_alike(selected, single) else [selected]
        except ValueError as error:
            yield Text(paragraphs=[f"{single.task.title}: what was selected is not shown: {reason_of(error)}."])
    yield from predictions.prediction_figures(models)
    read_texts = inputs.read_texts
    if read_texts is not None:
        title = f"Errors on {single.task.title} with their texts"
        parts: dict[str, MakePart] = {title: lambda: error_tables(models[-1], read_texts)}
        yield Fold(title=title, blocks=list(blocks_of_parts(parts)) or [Text(paragraphs=["There are none on dev."])])


def ensemble_blocks(inputs: PageInputs) -> Iterator[Block]:
    """Yields what was selected, and what to expect."""
    selection, command = inputs.selection, selector_command(inputs.sweep.path)
    if inputs.selection_error:
        error = f"The chosen ensembles cannot be shown: {inputs.selection_error}."
        yield Text(paragraphs=[f"{error} To choose them again:\n{COMMAND_INDENT}{command}"])
        return
    if selection is None:
        yield Text(paragraphs=[f"No ensembles were chosen yet. To choose them:\n{COMMAND_INDENT}{command}"])
        return
    verdicts = [" ".join(verdict(selection.definitions[name], chosen)) for name, chosen in selection.tasks.items()]
    optimism = " ".join([*one_model_sentences(selection), *optimism_sentences(selection)])
    yield Text(paragraphs=[*verdicts, *gaps(selection), *([optimism] if optimism else [])])
    yield ensembles.selection_methods(selection)
    yield members_table(selection)
    expected = {name: chosen.slices for name, chosen in selection.tasks.items()}
    yield from sliced_tables(selection, "Expected scores on slices", expected)
    if selection.evaluations:
        yield held_out_table(selection)
        yield from sliced_tables(selection, "Slices of held-out rows", selection.evaluations[-1].slices)


def sliced_tables(selection: Selection, title: str, slices: Mapping[str, Sequence[SliceScore]]) -> Iterator[TextTable]:
    """Yields a selection's scores on slices, by task, as a table; nothing where no task has slices."""
    rows = [slice_cells(selection.definitions[name], own) for name, found in slices.items() for own in found]
    if rows:
        yield TextTable(title=title, columns=SLICE_TITLES, rows=rows, num_text_columns=3)


def held_out_table(selection: Selection) -> TextTable:
    """Returns the scores on the rows that were held out, beside the expected ones."""
    rows = []
    for scores in selection.evaluations:
        for name, score in scores.scores.items():
            task, expected = selection.definitions[name], selection.tasks.get(name)
            known = None if expected is None else task.value_of(expected.score.cross_fitted)
            shown = "" if known is None else f"{known:.3f}"
            interval = task.bounds_text(scores.intervals[name])
            rows.append([task.title, scores.time, f"{task.value_of(score):.3f}", interval, shown])
    return TextTable(
        title="Scores on held-out rows",
        columns=["task", "scored at", "held out", "95 % interval", "expected"],
        rows=rows,
        num_text_columns=2,
        caption="Only the first score of held-out rows is unbiased.",
    )


SECTIONS: dict[str, tuple[str, MakeBlocks]] = {
    "answer": ("Answer", answer_blocks),
    "health": ("Health", lambda inputs: [Findings(found=find_problems(inputs.sweep))]),
    "effects": ("Effects and ranking", effect_blocks),
    "published": ("Beside published results", lambda inputs: published_blocks(inputs.sweep)),
    "training": ("Training", training_blocks),
    "predictions": ("Predictions", prediction_blocks),
    "ensembles": ("Ensembles", ensemble_blocks),
    "reproduce": ("How to reproduce", lambda inputs: reproduction_blocks(inputs.sweep)),
}
"""By anchor: the title, and what makes the blocks."""
