"""Reads tables as streams: CSV with tabs or commas, TSV without quoting as in GLUE, JSON lines, and plain lines.

Input is UTF-8 text. It is read line by line, so that memory does not grow with its size. Columns are selected by name,
and the others are ignored. The standard quoting of CSV is undone once: quotation marks that were doubled in the data
themselves stay doubled. The file is long because all formats share how lines, columns and errors are handled.
"""

import codecs
import contextlib
import csv
import io
import itertools
import json
import math
import re
from collections.abc import Iterator, Sequence
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
DELIMITERS = {"csv": "\t,", "tsv": "\t", "jsonl": "", "lines": ""}
"""Column separators by format, the preferred one first."""
MAX_LINE_LENGTH = 2**24
"""Bytes of a line, and characters of a CSV record (whose quoted texts may span lines), at most: a pipe without line
ends, or a quotation mark that is not closed, must not fill the memory."""
MAX_QUOTED_VALUE = 40
"""Characters of a wrong value that an error message shows."""
MAX_NAME, MAX_MESSAGE = 60, 200
"""Characters of the name of an input in messages, and of a message about data."""
NO_DELIMITER = "\0"
"""The delimiter of a file with a single column: a text that holds it is refused."""
OTHER_DELIMITERS = "\t,;|"
"""Delimiters that are recognised in a header line in order to refuse them."""
QUOTED = r'"[^"]*+(?:""[^"]*+)*+"'
"""A quoted cell, with its quotation marks; possessive, so that a long one costs no memory for backtracking."""
SEPARATOR_LINE = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
"""A line before the header line that Excel reads and writes."""
JSON_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:)?')
"""A text in JSON; a key if a colon follows."""
COMPLETE_CELL = re.compile(rf'[^"].*|{QUOTED}|', re.DOTALL)

Row = tuple[str, list[str]]
"""Position of a row, e.g. `quora-dev.csv:17`, and its cells without white space at their ends."""


class MissingColumnError(ValueError):
    """A file lacks a wanted column, or an object a wanted key."""


def read_file(
    path: Path,
    form: Format,
    columns: Sequence[str],
    *,
    numbered: bool = False,
    delimiters: str = DELIMITERS["csv"],
    headers: Sequence[Sequence[str]] = (),
    list_column: str = "",
) -> Iterator[Row]:
    """Rows of a file of training data, in which blank lines of CSV and TSV are rows of blank cells.

    Args, Returns, Raises: as `read_stream`. ValueError also if the file cannot be opened, or is JSON lines without an
        object.
    """
    try:
        with path.open("rb") as stream:
            name = short_name(path)
            rows = read_stream(
                stream,
                name,
                form,
                columns,
                numbered=numbered,
                delimiters=delimiters,
                headers=headers,
                keep_blank_lines=True,
                list_column=list_column,
            )
            first = next(rows, None)
            rule = f"{name}:1: a file must hold a JSON object per line"
            require(form != "jsonl" or first is not None, rule, "an empty file")
            yield from itertools.chain([] if first is None else [first], rows)
    except OSError as error:
        raise ValueError(f"{fit_name(str(path))} must be a readable file, got: {error.strerror}") from error


