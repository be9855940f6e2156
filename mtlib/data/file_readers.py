"""Files to rows of cells, by format: CSV with tabs or commas, TSV without quoting as GLUE's, JSON lines.

All are UTF-8 text. Columns are picked by name, so an unnamed index column is no matter. Quoting in CSV is the standard
one, undone once: quotation marks that were doubled upstream stay in the text.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mtlib.errors import nearest_first

MOST_SHOWN = 40  # characters of a wrong value in an error message
LONGEST_CELL = 2**31 - 1
"""Characters of a CSV cell, at most: all that the library `csv` can be told everywhere; of itself it reads 131,072."""
NO_DELIMITER = "\0"
"""Separates nothing: a text that holds it is refused."""
OTHER_MARKS = "\t,;|"
"""What separates columns in files that are not as they must be."""
QUOTED = r'"[^"]*+(?:""[^"]*+)*+"'
"""A quoted cell, with its quotation marks; nothing is tried twice, so that a long one costs no memory."""
WHOLE_CELL = re.compile(rf'[^"].*|{QUOTED}|', re.DOTALL)

Row = tuple[str, list[str]]
"""Where a row stands, e.g. `quora-dev.csv:17`, and its cells without white space at their ends."""


class MissingColumnError(ValueError):
    """A file has no column, or an object no key, of a name that is wanted."""


def read_csv(path: Path, columns: Sequence[str], *, numbered: bool = False, delimiters: str = "\t,") -> Iterator[Row]:
    """Rows of a CSV file with one header line.

    Args:
        path: the file.
        columns: names of the wanted columns, that of the id first.
        numbered: whether rows are numbered from 0 where the file has no column of ids.
        delimiters: what may separate columns; the first of them that the header line holds does.

    Returns:
        An iterator over rows with the cells of the wanted columns in their order; all blank for a blank line.

    Raises:
        ValueError: in one line, with file, line and column. The file cannot be read, is empty or not UTF-8; a column is
            missing or there twice; a line has too few or too many cells; a quotation mark is not closed.
    """
    text = read_text(path, delimiters)
    delimiter = find_delimiter(text, delimiters)
    header, records = split_csv(path.name, text, delimiter)
    check_header(path.name, header, columns, delimiters)
    positions = find_columns(f"{path.name}:1", header, columns, numbered)
    for number, (line, cells) in enumerate(records):
        where = f"{path.name}:{line}"
        check_cells(where, header, cells)
        yield where, pick_cells(cells, positions, number)


def read_tsv(path: Path, columns: Sequence[str], *, numbered: bool = False) -> Iterator[Row]:
    """Rows of a file in GLUE's layout: a header line, tabs, one row per line, and no quoting.

    GLUE's own QQP has lines that a text of two lines broke in two; what a short line lacks is blank.

    Args, Returns, Raises: as `read_csv`.
    """
    first, *lines = [line.removesuffix("\r").split("\t") for line in read_text(path, "\t").rstrip("\r\n").split("\n")]
    header = strip_cells(first)
    check_header(short_name(path), header, columns, "\t")
    positions = find_columns(f"{short_name(path)}:1", header, columns, numbered)
    for number, cells in enumerate(lines):
        where = f"{short_name(path)}:{number + 2}"
        whole = cells + [""] * (len(header) - len(cells))
        check_cells(where, header, whole)
        yield where, pick_cells(whole, positions, number)


def read_json_lines(path: Path, columns: Sequence[str], *, numbered: bool = False) -> Iterator[Row]:
    """Rows of a file with one JSON object per line; null is blank, and blank lines are no rows.

    Rows are numbered, if they may be, where the first object has no key for the id.

    Args, Returns: as `read_csv`.

    Raises:
        ValueError: in one line, with file and line. The file cannot be read, is empty or not UTF-8; a line is no
            object, or lacks a key; a value is neither text nor a number.
    """
    lines = enumerate(read_text(path, "").split("\n"), 1)
    objects = (
        (f"{path.name}:{line}", read_object(f"{path.name}:{line}", text)) for line, text in lines if text.strip()
    )
    is_numbered = False
    for number, (where, item) in enumerate(objects):
        is_numbered = columns[0] not in item if numbered and number == 0 else is_numbered
        keys = columns[1:] if is_numbered else columns
        cells = key_cells(where, item, keys)
        yield where, [str(number), *cells] if is_numbered else cells


def key_cells(where: str, item: dict[str, Any], keys: Sequence[str]) -> list[str]:
    """The cells of a JSON object at `keys`."""
    for key in keys:
        if key not in item:
            raise MissingColumnError(f"{where}: key {key} is missing; {nearest_first(key, list(item), taken=keys)}")
    return [cell_text(where, key, item[key]) for key in keys]


def short_name(path: Path) -> str:
    """What messages call a file: its name, with its folder if it is of GLUE's kind, which are all named alike."""
    return f"{path.parent.name}/{path.name}" if path.suffix == ".tsv" else path.name


