"""A sweep beside the published tables that its question comes from: scores, differences, and what is not the same."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mtlib.config.trial import TrialConfig
from mtlib.tasks import Task, title_of, value_of
from results.analysis.comparison.trial_scores import TOTAL
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


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A published row beside a configuration of the sweep."""

    row: PublishedRow
    overall: float | None
    """Printed, or else from the row's scores; None where these are not all there."""
    here: RankedConfiguration | None
    """None where the sweep has no such configuration with a score."""


def published_blocks(sweep: Sweep, effects: SweepEffects | None) -> Iterator[Block]:
    """Each published table of the question beside the sweep's own scores."""
    tables = read_published(sweep.info)
    if not tables:
        yield Text(paragraphs=["No published table is recorded with this sweep's question."])
    for place, table in enumerate(tables):
        yield from table_blocks(sweep, effects, table, place)


def table_blocks(sweep: Sweep, effects: SweepEffects | None, table: PublishedTable, place: int) -> Iterator[Block]:
    """One published table: what differs, the differences as a chart, and the scores."""
    rows = compare(sweep, table)
    yield comparison_table(sweep, table, rows, place)
    key, column = only_key(effects)
    if key is not None and column is not None:
        yield difference_chart(table, rows, key, column, place)
    yield differences_table(sweep, table, place)


def compare(sweep: Sweep, table: PublishedTable) -> list[Compared]:
    """Each row with the configuration that has its values."""
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
    found = hashable(value)
    return int(found) if isinstance(found, float) and found.is_integer() else found


def overall_of(row: PublishedRow, tasks: Mapping[str, Task]) -> float | None:
    """The printed overall score, or else that of the row's scores."""
    return recomputed_overall(row, tasks) if row.overall is None else row.overall


def comparison_table(sweep: Sweep, table: PublishedTable, rows: Sequence[Compared], place: int) -> TextTable:
    """Printed and own scores side by side; slips of the print have a number and a line below."""
    tasks = [name for name in sweep.tasks if any(name in own.row.scores for own in rows)]
    has_overall = any(own.overall is not None for own in rows)
    names = [*tasks, *([OVERALL] if has_overall else [])]
    keys = list(dict.fromkeys(key for own in rows for key in own.row.params))
    slips = list(dict.fromkeys(slip for own in rows if (slip := slip_of(own.row, sweep.tasks))))
    cells = []
    for own in rows:
        slip = slip_of(own.row, sweep.tasks)
        mark = f" [{slips.index(slip) + 1}]" if slip else ""
        cells.append(
            [
                (value_text(own.row.params[keys[0]]) if len(keys) == 1 else short_values(own.row.params)) + mark,
                *(cell for name in names for cell in score_cells(own, name, sweep.tasks)),
                "" if own.row.epoch is None else str(own.row.epoch),
                "" if own.here is None else epoch_cell(own.here),
            ]
        )
    titles = [f"{title_of(name, sweep.tasks)} {whose}" for name in names for whose in (PUBLISHED, HERE)]
    notes = [f"[{number}] {slip}." for number, slip in enumerate(slips, 1)]
    return TextTable(
        name=f"published-{place + 1}",
        title=f"{table.paper}, {table.table}",
        columns=[keys[0] if len(keys) == 1 else "configuration", *titles, f"epoch {PUBLISHED}", f"epoch {HERE}"],
        rows=cells,
        caption=" ".join(
            [
                "Dev scores; those of this sweep are means over replicates, with the standard error over these.",
                *([f"{table.note.rstrip('.')}."] if table.note else []),
                *notes,
            ]
        ),
    )


def slip_of(row: PublishedRow, tasks: Mapping[str, Task]) -> str:
    """What is wrong in a row's print: what is known, or an overall score that is not that of its own columns."""
    recomputed = recomputed_overall(row, tasks)
    if row.slip or row.overall is None or recomputed is None or abs(recomputed - row.overall) <= PRINT_ERROR:
        return row.slip.rstrip(".")
    return f"the printed overall score is {row.overall:.3f}, that of its columns {recomputed:.3f}"