def read_stream(
    stream: IO[bytes],
    name: str,
    form: Format,
    columns: Sequence[str],
    *,
    numbered: bool = True,
    delimiters: str = DELIMITERS["csv"],
    headers: Sequence[Sequence[str]] = (),
    keep_blank_lines: bool = False,
    list_column: str = "",
) -> Iterator[Row]:
    """Rows of a stream, each read when it is asked for.

    Args:
        stream: bytes of UTF-8 text, with or without a byte order mark.
        name: of the input, in messages.
        form: `csv` has a header line and standard quoting; `tsv` a header line, tabs, one row per line and no quoting;
            `jsonl` an object per line, in which null and NaN are blank; `lines` a text per line, or two with a tab
            between. A carriage return alone ends lines if the first line holds one.
        columns: names of the wanted columns, that of the id first; plain lines have none, but as many texts. Rows are
            numbered if the name of the column of the id is blank.
        numbered: whether rows are numbered from 0 where there is no column of ids, in JSON lines where the first object
            has no key for the id. Plain lines always are.
        delimiters: column separators of CSV; the first of them that the header line holds is used, or the one that a
            line `sep=,` before it names.
        headers: names of all columns of CSV or TSV that has no header line, of several the first that are as many as
            the cells of the first line; not used if that has the names of the wanted columns, the id's aside.
        keep_blank_lines: whether a blank line of CSV or TSV is a row of blank cells instead of none. Blank lines at the
            end of TSV, and all those of JSON lines, are never rows; those of plain lines always are.
        list_column: the column whose values may be lists in JSON lines: as a cell each is JSON again.

    Returns:
        The rows in their order, with the cells of `columns`. A short TSV line is filled up with blank cells, because
        GLUE's own QQP has lines broken in two.

    Raises:
        ValueError: in one line with input, line and column, at the row that it concerns. The input is empty or not
            UTF-8; a column or key is missing or there twice; a line has too few or too many cells; a quotation mark is
            not closed; a line is no JSON object, or a value neither text nor a number; a line or CSV record is longer
            than `MAX_LINE_LENGTH`.
    """
    name = fit_name(name)
    with errors_in_one_line():
        if form == "csv":
            yield from read_csv(stream, name, columns, numbered, delimiters, headers, keep_blank_lines)
        elif form == "tsv":
            yield from read_tsv(stream, name, columns, numbered, headers, keep_blank_lines)
        elif form == "jsonl":
            yield from read_json_lines(stream, name, columns, numbered, list_column)
        else:
            yield from read_plain_lines(stream, name, columns)


@contextlib.contextmanager
def errors_in_one_line(*kept: type[ValueError]) -> Iterator[None]:
    """Makes a ValueError in the block one line of printable characters, with at most `MAX_MESSAGE` of them.

    A MissingColumnError and errors of the classes `kept` keep their class.
    """
    classes: tuple[type[ValueError], ...] = (MissingColumnError, *kept)
    try:
        yield
    except classes as error:
        error.args = (fit_message(str(error)),)
        raise
    except ValueError as error:
        raise ValueError(fit_message(str(error))) from error


def fit_message(text: str, length: int = MAX_MESSAGE) -> str:
    """Returns a message with escapes for characters that cannot be printed, cut to a length."""
    line = "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in text)
    return line if len(line) <= length else f"{line[: length - 3]}..."


def fit_name(name: str) -> str:
    """Returns the name of an input in messages; of a long one its end."""
    return name if len(name) <= MAX_NAME else f"...{name[3 - MAX_NAME :]}"


def short_name(path: Path) -> str:
    """Returns the name of a file in messages; with its folder for TSV files, since GLUE's are all named alike."""
    return fit_name(f"{path.parent.name}/{path.name}" if path.suffix == ".tsv" else path.name)


def read_csv(
    stream: IO[bytes],
    name: str,
    columns: Sequence[str],
    numbered: bool,
    delimiters: str,
    given: Sequence[Sequence[str]],
    keep_blank_lines: bool,
) -> Iterator[Row]:
    lines = decode_lines(stream, name, delimiters)
    start, first, delimiters = next_header(lines, name, delimiters)
    delimiter = find_delimiter(first, delimiters)
    records = split_records(itertools.chain([first], lines), name, delimiter, start)
    record = next(records)
    header = strip_cells(record[1])
    if lacks_header(header, columns, given):
        header, records = choose_names(header, given), itertools.chain([record], records)
    check_header(f"{name}:{start}", header, columns, delimiters)
    positions = find_columns(f"{name}:{start}", header, columns, numbered)
    kept = (record for record in records if record[1] or keep_blank_lines)
    for number, (line, cells) in enumerate(kept):
        check_num_cells(f"{name}:{line}", header, cells)
        yield f"{name}:{line}", pick_cells(cells, positions, number)


