"""Reads tables as streams: CSV with tabs or commas, TSV without quoting as in GLUE, JSON lines, and plain lines.

Input is UTF-8 text. It is read line by line, so that memory does not grow with its size. Columns are selected by name,
and the others are ignored. The standard quoting of CSV is undone once: quotation marks that were doubled in the data
themselves stay doubled.
"""

import csv
import io
import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Literal

from mtlib.runtime.errors import nearest_first, require

Format = Literal["csv", "tsv", "jsonl", "lines"]
SUFFIX_FORMATS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "lines",
    "": "lines",
}
"""The format of a file by the suffix of its name."""
TABS_OR_COMMAS = "\t,"
"""Column separators of CSV, the preferred one first."""
MAX_CELL_LENGTH = 2**24
"""Characters of a CSV cell at most: an unclosed quotation mark must not read a whole pipe into memory."""
MAX_QUOTED_VALUE = 40
"""Characters of a wrong value that an error message shows."""
NO_DELIMITER = "\0"
"""The delimiter of a file with a single column, which no text holds."""
SURROGATE = re.compile("[\ud800-\udfff]")
OTHER_DELIMITERS = "\t,;|"
"""Delimiters that are recognised in a header line in order to refuse them."""

Row = tuple[str, list[str]]
"""Position of a row, e.g. `quora-dev.csv:17`, and its cells without white space at their ends."""


class MissingColumnError(ValueError):
    """A file lacks a wanted column, or an object a wanted key."""


@dataclass(frozen=True, kw_only=True)
class ClassNames:
    """The names of labels that data must carry, if they carry names."""

    names: tuple[str, ...]
    """In the order of the labels; empty: any."""
    mapping: str
    """The setting that maps what data carry to labels, in messages."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is read of an input: its columns, and how they are found."""

    columns: Sequence[str]
    """Names of the wanted columns, that of the id first; plain lines have none, but as many texts. Rows are numbered if
    the name of the column of the id is blank."""
    is_numbered: bool = True
    """Whether rows are numbered from 0 where there is no column of ids, in JSON lines where the first object has no key
    for the id. Plain lines always are."""
    delimiters: str = TABS_OR_COMMAS
    """Column separators of CSV; the first of them that the header line holds is used."""
    headers: Sequence[Sequence[str]] = ()
    """Names of all columns of CSV or TSV that has no header line, of several the first that are as many as the cells of
    the first line; not used if that has the names of the wanted columns, the id's aside."""
    list_column: str = ""
    """The column whose values may be lists in JSON lines and Parquet: as a cell each is JSON again."""
    class_names: ClassNames | None = None
    """For Parquet and data sets that carry names for the numbers of the last column. None: the numbers are the cells.
    Otherwise the names are, and must be `class_names.names` in their order, unless that is empty."""


def read_stream(stream: IO[bytes], name: str, form: Format, wanted: Wanted) -> Iterator[Row]:
    """Rows of a stream, each read when it is asked for. Blank lines are no rows, except those of plain lines.

    Args:
        stream: bytes of UTF-8 text, with or without a byte order mark.
        name: of the input, in messages.
        form: `csv` has a header line and standard quoting; `tsv` a header line, tabs, one row per line and no quoting;
            `jsonl` an object per line, in which null and NaN are blank; `lines` a text per line, or two with a tab
            between. Line feeds end lines, in `csv` carriage returns alone too.
        wanted: what is read.

    Returns:
        The rows in their order, with the cells of `wanted.columns`. A short TSV line is filled up with blank cells,
        because GLUE's own QQP has lines broken in two.

    Raises:
        ValueError: with input and line, at the row that it concerns. The input is empty or not UTF-8; a column or key
            is missing or there twice; a line has too few or too many cells; a quotation mark is not closed; a line is
            no JSON object, or a value neither text nor a number.
    """
    lines = decode_lines(stream, name)
    if form == "jsonl":
        yield from read_json_lines(lines, name, wanted)
    elif form == "lines":
        yield from read_plain_lines(lines, name, num_texts=len(wanted.columns) - 1)
    else:
        yield from read_table(lines, name, form, wanted)


