"""A sweep beside the published tables that its question comes from: the scores, and what is not the same."""

from collections.abc import Iterator, Mapping
from typing import Any

from mtlib.config.trial import TrialConfig
from mtlib.runtime.command_line import counted
from mtlib.tasks import Task, title_of, value_of
from results.answers.ranking_table import direction_of, epoch_cell, metrics_line
from results.figures.hover import short_values
from results.page.content import Block, Fold, Text, TextTable
from results.records.trials import sweep_encoders
from results.stats.ranking import RankedConfiguration
from results.stats.texts import error_text, value_text
from results.stats.trial_scores import TOTAL, Column
from results.sweep import Sweep
from search_spaces.published import PublishedRow, PublishedTable, read_published, recomputed_overall
from search_spaces.space_json import as_tuples

RECOMPUTED = "recomputed"
RECOMPUTED_NOTE = f"Where a paper prints no overall score, that of its columns stands here, marked as {RECOMPUTED}."
PRINT_ERROR = 0.00092
"""Three printed digits each: a printed overall score differs from that of its own columns by at most so much."""


def published_blocks(sweep: Sweep) -> Iterator[Block]:
    """Yields each published table of the question beside the sweep's own scores, and what differs; or that none of its
    configurations was trained here.

    Raises:
        ValueError: as `search_spaces.published.read_published` and `Sweep.ranking`.
    """
    for table in read_published(sweep.info):
        here = {params_key(row.params) for row in sweep.ranked if row.scores}
        if any(params_key(row.params) in here for row in table.rows):
            yield comparison_table(sweep, table)
            rows = [
                ["encoder", table.encoder, ", ".join(sweep_encoders(sweep.info)) or "not recorded"],
                ["data", table.data, data_text(sweep.info)],
                ["training", table.training, training_text(sweep)],
            ]
            differ = TextTable(title="What differs", columns=["", "published", "here"], rows=rows, num_text_columns=3)
            yield Fold(title="What differs from the paper", blocks=[differ])
        else:
            yield Text(paragraphs=[f"None of the configurations of {table.paper}, {table.table}, was trained here."])