def split_records(lines: Iterator[str], name: str, delimiter: str, start: int) -> Iterator[tuple[int, list[str]]]:
    """Yields every CSV record, the header included, with the line that it starts on, first `start`;
    [] for a blank line.

    An unclosed quotation mark runs on into the following records. It is distinguished from a quoted text of several
    lines by the tabs that it swallows; commas are no evidence, because texts contain them.
    """
    csv.field_size_limit(2**31 - 1)  # of the whole process; the default is 131,072 characters
    first_line = ""  # of the record
    length = 0  # of the record so far

    def watched() -> Iterator[str]:
        nonlocal first_line, length
        for line in itertools.chain.from_iterable(io.StringIO(line, newline="") for line in lines):
            first_line = first_line or line
            length += len(line)
            if length > MAX_LINE_LENGTH:
                raise csv.Error("a quoted text is too long")
            yield line

    reader, before, header = csv.reader(watched(), delimiter=delimiter, strict=True), start - 1, list[str]()
    try:
        for cells in reader:
            end = before + reader.line_num
            if end > start and any("\n" in cell and "\t" in cell for cell in cells) and delimiter == "\t":
                raise csv.Error("a quoted text swallows records")
            header = header or cells
            first_line, length = "", 0
            yield start, cells
            start = end + 1
    except csv.Error as error:
        limit = f", within {MAX_LINE_LENGTH:,} characters" if length > MAX_LINE_LENGTH else ""
        raise ValueError(quote_error(f"{name}:{start}", first_line, header, delimiter, limit)) from error


def quote_error(where: str, line: str, header: list[str], delimiter: str, limit: str) -> str:
    """Returns one line about the first cell of a record's first `line` whose quotation mark is not closed at its
    end."""
    cell = re.compile(rf"(?:^|{delimiter})({QUOTED}(?={delimiter}|$)|[^{delimiter}]*)")
    cells = cell.findall(line.rstrip("\r\n"))  # as written; delimiters in quoted cells separate nothing
    index = next((i for i, text in enumerate(cells) if not COMPLETE_CELL.fullmatch(text)), 0)
    rule = f'must close its quotation mark where the text ends{limit} (a mark inside is written "")'
    return f"{where}: column {column_name(header, index)} {rule}, got {cells[index][:MAX_QUOTED_VALUE]}"


def read_tsv(
    stream: IO[bytes],
    name: str,
    columns: Sequence[str],
    numbered: bool,
    given: Sequence[Sequence[str]],
    keep_blank_lines: bool,
) -> Iterator[Row]:
    lines = decode_lines(stream, name, DELIMITERS["tsv"])
    start, first, marks = next_header(lines, name, DELIMITERS["tsv"])
    header, where = strip_cells(first.rstrip("\r\n").split("\t")), f"{name}:{start}"
    if lacks_header(header, columns, given):
        header, lines, start = choose_names(header, given), itertools.chain([first], lines), start - 1
    check_header(where, header, columns, marks)
    positions = find_columns(where, header, columns, numbered)
    blank, number = 0, 0  # blank lines since the last row: those at the end are no rows
    for line, text in enumerate(lines, start + 1):
        if not text.strip("\r\n"):
            blank += keep_blank_lines
            continue
        for blank_line in range(line - blank, line):
            yield f"{name}:{blank_line}", pick_cells([""] * len(header), positions, number)
            number += 1
        cells = text.rstrip("\r\n").split("\t")
        cells += [""] * (len(header) - len(cells))
        check_num_cells(f"{name}:{line}", header, cells)
        yield f"{name}:{line}", pick_cells(cells, positions, number)
        blank, number = 0, number + 1


