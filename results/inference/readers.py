"""Reads text of users' own row by row, in memory that does not grow with the file: CSV, TSV, JSON lines, plain lines.

A column `id` names the rows, which are numbered from 0 where there is none. Blank lines are no rows, except in
plain lines.
"""

import codecs
import contextlib
import csv
import difflib
import io
import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from mtlib.data.file_readers import (
    Row,
    check_cells,
    check_header,
    column_name,
    find_columns,
    find_delimiter,
    key_cells,
    lift_cell_limit,
    pick_cells,
    quote_error,
    read_object,
    strip_cells,
)
from mtlib.data.missing_files import data_files, describe_folder
from mtlib.errors import require

Format = Literal["csv", "tsv", "jsonl", "lines"]
SUFFIXES: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "lines",
    "": "lines",
}
"""The format of a file by the end of its name."""
STANDARD_INPUT = "-"
ID_COLUMN = "id"
LONGEST_LINE = 2**24
"""Bytes of the longest line that is read, and characters of the longest CSV record, whose quoted texts may span lines:
a line without end, or a quotation mark that is not closed, must not fill the memory."""
DELIMITERS = {"csv": "\t,", "tsv": "\t"}
"""What may separate columns."""


@dataclass(frozen=True, kw_only=True)
class TextRow:
    """One text, or one pair of texts."""

    where: str
    """File and line."""
    id: str
    texts: tuple[str, ...]
    """Without white space at their ends."""

    @property
    def is_blank(self) -> bool:
        """Whether a text is missing."""
        return not all(self.texts)


def find_format(place: str) -> Format:
    """The format that a file's name tells; plain lines for standard input. ValueError if it tells none."""
    suffix = "" if place == STANDARD_INPUT else Path(place).suffix.lower()
    rule = f"--input must end in {', '.join(filter(None, SUFFIXES))}, or its format be named with --format"
    require(suffix in SUFFIXES, rule, place)
    return SUFFIXES[suffix]


def name_input(place: str) -> str:
    """What messages call the input."""
    return "standard input" if place == STANDARD_INPUT else Path(place).name


@contextlib.contextmanager
def open_input(place: str) -> Iterator[IO[bytes]]:
    """A stream of a file's bytes, or of standard input's; ValueError if the file cannot be read."""
    if place == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    try:
        stream = Path(place).expanduser().open("rb")
    except OSError as error:
        hint = f"; {describe_near(Path(place).expanduser())}" if isinstance(error, FileNotFoundError) else ""
        raise ValueError(f"--input must be a readable file, got {place}: {error.strerror}{hint}") from error
    with stream:
        yield stream


def describe_near(path: Path) -> str:
    """What may be meant by a file that is missing, or what else its folder holds."""
    suffixes = tuple(filter(None, SUFFIXES))
    near = difflib.get_close_matches(path.name, data_files(path.parent, suffixes), n=1)
    return f"did you mean '{near[0]}'?" if near else describe_folder(path.parent, str(path.parent), suffixes)


def read_texts(stream: IO[bytes], name: str, form: Format, columns: Sequence[str]) -> Iterator[TextRow]:
    """Rows of users' own text, each as soon as it is asked for.

    Args:
        stream: what to read.
        name: what messages call it.
        form: what it holds. CSV has a header line, columns separated by tabs or commas, and standard quoting; TSV a
            header line, tabs and no quoting; JSON lines an object each; plain lines a text, or two with a tab between.
        columns: of the texts, one or two; plain lines have none, but as many texts.

    Returns:
        The rows in their order, those with a blank text too.

    Raises:
        ValueError: in one line, with file, line and column, at its row: see `mtlib.data.file_readers`; a line
            has more than `LONGEST_LINE` bytes, or a CSV record more characters; a plain line holds more or fewer texts.
    """
    reader = {"csv": read_csv, "tsv": read_tsv, "jsonl": read_json_lines, "lines": read_plain}[form]
    for where, cells in reader(read_lines(stream, name, DELIMITERS.get(form, "")), name, (ID_COLUMN, *columns)):
        yield TextRow(where=where, id=cells[0], texts=tuple(cells[1:]))


def read_lines(stream: IO[bytes], name: str, delimiters: str) -> Iterator[str]:
    """Lines of UTF-8 text with their ends; a byte order mark is dropped. Errors name the column if there are any."""
    header = list[str]()
    for number in itertools.count(1):
        data = stream.readline(LONGEST_LINE + 1)
        if not data:
            return
        where = f"{name}:{number}"
        require(len(data) <= LONGEST_LINE, f"{where}: a line must have at most {LONGEST_LINE:,} bytes", "more")
        data = data.removeprefix(codecs.BOM_UTF8) if number == 1 else data
        line = decode(where, data, header, delimiters)
        if number == 1 and delimiters:
            delimiters = find_delimiter(line, delimiters)
            header = line.rstrip("\r\n").split(delimiters)
        yield line


