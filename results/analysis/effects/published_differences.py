"""The effects of a searched key beside the differences that a paper prints."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mtlib.runtime.errors import require
from mtlib.tasks import Task, score_of
from results.analysis.effects.key_effects import ValueEffect
from results.analysis.effects.searched_keys import SearchedKey, hashable
from results.analysis.effects.sweep_effects import ColumnEffects, SweepEffects
from results.records.trials import OVERALL
from search_spaces.published import PublishedRow, PublishedTable, recomputed_overall

Estimate = Callable[[Mapping[str, Any]], SweepEffects]
"""Estimates the effects of a sweep, with other base values by key: `Sweep.estimate_effects`."""
Printed = Mapping[Any, tuple[float, bool]]
"""By value of a key, the printed score, higher is better, and whether it is not printed, but recomputed."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How far a value's score is from that of the base value, here and in print, as scores are shown."""

    value: Any
    """Of the searched key."""
    here: float
    interval: tuple[float, float] | None
    """Of the difference here; None where it is not known."""
    published: float
    is_recomputed: bool
    """Whether one of the published scores is not printed, but recomputed."""
    verdict: str
    """How the two compare."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Low and high of the interval, nan where it is not known."""
        return self.interval or (math.nan, math.nan)


@dataclass(frozen=True, kw_only=True)
class ColumnDifferences:
    """The differences in one score."""

    column: ColumnEffects
    key: SearchedKey
    """With the base value that these differences are from."""
    differences: Sequence[Difference]
    """Of the other values that are published and were trained here, at least one."""


def find_differences(
    table: PublishedTable, tasks: Mapping[str, Task], estimate: Estimate, bases: Mapping[str, Any] | None = None
) -> list[ColumnDifferences]:
    """The differences of a key's values from the base value, of values in the table that were trained here.

    They are in the overall score, or, where the table has none, in each task's. Where the table does not have the base
    value, they are from its first row that has a value of the sweep.

    Args:
        table: with the published scores.
        tasks: the definitions of the sweep's tasks.
        estimate: estimates the sweep's effects.
        bases: other base values, as in `estimate`.

    Raises:
        ValueError: several keys or a range were searched, or no two values of the table were trained here.
    """
    effects = estimate(bases or {})
    require(bool(effects.columns), "published differences must be beside effects", f"none: {effects.why_none}")
    listed = {task: key for task, column in effects.columns.items() if (key := only_key(effects, column))}
    names = ", ".join(key.name for key in effects.keys) or "none"
    require(bool(listed), "published differences must be of a single searched key with listed values", names)
    for candidates in ([OVERALL], list(tasks)):
        found = [
            differences
            for task in candidates
            if task in listed
            and (differences := column_differences(table, tasks, task, listed[task], estimate, bases or {}))
        ]
        if found:
            return found
    raise ValueError("published differences must be of values that were trained here, got fewer than two")


def only_key(effects: SweepEffects, column: ColumnEffects) -> SearchedKey | None:
    """The only key that varies among the configurations with a score, if it has listed values."""
    if len(column.values) != 1 or column.curves:
        return None
    return next(key for key in effects.keys if key.name in column.values)


def column_differences(
    table: PublishedTable,
    tasks: Mapping[str, Task],
    task: str,
    key: SearchedKey,
    estimate: Estimate,
    bases: Mapping[str, Any],
) -> ColumnDifferences | None:
    """The differences in one score; None where the table has it for fewer than two values that were trained here.

    Args:
        table: with the published scores.
        tasks: the definitions of the sweep's tasks.
        task: a task, or `overall`.
        key: the key that varies among the configurations with this score.
        estimate: estimates the sweep's effects.
        bases: the base values that were asked for.
    """
    printed = printed_scores(table, tasks, task, key)
    trained = {plain(effect.value): effect.value for effect in estimate(bases).columns[task].values[key.name]}
    shared = [trained[value] for value in printed if value in trained]
    if len(shared) < 2:
        return None
    if plain(key.base) not in map(plain, shared):
        bases = {**bases, key.name: shared[0]}
    effects = estimate(bases)
    column = effects.columns[task]
    key = next(own for own in effects.keys if own.name == key.name)
    differences = [
        difference_of(effect, column, printed[plain(effect.value)], printed[plain(key.base)])
        for effect in column.values[key.name]
        if effect.difference is not None and plain(effect.value) in printed
    ]
    return ColumnDifferences(column=column, key=key, differences=differences) if differences else None


def printed_scores(table: PublishedTable, tasks: Mapping[str, Task], task: str, key: SearchedKey) -> Printed:
    """The scores that a table has of a key's values, in its order."""
    printed = {}
    for row in table.rows:
        value = overall_of(row, tasks) if task == OVERALL else row.scores.get(task)
        if value is not None:
            is_recomputed = task == OVERALL and row.overall is None
            printed[plain(key.value_of(row.params))] = score_of(task, value, tasks), is_recomputed
    return printed


def difference_of(
    effect: ValueEffect, column: ColumnEffects, printed: tuple[float, bool], base: tuple[float, bool]
) -> Difference:
    """A value's difference beside that of the printed scores of the value and of the base value."""
    published = printed[0] - base[0]
    return Difference(
        value=effect.value,
        here=column.value_of(effect.difference or 0.0),
        interval=effect.interval and column.bounds_of(effect.interval),
        published=column.value_of(published),
        is_recomputed=printed[1] or base[1],
        verdict=verdict_on(effect, published),
    )


def verdict_on(value: ValueEffect, published: float) -> str:
    """Whether the sweep's difference in score from the base value has the sign of the published one."""
    if math.isclose(published, 0.0, abs_tol=1e-9):
        return "no published difference"
    if not value.is_significant:
        return "not decided here"
    return "same sign" if (value.difference or 0.0) * published > 0.0 else "opposite sign"


def overall_of(row: PublishedRow, tasks: Mapping[str, Task]) -> float | None:
    """The printed overall score, or else that of the row's scores."""
    return recomputed_overall(row, tasks) if row.overall is None else row.overall


def plain(value: Any) -> Any:
    """A value with tuples for lists, and whole numbers for equal other ones."""
    value = hashable(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value
