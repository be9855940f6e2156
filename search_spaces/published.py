"""Published results: the rows that papers print about the configurations of a search space, as data."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mtlib.config.schema import check_types, check_value, read_value
from mtlib.runtime.errors import require
from mtlib.tasks import Task, overall_score, score_of

TRAIN = "train "
"""Before a task's name: the column of its score on train."""


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """What a paper prints about one configuration."""

    params: Mapping[str, Any]
    """The searched values, as a trial of the space has them (`search_spaces.space.grid_trials`): by dotted key, or by a
    name that the space defines."""
    scores: Mapping[str, float]
    """By task name, the values of its metric on dev; only tasks for which one is printed."""
    train_scores: Mapping[str, float] = field(default_factory=dict)
    """The same on train."""
    overall: float | None = None
    """The overall score; None: not printed."""
    epoch: int | None = None
    """The epoch of these scores, counted from 1; None: not printed."""
    slip: str = ""
    """What is known to be wrong in the print; empty: nothing."""

    def __post_init__(self) -> None:
        check_types(self)
        for name, value in {**self.scores, **self.train_scores}.items():
            check_value(float, value, f"the printed score of {name}")


@dataclass(frozen=True, kw_only=True)
class PublishedTable:
    """Some rows of one printed table, with what a comparison has to bear in mind."""

    paper: str
    """Title of the paper."""
    table: str
    """Its number there: `table 6`."""
    encoder: str
    data: str
    """The data and their numbers of rows, in one phrase."""
    training: str
    """Length, learning rate and batch sizes, in one phrase."""
    rows: tuple[PublishedRow, ...]
    """In the order of the print; rows that no configuration of the space is about are left out."""
    note: str = ""
    """Anything else: rows that are left out, other tables that repeat some."""

    def __post_init__(self) -> None:
        check_types(self)
        require(bool(self.rows), f"{self.paper}, {self.table} must have at least one row", "none")


@dataclass(frozen=True, kw_only=True)
class Paper:
    """What all tables of a paper have in common."""

    title: str
    encoder: str
    data: str
    """As in `PublishedTable`."""


BERT_AND_BEYOND = Paper(
    title="BERT and Beyond",
    encoder="BERT-base",
    data="the course's: 8,544 SST, 141,498 QQP and 6,040 STS train rows",
)
TRIPLE_THREAT = Paper(
    title="Triple Threat",
    encoder="BERT-base",
    data="the course's, numbers of rows not given but for 40,429 QQP dev rows",
)
TUNING_UP_BERT = Paper(
    title="Tuning Up BERT",
    encoder="BERT-base",
    data="the course's: 11,855 SST, 404,298 QQP and 8,628 STS rows in all",
)
TUNING_UP_BERT_SYNTHETIC = dataclasses.replace(
    TUNING_UP_BERT, data=f"{TUNING_UP_BERT.data}, and 100,000 synthetic SST train sentences"
)
"""From its section 5.3.2 on."""
MY_PAL_BERT = Paper(
    title="My PAL BERT",
    encoder="BERT-base",
    data="the course's: 8,544 SST, 283,003 QQP and 6,040 STS train rows",
)


def published_table(
    paper: Paper,
    table: str,
    *,
    training: str,
    keys: tuple[str, ...],
    columns: tuple[str, ...],
    rows: tuple[tuple[Any, ...], ...],
    task_key: str = "",
    note: str = "",
) -> PublishedTable:
    """Returns a table that reads like the printed one.

    Args:
        paper: where it is printed.
        table: its number.
        training: as in `PublishedTable`.
        keys: searched keys, or names that the space defines.
        columns: what is printed: names of tasks, `train ` and a name for its score on train, `overall`, `epoch`.
        rows: in each a value per key, then one per column, None where nothing is printed, then its slip, if any.
        task_key: a further key, whose value is the name of a task: every score is that of a trial of its own.
        note: as in `PublishedTable`.

    Raises:
        ValueError: a row has too few or too many values.
    """
    read = [published_row(table, keys, columns, row) for row in rows]
    return PublishedTable(
        paper=paper.title,
        table=table,
        encoder=paper.encoder,
        data=paper.data,
        training=training,
        rows=tuple(part for row in read for part in (rows_by_task(row, task_key) if task_key else (row,))),
        note=note,
    )


def published_row(table: str, keys: tuple[str, ...], columns: tuple[str, ...], cells: tuple[Any, ...]) -> PublishedRow:
    """Returns one row of `published_table`.

    Raises:
        ValueError: it has too few or too many values.
    """
    names = (*keys, *columns)
    rule = f"a row of {table} must have {len(names)} values ({', '.join(names)}), and after them at most its slip"
    require(len(cells) - len(names) in (0, 1), rule, cells)
    printed = {name: value for name, value in zip(columns, cells[len(keys) :], strict=False) if value is not None}
    train = {name: printed.pop(name) for name in columns if name.startswith(TRAIN) and name in printed}
    return PublishedRow(
        params=dict(zip(keys, cells, strict=False)),
        train_scores={name.removeprefix(TRAIN): value for name, value in train.items()},
        overall=printed.pop("overall", None),
        epoch=printed.pop("epoch", None),
        scores=printed,
        slip="".join(cells[len(names) :]),
    )


def rows_by_task(row: PublishedRow, task_key: str) -> tuple[PublishedRow, ...]:
    """Returns a row for each score of a row, with the name of its task under a key."""
    return tuple(
        dataclasses.replace(row, params={task_key: task, **row.params}, scores={task: score})
        for task, score in row.scores.items()
    )


def recomputed_overall(row: PublishedRow, tasks: Mapping[str, Task]) -> float | None:
    """Returns the overall score that follows from the printed scores; None unless each of `tasks`, by name, has one."""
    if not set(tasks) <= set(row.scores):
        return None
    return overall_score({name: score_of(name, row.scores[name], tasks) for name in tasks}, tasks)


def read_published(info: Mapping[str, Any]) -> tuple[PublishedTable, ...]:
    """Returns the published tables of a sweep's space, from the content of `sweep.json`.

    Raises:
        ValueError: an entry is not as `PublishedTable`.
    """
    given = (info.get("space") or {}).get("published", ())
    tables: tuple[PublishedTable, ...] = read_value(tuple[PublishedTable, ...], given, "space.published")
    return tables
