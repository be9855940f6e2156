"""Reads rows of JSON: an object a line, an array of objects or of lists, and objects of arrays, one for each split."""

import functools
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import IO, Any

from mtlib.data.files.exports import rows_of_export
from mtlib.data.files.readers import (
    MAX_QUOTED_VALUE,
    SPLIT_WORDS,
    WORDS_OF_SPLITS,
    MissingColumnError,
    Row,
    Wanted,
    check_surrogates,
    count_splits,
    decode_lines,
    with_carried,
)
from mtlib.runtime.errors import nearest_first, require

MISSING = object()
"""In place of the value of a key that is not there."""
MOST_LEVELS = 20
"""Objects within objects whose keys are looked at."""


def read_json_stream(stream: IO[bytes], name: str, is_lines: bool, wanted: Wanted) -> Iterator[Row]:
    """Rows of a stream of JSON, in which null and NaN are blank; a list may be the value of `wanted.list_column`.

    Rows of exports of annotation tools (`mtlib.data.files.exports`) are what these mean. A key with dots, such as
    `data.text`, leads into objects within objects.

    Args:
        stream: bytes of text, with or without a byte order mark.
        name: of the input, in messages.
        is_lines: whether it has an object a line, read when it is asked for. Otherwise it is an array, or an object of
            arrays: of the splits, or of columns as pandas and polars write them.
        wanted: what is read.

    Raises:
        ValueError: with input and line or row. It is no such JSON or not in its encoding; a key is missing; a value is
            neither text nor a number.
    """
    lines = decode_lines(stream, name, wanted.format.encoding)
    places = line_objects(lines, name) if is_lines else array_objects("".join(lines), name, wanted)
    rows = rows_of_export(places, wanted.list_column, wanted.findings)
    first = next(rows, None)
    if first is None:
        return
    wanted = with_carried(wanted, lambda key: value_of_key(first[1], key) is not MISSING)
    keys, is_numbered = wanted.columns, False
    if wanted.is_numbered and not (keys[0] and value_of_key(first[1], keys[0]) is not MISSING):
        keys, is_numbered = keys[1:], True
    names = {last_key(key) for key in wanted.unwatched}  # rows of exports have some values twice, with dots and without
    others = (key for key in keys_of(first[1]) if last_key(key) not in names)
    unwanted = ((key, functools.partial(value_of_key, key=key, missing="")) for key in others)
    for where, item in count_splits(itertools.chain([first], rows), unwanted, wanted):
        cells = []
        for key in keys:
            value = value_of_key(item, key, "" if key in wanted.carried else MISSING)
            if value is MISSING:
                hint = nearest_first(key, list(item), taken=keys)
                raise MissingColumnError(f"{where}: key {key} is missing; {hint}")
            cells.append(cell_text(where, key, value, may_be_list=key == wanted.list_column))
        yield where, [str(next(wanted.findings.row_numbers)), *cells] if is_numbered else cells


