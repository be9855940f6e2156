"""A sweep beside the published tables that its question comes from: scores, differences, and what is not the same."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mtlib.config.trial import TrialConfig
from mtlib.tasks import Task, title_of, value_of
from results.analysis.comparison.trial_scores import TOTAL, Column
from results.analysis.effects.key_effects import ValueEffect
from results.analysis.effects.searched_keys import SearchedKey, hashable
from results.analysis.effects.sweep_effects import ColumnEffects, SweepEffects
from results.analysis.ranking.rank import RankedConfiguration
from results.analysis.ranking.render import epoch_cell, value_text
from results.analysis.sweep import Sweep
from results.figures.chart import Axis, Chart, Mark, Panel, Reference, Series
from results.figures.hover import short_values
from results.page.content import Block, Text, TextTable
from results.records.trials import OVERALL
from search_spaces.published import PublishedRow, PublishedTable, read_published, recomputed_overall

PRINT_ERROR = 0.00092
"""Three printed digits each: a printed overall score differs from that of its own columns by at most so much."""
PUBLISHED, HERE = "published", "here"
RECOMPUTED = "recomputed"
RECOMPUTED_NOTE = f"Where a paper prints no overall score, that of its columns stands here, marked as {RECOMPUTED}."


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


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How far a value's overall score is from that of the base value, here and in print."""

    name: str
    """The value."""
    here: float
    interval: tuple[float, float] | None
    """Of the difference here; None where it is not known."""
    published: float | None
    """None where no score of the value or of the base value is published."""
    is_recomputed: bool
    """Whether one of the published scores is not printed, but recomputed."""
    verdict: str
    """How the two compare."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Low and high of the interval, nan where it is not known."""
        return self.interval or (math.nan, math.nan)


def published_blocks(sweep: Sweep, effects: SweepEffects | None) -> Iterator[Block]:
    """Each published table of the question beside the sweep's own scores.

    Raises:
        ValueError: as `search_spaces.published.read_published` and `Sweep.ranking`.
    """
    tables = read_published(sweep.info)
    if not tables:
        yield Text(paragraphs=["No published table is recorded with this sweep's question."])
    for number, table in enumerate(tables, 1):
        yield from table_blocks(sweep, effects, table, number)


def table_blocks(sweep: Sweep, effects: SweepEffects | None, table: PublishedTable, number: int) -> Iterator[Block]:
    """One published table: the scores, the differences as a chart, and what differs; raises as `Sweep.ranking`."""
    rows = compare(sweep, table)
    yield comparison_table(sweep, table, rows, number)
    key, column = only_key(effects)
    if key is not None and column is not None:
        yield difference_chart(table, rows, key, column, number)
    yield differences_table(sweep, table, number)


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


