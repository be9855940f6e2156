"""Reads rows of Excel files, whose one sheet that is not empty has names of columns in its first row."""

from collections.abc import Iterator, Sequence
from typing import IO, Any

from mtlib.data.files.json_files import cell_text
from mtlib.data.files.readers import Row, Wanted, read_table
from mtlib.runtime.errors import first_line, require


def read_excel_stream(stream: IO[bytes], name: str, wanted: Wanted) -> Iterator[Row]:
    """Rows of a stream, in memory as a whole; rows without any cell are none.

    Args:
        stream: of a file in Excel's format of 2007.
        name: of the input, in messages.
        wanted: what is read.

    Raises:
        ValueError: the library openpyxl is missing; it is no such file; several sheets have rows; else as
            `read_stream`.
    """
    yield from read_table(excel_records(excel_rows(stream, name), name), wanted, is_filled=True)


def excel_rows(stream: IO[bytes], name: str) -> list[list[Any]]:
    """Returns the values of the one sheet that has rows; ValueError as `read_excel_stream`."""
    import pandas as pd  # here: it takes long to import

    try:
        sheets = pd.read_excel(stream, sheet_name=None, header=None, dtype=object, na_filter=False, engine="openpyxl")
    except ImportError as error:
        rule = f"{name} needs the library openpyxl: pip install 'multitask-sweeps[excel]'"
        raise ValueError(f"{rule} ({first_line(error)})") from error
    except Exception as error:  # the library raises many kinds
        raise ValueError(f"{name} must be an Excel file that can be read, got: {first_line(error)}") from error
    filled = {title: sheet for title, sheet in sheets.items() if not sheet.empty}
    require(len(filled) == 1, f"{name} must have one sheet with rows", ", ".join(map(str, filled)) or "none")
    rows: list[list[Any]] = next(iter(filled.values())).to_numpy().tolist()
    return rows


def excel_records(rows: Sequence[Sequence[Any]], name: str) -> Iterator[Row]:
    """Yields the cells of every row that has any, as text."""
    for number, row in enumerate(rows, 1):
        where = f"{name}: row {number}"
        typed = [own if isinstance(own, str | int | float | None) else str(own) for own in row]  # dates and times too
        cells = [cell_text(where, str(at), own) for at, own in enumerate(typed, 1)]
        if any(cells):
            yield where, cells
