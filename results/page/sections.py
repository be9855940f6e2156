"""The sections of a sweep's page."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mtlib.runtime.errors import first_line
from mtlib.tasks import title_of, value_of
from results.analysis.comparison.trial_scores import TOTAL
from results.analysis.effects.searched_keys import searched_keys
from results.analysis.effects.sweep_effects import SweepEffects
from results.analysis.importance import FEWEST_CONFIGURATIONS, key_importances
from results.analysis.ranking.rank import score_columns
from results.analysis.ranking.render import MAX_PARAM_COLUMNS, epoch_cell, ranking_legend, score_parts, value_text
from results.analysis.sweep import Sweep
from results.figures.chart import Chart
from results.figures.curves import (
    cost_chart,
    gradient_chart,
    learning_chart,
    loss_chart,
    penalty_chart,
    speed_chart,
)
from results.figures.effects import effect_charts, value_charts
from results.figures.embeddings import Embedded, embeddings_chart
from results.figures.ensembles import methods_chart, pareto_chart
from results.figures.predictions import prediction_charts
from results.figures.search import history_chart, importance_chart, parallel_chart, pruning_chart, slice_chart
from results.page.content import Block, Findings, Section, Text, TextTable
from results.page.health import find_problems
from results.page.predictions import (
    ReadTexts,
    disagreement_table,
    error_table,
    members_table,
    predicted_models,
)
from results.page.published import published_blocks
from results.page.reproduce import reproduction_blocks
from results.records.files import folder_name
from results.records.selection import Selection
from results.selection.report import optimism_sentences, verdict

NUM_RANKED = 30
"""Configurations that the table shows at first."""


@dataclass(frozen=True, kw_only=True)
class PageInputs:
    """What a sweep's page is made of."""

    sweep: Sweep
    selection: Selection | None
    """None where no ensembles were chosen yet."""
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
        return self.name or str(self.sweep.info.get("name") or folder_name(self.sweep.path))

    def effects(self) -> SweepEffects | None:
        """The effects of the searched keys; None if they cannot be estimated."""
        try:
            return self.sweep.estimated_effects
        except ValueError:
            return None


MakeBlocks = Callable[[PageInputs], Iterator[Block]]


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
        blocks += [block for block in make(inputs) if not (isinstance(block, Chart) and block.is_empty)]
    except ValueError as error:
        blocks.append(Text(paragraphs=[f"This part could not be made: {first_line(error)}."]))
    return blocks or [Text(paragraphs=["There is nothing to show yet."])]


def answer_blocks(inputs: PageInputs) -> Iterator[Block]:
    """The answer in words, the effects, the scores against each value, and the ranking."""
    sweep, effects = inputs.sweep, inputs.effects()
    question, *answer = sweep.answer()
    yield Text(paragraphs=[question], is_lead=True)
    yield Text(paragraphs=answer)
    if effects is not None:
        yield from effect_charts(effects)
        yield from value_charts(effects, sweep.records, sweep.scores)
    yield ranking_block(sweep)
    yield Text(paragraphs=ranking_legend(sweep.ranked))


def ranking_block(sweep: Sweep) -> TextTable:
    """The ranking as on the command line."""
    rows, tasks = sweep.ranked, sweep.tasks
    names = list(dict.fromkeys(name for row in rows for name in row.params))
    columns = score_columns(rows, tasks)
    titles = [title_of(task, tasks) + ("" if (task, split) == TOTAL else f" {split}") for task, split in columns]
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
        marked=frozenset(place for place, row in enumerate(rows) if row.may_be_best and row.margin is not None),
    )


def training_blocks(inputs: PageInputs) -> Iterator[Block]:
    """Learning curves, losses, penalties, speed, and scores against their cost."""
    training = inputs.sweep.plot.training
    charts = (learning_chart, loss_chart, penalty_chart, gradient_chart, speed_chart, cost_chart)
    yield from (make(training) for make in charts)


def search_blocks(inputs: PageInputs) -> Iterator[Block]:
    """History, importance, slices, parallel coordinates and pruning."""
    sweep, metric = inputs.sweep, inputs.sweep.plot.metric
    keys = searched_keys(sweep.info, sweep.records)
    yield history_chart(sweep.records, metric)
    if len(keys) > 1:
        importances = key_importances(sweep.records, keys, metric)
        rule = f"Importances need {FEWEST_CONFIGURATIONS} finished configurations with different scores."
        yield importance_chart(importances) if importances else Text(paragraphs=[rule])
        yield slice_chart(sweep.records, keys, metric)
        yield parallel_chart(sweep.records, keys, metric)
    if any(record.status == "pruned" for record in sweep.records):
        yield pruning_chart(sweep.records)


def prediction_blocks(inputs: PageInputs) -> Iterator[Block]:
    """The predictions of the best single model and of the selected ensemble, task by task."""
    for name in inputs.sweep.tasks:
        models = predicted_models(inputs.sweep, inputs.selection, name)
        if not models:
            continue
        yield from prediction_charts(models)
        if inputs.read_texts is not None:
            yield error_table(models[-1], inputs.read_texts)
        table = disagreement_table(inputs.sweep, name, inputs.read_texts)
        if table is not None and table.rows:
            yield table
    if inputs.embedded is not None:
        yield embeddings_chart(inputs.embedded, inputs.embedded_by)


def ensemble_blocks(inputs: PageInputs) -> Iterator[Block]:
    """What was selected, what to expect, and the Pareto front."""
    selection = inputs.selection
    if selection is None:
        yield Text(paragraphs=["No ensembles were chosen yet: python results/selector.py SWEEP chooses them."])
        return
    verdicts = [" ".join(verdict(selection.definitions[name], own)) for name, own in selection.tasks.items()]
    yield Text(paragraphs=[*verdicts, " ".join(optimism_sentences(selection))])
    yield methods_chart(selection)
    yield pareto_chart(selection)
    yield members_table(selection)
    if selection.evaluations:
        yield held_out_table(selection)


def held_out_table(selection: Selection) -> TextTable:
    """The scores on the rows that were held out, beside the expected ones."""
    rows = []
    for scores in selection.evaluations:
        for name, score in scores.scores.items():
            task, expected = selection.definitions[name], selection.tasks.get(name)
            shown = (
                "" if expected is None else f"{value_of(name, expected.score.cross_fitted, selection.definitions):.3f}"
            )
            interval = task.bounds_text(scores.intervals[name])
            rows.append([task.title, scores.time, f"{task.value_of(score):.3f}", interval, shown])
    return TextTable(
        name="held-out-scores",
        title="Scores on held-out rows",
        columns=["task", "scored at", "held out", "95 % interval", "expected"],
        rows=rows,
        num_text_columns=2,
        caption="Only the first score of held-out rows is unbiased.",
    )


def health_blocks(inputs: PageInputs) -> Iterator[Block]:
    """What to distrust, and what to do about it."""
    found = find_problems(inputs.sweep, inputs.effects())
    yield Findings(found=found, nothing="Nothing suspicious was found.")


def comparison_blocks(inputs: PageInputs) -> Iterator[Block]:
    """The sweep beside published tables."""
    yield from published_blocks(inputs.sweep, inputs.effects())


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