def read_json_lines(
    stream: IO[bytes], name: str, columns: Sequence[str], numbered: bool, list_column: str
) -> Iterator[Row]:
    texts = decode_lines(stream, name, is_json=True)
    lines = ((f"{name}:{line}", text) for line, text in enumerate(texts, 1) if text.strip())
    keys, is_numbered = columns, False
    for number, (where, text) in enumerate(lines):
        item = parse_object(where, text)
        if number == 0 and numbered and not (columns[0] and columns[0] in item):
            keys, is_numbered = columns[1:], True
        for key in keys:
            if key not in item:
                raise MissingColumnError(f"{where}: key {key} is missing; {nearest_first(key, list(item), taken=keys)}")
        cells = [cell_text(where, key, item[key], may_be_list=key == list_column) for key in keys]
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
    if any("\ud800" <= character <= "\udfff" for character in text):
        rule = f"{where}: column {column} must be text"
        raise ValueError(f"{rule}, got an unpaired surrogate: {text[:MAX_QUOTED_VALUE]!a}")
    return text


def read_plain_lines(stream: IO[bytes], name: str, columns: Sequence[str]) -> Iterator[Row]:
    num_texts = len(columns) - 1
    for number, line in enumerate(decode_lines(stream, name)):
        where = f"{name}:{number + 1}"
        texts = [line] if num_texts == 1 else line.rstrip("\r\n").split("\t")
        if not line.strip():
            texts = [""] * num_texts
        require(len(texts) == num_texts, f"{where}: a line must hold two texts with a tab between", f"{len(texts)}")
        yield where, [str(number), *strip_cells(texts)]


def decode_lines(stream: IO[bytes], name: str, delimiters: str = "", *, is_json: bool = False) -> Iterator[str]:
    """Lines of UTF-8 text with their ends, without a byte order mark; errors name the column if there are some."""
    header = list[str]()
    for number, ended in enumerate(split_lines(stream), 1):
        where = f"{name}:{number}"
        require(len(ended) <= MAX_LINE_LENGTH, f"{where}: a line must have at most {MAX_LINE_LENGTH:,} bytes", "more")
        data = ended.removeprefix(codecs.BOM_UTF8) if number == 1 else ended
        line = decode_line(where, data, header, delimiters, is_json)
        if not header and delimiters and not SEPARATOR_LINE.fullmatch(line.rstrip("\r\n")):
            delimiters = find_delimiter(line, delimiters)
            header = line.rstrip("\r\n").split(delimiters)
        yield line


