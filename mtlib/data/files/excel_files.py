"""Reads rows of Excel files, whose one sheet that is not empty has names of columns in its first row."""

import contextlib
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
    try:
        from openpyxl import load_workbook  # only this needs it
    except ImportError as error:
        rule = f"{name} needs the library openpyxl: pip install 'multitask-sweeps[excel]'"
        raise ValueError(f"{rule} ({first_line(error)})") from error
    try:
        book = load_workbook(stream, read_only=True, data_only=True, keep_links=False)
        with contextlib.closing(book):
            sheets = {sheet.title: sheet_rows(sheet) for sheet in book}
    except Exception as error:  # the library raises many kinds
        raise ValueError(f"{name} must be an Excel file that can be read, got: {first_line(error)}") from error
    filled = {title: rows for title, rows in sheets.items() if rows}
    require(len(filled) == 1, f"{name} must have one sheet with rows", ", ".join(filled) or "none")
    return next(iter(filled.values()))


def sheet_rows(sheet: Any) -> list[list[Any]]:
    """Returns the values of a sheet's cells, None for an error, in rows of one length up to the last that has any."""
    sheet.reset_dimensions()  # programs write wrong ones
    rows = [[None if cell.data_type == "e" else cell.value for cell in row] for row in sheet.iter_rows()]
    widths = [max((at for at, value in enumerate(row, 1) if value not in (None, "")), default=0) for row in rows]
    width, num_rows = max(widths, default=0), max((number for number, own in enumerate(widths, 1) if own), default=0)
    return [(row + [None] * width)[:width] for row in rows[:num_rows]]


def excel_records(rows: Sequence[Sequence[Any]], name: str) -> Iterator[Row]:
    """Yields the cells of every row that has any, as text."""
    for number, row in enumerate(rows, 1):
        where = f"{name}: row {number}"
        whole = [int(own) if isinstance(own, float) and own.is_integer() else own for own in row]  # as Excel shows it
        typed = [own if isinstance(own, str | int | float | None) else str(own) for own in whole]  # dates and times too
        cells = [cell_text(where, str(at), own) for at, own in enumerate(typed, 1)]
        if any(cells):
            yield where, cells