def read_object(where: str, text: str) -> dict[str, Any]:
    """The JSON object on one line."""
    try:
        item = json.loads(text)
    except (ValueError, RecursionError):
        item = None
    if not isinstance(item, dict):
        raise ValueError(f"{where}: a line must be a JSON object, got {text.strip()[:MOST_SHOWN]}")
    return item


def cell_text(where: str, column: str, value: object) -> str:
    """A value of a file with types as the text that a file without them would hold; nothing is blank."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise ValueError(f"{where}: {column} must be text or a number, got {str(value)[:MOST_SHOWN]}")
    text = str(value).strip()
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"{where}: {column} must be text, got half of a character: {text[:MOST_SHOWN]!a}")
    return text


def read_text(path: Path, delimiters: str) -> str:
    """The file as text; a byte order mark is dropped. Errors name the column where there are `delimiters`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} must be a readable file, got: {error.strerror}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(encoding_error(short_name(path), data, error.start, delimiters)) from error
    if "\0" in text:  # UTF-16 of English text decodes as UTF-8 with zeros between
        raise ValueError(encoding_error(short_name(path), data, data.index(b"\0"), delimiters))
    if not text.strip():
        rule = "a file must start with a header line" if delimiters else "a file must hold a JSON object per line"
        raise ValueError(f"{short_name(path)}:1: {rule}, got an empty file")
    return text


def encoding_error(name: str, data: bytes, position: int, delimiters: str) -> str:
    """One line about the byte at `position`, which no UTF-8 text has there."""
    before = data[:position].decode("utf-8-sig", errors="replace")
    line, column = before.rpartition("\n")[2], ""
    if delimiters:
        delimiter = find_delimiter(before, delimiters)
        header = before.partition("\n")[0].split(delimiter) if "\n" in before else []
        column = f"column {column_name(header, line.count(delimiter))} "
    return f"{name}:{before.count(chr(10)) + 1}: {column}must be UTF-8 text, got byte 0x{data[position]:02x}"


def find_delimiter(text: str, delimiters: str) -> str:
    """The first of `delimiters` that the header line holds; what separates nothing if it is a single column."""
    header = re.match(r"[^\r\n]*", text)
    marks = re.sub(QUOTED, "", header[0] if header else "")  # a quoted name may hold one that separates nothing
    return next((mark for mark in delimiters if mark in marks), NO_DELIMITER)