def decode(where: str, data: bytes, header: list[str], delimiters: str) -> str:
    """A line's text; ValueError that names the first byte that no UTF-8 text has there."""
    try:
        text = data.decode()
        position = data.find(b"\0")  # UTF-16 of English text decodes as UTF-8 with zeros between
    except UnicodeDecodeError as error:
        text, position = "", error.start
    if position >= 0:
        before = data[:position].decode(errors="replace")
        index = before.count(find_delimiter(before, delimiters)) if delimiters else 0
        column = f"column {column_name(header, index)} " if delimiters else ""
        raise ValueError(f"{where}: {column}must be UTF-8 text, got byte 0x{data[position]:02x}")
    return text


def read_csv(lines: Iterator[str], name: str, columns: Sequence[str]) -> Iterator[Row]:
    """Rows of CSV with one header line; a single column needs no delimiter."""
    first = first_line_of(lines, name)
    delimiter = find_delimiter(first, DELIMITERS["csv"])
    records = split_records(itertools.chain([first], lines), name, delimiter)
    header = strip_cells(next(records)[1])
    check_header(name, header, columns, DELIMITERS["csv"])
    positions = find_columns(f"{name}:1", header, columns, numbered=True)
    whole = (record for record in records if record[1])
    for number, (line, cells) in enumerate(whole):
        check_cells(f"{name}:{line}", header, cells)
        yield f"{name}:{line}", pick_cells(cells, positions, number)


def split_records(lines: Iterator[str], name: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Every record, the header too, with its first line (from 1); see `mtlib.data.file_readers.split_csv`."""
    lift_cell_limit()
    begun: list[str] = []  # the line that the record starts on
    length = 0  # of the record so far

    def watched() -> Iterator[str]:
        nonlocal length
        for line in itertools.chain.from_iterable(io.StringIO(line, newline="") for line in lines):
            begun[:] = begun or [line]
            length += len(line)
            if length > LONGEST_LINE:
                raise csv.Error("a quoted text is too long")
            yield line

    reader, start, header = csv.reader(watched(), delimiter=delimiter, strict=True), 1, list[str]()
    try:
        for cells in reader:
            if reader.line_num > start and any("\n" in cell and "\t" in cell for cell in cells) and delimiter == "\t":
                raise csv.Error("a quoted text swallows records")
            header = header or cells
            begun.clear()
            length = 0
            yield start, cells
            start = reader.line_num + 1
    except csv.Error as error:
        limit = f", within {LONGEST_LINE:,} characters" if length > LONGEST_LINE else ""
        raise ValueError(quote_error(name, start, begun[0], header, delimiter, limit)) from error


def read_tsv(lines: Iterator[str], name: str, columns: Sequence[str]) -> Iterator[Row]:
    """Rows of a file with a header line, tabs, one row per line, and no quoting; what a short line lacks is blank."""
    header = strip_cells(first_line_of(lines, name).rstrip("\r\n").split("\t"))
    check_header(name, header, columns, DELIMITERS["tsv"])
    positions = find_columns(f"{name}:1", header, columns, numbered=True)
    whole = ((line, text.rstrip("\r\n")) for line, text in enumerate(lines, 2) if text.strip("\r\n"))
    for number, (line, text) in enumerate(whole):
        cells = text.split("\t")
        cells += [""] * (len(header) - len(cells))
        check_cells(f"{name}:{line}", header, cells)
        yield f"{name}:{line}", pick_cells(cells, positions, number)


def first_line_of(lines: Iterator[str], name: str) -> str:
    """The header line; ValueError if there is none."""
    first = next(lines, "")
    if not first:
        raise ValueError(f"{name}:1: a file must start with a header line, got an empty file")
    return first


def read_json_lines(lines: Iterator[str], name: str, columns: Sequence[str]) -> Iterator[Row]:
    """Rows of one JSON object per line; null is blank. Rows are numbered where the first object has no id."""
    keys, is_numbered = columns, False
    places = ((f"{name}:{line}", text) for line, text in enumerate(lines, 1) if text.strip())
    for number, (where, text) in enumerate(places):
        item = read_object(where, text)
        if number == 0 and columns[0] not in item:
            keys, is_numbered = columns[1:], True
        cells = key_cells(where, item, keys)
        yield where, [str(number), *cells] if is_numbered else cells


def read_plain(lines: Iterator[str], name: str, columns: Sequence[str]) -> Iterator[Row]:
    """A row per line: its text, or its two texts with a tab between; all blank for a blank line."""
    num_texts = len(columns) - 1
    for number, line in enumerate(lines):
        where = f"{name}:{number + 1}"
        texts = [line] if num_texts == 1 else line.rstrip("\r\n").split("\t")
        if not line.strip():
            texts = [""] * num_texts
        require(len(texts) == num_texts, f"{where}: a line must hold two texts with a tab between", f"{len(texts)}")
        yield where, [str(number), *(text.strip() for text in texts)]