def plain(value: Any) -> Any:
    """A value with tuples for lists, and whole numbers for equal other ones."""
    value = hashable(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def overall_of(row: PublishedRow, tasks: Mapping[str, Task]) -> float | None:
    """The printed overall score, or else that of the row's scores."""
    return recomputed_overall(row, tasks) if row.overall is None else row.overall


def comparison_table(sweep: Sweep, table: PublishedTable, rows: Sequence[Compared], number: int) -> TextTable:
    """Printed and own scores side by side; slips of the print have a number and a line below."""
    columns = shown_columns(sweep.tasks, rows)
    keys = list(dict.fromkeys(key for compared in rows for key in compared.row.params))
    slips = list(dict.fromkeys(slip for compared in rows if (slip := slip_of(compared.row, sweep.tasks))))
    cells = []
    for compared in rows:
        row, slip = compared.row, slip_of(compared.row, sweep.tasks)
        values = value_text(row.params[keys[0]]) if len(keys) == 1 else short_values(row.params)
        cells.append(
            [
                values + (f" [{slips.index(slip) + 1}]" if slip else ""),
                *(cell for column in columns for cell in score_cells(compared, column, sweep.tasks)),
                "" if row.epoch is None else str(row.epoch),
                "" if compared.here is None else epoch_cell(compared.here),
            ]
        )
    titles = [f"{column_title(column, sweep.tasks)} {whose}" for column in columns for whose in (PUBLISHED, HERE)]
    splits = "Dev and train scores" if any(split == "train" for _, split in columns) else "Dev scores"
    notes = [
        f"{splits}; those of this sweep are means over replicates, with the standard error over these.",
        *([RECOMPUTED_NOTE] if any(compared.is_recomputed for compared in rows) else []),
        *([f"{table.note.rstrip('.')}."] if table.note else []),
        *(f"[{position}] {slip}." for position, slip in enumerate(slips, 1)),
    ]
    return TextTable(
        name=f"published-{number}",
        title=f"{table.paper}, {table.table}",
        columns=[keys[0] if len(keys) == 1 else "configuration", *titles, f"epoch {PUBLISHED}", f"epoch {HERE}"],
        rows=cells,
        caption=" ".join(notes),
    )


def shown_columns(tasks: Mapping[str, Task], rows: Sequence[Compared]) -> list[Column]:
    """The scores that are published in some row: of each task on dev and on train, then the overall score."""
    columns: list[Column] = []
    for name in tasks:
        columns += [(name, "dev")] if any(name in compared.row.scores for compared in rows) else []
        columns += [(name, "train")] if any(name in compared.row.train_scores for compared in rows) else []
    return columns + ([TOTAL] if any(compared.overall is not None for compared in rows) else [])


def column_title(column: Column, tasks: Mapping[str, Task]) -> str:
    """E.g. `SST`, `SST train`."""
    name, split = column
    return title_of(name, tasks) + (f" {split}" if split == "train" else "")


def slip_of(row: PublishedRow, tasks: Mapping[str, Task]) -> str:
    """What is wrong in a row's print: what is known, or an overall score that is not that of its own columns."""
    recomputed = recomputed_overall(row, tasks)
    if row.slip or row.overall is None or recomputed is None or abs(recomputed - row.overall) <= PRINT_ERROR:
        return row.slip.rstrip(".")
    return f"the printed overall score is {row.overall:.3f}, that of its columns {recomputed:.3f}"


def score_cells(compared: Compared, column: Column, tasks: Mapping[str, Task]) -> list[str]:
    """The published score and the sweep's, empty where there is none."""
    name, split = column
    score = None if compared.here is None else compared.here.scores.get(column)
    here = "" if score is None else f"{value_of(name, score.value, tasks):.3f}"
    if score is not None and score.replicate_error is not None:
        here += f" ±{score.replicate_error:.3f}"
    if column == TOTAL:
        printed, mark = compared.overall, mark_of(compared.is_recomputed)
    else:
        printed, mark = (compared.row.train_scores if split == "train" else compared.row.scores).get(name), ""
    return ["" if printed is None else f"{printed:.3f}{mark}", here]


def mark_of(is_recomputed: bool) -> str:
    """What stands after a score that is not printed."""
    return f" ({RECOMPUTED})" if is_recomputed else ""


def only_key(effects: SweepEffects | None) -> tuple[SearchedKey | None, ColumnEffects | None]:
    """The searched key and its effects on the overall score, where one key with listed values was searched."""
    if effects is None or len(effects.keys) != 1 or OVERALL not in effects.columns:
        return None, None
    key, column = effects.keys[0], effects.columns[OVERALL]
    return (key, column) if key.name in column.values else (None, None)


def find_differences(rows: Sequence[Compared], key: SearchedKey, column: ColumnEffects) -> list[Difference]:
    """The differences in the overall score of a key's values from the base value, of those that were compared here."""
    printed = {
        plain(key.value_of(compared.row.params)): (compared.overall, compared.is_recomputed)
        for compared in rows
        if compared.overall is not None
    }
    base = printed.get(plain(key.base))
    differences = []
    for value in column.values[key.name]:
        score = printed.get(plain(value.value))
        published = None if score is None or base is None else score[0] - base[0]
        if value.difference is not None:
            differences.append(
                Difference(
                    name=value_text(value.value),
                    here=value.difference,
                    interval=value.interval,
                    published=published,
                    is_recomputed=score is not None and base is not None and (score[1] or base[1]),
                    verdict=verdict_on(value, published),
                )
            )
    return differences


def difference_chart(
    table: PublishedTable, rows: Sequence[Compared], key: SearchedKey, column: ColumnEffects, number: int
) -> Chart:
    """Published differences in the overall score from the base value beside the sweep's, with their intervals."""
    differences = find_differences(rows, key, column)
    names = [difference.name for difference in differences]
    axis = Axis(scale="category", categories=names, title=key.name)
    panel = Panel(x=Axis(title="difference"), y=axis, marks=difference_marks(differences, key))
    return Chart(
        name=f"published-differences-{number}",
        title=f"Differences beside {table.paper}, {table.table}",
        caption=f"Overall score minus that of {key.name} {value_text(key.base)}. The papers trained each configuration "
        "once, so that their differences have no interval."
        + (f" {RECOMPUTED_NOTE}" if any(difference.is_recomputed for difference in differences) else ""),
        panels=[panel] if differences else [],
        frame=pd.DataFrame(
            {
                "value": names,
                HERE: [difference.here for difference in differences],
                "low": [difference.bounds[0] for difference in differences],
                "high": [difference.bounds[1] for difference in differences],
                "comparison": [difference.verdict for difference in differences],
                PUBLISHED: [difference.published for difference in differences],
                "is_recomputed": [difference.is_recomputed for difference in differences],
            }
        ),
    )


def difference_marks(differences: Sequence[Difference], key: SearchedKey) -> list[Mark]:
    """The sweep's differences with their intervals, and the published ones."""
    shown = [(difference, difference.published) for difference in differences if difference.published is not None]
    return [
        Reference(at=0.0, across="x"),
        Series(
            x=[difference.here for difference in differences],
            y=[difference.name for difference in differences],
            low=[difference.bounds[0] for difference in differences],
            high=[difference.bounds[1] for difference in differences],
            interval_along="x",
            hover=[f"{key.name} {difference.name}\n{difference.verdict}" for difference in differences],
            name=f"{HERE}, 95 % interval",
        ),
        Series(
            x=[published for _, published in shown],
            y=[difference.name for difference, _ in shown],
            hover=[
                f"{key.name} {difference.name}\n{PUBLISHED} {published:+.3f}{mark_of(difference.is_recomputed)}"
                for difference, published in shown
            ],
            name=PUBLISHED,
            style=1,
        ),
    ]


def verdict_on(value: ValueEffect, published: float | None) -> str:
    """Whether the sweep's difference from the base value has the sign of the published one."""
    if published is None:
        return "not published"
    if math.isclose(published, 0.0, abs_tol=1e-9):
        return "no published difference"
    if not value.is_significant:
        return "not decided here"
    return "same sign" if np.sign(value.difference or 0.0) == np.sign(published) else "opposite sign"


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
        columns=["", PUBLISHED, HERE],
        rows=rows,
        num_text_columns=3,
    )


def data_text(info: Mapping[str, Any]) -> str:
    """The sweep's data with their train rows."""
    rows = (info.get("data") or {}).get("rows") or {}
    train = ", ".join(
        f"{count:,} {name.removesuffix('-train')}" for name, count in rows.items() if name.endswith("-train")
    )
    is_demonstration = (info.get("options") or {}).get("data", "given") is None
    kind = "the generated demonstration corpus" if is_demonstration else str((info.get("data") or {}).get("folder"))
    return f"{kind}: {train} train rows" if train else kind


def training_text(sweep: Sweep) -> str:
    """Steps, rate and batch sizes of the trial with the most steps."""
    if not sweep.records:
        return "no trial yet"
    record = max(sweep.records, key=lambda record: record.steps)
    config = TrialConfig.from_json(record.config)
    epochs = sum(stage.epochs for stage in config.stages)
    sizes = "-".join(str(config.tasks[task].batch_size) for task in sweep.tasks if task in config.active_tasks)
    rate = config.optimizer.learning_rate
    return f"{record.steps:,} steps in {epochs} epochs, rate {rate:g}, batches of {sizes} ({record.trial_id})"