def params_key(params: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Searched values in a form in which equal ones are equal, also after JSON."""
    return tuple(sorted((name, repr(plain(value))) for name, value in params.items()))


def plain(value: Any) -> Any:
    """Returns a value with tuples for lists, and whole numbers for equal other ones."""
    value = as_tuples(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def comparison_table(sweep: Sweep, table: PublishedTable) -> TextTable:
    """Printed and own scores side by side; slips of the print have a number and a line below.
    Raises as `Sweep.ranking`."""
    tasks = sweep.tasks
    order = [*((name, split) for name in tasks for split in ("dev", "train")), TOTAL]
    columns = [own for own in order if any(printed_score(row, own, tasks) is not None for row in table.rows)]
    keys = list(dict.fromkeys(key for row in table.rows for key in row.params))
    slips = list(dict.fromkeys(slip for row in table.rows if (slip := slip_of(row, tasks))))
    has_epochs = any(row.epoch is not None for row in table.rows)
    ranked = {params_key(row.params): row for row in sweep.ranked if row.scores}
    cells = []
    for row in table.rows:
        here, slip = ranked.get(params_key(row.params)), slip_of(row, tasks)
        values = value_text(row.params[keys[0]]) if len(keys) == 1 else short_values(row.params)
        cells.append(
            [
                values + (f" [{slips.index(slip) + 1}]" if slip else ""),
                *(cell for column in columns for cell in score_cells(row, here, column, tasks)),
                *(["" if row.epoch is None else str(row.epoch)] if has_epochs else []),
                "" if here is None else epoch_cell(here),
            ]
        )
    titles = [f"{column_title(column, tasks)} {whose}" for column in columns for whose in ("published", "here")]
    titles += [f"epoch {whose}" for whose in ("published", "here") if has_epochs or whose == "here"]
    splits = "Dev and train scores" if any(split == "train" for _, split in columns) else "Dev scores"
    notes = [
        f"{splits}; those of this sweep are means over replicates, with the standard error over these.",
        *metrics_line(columns, tasks),
        *([RECOMPUTED_NOTE] if any(is_recomputed(row, tasks) for row in table.rows) else []),
        *([f"{table.note.rstrip('.')}."] if table.note else []),
        *(f"[{index}] {slip}." for index, slip in enumerate(slips, 1)),
    ]
    return TextTable(
        title=f"{table.paper}, {table.table}",
        columns=[keys[0] if len(keys) == 1 else "configuration", *titles],
        rows=cells,
        caption=" ".join(notes),
    )


def score_cells(
    row: PublishedRow, here: RankedConfiguration | None, column: Column, tasks: Mapping[str, Task]
) -> list[str]:
    """Returns the published score and the sweep's, empty where there is none."""
    printed, score = printed_score(row, column, tasks), None if here is None else here.scores.get(column)
    mark = f" ({RECOMPUTED})" if column == TOTAL and is_recomputed(row, tasks) else ""
    own = [] if score is None else [f"{value_of(column[0], score.value, tasks):.3f}"]
    own += [] if score is None or score.replicate_error is None else [error_text(score.replicate_error)]
    return ["" if printed is None else f"{printed:.3f}{mark}", " ".join(own)]


def printed_score(row: PublishedRow, column: Column, tasks: Mapping[str, Task]) -> float | None:
    """Returns the published score, an overall one also from the row's scores; None where there is none."""
    name, split = column
    if column == TOTAL:
        return recomputed_overall(row, tasks) if row.overall is None else row.overall
    return (row.train_scores if split == "train" else row.scores).get(name)


def is_recomputed(row: PublishedRow, tasks: Mapping[str, Task]) -> bool:
    """Returns whether the overall score is not printed, but follows from the printed scores."""
    return row.overall is None and recomputed_overall(row, tasks) is not None


def column_title(column: Column, tasks: Mapping[str, Task]) -> str:
    """E.g. `SST`, `SST train`, `Grades, lower is better,`."""
    name, split = column
    direction = f"{direction_of(tasks[name])}," if name in tasks and direction_of(tasks[name]) else ""
    return title_of(name, tasks) + (f" {split}" if split == "train" else "") + direction


def slip_of(row: PublishedRow, tasks: Mapping[str, Task]) -> str:
    """Says what is wrong in a row's print: what is known, or an overall score that does not follow from its columns."""
    recomputed = recomputed_overall(row, tasks)
    if row.slip or row.overall is None or recomputed is None or abs(recomputed - row.overall) <= PRINT_ERROR:
        return row.slip.rstrip(".")
    return f"the printed overall score is {row.overall:.3f}, that of its columns {recomputed:.3f}"


def data_text(info: Mapping[str, Any]) -> str:
    """Returns the sweep's data with their train rows."""
    rows = (info.get("data") or {}).get("rows") or {}
    train = ", ".join(
        f"{count:,} {name.removesuffix('-train')}" for name, count in rows.items() if name.endswith("-train")
    )
    kind = "the generated demonstration corpus" if has_demo_data(info) else str((info.get("data") or {}).get("folder"))
    return f"{kind}: {train} train rows" if train else kind


def has_demo_data(info: Mapping[str, Any]) -> bool:
    """Returns whether a sweep was run on the demonstration corpus."""
    return (info.get("options") or {}).get("data", "given") is None


def training_text(sweep: Sweep) -> str:
    """Steps, rate and batch sizes of the trial with the most steps."""
    if not any(record.steps for record in sweep.records):
        return "no trial has ended an epoch yet"
    record = max(sweep.records, key=lambda record: record.steps)
    config = TrialConfig.from_json(record.config)
    sizes = "-".join(str(config.tasks[task].batch_size) for task in sweep.tasks if task in config.active_tasks)
    rate = config.optimizer.learning_rate
    trained = f"{counted(record.steps, 'step')} in {counted(record.epochs, 'epoch')}"
    return f"{trained}, rate {rate:g}, batches of {sizes} ({record.trial_id})"
