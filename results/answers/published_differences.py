"""The effects of a searched key beside the differences that a paper prints."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mtlib.runtime.errors import require
from mtlib.tasks import Task, score_of
from results.records.trials import OVERALL
from results.stats.effects.key_effects import ValueEffect
from results.stats.effects.searched_keys import SearchedKey, hashable
from results.stats.effects.sweep_effects import ColumnEffects, SweepEffects
from search_spaces.published import PublishedRow, PublishedTable, recomputed_overall

RECOMPUTED = "recomputed"
RECOMPUTED_NOTE = f"Where a paper prints no overall score, that of its columns stands here, marked as {RECOMPUTED}."
EstimateEffects = Callable[[Mapping[str, Any]], SweepEffects]
"""Estimates the effects of a sweep, with other base values by key: `Sweep.estimate_effects`."""


@dataclass(frozen=True, kw_only=True)
class PrintedScore:
    """A score of a published row, higher is better."""

    score: float
    is_recomputed: bool
    """Whether it is not printed, but follows from the scores that are."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How far a value's score is from the base value's, here and in print, as scores are shown."""

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
    table: PublishedTable, tasks: Mapping[str, Task], effects: SweepEffects, estimate: EstimateEffects
) -> list[ColumnDifferences]:
    """Returns the differences of a key's values from the base value, of values in the table that were trained here.

    They are in the overall score, or, where that does not have two such values here and in the table, in each task's.
    Where the table does not have the base value, they are from its first value that was trained here.

    Args:
        table: with the published scores.
        tasks: the definitions of the sweep's tasks.
        effects: of the sweep.
        estimate: estimates them from another base value.

    Returns:
        The scores, at least one, all with the same key.

    Raises:
        ValueError: several keys or a range were searched, or fewer than two of the table's values were trained here.
    """
    if not effects.columns:
        raise ValueError(f"there are no differences here, as {effects.why_none}")
    key_by_task = {task: key for task, column in effects.columns.items() if (key := only_key(effects, column))}
    names = ", ".join(key.name for key in effects.keys) or "none"
    rule = "published differences must be of a single searched key with two or more listed values"
    require(bool(key_by_task), rule, names)
    for candidates in ([OVERALL], list(tasks)):
        estimated = [task for task in candidates if task in key_by_task]
        found = [
            column_differences(table, task, key_by_task[task], effects, estimate)
            for task in estimated
            if key_by_task[task] == key_by_task[estimated[0]]
        ]
        if any(found):
            return [differences for differences in found if differences]
    raise ValueError("at least two of a published table's values must have been trained here, with all else equal")


def only_key(effects: SweepEffects, column: ColumnEffects) -> SearchedKey | None:
    """Returns the only key that varies among the configurations with a score, if it has listed values."""
    if len(column.values) != 1 or column.curves:
        return None
    return next(key for key in effects.keys if key.name in column.values)


def column_differences(
    table: PublishedTable, task: str, key: SearchedKey, effects: SweepEffects, estimate: EstimateEffects
) -> ColumnDifferences | None:
    """Returns the differences in one score; None where the table has it for fewer than two values that were trained
    here.

    Args:
        table: with the published scores.
        task: a task, or `overall`.
        key: the only one that varies among the configurations with this score.
        effects: of the sweep.
        estimate: estimates them from another base value.
    """
    printed = printed_scores(table, effects.columns[task], effects.keys, key)
    trained = {plain(effect.value): effect.value for effect in effects.columns[task].values[key.name]}
    shared = [trained[value] for value in printed if value in trained]
    if len(shared) < 2:
        return None
    if plain(key.base) not in map(plain, shared):
        effects = estimate({key.name: shared[0]})
    column, key_here = effects.columns[task], next(own for own in effects.keys if own.name == key.name)
    differences = [
        difference_of(effect, column, printed[plain(effect.value)], printed[plain(key_here.base)])
        for effect in column.values[key.name]
        if effect.difference is not None and plain(effect.value) in printed
    ]
    return ColumnDifferences(column=column, key=key_here, differences=differences) if differences else None


def printed_scores(
    table: PublishedTable, column: ColumnEffects, keys: Sequence[SearchedKey], key: SearchedKey
) -> dict[Any, PrintedScore]:
    """Returns the scores that a table has of a key's values, in its order, at the values that other keys have here."""
    printed = {}
    for row in table.rows:
        is_total = column.task == OVERALL
        value = overall_of(row, column.tasks) if is_total else row.scores.get(column.task)
        others = {own.name: plain(own.value_of(row.params)) for own in keys if own.name in column.constants}
        is_alike = all(own is None or own == plain(column.constants[name]) for name, own in others.items())
        if value is not None and is_alike:
            printed[plain(key.value_of(row.params))] = PrintedScore(
                score=score_of(column.task, value, column.tasks), is_recomputed=is_total and row.overall is None
            )
    return printed


def difference_of(effect: ValueEffect, column: ColumnEffects, printed: PrintedScore, base: PrintedScore) -> Difference:
    """Returns the difference of a value from the base value, beside the difference of their printed scores."""
    assert effect.difference is not None
    published = printed.score - base.score
    return Difference(
        value=effect.value,
        here=column.value_of(effect.difference),
        interval=effect.interval and column.bounds_of(effect.interval),
        published=column.value_of(published),
        is_recomputed=printed.is_recomputed or base.is_recomputed,
        verdict=verdict_on(effect, published),
    )


def mark_of(is_recomputed: bool) -> str:
    """Returns what stands after a score, or a difference, that is not printed."""
    return f" ({RECOMPUTED})" if is_recomputed else ""


def verdict_on(value: ValueEffect, published: float) -> str:
    """Returns whether the sweep's difference in score from the base value has the sign of the published one."""
    if math.isclose(published, 0.0, abs_tol=1e-9):
        return "no published difference"
    if value.is_same:
        return "trained the same here"
    if not value.is_significant:
        return "not decided here"
    return "same sign" if (value.difference or 0.0) * published > 0.0 else "opposite sign"


def overall_of(row: PublishedRow, tasks: Mapping[str, Task]) -> float | None:
    """Returns the printed overall score, or else the one that the row's scores give."""
    return recomputed_overall(row, tasks) if row.overall is None else row.overall


def plain(value: Any) -> Any:
    """Returns a value with tuples for lists, and whole numbers for equal other ones."""
    value = hashable(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value
