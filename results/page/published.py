"""A sweep beside the published tables that its question comes from: scores, differences, and what is not the same."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mtlib.config.trial import TrialConfig
from mtlib.runtime.command_line import counted
from mtlib.runtime.errors import reason_of
from mtlib.tasks import Task, title_of, value_of
from results.answers.published_differences import RECOMPUTED_NOTE, find_differences, mark_of, overall_of, plain
from results.answers.ranking_table import direction_of, epoch_cell, metrics_line
from results.figures.effects import published_differences
from results.figures.hover import short_values
from results.page.content import Block, Fold, Text, TextTable
from results.records.trials import OVERALL
from results.stats.ranking import RankedConfiguration
from results.stats.texts import error_text, value_text
from results.stats.trial_scores import TOTAL, Column
from results.sweep import Sweep
from search_spaces.published import PublishedRow, PublishedTable, read_published, recomputed_overall

PRINT_ERROR = 0.00092
"""Three printed digits each: a printed overall score differs from that of its own columns by at most so much."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A published row beside a configuration of the sweep."""

    row: PublishedRow
    overall: float | None
    """Printed, or else from the row's scores; None where these are not all there."""
    here: RankedConfiguration | None
    """None where the sweep has no such configuration with a score."""

    @property
    def is_recomputed(self) -> bool:
        """Whether the overall score is not printed, but follows from the printed scores."""
        return self.row.overall is None and self.overall is not None


def published_blocks(sweep: Sweep) -> Iterator[Block]:
    """Each published table of the question beside the sweep's own scores.

    Raises:
        ValueError: as `search_spaces.published.read_published` and `Sweep.ranking`.
    """
    tables = read_published(sweep.info)
    for number, table in enumerate(tables, 1):
        yield from table_blocks(sweep, table, number)


def table_blocks(sweep: Sweep, table: PublishedTable, number: int) -> Iterator[Block]:
    """One published table: the scores, the differences as a figure or why there is none, and what differs.

    Args:
        sweep: with scores; raises as `Sweep.ranking` if these cannot be read.
        table: the published one.
        number: of the table among those of the question, from 1.
    """
    rows = compare(sweep, table)
    yield comparison_table(sweep, table, rows, number)
    try:
        found = find_differences(table, sweep.tasks, sweep.estimated_effects, sweep.estimate_effects)
        yield published_differences(table, found, number)
    except ValueError as error:
        yield Text(paragraphs=[f"There is no figure of differences: {reason_of(error)}."])
    yield Fold(title="What differs from the paper", blocks=[differences_table(sweep, table, number)])


def compare(sweep: Sweep, table: PublishedTable) -> list[Compared]:
    """Each row with the configuration that has its values; raises as `Sweep.ranking`."""
    ranked = {params_key(row.params): row for row in sweep.ranked if row.scores}
    return [
        Compared(row=row, overall=overall_of(row, sweep.tasks), here=ranked.get(params_key(row.params)))
        for row in table.rows
    ]


