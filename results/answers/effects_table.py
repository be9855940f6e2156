"""Effects as data frames with a row for each value of each key, and as tables in lines."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import pandas as pd

from mtlib.runtime.console import PLAIN_WIDTH, PrintedTable, table_lines, wrapped
from results.stats.effects.key_effects import ValueEffect
from results.stats.effects.range_effect import RangeEffect
from results.stats.effects.sweep_effects import ColumnEffects, SweepEffects
from results.stats.texts import error_text, frame_value, short_numbers, value_texts

COLUMNS: dict[str, Any] = {
    "key": "string",
    "value": "object",
    "task": "string",
    "is_base": "boolean",
    "num_trials": "Int64",
    "mean": "float64",
    "difference": "float64",
    "standard_error": "float64",
    "training_error": "float64",
    "example_error": "float64",
    "fixed_error": "float64",
    "degrees": "float64",
    "training_factor": "float64",
    "example_factor": "float64",
    "low": "float64",
    "high": "float64",
    "decided_at": "Int64",
}
"""The columns of the frame, with their types."""
CURVE_ROWS = 5
"""The rows of a range's curve in the printed table."""


def effects_frame(effects: SweepEffects) -> pd.DataFrame:
    """Returns all effects of a sweep; `Sweep.effects` describes the columns."""
    rows: list[dict[str, Any]] = []
    for column, key in product(effects.columns.values(), effects.keys):
        where = {"key": key.name, "task": column.task}
        for value in column.values.get(key.name, ()):
            is_base = value.value == column.key_of(key).base
            rows.append({**where, "is_base": is_base, **value_cells(value, column)})
        if key.name in column.curves:
            rows += [{**where, **point} for point in curve_points(column.curves[key.name], column)]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def value_cells(effect: ValueEffect, column: ColumnEffects) -> dict[str, Any]:
    """Returns the cells of a listed value."""
    low, high = column.bounds_of(effect.interval) if effect.interval else (None, None)
    return {
        "value": frame_value(effect.value),
        "num_trials": effect.num_trials,
        "mean": column.value_of(effect.mean),
        "difference": None if effect.difference is None else column.value_of(effect.difference),
        "standard_error": effect.error,
        **effect.parts,
        "low": low,
        "high": high,
        "decided_at": effect.decided_at,
    }


def curve_points(curve: RangeEffect, column: ColumnEffects) -> Iterator[dict[str, Any]]:
    """Yields the rows of a range's curve."""
    parts = (curve.points, curve.means, curve.differences, curve.errors, curve.half_widths)
    for point, mean, score_difference, error, width in zip(*parts, strict=True):
        difference = column.value_of(score_difference)
        yield {
            "value": float(point),
            "mean": column.value_of(mean),
            "difference": difference,
            "standard_error": error,
            "training_error": error,
            "example_error": 0.0,
            "fixed_error": 0.0,
            "degrees": curve.degrees,
            "training_factor": width / error if error else None,
            "example_factor": 0.0,
            "low": difference - width,
            "high": difference + width,
        }


def render_effects(effects: SweepEffects, width: int = PLAIN_WIDTH) -> list[str]:
    """Returns a table for each key: a row per value, a column per task, each with the difference from the base value.

    Where a row is wider than `width` columns, each number has a line of its own; where that does not fit either, each
    value has.
    """
    lines: list[str] = []
    for key in effects.keys:
        columns = [column for column in effects.columns.values() if key.name in {*column.values, *column.curves}]
        if columns:
            tables = (key_table(key.name, columns, is_tall=is_tall) for is_tall in (False, True))
            lines += [key.name, *table_lines(width, *tables), ""]
    return [*lines, *wrapped(effects_legend(effects), width)]


def key_table(key: str, columns: list[ColumnEffects], *, is_tall: bool) -> PrintedTable:
    """Returns the table of one key; in a tall one each number has a line of its own."""
    if key in columns[0].curves:
        points = columns[0].curves[key].points
        shown = range(0, len(points), (len(points) - 1) // (CURVE_ROWS - 1))
        texts = short_numbers([float(points[row]) for row in shown])
        cells = [[curve_text(column, key, row) for column in columns] for row in shown]
    else:
        effects = [{effect.value: effect_text(effect, column) for effect in column.values[key]} for column in columns]
        values = list(dict.fromkeys(value for own in effects for value in own))  # a task may not have all of them
        texts, cells = value_texts(values), [[own.get(value, "") for own in effects] for value in values]
    return PrintedTable(
        titles=["value", *(column.title for column in columns)],
        rows=[[text, *(broken(cell, is_tall) for cell in row)] for text, row in zip(texts, cells, strict=True)],
        is_spaced=is_tall,
    )


def effect_text(effect: ValueEffect, column: ColumnEffects) -> str:
    """E.g. `0.540 +0.012` and below it `-0.003 to +0.027`."""
    mean = f"{column.value_of(effect.mean):.3f}"
    if effect.difference is None:
        return mean
    interval = f"\n{column.bounds_text(effect.interval)}" if effect.interval is not None else ""
    return f"{mean} {column.value_of(effect.difference):+.3f}{interval}"


def broken(cell: str, is_tall: bool) -> list[str]:
    """Returns the lines of a cell, in a tall table one for each number."""
    return (re.sub(r" (?=[-+±])", "\n", cell) if is_tall else cell).split("\n")


def curve_text(column: ColumnEffects, key: str, row: int) -> str:
    """Returns a point of a key's curve, e.g. `0.540 ±.004`."""
    curve = column.curves[key]
    return f"{column.value_of(curve.means[row]):.3f} {error_text(curve.half_widths[row])}"


def effects_legend(effects: SweepEffects) -> list[str]:
    """Returns the meaning of the columns."""
    has_values = any(column.values for column in effects.columns.values())
    has_curves = any(column.curves for column in effects.columns.values())
    of_values = (
        f"Mean score and difference from {effects.base_text}; "
        "below, its 95 % interval, for all values of a key at once and however often you look."
    )
    of_curves = "Ranges: fitted score, and half the width of its 95 % band around the mean."
    shared = "Intervals hold the variance of training and of the dev examples."
    if not any(column.is_known for column in effects.columns.values()):
        return [f"Mean score and difference from {effects.base_text}; no interval is known."]
    return [*([of_values] if has_values else []), *([of_curves] if has_curves else []), shared]
