"""Renders a ranking as lines: a table, its legend, and the failed trials."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mtlib.runtime.command_line import counted
from mtlib.runtime.console import PLAIN_WIDTH, PrintedTable, fold, table_lines, wrapped
from mtlib.tasks import Task, title_of, value_of
from results.answers.group_words import few_groups_words
from results.stats.ranking import RankedConfiguration, score_columns, searched_names
from results.stats.texts import error_text, short_keys, value_text, value_texts
from results.stats.trial_scores import TOTAL, Column

MARK = "*"

MAX_PARAM_COLUMNS = 2
"""Searched keys that get a column each; where there are more, they share one column, under short names."""

MAX_ROWS = 20
"""More are not shown; `--csv` has them all."""

HEADER_WIDTH = 12
"""A longer dotted key is broken after a dot."""

SHARED_WIDTH = 36
"""Columns of the searched values of many keys in a tall table."""


def render_ranking(
    rows: Sequence[RankedConfiguration],
    tasks: Mapping[str, Task],
    width: int = PLAIN_WIDTH,
    notes: Sequence[str] = (),
) -> list[str]:
    """Returns a ranking in lines: a row per configuration, the best first, then legend, notes and what failed.

    Columns are those of BERT and Beyond, table 6: what was searched, each task's dev score (and its train score where
    train is scored), the overall score, the epoch of its maximum, and the status where some trial has not finished.
    Each score carries its standard error over examples and, where there are replicates, over these.

    Where a row is wider than `width` columns, errors go below their scores; where that does not fit either, each value
    has a line. Of many rows the first `MAX_ROWS` are shown. `notes` are further sentences, e.g. from
    `results.health`.
    """
    shown = rows[:MAX_ROWS]
    if not rows:
        return ["No trials yet.", *wrapped(notes, width)]
    table = table_lines(width, *(ranking_table(shown, tasks, is_tall=is_tall) for is_tall in (False, True)))
    num_hidden = len(rows) - len(shown)
    hidden = [f"Not shown: {counted(num_hidden, 'further row')}; --csv prints all."] if num_hidden else []
    metrics = metrics_line(score_columns(rows, tasks), tasks)
    legend = [*short_key_lines(shown), *ranking_legend(rows), *metrics, *notes, *failures(rows)]
    return [*table, *hidden, "", *wrapped(legend, width)]


def ranking_table(rows: Sequence[RankedConfiguration], tasks: Mapping[str, Task], *, is_tall: bool) -> PrintedTable:
    """Returns the table alone; in a tall one each part of a cell has a line of its own."""
    names = searched_names(rows)
    columns = score_columns(rows, tasks)
    has_status = any(row.status != "complete" for row in rows)
    is_shared = len(names) > MAX_PARAM_COLUMNS  # then the keys share a column, under short names
    short, cells = short_keys(names), []
    for row, texts in zip(rows, searched_texts(names, rows), strict=True):
        shared = fold(", ".join(f"{short[name]}={text}" for name, text in texts.items() if text), SHARED_WIDTH)
        searched = [[f"{row.number:04d}"], shared] if is_shared else [[text] for text in texts.values()]
        status = [row.status.replace(", ", ",\n").split("\n")] if has_status else []
        cells.append([*searched, *(score_parts(row, column, tasks) for column in columns), [epoch_cell(row)], *status])
    shown_keys = ["", "searched"] if is_shared else list(names)
    scores = [[title_of(task, tasks), *([] if (task, split) == TOTAL else [split])] for task, split in columns]
    others = [["epoch"], ["status"]] if has_status else [["epoch"]]
    return PrintedTable(
        titles=[*map(broken_key, shown_keys), *(title if is_tall else " ".join(title) for title in [*scores, *others])],
        rows=[[part if is_tall else " ".join(part) for part in row] for row in cells],
        names=[*shown_keys, *(" ".join(title) for title in [*scores, *others])],
        numbers={len(shown_keys) + len(scores)},
        is_spaced=is_tall or is_shared,  # rows have several lines
    )


def broken_key(key: str) -> list[str]:
    """Returns a dotted key, broken after dots into lines of at most `HEADER_WIDTH`."""
    lines = [""]
    for part in key.replace(".", ".\n").split("\n"):
        if lines[-1] and len(lines[-1]) + len(part) > HEADER_WIDTH:
            lines.append("")
        lines[-1] += part
    return lines


def searched_texts(names: Sequence[str], rows: Sequence[RankedConfiguration]) -> list[dict[str, str]]:
    """Returns the searched values of each row by key, empty where a key was not drawn."""
    texts: list[dict[str, str]] = [dict.fromkeys(names, "") for _ in rows]
    for name in names:
        drawn = [number for number, row in enumerate(rows) if name in row.params]
        for number, text in zip(drawn, value_texts([rows[number].params[name] for number in drawn]), strict=True):
            texts[number][name] = text
    return texts


def short_key_lines(rows: Sequence[RankedConfiguration]) -> list[str]:
    """Returns the keys that have short names in the table, in a line; empty where keys have columns."""
    names = searched_names(rows)
    shortened = [f"{short} is {name}" for name, short in short_keys(names).items() if short != name]
    return [f"Searched: {', '.join(shortened)}."] if shortened and len(names) > MAX_PARAM_COLUMNS else []


def searched_values(names: Sequence[str], params: Mapping[str, Any]) -> str:
    """Searched values under the shortest names that tell all `names` apart: `layer_decay=0.95, dropout=0`."""
    short = short_keys(names)
    own = [name for name in names if name in params]  # not all draw every key
    return ", ".join(f"{short[name]}={value_text(params[name])}" for name in own)


def score_parts(row: RankedConfiguration, column: Column, tasks: Mapping[str, Task]) -> list[str]:
    """E.g. `0.540` and `±.015`, and `±.004` with replicates; the total of what may be the best carries a mark."""
    score = row.scores.get(column)
    if score is None:
        return ["-"]
    errors = [score.example_error] + ([] if score.replicate_error is None else [score.replicate_error])
    is_marked = row.may_be_best and (row.was_dropped or row.below_best is not None)
    mark = "" if column != TOTAL else MARK if is_marked else " "
    return [f"{value_of(column[0], score.value, tasks):.3f}{mark}", *map(error_text, errors)]


def epoch_cell(row: RankedConfiguration) -> str:
    """Returns the epoch of the best overall score, `-` where there is none; replicates' mean may fall between two."""
    return "-" if row.best_epoch is None else f"{row.best_epoch:.1f}".removesuffix(".0")


