"""Rows of cells from Parquet files."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mtlib.data.file_readers import Row, cell_text, find_columns
from mtlib.runtime.errors import first_line

PARQUET_SUFFIX = ".parquet"


def read_parquet_file(path: Path, columns: Sequence[str], *, numbered: bool = False) -> Iterator[Row]:
    """Rows of a file, in memory for one batch of rows at a time.

    Args:
        path: of the file.
        columns, numbered: as in `mtlib.data.file_readers.read_stream`.

    Raises:
        ValueError: in one line: the file cannot be read or is no Parquet file; a column is missing; a value is neither
            text nor a number.
    """
    try:
        with pq.ParquetFile(path) as file:
            positions = find_columns(path.name, file.schema_arrow.names, columns, numbered)
            wanted = [column for column, position in zip(columns, positions, strict=True) if position is not None]
            number = 0
            for batch in file.iter_batches(columns=wanted):
                values = [batch.column(column).to_pylist() for column in wanted]
                for row in zip(*values, strict=True):
                    where = f"{path.name}: row {number}"
                    cells = [cell_text(where, column, value) for column, value in zip(wanted, row, strict=True)]
                    yield where, cells if positions[0] is not None else [str(number), *cells]
                    number += 1
    except (OSError, pa.ArrowInvalid) as error:
        raise ValueError(f"{path} must be a Parquet file that can be read, got: {first_line(error)}") from error