def short_name(path: Path) -> str:
    """Returns the name of a file in messages; with its folder for TSV files, since GLUE's are all named alike."""
    return f"{path.parent.name}/{path.name}" if path.suffix == ".tsv" else path.name


def decode_lines(stream: IO[bytes], name: str) -> Iterator[str]:
    """Lines of UTF-8 text with their ends, without a byte order mark."""
    for number, data in enumerate(stream, 1):
        rule = f"{name}:{number}: a file must be UTF-8 text"
        try:
            line = data.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{rule}, got byte 0x{error.object[error.start]:02x}") from error
        require("\0" not in line, rule, "a zero byte")  # UTF-16 of English text decodes as UTF-8 with zeros between
        yield line


def read_table(lines: Iterator[str], name: str, form: Format, wanted: Wanted) -> Iterator[Row]:
    """Rows of CSV or TSV; arguments as of `read_stream`."""
    delimiters = "\t" if form == "tsv" else wanted.delimiters
    start = next(lines, "")
    rule = f"{name}:1: a file must start with a header line"
    require(bool(start.strip("\t, \r\n")), rule, "a blank one" if start else "an empty file")
    lines = itertools.chain([start], lines)
    records = tsv_records(lines, name) if form == "tsv" else csv_records(lines, name, delimiters)
    where, first = next(records)
    header = strip_cells(first)
    if wanted.headers and not set(wanted.columns[1:]) <= set(header):
        header = list(next((names for names in wanted.headers if len(names) == len(first)), wanted.headers[0]))
        records = itertools.chain([(where, first)], records)
    check_delimiter(where, header, wanted.columns, delimiters)
    positions = find_columns(where, header, wanted)
    for number, (where, cells) in enumerate(records):
        filled = cells + [""] * (len(header) - len(cells)) if form == "tsv" else cells
        check_num_cells(where, header, filled)
        yield where, [str(number) if at is None else filled[at].strip() for at in positions]


def csv_records(lines: Iterator[str], name: str, delimiters: str) -> Iterator[Row]:
    """Yields every CSV record, the header included, with the line that it starts on.

    An unclosed quotation mark runs on into the following records. It is distinguished from a quoted text of several
    lines by the tabs that it swallows; commas are no evidence, because texts contain them.
    """
    csv.field_size_limit(MAX_CELL_LENGTH)  # of the whole process; the default is 131,072 characters
    # A carriage return alone ends a line too, as old spreadsheets write.
    lines = itertools.chain.from_iterable(io.StringIO(line, newline="") for line in lines)
    first = next(lines)
    unquoted = re.sub(r'"[^"]*"', "", first)
    delimiter = next((mark for mark in delimiters if mark in unquoted), NO_DELIMITER)
    reader, start = csv.reader(itertools.chain([first], lines), delimiter=delimiter, strict=True), 1
    try:
        for cells in reader:
            if delimiter == "\t" and any("\n" in cell and "\t" in cell for cell in cells):
                raise csv.Error("one that runs on into other rows")
            if cells:
                yield f"{name}:{start}", cells
            start = reader.line_num + 1
    except csv.Error as error:
        rule = f'{name}:{start}: a quotation mark must be closed where its text ends (a mark inside is written "")'
        raise ValueError(f"{rule}, got: {error}") from error


def tsv_records(lines: Iterable[str], name: str) -> Iterator[Row]:
    """Yields every line of TSV that is not blank, the header included."""
    for number, line in enumerate(lines, 1):
        if line.strip("\r\n"):
            yield f"{name}:{number}", line.rstrip("\r\n").split("\t")


def read_json_lines(lines: Iterable[str], name: str, wanted: Wanted) -> Iterator[Row]:
    """Rows of JSON lines; arguments as of `read_stream`."""
    places = ((f"{name}:{number}", text) for number, text in enumerate(lines, 1) if text.strip())
    keys, is_numbered = wanted.columns, False
    for number, (where, text) in enumerate(places):
        item = parse_object(where, text)
        if number == 0 and wanted.is_numbered and not (keys[0] and keys[0] in item):
            keys, is_numbered = keys[1:], True
        for key in keys:
            if key not in item:
                raise MissingColumnError(f"{where}: key {key} is missing; {nearest_first(key, list(item), taken=keys)}")
        cells = [cell_text(where, key, item[key], may_be_list=key == wanted.list_column) for key in keys]
        yield where, [str(number), *cells] if is_numbered else cells