def ranking_legend(rows: Sequence[RankedConfiguration]) -> list[str]:
    """Returns the meaning of the signs in the table, and why its first row is optimistic."""
    scored = [row for row in rows if row.scores]
    if not scored:
        return ["No configuration has an overall score yet."]
    finished = [row for row in scored if row.is_finished]
    lines = [
        "Scores are at the epoch of the highest overall dev score, in the column epoch.",
        "± standard error over the examples: how far the score would move with other examples of the kind.",
    ]
    if any(row.scores[TOTAL].replicate_error is not None for row in scored):
        lines.append("Second ±: standard error over replicates, which differ in their random numbers only.")
    return [*lines, *mark_lines(finished), *caveats(scored, finished)]


def mark_lines(finished: Sequence[RankedConfiguration]) -> list[str]:
    """Returns what the mark means, in a line; empty where there is nothing to compare."""
    num_alike = count_alike(finished)
    if num_alike < 2:
        return []
    if all(row.margin is None and row.may_be_best for row in finished[:num_alike]):
        return [f"{MARK} may be the best: every row, as {why_not_compared(finished)}."]
    of_its_tasks = "" if num_alike == len(finished) else " of the same tasks"
    lines = [
        f"{MARK} may be the best{of_its_tasks}: no other row is shown to be above it, with the variance of training "
        "and of the dev examples, all rows compared at once and however often you look (95 %)."
    ]
    most = max(len(row.trials) for row in finished)
    earlier = sorted({row.decided_at for row in finished if row.decided_at is not None and row.decided_at < most})
    if earlier:
        after = " or ".join(map(str, earlier))
        lines.append(f"Some rows were shown not to be the best after {after} replicates already.")
    return lines


def caveats(scored: Sequence[RankedConfiguration], finished: Sequence[RankedConfiguration]) -> Iterator[str]:
    """Yields what cannot be read from the table's order, in lines."""
    num_alike, num_dropped = count_alike(finished), sum(row.was_dropped for row in scored)
    if len(finished) < len(scored):
        yield (
            "Configurations of which no trial has finished come last, with their best scores so far, and are not "
            "compared: had they finished, they might score higher."
        )
    if num_dropped:
        yield (
            f"{counted(num_dropped, 'configuration')} scored lower at first, or were stopped, and so were not trained "
            "again (--replicate-best), which does not show that they are worse: they keep the mark and come last, with "
            "scores of fewer trainings."
        )
    if count_alike(scored) < len(scored):
        yield (
            "Rows were trained on different tasks, and overall is a mean over a row's own: compare it only among rows "
            "with the same tasks, which stand together."
        )
    if num_alike > 1:
        yield (
            f"The first row is the best of {num_alike}, picked on these very dev examples, so its score is "
            "optimistic: expect less on new text."
        )


def count_alike(scored: Sequence[RankedConfiguration]) -> int:
    """Returns how many rows have the same tasks as the first one; 0 of none."""
    return sum(row.tasks == scored[0].tasks for row in scored)


def why_not_compared(rows: Sequence[RankedConfiguration], options: str = "--replicates 3") -> str:
    """Returns why rows have no margins, and the options that give them some, if any do."""
    if rows[0].few_groups:
        return few_groups_words(rows[0].few_groups)
    return f"{why_unknown(max(len(row.trials) for row in rows))} ({options})"


def why_unknown(most_replicates: int) -> str:
    """Returns why the variance of training is not known, by the replicates of the configuration that has most."""
    if most_replicates == 1:
        return "no configuration was trained twice"
    return "too few configurations were trained twice to show how much training again moves a score"


def metrics_line(columns: Sequence[Column], tasks: Mapping[str, Task]) -> list[str]:
    """Returns the metrics of the tasks that have a column in a line; empty if none has."""
    scored = [task for name, task in tasks.items() if any(name == column[0] for column in columns)]
    named = [f"{task.title} {task.metric_entry.title}{direction_of(task)}" for task in scored]
    return [f"Metrics: {'; '.join(named)}."] if named else []


def direction_of(task: Task) -> str:
    """`, lower is better` where that holds of a task's metric, else empty."""
    return ", lower is better" * task.metric_entry.lower_is_better


def failures(rows: Sequence[RankedConfiguration]) -> list[str]:
    """Returns a line for each failed trial, with the first line of its reason."""
    return [f"failed {(reason.splitlines() or [reason])[0]}" for row in rows for reason in row.failures]
