"""The first section of a page of several sweeps: their answers, scores and costs side by side."""

from collections.abc import Iterator, Sequence

from mtlib.runtime.command_line import counted
from mtlib.runtime.errors import first_line
from results.figures.draw import is_empty
from results.figures.ensembles import expected_scores
from results.page.content import Block, TextTable
from results.page.sections import PageInputs
from results.records.trials import COMPLETED
from results.stats.trial_scores import TOTAL
from results.sweep import Sweep


def overview_blocks(sweeps: Sequence[PageInputs]) -> Iterator[Block]:
    """Yields a table of the sweeps, and what to expect of their ensembles, where these are known."""
    yield sweeps_table(sweeps)
    selections = {inputs.title: inputs.selection for inputs in sweeps if inputs.selection is not None}
    figure = expected_scores(selections)
    if not is_empty(figure):
        yield figure


def sweeps_table(sweeps: Sequence[PageInputs]) -> TextTable:
    """Question, answer and best configuration of each sweep."""
    rows = []
    for inputs in sweeps:
        sweep = inputs.sweep
        question, *answer = sweep.answer()
        done = sum(record.status in COMPLETED for record in sweep.records)
        first = f"{answer[0].split('. ')[0].rstrip('.')}." if answer else ""
        rows.append([inputs.title, question, first, f"{done} of {len(sweep.records)}", best_text(sweep)])
    return TextTable(
        name="sweeps",
        title="Sweeps",
        columns=["sweep", "question", "answer (its first sentence)", "trials finished", "best mean overall score"],
        rows=rows,
        num_text_columns=3,
        caption="Scores of sweeps on other data, or with other tasks, are not comparable. A mean over few replicates, "
        "or the score of a single training, is the higher for being the best of many.",
    )


def best_text(sweep: Sweep) -> str:
    """Returns the highest mean overall score of the configurations that the ranking begins with,
    all of the same tasks."""
    try:
        scored = [row for row in sweep.ranked if row.scores]
    except ValueError as error:
        return first_line(error)
    comparable = [row for row in scored if row.tasks == scored[0].tasks]
    if not comparable:
        return "none yet"
    best = max(comparable, key=lambda row: row.scores[TOTAL].value)
    return f"{best.scores[TOTAL].value:.3f} ({counted(len(best.trials), 'replicate')})"
