"""The effects of a searched key beside the differences that a paper prints."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mtlib.runtime.errors import require
from mtlib.tasks import Task
from results.analysis.effects.key_effects import ValueEffect
from results.analysis.effects.searched_keys import SearchedKey, hashable
from results.analysis.effects.sweep_effects import ColumnEffects, SweepEffects
from results.records.trials import OVERALL
from search_spaces.published import PublishedRow, PublishedTable, recomputed_overall


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How far a value's overall score is from that of the base value, here and in print."""

    value: Any
    """Of the searched key."""
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


def only_key(effects: SweepEffects) -> tuple[SearchedKey, ColumnEffects]:
    """The searched key and its effects on the overall score.

    Raises:
        ValueError: several keys were searched, or the effects of the only one on the overall score are not known.
    """
    names = ", ".join(key.name for key in effects.keys) or "none"
    is_listed = len(effects.keys) == 1 and effects.keys[0].range is None
    require(is_listed, "published differences must be of a single searched key with listed values", names)
    key, column = effects.keys[0], effects.columns.get(OVERALL)
    if column is None or key.name not in column.values:
        reason = effects.why_none if column is None else f"{key.name} has one value"
        raise ValueError(f"published differences must be beside effects on the overall score: {reason}")
    return key, column


def find_differences(
    table: PublishedTable, tasks: Mapping[str, Task], key: SearchedKey, column: ColumnEffects
) -> list[Difference]:
    """The differences in the overall score of a key's values from the base value, of those that were compared here.

    Args:
        table: with the published scores.
        tasks: the definitions of the sweep's tasks.
        key: the searched key, with listed values.
        column: its effects on the overall score.
    """
    printed = {
        plain(key.value_of(row.params)): (overall, row.overall is None)
        for row in table.rows
        if (overall := overall_of(row, tasks)) is not None
    }
    base = printed.get(plain(key.base))
    differences = []
    for value in column.values[key.name]:
        score = printed.get(plain(value.value))
        published = None if score is None or base is None else score[0] - base[0]
        if value.difference is not None:
            differences.append(
                Difference(
                    value=value.value,
                    here=value.difference,
                    interval=value.interval,
                    published=published,
                    is_recomputed=score is not None and base is not None and (score[1] or base[1]),
                    verdict=verdict_on(value, published),
                )
            )
    return differences


def verdict_on(value: ValueEffect, published: float | None) -> str:
    """Whether the sweep's difference from the base value has the sign of the published one."""
    if published is None:
        return "not published"
    if math.isclose(published, 0.0, abs_tol=1e-9):
        return "no published difference"
    if not value.is_significant:
        return "not decided here"
    return "same sign" if np.sign(value.difference or 0.0) == np.sign(published) else "opposite sign"


def overall_of(row: PublishedRow, tasks: Mapping[str, Task]) -> float | None:
    """The printed overall score, or else that of the row's scores."""
    return recomputed_overall(row, tasks) if row.overall is None else row.overall


def plain(value: Any) -> Any:
    """A value with tuples for lists, and whole numbers for equal other ones."""
    value = hashable(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value
