"""Texts to predict as Python programs have them: lists, frames, dictionaries, rows with names."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from mtlib.runtime.errors import require
from results.inference.readers import TextRow
from results.stats.texts import named


def is_missing(value: Any) -> bool:
    """Returns whether a value stands for none: None, NaN, `pandas.NA` or `pandas.NaT`."""
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


def ordered_texts(texts: Any, columns: Sequence[str]) -> tuple[Iterable[Any], pd.Index | None]:
    """Returns texts row by row, in the order of the task's columns, and the index of a frame or a series.

    Args:
        texts: a frame, another table that has `to_pandas`, a dictionary of columns, or an iterable of rows, with names
            or without.
        columns: those of the task's texts. Iterating over a frame would give the names of its own.

    Raises:
        ValueError: a column is missing or there twice, or `texts` are no rows in an order.
    """
    texts = listed_texts(texts)
    if isinstance(texts, pd.DataFrame | Mapping):
        found = named_columns(texts, "texts", columns)
        rule = "columns of texts must be lists of texts, of one length"
        require(all(map(is_listed, found)) and len({len(list(own)) for own in found}) == 1, rule, repr(texts))
        return zip(*found, strict=True), getattr(texts, "index", None)
    require(is_listed(texts), "texts must be a list of texts, or a frame with columns of texts", repr(texts))
    rows = (named_columns(row, f"row {number} of texts", columns) for number, row in enumerate(texts))
    return rows, texts.index if isinstance(texts, pd.Series) else None


def listed_texts(texts: Any) -> Any:
    """Returns a table of Arrow, Polars or `datasets`, or an array whose rows have names, as a frame, and what can be
    walked through only once, also a column, as a list; else the texts as they are."""
    to_pandas = getattr(texts, "to_pandas", None)
    texts = texts if to_pandas is None else to_pandas()
    if isinstance(texts, Mapping):
        return {name: list(own) if isinstance(own, Iterator) else own for name, own in texts.items()}
    is_structured = getattr(getattr(texts, "dtype", None), "names", None)
    return pd.DataFrame(texts) if is_structured else list(texts) if isinstance(texts, Iterator) else texts


def names_of(texts: Any, columns: Collection[str]) -> list[Any]:
    """Returns the names of the columns of `listed_texts`; none where rows are read by place, as no name of the first
    one is among these columns."""
    if isinstance(texts, pd.DataFrame | Mapping):
        return list(texts.keys())
    first: Any = next(iter(texts), None) if is_listed(texts) else None
    own = first._asdict() if hasattr(first, "_asdict") else first
    names = list(own.keys()) if hasattr(own, "keys") else []
    return names if any(name in columns for name in names) else []


def num_texts_of(texts: Any) -> int | None:
    """Returns how many texts the first row has that is not missing, of `listed_texts`; None where there is no row."""
    first = next((row for row in texts if not is_missing(row)), None) if is_listed(texts) else None
    if first is None:
        return None
    return len(list(first)) if isinstance(first, Iterable) and not isinstance(first, str) else 1


def is_listed(given: Any) -> bool:
    """Returns whether something has elements in an order: a set has none, and a dictionary has names of them."""
    has_elements = isinstance(given, Iterable) and getattr(given, "ndim", 1) > 0  # an array may have no dimension
    return has_elements and not isinstance(given, str | bytes | set | frozenset | Mapping)


def named_columns(given: Any, what: str, columns: Sequence[str]) -> Any:
    """Returns what a frame, a dictionary or a row has under the names of columns; a row without them as it is."""
    own = given._asdict() if hasattr(given, "_asdict") else given
    names = list(own.keys()) if hasattr(own, "keys") else []  # of a series too
    if not isinstance(given, pd.DataFrame | Mapping) and not any(name in names for name in columns):
        return given
    rule = f"{what} must have the task's columns ({', '.join(columns)}), each once"
    require(all(names.count(name) == 1 for name in columns), rule, named(list(map(str, names))) or "none")
    return tuple(own[name] for name in columns)


def text_rows(texts: Iterable[str | tuple[str | None, ...] | None], num_texts: int) -> Iterator[TextRow]:
    """Rows to predict, with blank texts for missing ones; ValueError if one has another number of texts."""
    require(not isinstance(texts, str), "texts must be a list of texts", repr(texts))
    for number, given in enumerate(texts):
        one = (given,) * (num_texts if is_missing(given) else 1)
        parts: Iterable[Any] = given if isinstance(given, Iterable) and not isinstance(given, str) else one
        row = tuple("" if is_missing(text) else text for text in parts)
        is_right = len(row) == num_texts and all(isinstance(text, str) for text in row)
        is_right = is_right and not isinstance(given, set | frozenset)
        kind = "a text" if num_texts == 1 else f"a tuple of {num_texts} texts"
        require(is_right, f"every row of texts must be {kind}", f"{given!r} in row {number}")
        yield TextRow(where=f"row {number}", id=str(number), texts=tuple(text.strip() for text in row))