def score_cells(own: Compared, name: str, tasks: Mapping[str, Task]) -> list[str]:
    """The printed score and the sweep's, empty where there is none."""
    printed = own.overall if name == OVERALL else own.row.scores.get(name)
    column = TOTAL if name == OVERALL else (name, "dev")
    score = None if own.here is None else own.here.scores.get(column)
    if score is None:
        here = ""
    else:
        error = "" if score.replicate_error is None else f" ±{score.replicate_error:.3f}"
        here = f"{value_of(name, score.value, tasks):.3f}{error}"
    return ["" if printed is None else f"{printed:.3f}", here]


def only_key(effects: SweepEffects | None) -> tuple[SearchedKey | None, ColumnEffects | None]:
    """The searched key and its effects on the overall score, where one key with listed values was searched."""
    if effects is None or len(effects.keys) != 1 or OVERALL not in effects.columns:
        return None, None
    key, column = effects.keys[0], effects.columns[OVERALL]
    return (key, column) if key.name in column.values else (None, None)


def difference_chart(
    table: PublishedTable, rows: Sequence[Compared], key: SearchedKey, column: ColumnEffects, place: int
) -> Chart:
    """Published differences in the overall score from the base value beside the sweep's, with their intervals."""
    printed = {plain(key.value_of(own.row.params)): own.overall for own in rows if own.overall is not None}
    base = printed.get(plain(key.base))
    own = [
        (value, printed.get(plain(value.value))) for value in column.values[key.name] if value.difference is not None
    ]
    names = [value_text(value.value) for value, _ in own]
    nan = float("nan")
    bounds = [value.interval or (nan, nan) for value, _ in own]
    differences = [float(value.difference or 0.0) for value, _ in own]
    hover = [
        f"{key.name} {name}\n{verdict_on(value, there, base)}" for name, (value, there) in zip(names, own, strict=True)
    ]
    shown = [(name, there - base) for name, (_, there) in zip(names, own, strict=True) if there is not None and base]
    low, high = [pair[0] for pair in bounds], [pair[1] for pair in bounds]
    marks: list[Mark] = [
        Reference(at=0.0, across="x"),
        Series(
            x=differences, y=names, low=low, high=high, interval_along="x", hover=hover, name=f"{HERE}, 95 % interval"
        ),
        Series(
            x=[difference for _, difference in shown],
            y=[name for name, _ in shown],
            hover=[f"{key.name} {name}\npublished {difference:+.3f}" for name, difference in shown],
            name=PUBLISHED,
            style=1,
        ),
    ]
    verdicts = [verdict_on(value, there, base) for value, there in own]
    frame: dict[str, list[Any]] = {"value": names, HERE: differences, "low": low, "high": high, "comparison": verdicts}
    return Chart(
        name=f"published-differences-{place + 1}",
        title=f"Differences beside {table.paper}, {table.table}",
        caption=f"Overall score minus that of {key.name} {value_text(key.base)}. The papers trained each configuration "
        "once, so that their differences have no interval.",
        panels=[
            Panel(x=Axis(title="difference"), y=Axis(scale="category", categories=names, title=key.name), marks=marks)
        ]
        if names
        else [],
        frame=pd.DataFrame({**frame, PUBLISHED: [dict(shown).get(name) for name in names]}),
    )


def verdict_on(value: ValueEffect, printed: float | None, base: float | None) -> str:
    """Whether the sweep's difference from the base value has the sign of the published one."""
    if printed is None or base is None:
        return "not published"
    if not value.is_significant:
        return "not decided here"
    return "same sign" if ((value.difference or 0.0) > 0) == (printed > base) else "opposite sign"


def differences_table(sweep: Sweep, table: PublishedTable, place: int) -> TextTable:
    """Encoder, data and training of the paper, and of the sweep."""
    rows = [
        ["encoder", table.encoder, str((sweep.info.get("encoder") or {}).get("name", "not recorded"))],
        ["data", table.data, data_text(sweep.info)],
        ["training", table.training, training_text(sweep)],
    ]
    return TextTable(
        name=f"published-setting-{place + 1}",
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
    """Steps, rate and batch sizes of the first trial."""
    if not sweep.records:
        return "no trial yet"
    record = max(sweep.records, key=lambda record: record.steps)
    config = TrialConfig.from_json(record.config)
    epochs = sum(stage.epochs for stage in config.stages)
    sizes = "-".join(str(config.tasks[task].batch_size) for task in sweep.tasks if task in config.active_tasks)
    rate = config.optimizer.learning_rate
    return f"{record.steps:,} steps in {epochs} epochs, rate {rate:g}, batches of {sizes} ({record.trial_id})"
