"""Effects as data frames with a row for each value of each key, and as a printed table."""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pandas as pd
from rich.console import Group
from rich.table import Table
from rich.text import Text

from results.analysis.effects.key_effects import ValueEffect
from results.analysis.effects.published_differences import RECOMPUTED_NOTE, ColumnDifferences, mark_of
from results.analysis.effects.range_effect import RangeEffect
from results.analysis.effects.sweep_effects import ColumnEffects, SweepEffects
from results.analysis.ranking.render import PLAIN_WIDTH, error_text, narrow_table, table_within, value_text

COLUMNS: dict[str, Any] = {
    "key": "string",
    "value": "object",
    "task": "string",
    "is_base": "boolean",
    "num_trials": "Int64",
    "mean": "float64",
    "difference": "float64",
    "standard_error": "float64",
    "low": "float64",
    "high": "float64",
}
"""Of the frame, with their types."""
VALUE_WIDTH = 28
"""Columns of a value; a longer one takes several lines."""
CURVE_ROWS = 5
"""Of a range's curve in the printed table."""


def effects_frame(effects: SweepEffects) -> pd.DataFrame:
    """All effects of a sweep; `Sweep.effects` describes the columns."""
    rows = [row for column in effects.columns.values() for row in column_rows(effects, column)]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def column_rows(effects: SweepEffects, column: ColumnEffects) -> Iterator[dict[str, Any]]:
    """The rows of one score."""
    for key in effects.keys:
        for value in column.values.get(key.name, ()):
            cells = value_cells(value, column)
            yield {"key": key.name, "task": column.task, "is_base": value.value == key.base, **cells}
        if key.name in column.curves:
            yield from curve_points(column.curves[key.name], column)


def value_cells(effect: ValueEffect, column: ColumnEffects) -> dict[str, Any]:
    """The cells of a listed value."""
    low, high = column.bounds_of(effect.interval) if effect.interval else (None, None)
    return {
        "value": effect.value,
        "num_trials": effect.num_trials,
        "mean": column.value_of(effect.mean),
        "difference": None if effect.difference is None else column.value_of(effect.difference),
        "standard_error": effect.error,
        "low": low,
        "high": high,
    }


def curve_points(curve: RangeEffect, column: ColumnEffects) -> Iterator[dict[str, Any]]:
    """The rows of a range's curve."""
    parts = (curve.points, curve.means, curve.differences, curve.errors, curve.half_widths)
    for point, mean, score_difference, error, width in zip(*parts, strict=True):
        difference = column.value_of(score_difference)
        yield {
            "key": curve.key,
            "value": float(point),
            "task": column.task,
            "is_base": None,
            "num_trials": None,
            "mean": column.value_of(mean),
            "difference": difference,
            "standard_error": error,
            "low": difference - width,
            "high": difference + width,
        }


def render_effects(effects: SweepEffects, width: int = PLAIN_WIDTH) -> Group:
    """A table for each key: a row per value, a column per task, each with the difference from the base value.

    Where a row is wider than `width` columns, each number has a line of its own.
    """
    parts: list[Any] = []
    for key in effects.keys:
        columns = [column for column in effects.columns.values() if key.name in {*column.values, *column.curves}]
        if columns:
            parts += [Text(key.name), table_within(width, partial(key_table, key.name, columns)), Text("")]
    return Group(*parts, *(Text(line) for line in effects_legend(effects)))


def key_table(key: str, columns: list[ColumnEffects], *, is_tall: bool) -> Table:
    """The table of one key; in a tall one each number has a line of its own."""
    table = narrow_table()
    table.leading = int(is_tall)
    table.add_column("value", overflow="fold", max_width=VALUE_WIDTH)
    for column in columns:
        table.add_column(column.title, no_wrap=True)
    if key in columns[0].curves:
        points = columns[0].curves[key].points
        for row in range(0, len(points), (len(points) - 1) // (CURVE_ROWS - 1)):
            cells = [broken(curve_text(column, key, row), is_tall) for column in columns]
            table.add_row(f"{points[row]:.3g}", *cells)
        return table
    effects = [
        {effect.value: broken(effect_text(effect, column), is_tall) for effect in column.values[key]}
        for column in columns
    ]
    for value in dict.fromkeys(value for own in effects for value in own):  # a task may not have all of them
        table.add_row(value_text(value), *(own.get(value, "") for own in effects))
    return table


def render_differences(title: str, found: Sequence[ColumnDifferences], width: int = PLAIN_WIDTH) -> Group:
    """A table of differences beside those of a published table.

    Args:
        title: of the published table.
        found: its scores, at least one.
        width: in columns; where a row is wider, interval and comparison have a line of their own.
    """
    is_recomputed = any(difference.is_recomputed for scored in found for difference in scored.differences)
    notes = [Text(RECOMPUTED_NOTE)] if is_recomputed else []
    table = table_within(width, partial(published_differences_table, found))
    return Group(Text(f"Beside {title}"), table, *notes)


def published_differences_table(found: Sequence[ColumnDifferences], *, is_tall: bool) -> Table:
    """The table of some differences; in a tall one interval and comparison have a line of their own."""
    table = narrow_table()
    table.leading = int(is_tall)
    names = ["difference", "95 % interval", "published", "comparison"]
    for name in ("score", found[0].key.name):
        table.add_column(name, overflow="fold")
    for name in stacked(names, is_tall):
        table.add_column(name, no_wrap=True)
    for scored in found:
        for difference in scored.differences:
            interval = "" if difference.interval is None else "{:+.3f} to {:+.3f}".format(*difference.interval)
            published = f"{difference.published:+.3f}{mark_of(difference.is_recomputed)}"
            cells = [f"{difference.here:+.3f}", interval, published, difference.verdict]
            values = f"{value_text(difference.value)} against {value_text(scored.key.base)}"
            table.add_row(scored.column.title, values, *stacked(cells, is_tall))
    return table


def stacked(cells: list[str], is_tall: bool) -> list[str]:
    """The cells, in a tall table two and two in one, each in a line of its own."""
    return ["\n".join(pair) for pair in zip(cells[::2], cells[1::2], strict=True)] if is_tall else cells


def effect_text(effect: ValueEffect, column: ColumnEffects) -> str:
    """E.g. `0.540 +0.012` and below it `-0.003 to +0.027`."""
    mean = f"{column.value_of(effect.mean):.3f}"
    if effect.difference is None:
        return mean
    interval = f"\n{column.bounds_text(effect.interval)}" if effect.interval is not None else ""
    return f"{mean} {column.value_of(effect.difference):+.3f}{interval}"


def broken(cell: str, is_tall: bool) -> str:
    """A cell's text, in a tall table with a line for each number."""
    return re.sub(r" (?=[-+±])", "\n", cell) if is_tall else cell


def curve_text(column: ColumnEffects, key: str, row: int) -> str:
    """A point of a key's curve, e.g. `0.540 ±.004`."""
    curve = column.curves[key]
    return f"{column.value_of(curve.means[row]):.3f} {error_text(curve.half_widths[row])}"


def effects_legend(effects: SweepEffects) -> list[str]:
    """The meaning of the columns."""
    has_values = any(column.values for column in effects.columns.values())
    has_curves = any(column.curves for column in effects.columns.values())
    of_values = (
        f"Mean score and difference from {effects.base_text}; "
        "below, its 95 % interval, for all values of a key at once."
    )
    of_curves = "Ranges: fitted score, and half the width of its 95 % band around the mean."
    shared = "Intervals hold the variance of training and of the dev examples."
    return [*([of_values] if has_values else []), *([of_curves] if has_curves else []), shared]