def split_csv(name: str, text: str, delimiter: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, and every record with the line (from 1) that it starts on. A quoted text may span lines.

    A quotation mark that is opened and never meant runs on into the records that follow; it is told from a quoted
    text of several lines by the tabs that it swallows (commas tell nothing: texts hold them).
    """
    lift_cell_limit()
    lines = list(io.StringIO(text, newline=""))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    records: list[tuple[int, list[str]]] = []
    start = 1
    try:
        for cells in reader:
            if reader.line_num > start and any("\n" in cell and "\t" in cell for cell in cells) and delimiter == "\t":
                raise csv.Error("a quoted text swallows records")
            records.append((start, cells))
            start = reader.line_num + 1
    except csv.Error as error:
        header = records[0][1] if records else []
        raise ValueError(quote_error(name, start, lines[start - 1], header, delimiter)) from error
    return strip_cells(records[0][1]), records[1:]


def lift_cell_limit() -> None:
    """Lets `csv` read cells of any length, in the whole process: it keeps its limit in one place."""
    csv.field_size_limit(LONGEST_CELL)


def quote_error(name: str, line: int, text: str, header: list[str], delimiter: str, limit: str = "") -> str:
    """One line about the first cell of a record's first line `text` whose quotation mark is not closed at its end."""
    cells = split_quoted(text.rstrip("\r\n"), delimiter)
    index = next((i for i, cell in enumerate(cells) if not WHOLE_CELL.fullmatch(cell)), 0)
    rule = f'must close its quotation mark where the text ends{limit} (a mark inside is written "")'
    return f"{name}:{line}: column {column_name(header, index)} {rule}, got {cells[index][:MOST_SHOWN]}"


def split_quoted(text: str, delimiter: str) -> list[str]:
    """The cells of a line as they are written; delimiters in whole quoted cells separate nothing."""
    cell = re.compile(rf"(?:^|{delimiter})({QUOTED}(?={delimiter}|$)|[^{delimiter}]*)")
    return cell.findall(text)


def column_name(header: list[str], index: int) -> str:
    """Name of a column, or its number (from 1) where it has none."""
    return header[index] if index < len(header) and header[index] else str(index + 1)


def strip_cells(cells: list[str]) -> list[str]:
    """Cells without white space at their ends."""
    return [cell.strip() for cell in cells]


def check_header(name: str, header: list[str], columns: Sequence[str], delimiters: str) -> None:
    """Raises ValueError if a header is blank, or a single cell, not of `columns`, in which something else separates."""
    if not any(header):
        raise ValueError(f"{name}:1: a file must start with a header line, got a blank one")
    is_one = len(header) == 1 and header[0] not in columns
    if is_one and any(mark in header[0] for mark in OTHER_MARKS if mark not in delimiters):
        marks = " or ".join({"\t": "tabs", ",": "commas"}[mark] for mark in delimiters)
        raise ValueError(f"{name}:1: columns must be separated by {marks}, got {header[0][:MOST_SHOWN]!r}")


def find_columns(where: str, header: list[str], columns: Sequence[str], numbered: bool) -> list[int | None]:
    """Positions of `columns` in the header; None for the first where there is no such column and `numbered` is true."""
    is_numbered = numbered and columns[0] not in header
    return [None if is_numbered and i == 0 else find_column(where, header, columns, i) for i in range(len(columns))]


def find_column(where: str, header: list[str], columns: Sequence[str], index: int) -> int:
    """Position of one of `columns` in the header."""
    column = columns[index]
    if header.count(column) > 1:
        raise ValueError(f"{where}: column {column} must be there once, got {header.count(column)}")
    if column not in header:
        known = [cell[:MOST_SHOWN] for cell in header if cell]
        raise MissingColumnError(f"{where}: column {column} is missing; {nearest_first(column, known, taken=columns)}")
    return header.index(column)


def check_cells(where: str, header: list[str], cells: list[str]) -> None:
    """Raises ValueError unless a line is blank or has as many cells as the header."""
    if cells and len(cells) != len(header):
        is_short = len(cells) < len(header)
        hint = f"no column {header[len(cells)]}" if is_short else f"column {header[-1]} must be the last"
        wanted = f"{len(header)} cell{'' if len(header) == 1 else 's'}"
        raise ValueError(f"{where}: a line must have {wanted}, got {len(cells)}, {hint}")


def pick_cells(cells: list[str], positions: list[int | None], number: int) -> list[str]:
    """The cells at `positions` without white space at their ends, the row's number where there is no position."""
    if not cells:
        return [""] * len(positions)
    return [str(number) if at is None else cells[at].strip() for at in positions]
