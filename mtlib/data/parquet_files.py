"""Rows of cells from Parquet files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from mtlib.data.file_readers import Row, cell_text, find_columns
from mtlib.runtime.errors import first_line

PARQUET_SUFFIX = ".parquet"


def read_parquet_file(path: Path, columns: Sequence[str], *, numbered: bool = False) -> Iterator[Row]:
    """Rows of a file; raises ValueError as `read_parquet_stream`, or if it cannot be opened."""
    try:
        with path.open("rb") as stream:
            yield from read_parquet_stream(stream, path.name, columns, numbered=numbered)
    except OSError as error:
        raise ValueError(f"{path} must be a Parquet file that can be read, got: {error.strerror}") from error


def read_parquet_stream(
    stream: IO[bytes], name: str, columns: Sequence[str], *, numbered: bool = False
) -> Iterator[Row]:
    """Rows of a stream, in memory for one batch of rows at a time.

    Args:
        stream: of a file; no pipe.
        name, columns, numbered: as in `mtlib.data.file_readers.read_stream`.

    Raises:
        ValueError: in one line: it is no Parquet file; a column is missing; a value is neither text nor a number.
    """
    try:
        with pq.ParquetFile(stream) as file:
            positions = find_columns(name, file.schema_arrow.names, columns, numbered)
            wanted = [column for column, position in zip(columns, positions, strict=True) if position is not None]
            number = 0
            for batch in file.iter_batches(columns=wanted):
                values = [batch.column(column).to_pylist() for column in wanted]
                for row in zip(*values, strict=True):
                    where = f"{name}: row {number}"
                    cells = [cell_text(where, column, value) for column, value in zip(wanted, row, strict=True)]
                    yield where, cells if positions[0] is not None else [str(number), *cells]
                    number += 1
    except pa.ArrowInvalid as error:
        raise ValueError(f"{name} must be a Parquet file that can be read, got: {first_line(error)}") from error