def line_objects(lines: Iterable[str], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the place and the object of each line that is not blank."""
    for number, text in enumerate(lines, 1):
        if text.strip():
            yield f"{name}:{number}", parse_object(f"{name}:{number}", text)


def array_objects(text: str, name: str, wanted: Wanted) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the place and the object of each row of a JSON file that is no file of lines."""
    tree = parse_tree(text, name)
    yield from line_objects(text.split("\n"), name) if tree is MISSING else tree_objects(tree, text, name, wanted)


def parse_tree(text: str, name: str) -> Any:
    """Returns what a JSON file holds; `MISSING` if it is JSON lines under another name."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if "Extra data" in str(error) and text.lstrip().startswith("{"):
            return MISSING
        raise ValueError(f"{name} must be JSON, got: {error}") from None


def tree_objects(tree: Any, text: str, name: str, wanted: Wanted) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the place and the object of each row of what a JSON file holds; `text` is for messages."""
    found, rule = tree, f"{name} must be an array of objects, or an object that has one for {wanted.split}"
    names: Sequence[str] | None = None
    if isinstance(found, dict):
        key = split_key(found, wanted.split)
        if isinstance(found.get("data"), list):  # `DataFrame.to_json` with orient split or table
            columns, found = found.get("columns"), found["data"]
            names = [str(column) for column in columns] if isinstance(columns, list) else None
        elif key is not None and not {*wanted.columns[-1:]} & {*found}:
            count_other_arrays(found, wanted)
            found = found[key]
        else:
            found = rows_of_columns(found, wanted.columns)
    require(isinstance(found, list), rule, text.strip()[:MAX_QUOTED_VALUE])
    for number, item in enumerate(found):
        where = f"{name}: row {number}"
        if isinstance(item, list):
            headers = [names] if names else [*wanted.headers, ()]
            fitting = (header for header in headers if len(header) == len(item))
            item = named_cells(where, item, next(fitting, headers[0]))
        require(isinstance(item, dict), f"{where} must be an object", str(item)[:MAX_QUOTED_VALUE])
        yield where, item


def split_key(found: Mapping[str, Any], split: str) -> str | None:
    """Returns the key of the array that an object has for a split; None if there is none."""
    return next((key for key in WORDS_OF_SPLITS.get(split, ()) if isinstance(found.get(key), list)), None)


def has_split_arrays(stream: IO[bytes], encoding: str, splits: Iterable[str]) -> bool:
    """Returns whether a stream is a JSON object that has an array for each of these splits."""
    try:
        found = json.loads("".join(decode_lines(stream, "", encoding)))
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and all(split_key(found, split) is not None for split in splits)


def count_other_arrays(found: Mapping[str, Any], wanted: Wanted) -> None:
    """Counts as left out the rows of the arrays that are for no split."""
    for key, rows in found.items():
        if key not in SPLIT_WORDS and isinstance(rows, list):
            wanted.findings.left_out[f"{key} is for no split"] += len(rows)


def named_cells(where: str, cells: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
    """Returns a row that is a list, by the names of the columns."""
    rule = f"{where} is a list: columns must name its {len(cells)} values in tasks.toml"
    require(len(cells) == len(names), rule, ", ".join(names) or "none")
    return dict(zip(names, cells, strict=True))


def rows_of_columns(tree: Mapping[str, Any], wanted: Sequence[str]) -> Any:
    """Returns the rows of an object of columns, each a list or an object by row, or of an object of rows."""
    columns = {key: list(own.values()) if isinstance(own, dict) else own for key, own in tree.items()}
    names = {tuple(own) for own in tree.values() if isinstance(own, dict)}  # of the rows
    wanted = wanted or [key for key, own in tree.items() if isinstance(own, list)]
    if not set(wanted) & set(tree):
        return list(tree.values())
    if not any(isinstance(tree.get(name), list | dict) for name in wanted):
        return [tree]  # JSON lines of a single row
    sizes = {len(own) for own in columns.values() if isinstance(own, list)}
    is_even = len(sizes) == 1 and len(names) <= 1 and all(isinstance(own, list) for own in columns.values())
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)] if is_even else None


def parse_object(where: str, text: str) -> dict[str, Any]:
    """Returns the object in a line of JSON lines."""
    try:
        item = json.loads(text)
    except (ValueError, RecursionError):
        item = None
    if not isinstance(item, dict):
        raise ValueError(f"{where}: a line must be a JSON object, got {text.strip()[:MAX_QUOTED_VALUE]}")
    return item


def keys_of(item: Mapping[str, Any], levels: int = MOST_LEVELS) -> Iterator[str]:
    """Yields the keys of an object, those of inner objects with dots; of deeper levels none."""
    for key, value in item.items():
        is_inner = isinstance(value, Mapping) and levels > 1
        yield from (f"{key}.{inner}" for inner in keys_of(value, levels - 1)) if is_inner else (key,)


def last_key(key: str) -> str:
    """Returns what follows the last dot of a key; itself without dots."""
    return key.rpartition(".")[2]


def value_of_key(item: Mapping[str, Any], key: str, missing: object = MISSING) -> Any:
    """Returns the value of a key, which leads into inner objects where it has dots; `missing` if there is none."""
    if key in item:
        return item[key]
    first, dot, rest = key.partition(".")
    inner = item.get(first) if dot else None
    return value_of_key(inner, rest, missing) if isinstance(inner, Mapping) else missing


def cell_text(where: str, column: str, value: object, *, may_be_list: bool = False) -> str:
    """Returns a typed value as the text that a CSV file would hold;
    blank for None and NaN, JSON for a list that it may be."""
    if may_be_list and isinstance(value, list):
        return json.dumps([cell_text(where, column, one) for one in value], ensure_ascii=False)
    if value is None or (isinstance(value, float | Decimal) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float | Decimal | date):  # a time on a day is a date too
        raise ValueError(f"{where}: column {column} must be text or a number, got {str(value)[:MAX_QUOTED_VALUE]}")
    text = f"{value:f}" if isinstance(value, Decimal) else str(value).strip()
    check_surrogates(f"{where}: column {column}", text)
    return text