def split_lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Lines of bytes with their ends; one that is too long comes in pieces of more than `MAX_LINE_LENGTH` bytes.

    A line feed ends a line. A carriage return alone does so too if the first line holds one, as old spreadsheets write.
    """
    data = stream.readline(MAX_LINE_LENGTH + 1)
    has_returns = b"\r" in data.rstrip(b"\r\n")
    while data:
        *lines, data = data.splitlines(keepends=True) if has_returns else [data, b""]
        yield from lines
        more = stream.readline(MAX_LINE_LENGTH + 1)
        if data and (not more or len(data) > MAX_LINE_LENGTH):
            yield data
            data = b""
        data += more


def decode_line(where: str, data: bytes, header: list[str], delimiters: str, is_json: bool) -> str:
    """Returns the text of a line; ValueError that names its first byte that is not UTF-8, or zero."""
    try:
        text = data.decode()
        position = data.find(b"\0")  # UTF-16 of English text decodes as UTF-8 with zeros between
    except UnicodeDecodeError as error:
        text, position = "", error.start
    if position >= 0:
        before = data[:position].decode(errors="replace")
        index = before.count(find_delimiter(before, delimiters)) if delimiters else 0
        keys = [key for key, colon in JSON_TEXT.findall(before) if colon] if is_json else []
        names = [column_name(header, index)] if delimiters else keys
        column = f"column {names[-1]} " if names else ""
        raise ValueError(f"{where}: {column}must be UTF-8 text, got byte 0x{data[position]:02x}")
    return text


def next_header(lines: Iterator[str], name: str, delimiters: str) -> tuple[int, str, str]:
    """Returns the number of the header line, the line, and the delimiters,
    or the one that a line `sep=,` before it names.

    Raises:
        ValueError: there is no header line, or the delimiter is another one.
    """
    rule = "a file must start with a header line"
    first = next(lines, "")
    require(first != "", f"{name}:1: {rule}", "an empty file")
    separator = SEPARATOR_LINE.fullmatch(first.rstrip("\r\n"))
    if separator is None:
        return 1, first, delimiters
    marks = f"{name}:1: columns must be separated by {delimiters_text(delimiters)}"
    require(separator[1] in delimiters, marks, first.strip())
    second = next(lines, "")
    require(second != "", f"{name}:2: {rule}", "none")
    return 2, second, separator[1]


def delimiters_text(delimiters: str) -> str:
    return " or ".join({"\t": "tabs", ",": "commas"}[mark] for mark in delimiters)


def lacks_header(first: Sequence[str], columns: Sequence[str], given: Sequence[Sequence[str]]) -> bool:
    """Returns whether the cells of a first line are a row, and the names of the columns are those given."""
    return bool(given) and not set(columns[1:]) <= set(first)


def choose_names(first: Sequence[str], given: Sequence[Sequence[str]]) -> list[str]:
    """Returns the first of the given names of columns that are as many as the cells of a first line, else the first."""
    return list(next((names for names in given if len(names) == len(first)), given[0]))


def find_delimiter(text: str, delimiters: str) -> str:
    """Returns the first of `delimiters` in the header line outside quoted names;
    `NO_DELIMITER` if it is a single column."""
    header = re.match(r"[^\r\n]*", text)
    unquoted = re.sub(QUOTED, "", header[0] if header else "")
    return next((mark for mark in delimiters if mark in unquoted), NO_DELIMITER)


def column_name(header: list[str], index: int) -> str:
    """Name of a column, or its number (from 1) where it has none."""
    return header[index] if index < len(header) and header[index] else str(index + 1)


def strip_cells(cells: list[str]) -> list[str]:
    return [cell.strip() for cell in cells]


def check_header(where: str, header: list[str], columns: Sequence[str], delimiters: str) -> None:
    """Raises ValueError for a blank header line, or one that a delimiter other than `delimiters` separates."""
    require(any(header), f"{where}: a file must start with a header line", "a blank one")
    is_one = len(header) == 1 and header[0] not in columns
    if is_one and any(mark in header[0] for mark in OTHER_DELIMITERS if mark not in delimiters):
        rule = f"{where}: columns must be separated by {delimiters_text(delimiters)}"
        raise ValueError(f"{rule}, got {header[0][:MAX_QUOTED_VALUE]!r}")


def find_columns(where: str, header: list[str], columns: Sequence[str], numbered: bool) -> list[int | None]:
    """Positions of `columns` in the header; None for the first if `numbered` and it is not there or blank."""
    is_numbered = numbered and not (columns[0] and columns[0] in header)
    wanted = columns[1:] if is_numbered else columns
    known = [cell[:MAX_QUOTED_VALUE] for cell in header if cell]
    for column in wanted:
        if column not in header:
            hint = nearest_first(column, known, taken=columns)
            raise MissingColumnError(f"{where}: column {column} is missing; {hint}")
        require(header.count(column) == 1, f"{where}: column {column} must be there once", header.count(column))
    return [*([None] if is_numbered else []), *map(header.index, wanted)]


def check_num_cells(where: str, header: list[str], cells: list[str]) -> None:
    """Raises ValueError unless a line is blank or has as many cells as the header."""
    if cells and len(cells) != len(header):
        is_short = len(cells) < len(header)
        hint = f"no column {header[len(cells)]}" if is_short else f"column {header[-1]} must be the last"
        wanted = f"{len(header)} cell{'' if len(header) == 1 else 's'}"
        raise ValueError(f"{where}: a line must have {wanted}, got {len(cells)}, {hint}")


def pick_cells(cells: list[str], positions: list[int | None], number: int) -> list[str]:
    """Returns the cells at `positions`, stripped; `number` where there is no position; all blank for a blank line."""
    if not cells:
        return [""] * len(positions)
    return [str(number) if at is None else cells[at].strip() for at in positions]
