"""Texts as Python programs have them: frames, series, arrays, dictionaries and lists, read by the task's columns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from mtlib.runtime.errors import require
from results.stats.texts import named

Texts = pd.DataFrame | pd.Series | Mapping[str, Sequence[str | None]] | Iterable[Any]
"""What `ordered_texts` reads."""


def ordered_texts(texts: Texts, columns: Sequence[str]) -> tuple[Iterable[Any], pd.Index | None]:
    """Returns texts row by row, and the index of a frame or a series; None for all else.

    Iterating over a frame or a dictionary gives the names of its columns, so they are read by these names.

    Args:
        texts: a frame, or a dictionary of columns; a series, an array or another iterable of rows, each a text, a tuple
            of texts, or a row with names, such as a dictionary. A table that has `to_pandas` is a frame too.
        columns: those of the task's texts, in its order.

    Raises:
        ValueError: a column is missing or there twice, or `texts` has no order, or no rows.
    """
    if hasattr(texts, "to_pandas"):  # of Arrow, Polars or `datasets`
        texts = texts.to_pandas()
    if isinstance(texts, Mapping):
        texts = frame_of(texts, columns)
    if isinstance(texts, pd.DataFrame):
        check_columns("texts", list(texts), columns)
        return zip(*(texts[name] for name in columns), strict=True), texts.index
    is_listed = isinstance(texts, Iterable) and not isinstance(texts, str | bytes | set | frozenset)
    is_listed = is_listed and getattr(texts, "ndim", 1) > 0  # a NumPy array without a dimension has no rows
    require(is_listed, "texts must be a list of texts, or a frame with columns of texts", repr(texts))
    return by_names(texts, columns), texts.index if isinstance(texts, pd.Series) else None


def frame_of(texts: Mapping[str, Sequence[str | None]], columns: Sequence[str]) -> pd.DataFrame:
    """Returns the columns of texts of a dictionary as a frame."""
    check_columns("texts", list(texts), columns)
    for name in columns:
        is_column = isinstance(texts[name], Iterable) and not isinstance(texts[name], str)
        require(is_column, f"column '{name}' of texts must be a list of texts", repr(texts[name]))
    return pd.DataFrame({name: texts[name] for name in columns})


def by_names(rows: Iterable[Any], columns: Sequence[str]) -> Iterator[Any]:
    """Yields rows, those with names as tuples in the order of the task's columns; others as they are."""
    for number, row in enumerate(rows):
        require(not isinstance(row, set | frozenset), "every row of texts must have an order", f"a set in row {number}")
        names = names_of(row)
        if isinstance(row, Mapping) or any(name in names for name in columns):
            check_columns(f"row {number} of texts", names, columns)
            named = row if isinstance(row, Mapping) else dict(zip(names, row, strict=True))
            yield tuple(named[name] for name in columns)
        else:
            yield row


def names_of(row: Any) -> list[Any]:
    """Returns the names of a row's cells: of a dictionary, a series, a named tuple, or of a row of a structured array;
    empty for any other."""
    if isinstance(row, Mapping | pd.Series):
        return list(row.keys())
    return list(getattr(row, "_fields", None) or getattr(getattr(row, "dtype", None), "names", None) or ())


def check_columns(what: str, names: Sequence[Any], columns: Sequence[str]) -> None:
    """Raises ValueError unless each of the task's columns is there once."""
    rule = f"{what} must have the task's columns ({', '.join(columns)}), each once"
    require(all(names.count(name) == 1 for name in columns), rule, named(list(map(str, names))) or "none")