def params_key(params: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Searched values in a form in which equal ones are equal, also after JSON."""
    return tuple(sorted((name, repr(plain(value))) for name, value in params.items()))


def comparison_table(sweep: Sweep, table: PublishedTable, rows: Sequence[Compared], number: int) -> TextTable:
    """Printed and own scores side by side; slips of the print have a number and a line below."""
    columns = shown_columns(sweep.tasks, rows)
    keys = list(dict.fromkeys(key for compared in rows for key in compared.row.params))
    slips = list(dict.fromkeys(slip for compared in rows if (slip := slip_of(compared.row, sweep.tasks))))
    has_epochs = any(compared.row.epoch is not None for compared in rows)
    cells = []
    for compared in rows:
        row, slip = compared.row, slip_of(compared.row, sweep.tasks)
        values = value_text(row.params[keys[0]]) if len(keys) == 1 else short_values(row.params)
        cells.append(
            [
                values + (f" [{slips.index(slip) + 1}]" if slip else ""),
                *(cell for column in columns for cell in score_cells(compared, column, sweep.tasks)),
                *(["" if row.epoch is None else str(row.epoch)] if has_epochs else []),
                "" if compared.here is None else epoch_cell(compared.here),
            ]
        )
    titles = [f"{column_title(column, sweep.tasks)} {whose}" for column in columns for whose in ("published", "here")]
    titles += [f"epoch {whose}" for whose in ("published", "here") if has_epochs or whose == "here"]
    splits = "Dev and train scores" if any(split == "train" for _, split in columns) else "Dev scores"
    notes = [
        f"{splits}; those of this sweep are means over replicates, with the standard error over these.",
        *metrics_line([task for name, task in sweep.tasks.items() if any(name == column[0] for column in columns)]),
        *([RECOMPUTED_NOTE] if any(compared.is_recomputed for compared in rows) else []),
        *([f"{table.note.rstrip('.')}."] if table.note else []),
        *(f"[{index}] {slip}." for index, slip in enumerate(slips, 1)),
    ]
    return TextTable(
        name=f"published-{number}",
        title=f"{table.paper}, {table.table}",
        columns=[keys[0] if len(keys) == 1 else "configuration", *titles],
        rows=cells,
        caption=" ".join(notes),
        frame=pd.DataFrame([comparison_row(compared, columns, sweep.tasks) for compared in rows]),
    )


def comparison_row(compared: Compared, columns: Sequence[Column], tasks: Mapping[str, Task]) -> dict[str, Any]:
    """One row of the data frame: the numbers of the table, None where there is none; scores as in `Sweep.ranking`."""
    row, here = compared.row, compared.here
    cells: dict[str, Any] = dict(row.params)
    for column in columns:
        name, score = OVERALL if column == TOTAL else "_".join(column), here and here.scores.get(column)
        cells[f"{name}_published"] = printed_score(compared, column)
        cells[name] = score and value_of(column[0], score.value, tasks)
        cells[f"{name}_replicate_error"] = score and score.replicate_error
    is_recomputed = {"overall_is_recomputed": compared.is_recomputed} if TOTAL in columns else {}
    epochs = {"epoch_published": row.epoch, "best_epoch": here and here.best_epoch}
    return {**cells, **is_recomputed, **epochs, "slip": slip_of(row, tasks)}


def shown_columns(tasks: Mapping[str, Task], rows: Sequence[Compared]) -> list[Column]:
    """The scores that are published in some row: of each task on dev and on train, then the overall score."""
    columns: list[Column] = []
    for name in tasks:
        columns += [(name, "dev")] if any(name in compared.row.scores for compared in rows) else []
        columns += [(name, "train")] if any(name in compared.row.train_scores for compared in rows) else []
    return columns + ([TOTAL] if any(compared.overall is not None for compared in rows) else [])


def column_title(column: Column, tasks: Mapping[str, Task]) -> str:
    """E.g. `SST`, `SST train`, `Grades, lower is better,`."""
    name, split = column
    direction = f"{direction_of(tasks[name])}," if name in tasks and direction_of(tasks[name]) else ""
    return title_of(name, tasks) + (f" {split}" if split == "train" else "") + direction


def slip_of(row: PublishedRow, tasks: Mapping[str, Task]) -> str:
    """What is wrong in a row's print: what is known, or an overall score that is not that of its own columns."""
    recomputed = recomputed_overall(row, tasks)
    if row.slip or row.overall is None or recomputed is None or abs(recomputed - row.overall) <= PRINT_ERROR:
        return row.slip.rstrip(".")
    return f"the printed overall score is {row.overall:.3f}, that of its columns {recomputed:.3f}"


def score_cells(compared: Compared, column: Column, tasks: Mapping[str, Task]) -> list[str]:
    """The published score and the sweep's, empty where there is none."""
    name, _ = column
    score = None if compared.here is None else compared.here.scores.get(column)
    here = "" if score is None else f"{value_of(name, score.value, tasks):.3f}"
    if score is not None and score.replicate_error is not None:
        here += f" {error_text(score.replicate_error)}"
    printed, mark = printed_score(compared, column), mark_of(compared.is_recomputed) if column == TOTAL else ""
    return ["" if printed is None else f"{printed:.3f}{mark}", here]


def printed_score(compared: Compared, column: Column) -> float | None:
    """The published score, None where there is none."""
    name, split = column
    if column == TOTAL:
        return compared.overall
    return (compared.row.train_scores if split == "train" else compared.row.scores).get(name)


def differences_table(sweep: Sweep, table: PublishedTable, number: int) -> TextTable:
    """Encoder, data and training of the paper, and of the sweep."""
    rows = [
        ["encoder", table.encoder, str((sweep.info.get("encoder") or {}).get("name", "not recorded"))],
        ["data", table.data, data_text(sweep.info)],
        ["training", table.training, training_text(sweep)],
    ]
    return TextTable(
        name=f"published-setting-{number}",
        title="What differs",
        columns=["", "published", "here"],
        rows=rows,
        num_text_columns=3,
    )


def data_text(info: Mapping[str, Any]) -> str:
    """The sweep's data with their train rows."""
    rows = (info.get("data") or {}).get("rows") or {}
    train = ", ".join(
        f"{count:,} {name.removesuffix('-train')}" for name, count in rows.items() if name.endswith("-train")
    )
    kind = "the generated demonstration corpus" if has_demo_data(info) else str((info.get("data") or {}).get("folder"))
    return f"{kind}: {train} train rows" if train else kind


def has_demo_data(info: Mapping[str, Any]) -> bool:
    """Whether a sweep was run on the demonstration corpus."""
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