def parse_object(where: str, text: str) -> dict[str, Any]:
    try:
        item = json.loads(text)
    except (ValueError, RecursionError):
        item = None
    if not isinstance(item, dict):
        raise ValueError(f"{where}: a line must be a JSON object, got {text.strip()[:MAX_QUOTED_VALUE]}")
    return item


def cell_text(where: str, column: str, value: object, *, may_be_list: bool = False) -> str:
    """Returns a typed value as the text that a CSV file would hold;
    blank for None and NaN, JSON for a list that it may be."""
    if may_be_list and isinstance(value, list):
        return json.dumps([cell_text(where, column, one) for one in value], ensure_ascii=False)
    if value is None or (isinstance(value, float | Decimal) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float | Decimal):
        raise ValueError(f"{where}: column {column} must be text or a number, got {str(value)[:MAX_QUOTED_VALUE]}")
    text = f"{value:f}" if isinstance(value, Decimal) else str(value).strip()
    check_surrogates(f"{where}: column {column}", text)
    return text


def check_surrogates(what: str, text: str) -> None:
    """Raises ValueError, about `what`, if a text has half of an emoji, which neither tokenizers nor UTF-8 take."""
    if found := SURROGATE.search(text):
        part = text[max(0, found.start() - MAX_QUOTED_VALUE) : found.end()]
        raise ValueError(f"{what} must hold no unpaired surrogate, half of an emoji, got {part!a}")


def read_plain_lines(lines: Iterable[str], name: str, num_texts: int) -> Iterator[Row]:
    """Rows of plain lines; arguments as of `read_stream`."""
    for number, line in enumerate(lines):
        texts = [line] if num_texts == 1 else line.rstrip("\r\n").split("\t")
        if not line.strip():
            texts = [""] * num_texts
        rule = f"{name}:{number + 1}: a line must hold two texts with a tab between"
        require(len(texts) == num_texts, rule, len(texts))
        yield f"{name}:{number + 1}", [str(number), *strip_cells(texts)]


def strip_cells(cells: list[str]) -> list[str]:
    return [cell.strip() for cell in cells]


def check_delimiter(where: str, header: list[str], columns: Sequence[str], delimiters: str) -> None:
    """Raises ValueError for a header line that a delimiter other than `delimiters` separates."""
    is_one = len(header) == 1 and header[0] not in columns
    if is_one and any(mark in header[0] for mark in OTHER_DELIMITERS if mark not in delimiters):
        allowed = " or ".join({"\t": "tabs", ",": "commas"}[mark] for mark in delimiters)
        raise ValueError(f"{where}: columns must be separated by {allowed}, got {header[0][:MAX_QUOTED_VALUE]!r}")


def find_columns(where: str, header: list[str], wanted: Wanted) -> list[int | None]:
    """Positions of the wanted columns in the header; None for the first if rows are numbered."""
    columns = wanted.columns
    is_numbered = wanted.is_numbered and not (columns[0] and columns[0] in header)
    named = columns[1:] if is_numbered else columns
    for column in named:
        if column not in header:
            hint = nearest_first(column, [name for name in header if name], taken=columns)
            raise MissingColumnError(f"{where}: column {column} is missing; {hint}")
        require(header.count(column) == 1, f"{where}: column {column} must be there once", header.count(column))
    return [*([None] if is_numbered else []), *map(header.index, named)]


def check_num_cells(where: str, header: list[str], cells: list[str]) -> None:
    """Raises ValueError unless a line has as many cells as the header."""
    if len(cells) != len(header):
        is_short = len(cells) < len(header)
        hint = f"no column {header[len(cells)]}" if is_short else f"column {header[-1]} must be the last"
        wanted = f"{len(header)} cell{'' if len(header) == 1 else 's'}"
        raise ValueError(f"{where}: a line must have {wanted}, got {len(cells)}, {hint}")
