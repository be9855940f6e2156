"""Reads rows of cells from Arrow tables: Parquet files, and the data sets that `hub_datasets` loads."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from mtlib.data.files.json_files import cell_text
from mtlib.data.files.readers import SPLIT_ROWS, ClassNames, Row, Wanted, find_columns, is_split_word, with_carried
from mtlib.runtime.errors import first_line

BATCH_ROWS = 10_000
"""Rows that become Python objects at once."""
NO_CLASS = -1
"""The number of a missing class label in data sets of Hugging Face."""


def read_parquet_stream(stream: IO[bytes], name: str, wanted: Wanted) -> Iterator[Row]:
    """Rows of a stream, in memory for one batch of rows at a time.

    Args:
        stream: of a file; no pipe.
        name: of the input, in messages.
        wanted: what is read. Files that the library `datasets` wrote carry names.

    Raises:
        ValueError: it is no Parquet file, or damaged; a column is missing; else as `table_rows`.
    """
    try:
        with pq.ParquetFile(stream, page_checksum_verification=True) as file:
            schema = file.schema_arrow
            wanted = with_carried(wanted, schema.names.__contains__)
            columns = present_columns(name, schema.names, wanted)
            count_split_values(schema, lambda size, names: file.iter_batches(size, columns=names), wanted)
            batches = file.iter_batches(columns=list(dict.fromkeys(columns)))  # rows may be selected by their label
            yield from table_rows(batches, name, columns, carried_names(schema, columns[-1]), wanted)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{name} must be a Parquet file that can be read, got: {first_line(error)}") from error


def count_split_values(
    schema: pa.Schema, read_batches: Callable[[int, list[str]], Iterable[pa.RecordBatch]], wanted: Wanted
) -> None:
    """Counts the values of columns of text that are not wanted and perhaps say which split a row is for.

    Args:
        schema: of the data.
        read_batches: returns all rows, by the number of rows of a batch and the names of the columns.
        wanted: gets the values.
    """
    others = [field.name for field in schema if holds_text(field.type) and field.name not in wanted.unwatched]
    if not others or not wanted.split:
        return
    first = next(iter(read_batches(SPLIT_ROWS, others)), pa.record_batch({}))
    values = zip(first.schema.names, (column.to_pylist() for column in first.columns), strict=True)
    watched = [name for name, own in values if any(map(is_split_word, own))]
    for batch in read_batches(BATCH_ROWS, watched) if watched else ():
        for name in watched:
            counts = wanted.findings.split_values.setdefault(name, Counter())
            counts.update(str(value).strip() for value in batch.column(name).to_pylist())


def holds_text(kind: pa.DataType) -> bool:
    """Returns whether a column of this type holds texts, each in its row or in a dictionary."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def present_columns(name: str, header: list[str], wanted: Wanted) -> list[str]:
    """Returns the wanted columns, without that of the id if rows are numbered; raises as `find_columns`."""
    positions = find_columns(name, header, wanted)
    return [column for column, position in zip(wanted.columns, positions, strict=True) if position is not None]


def carried_names(schema: pa.Schema, column: str) -> tuple[str, ...]:
    """Returns the names that the library `datasets` has noted for the numbers of a column of class labels, or of lists
    of them; none for others."""
    noted = (schema.metadata or {}).get(b"huggingface", b"{}")
    try:
        feature = json.loads(noted)["info"]["features"][column]
        return tuple(feature.get("feature", feature)["names"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()


def table_rows(
    batches: Iterable[pa.RecordBatch], name: str, columns: Sequence[str], carried: Sequence[str], wanted: Wanted
) -> Iterator[Row]:
    """Rows of Arrow batches.

    Args:
        batches: with the columns of `present_columns`, of which the label is the last.
        name: of the input, in messages.
        columns: of `present_columns`.
        carried: the names that the data carry for the numbers of the last column; empty: none.
        wanted: what is read.

    Raises:
        ValueError: with input, row and column: a value is neither text nor a number; the carried names are not
            `wanted.class_names`.
    """
    texts: dict[Any, str] = {}
    if carried and wanted.class_names is not None:
        check_names(f"{name}: column {columns[-1]}", carried, wanted.class_names)
        texts = {NO_CLASS: "", **dict(enumerate(carried))}
    first = 0
    for batch in batches:
        values = [column_values(batch.column(column)) for column in columns]
        for number, row in enumerate(zip(*values, strict=True), first):
            where = f"{name}: row {number}"
            named = [*row[:-1], name_classes(row[-1], texts)]
            cells = [
                cell_text(where, column, value, may_be_list=column == wanted.list_column)
                for column, value in zip(columns, named, strict=True)
            ]
            yield (
                where,
                [str(next(wanted.findings.row_numbers)), *cells] if len(columns) < len(wanted.columns) else cells,
            )
        first += batch.num_rows


def name_classes(value: object, names: Mapping[Any, str]) -> object:
    """Returns a number of a class as its name, or a list of such numbers; what has no name stays."""
    if isinstance(value, list):
        return [name_classes(one, names) for one in value]
    return names.get(value, value) if isinstance(value, int) else value


def check_names(what: str, carried: Sequence[str], class_names: ClassNames) -> None:
    """Raises ValueError that shows both orders unless the data carry the names of `class_names`, or these are empty."""
    names = class_names.names
    if names and names != tuple(carried):
        rule = f"{what}: labels must be {', '.join(carried)} as in the data, or mapped by {class_names.mapping}"
        raise ValueError(f"{rule}, got {', '.join(names)}")


def column_values(column: pa.Array) -> list[Any]:
    """Returns the values of a column; floats of single and half precision have no more digits than they need.

    The library `datasets` stores a column of several types as JSON, and some texts as they are; what is missing there
    is null in Arrow too.
    """
    values: list[Any] = column.to_pylist()
    if getattr(column.type, "extension_name", "") == "arrow.json":
        is_json = [value is not None and str(value).startswith(('"', "[", "{")) for value in values]
        return [json.loads(value) if own else value for value, own in zip(values, is_json, strict=True)]
    if pa.types.is_float16(column.type) or pa.types.is_float32(column.type):
        to_float = column.type.to_pandas_dtype()
        return [None if value is None else float(str(to_float(value))) for value in values]
    return values
