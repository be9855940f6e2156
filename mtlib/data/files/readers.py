"""Reads tables as streams: CSV with tabs or commas, TSV with and without quoting, and lines of text.

Input is text, read line by line, so that memory does not grow with its size. Columns are selected by name, and the
others are ignored. Standard quoting is undone once: quotation marks that were doubled in the data themselves stay
doubled.
"""

import codecs
import csv
import io
import itertools
import json
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TypeVar

from mtlib.config.data import Format
from mtlib.runtime.errors import nearest_first, require
from mtlib.tasks import FileFormat

TABS_OR_COMMAS = "\t,"
"""Column separators of CSV, unless one is given; the first that the header line holds is used."""
MAX_CELL_LENGTH = 2**24
"""Characters of a CSV cell at most: an unclosed quotation mark must not read a whole pipe into memory."""
MAX_QUOTED_VALUE = 40
"""Characters of a wrong value that an error message shows."""
NO_DELIMITER = "\0"
"""The delimiter of a file with a single column, which no text holds."""
SURROGATE = re.compile("[\ud800-\udfff]")
OTHER_DELIMITERS = "\t,;|"
"""Delimiters that are recognised in a header line in order to refuse them."""
WORDS_OF_SPLITS = {
    "train": ("train", "training"),
    "dev": ("dev", "val", "valid", "validation", "eval", "trial"),
    "test": ("test", "testing"),
}
"""The words for each split, in lower case: of columns, of keys of JSON and of names of files."""
SPLIT_WORDS = frozenset(word for words in WORDS_OF_SPLITS.values() for word in words)
"""The words for any split."""
FASTTEXT_LABEL = "__label__"
"""Before each label at the beginning of a line of fastText's format."""
SPLIT_ROWS = 100
"""The first rows of a file, by which a column is recognised that names the split of each row."""
CHUNK_BYTES = 2**20
"""Bytes that are decoded at once to see whether a file is UTF-8."""
WIDE_ENCODINGS = ("utf-16", "utf-32")
"""Beginnings of the names of encodings in which a line feed is no single byte."""

Row = tuple[str, list[str]]
"""Position of a row, e.g. `quora-dev.csv:17`, and its cells without white space at their ends."""


Cells = TypeVar("Cells")
"""A row as its format has it: cells, or an object."""


class MissingColumnError(ValueError):
    """A file lacks a wanted column, or an object a wanted key."""


@dataclass(frozen=True, kw_only=True)
class ClassNames:
    """The names of labels that data must carry, if they carry names."""

    names: tuple[str, ...]
    """In the order of the labels; empty: any."""
    mapping: str
    """The setting that maps what data carry to labels, in messages."""


@dataclass(kw_only=True)
class SourceFindings:
    """What readers find besides rows, added up over all files of a source."""

    left_out: Counter[str] = field(default_factory=Counter)
    """The rows that are left out, by reason."""
    split_values: dict[str, Counter[str]] = field(default_factory=dict)
    """The values of each column that is not wanted and perhaps says which split each row is for."""
    tools: set[str] = field(default_factory=set)
    """The annotation tools whose exports were read."""
    row_numbers: Iterator[int] = field(default_factory=itertools.count)
    """Numbers the rows of files without ids."""
    carried: list[str] = field(default_factory=list)
    """The columns of `Wanted.carried` that the input has."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is read of an input: its columns, and how they are found."""

    columns: Sequence[str]
    """Names of the wanted columns, that of the id first; plain lines have none, but as many texts. Rows are numbered if
    the name of the column of the id is blank."""
    is_numbered: bool = True
    """Whether rows are numbered from 0 where there is no column of ids, in JSON lines where the first object has no key
    for the id. Plain lines always are."""
    headers: Sequence[Sequence[str]] = ()
    """Names of all columns of CSV or TSV that has no header line, of several the first that are as many as the cells of
    the first line; not used if that has the names of the wanted columns, the id's aside."""
    carried: Sequence[str] = ()
    """Names of further columns, whose cells follow those of `columns` as far as the input has them; plain lines have
    none."""
    list_column: str = ""
    """The column whose values may be lists in JSON and Parquet: as a cell each is JSON again."""
    format: FileFormat = field(default_factory=FileFormat)
    """How text is read, as far as its format does not say it."""
    num_filters: int = 0
    """How many columns stand after that of the id by which rows are selected."""
    watched: Sequence[str] = ()
    """Columns that may say which split each row is for although they are wanted."""
    split: str = "train"
    """Whose rows are read of a JSON object that has an array for each split; empty: rows are of no split."""
    findings: SourceFindings = field(default_factory=SourceFindings)
    """Gets what readers find besides rows."""
    class_names: ClassNames | None = None
    """For Parquet and data sets that carry names for the numbers of the last column. None: the numbers are the cells.
    Otherwise the names are, and must be `class_names.names` in their order, unless that is empty."""

    @property
    def unwatched(self) -> set[str]:
        """The wanted columns that do not say which split a row is for."""
        return {*self.columns} - {*self.watched}


def with_carried(wanted: Wanted, has_column: Callable[[str], bool]) -> Wanted:
    """Returns what is read of an input by the columns that it has, which are noted in the findings."""
    wanted.findings.carried[:] = filter(has_column, wanted.carried)
    return replace(wanted, columns=(*wanted.columns, *wanted.findings.carried))


def read_stream(stream: IO[bytes], name: str, form: Format, wanted: Wanted) -> Iterator[Row]:
    """Rows of a stream of text, each read when it is asked for. Blank lines are no rows, except those of plain lines.

    Args:
        stream: bytes of text, with or without a byte order mark.
        name: of the input, in messages.
        form: `csv` has a header line and standard quoting; `tsv` a header line, tabs and one row per line, unless
            quoted; `fasttext` labels before the text of each line; `lines` a text per line, or two with a tab between,
            or what a pattern finds in it; `text` a single row, whose columns are the text, `folder` and `file`. Line
            feeds end lines, in `csv` carriage returns alone too.
        wanted: what is read.

    Returns:
        The rows in their order, with the cells of `wanted.columns`. A short TSV line is filled up with blank cells,
        because GLUE's own QQP has lines broken in two.

    Raises:
        ValueError: with input and line, at the row that it concerns. The input is empty or not in its encoding; a
            column is missing or there twice; a line has too few or too many cells, or does not match the pattern; a
            quotation mark is not closed.
    """
    lines = decode_lines(stream, name, wanted.format.encoding)
    if form == "lines" and not wanted.format.pattern:
        yield from read_plain_lines(lines, name, num_texts=len(wanted.columns) - 1)
    elif form == "lines":
        yield from read_table(pattern_records(lines, name, wanted.format.pattern), wanted)
    elif form == "fasttext":
        yield from read_table(fasttext_records(lines, name, wanted), wanted)
    else:
        delimiters = wanted.format.separator or ("\t" if form == "tsv" else TABS_OR_COMMAS)
        is_quoted = form == "csv" or wanted.format.quoting == "standard"
        checked = start_checked(lines, name)
        if is_quoted:
            records = csv_records(checked, name, delimiters, may_hold_tabs=form == "tsv")
        else:
            records = tsv_records(checked, name, delimiters)
        yield from read_table(records, wanted, delimiters, is_filled=form == "tsv")


def short_name(path: Path) -> str:
    """Returns the name of a file in messages; with its folder for TSV files, since GLUE's are all named alike."""
    return f"{path.parent.name}/{path.name}" if path.suffix == ".tsv" else path.name


def decode_lines(stream: IO[bytes], name: str, encoding: str = "") -> Iterator[str]:
    """Lines of text with their ends, without a byte order mark.

    UTF-8 unless an encoding is given; a file that is UTF-8 is read as it also then, as some data sets mix both.
    """
    codec = codecs.lookup(encoding or "utf-8").name
    if encoding and is_utf8(stream, takes_ascii=codec.startswith(WIDE_ENCODINGS)):
        codec = "utf-8"
    if codec.startswith(WIDE_ENCODINGS):
        try:
            yield from io.StringIO(stream.read().decode(encoding), newline="\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{name} must be text in the encoding {encoding}, got: {error.reason}") from error
        return
    for number, data in enumerate(stream, 1):
        rule = f"{name}:{number}: a file must be {encoding or 'UTF-8'} text"
        try:
            line = data.decode("utf-8-sig" if number == 1 and codec == "utf-8" else codec)
        except UnicodeDecodeError as error:
            byte, likely = error.object[error.start], likely_encoding(stream, data)
            key = f'encoding = "{likely}" of a task in tasks.toml'
            hint = f"; perhaps it is {likely}: {key}" if likely != encoding else ""
            raise ValueError(f"{rule}, got byte 0x{byte:02x}{hint}") from error
        require("\0" not in line, rule, "a zero byte")  # UTF-16 of English text decodes as UTF-8 with zeros between
        yield line


def is_utf8(stream: IO[bytes], *, takes_ascii: bool) -> bool:
    """Returns whether a stream, which is read again afterwards, is UTF-8 text without zero bytes, with a character
    beyond ASCII unless `takes_ascii`: some encodings have ASCII bytes for other letters."""
    decoder, is_enough = codecs.getincrementaldecoder("utf-8")(), takes_ascii
    try:
        while chunk := stream.read(CHUNK_BYTES):
            decoder.decode(chunk)
            if 0 in chunk:
                return False
            is_enough = is_enough or not chunk.isascii()
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    finally:
        stream.seek(0)
    return is_enough


def likely_encoding(stream: IO[bytes], line: bytes) -> str:
    """Returns the likeliest encoding of text that is not UTF-8, by a line of it and what follows in its stream.

    Windows' own has letters and signs where Latin-1 has control characters.
    """
    rest = line + stream.read()
    if rest.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        has_signs = any("\x80" <= letter <= "\x9f" for letter in rest.decode("latin-1"))
        return "cp1252" if has_signs and rest.decode("cp1252") else "latin-1"
    except UnicodeDecodeError:
        return "latin-1"


def start_checked(lines: Iterator[str], name: str) -> Iterator[str]:
    """Yields the lines of a table; ValueError if the first one is blank."""
    start = next(lines, "")
    rule = f"{name}:1: a file must start with a header line"
    require(bool(start.strip("\t, \r\n")), rule, "a blank one" if start else "an empty file")
    yield start
    yield from lines


def read_table(
    records: Iterator[Row], wanted: Wanted, delimiters: str = TABS_OR_COMMAS, *, is_filled: bool = False
) -> Iterator[Row]:
    """Rows of a table.

    Args:
        records: every line's cells, those of the header line first.
        wanted: what is read.
        delimiters: those that may separate cells.
        is_filled: whether a line that is too short is filled up with blank cells.

    Raises:
        ValueError: as `read_stream`.
    """
    where, first = next(records, ("", []))
    require(bool(first), "a table must start with names of columns, or with a row", "no row")
    header = [cell.strip() for cell in first]
    if wanted.headers and not set(wanted.columns[1:]) <= set(header):
        header = list(next((names for names in wanted.headers if len(names) == len(first)), wanted.headers[0]))
        records = itertools.chain([(where, first)], records)
    check_delimiter(where, header, wanted.columns, delimiters)
    wanted = with_carried(wanted, header.__contains__)
    positions = find_columns(where, header, wanted)
    unwanted = [(name, operator.itemgetter(at)) for at, name in enumerate(header) if name not in wanted.unwatched]
    for where, cells in count_splits(checked_rows(records, header, is_filled), unwanted, wanted):
        yield where, [str(next(wanted.findings.row_numbers)) if at is None else cells[at].strip() for at in positions]


def checked_rows(records: Iterable[Row], header: list[str], is_filled: bool) -> Iterator[Row]:
    """Yields rows with as many cells as the header; ValueError for a line with more, or fewer unless these are
    filled."""
    for where, cells in records:
        filled = cells + [""] * (len(header) - len(cells)) if is_filled else cells
        if len(filled) != len(header):
            is_short = len(filled) < len(header)
            hint = f"no column {header[len(filled)]}" if is_short else f"column {header[-1]} must be the last"
            wanted = f"{len(header)} cell{'' if len(header) == 1 else 's'}"
            raise ValueError(f"{where}: a line must have {wanted}, got {len(filled)}, {hint}")
        yield where, filled


def count_splits(
    rows: Iterable[tuple[str, Cells]], unwanted: Iterable[tuple[str, Callable[[Cells], object]]], wanted: Wanted
) -> Iterator[tuple[str, Cells]]:
    """Yields rows, and counts the values of columns that perhaps say which split each row is for.

    Args:
        rows: with their positions.
        unwanted: the name of each column that is not wanted, and what returns its value in a row.
        wanted: gets the values, of columns that have a word such as `train` in one of the first rows.
    """
    ahead = iter(rows)
    first = list(itertools.islice(ahead, SPLIT_ROWS if wanted.split else 0))
    watched = [
        (name, value_in) for name, value_in in unwanted if any(is_split_word(value_in(cells)) for _, cells in first)
    ]
    if not watched:
        yield from itertools.chain(first, ahead)
        return
    for where, cells in itertools.chain(first, ahead):
        for name, value_in in watched:
            wanted.findings.split_values.setdefault(name, Counter())[str(value_in(cells)).strip()] += 1
        yield where, cells


def is_split_word(value: object) -> bool:
    """Returns whether a value is a word for a split."""
    return isinstance(value, str) and value.strip().casefold() in SPLIT_WORDS


def csv_records(lines: Iterator[str], name: str, delimiters: str, *, may_hold_tabs: bool = False) -> Iterator[Row]:
    """Yields every CSV record, the header included, with the line that it starts on.

    An unclosed quotation mark runs on into the following records. It is distinguished from a quoted text of several
    lines by the tabs that it swallows, unless cells may hold them; commas are no evidence, because texts contain them.
    """
    csv.field_size_limit(MAX_CELL_LENGTH)  # of the whole process; the default is 131,072 characters
    # A carriage return alone ends a line too, as old spreadsheets write.
    lines = itertools.chain.from_iterable(
        io.StringIO(line, newline="") if "\r" in line.removesuffix("\r\n") else (line,) for line in lines
    )
    first = next(lines, "")
    unquoted = re.sub(r'"[^"]*"', "", first)
    is_known = len(delimiters) == 1
    delimiter = next((mark for mark in delimiters if is_known or mark in unquoted), NO_DELIMITER)
    reader, start = csv.reader(itertools.chain([first], lines), delimiter=delimiter, strict=True), 1
    try:
        for cells in reader:
            may_run_on = reader.line_num > start and delimiter == "\t" and not may_hold_tabs
            if may_run_on and any("\n" in cell and "\t" in cell for cell in cells):
                raise csv.Error("one that runs on into other rows")
            if cells:
                yield f"{name}:{start}", cells
            start = reader.line_num + 1
    except csv.Error as error:
        rule = f'{name}:{start}: a quotation mark must be closed where its text ends (a mark inside is written "")'
        raise ValueError(f"{rule}, got: {error}") from error


def tsv_records(lines: Iterable[str], name: str, separator: str) -> Iterator[Row]:
    """Yields every line of TSV that is not blank, the header included."""
    for number, line in enumerate(lines, 1):
        if line.strip("\r\n"):
            yield f"{name}:{number}", line.rstrip("\r\n").split(separator)


def pattern_records(lines: Iterable[str], name: str, pattern: str) -> Iterator[Row]:
    """Yields the names of a pattern's groups, and what they are in every line that is not blank."""
    compiled = re.compile(pattern)
    yield f"{name}:1", list(compiled.groupindex)
    for number, line in enumerate(lines, 1):
        if line.strip():
            found = compiled.fullmatch(line.rstrip("\r\n"))
            if found is None:
                got = line.strip()[:MAX_QUOTED_VALUE]
                raise ValueError(f"{name}:{number}: a line must match the pattern {pattern}, got {got!r}")
            yield f"{name}:{number}", [cell or "" for cell in found.groupdict().values()]


def fasttext_records(lines: Iterable[str], name: str, wanted: Wanted) -> Iterator[Row]:
    """Yields the names of text and label, and both of every line: its labels as a list in JSON."""
    text_column, *label_column = wanted.columns[1 + wanted.num_filters :]
    yield f"{name}:1", [text_column, *label_column]
    for number, line in enumerate(lines, 1):
        words = line.split()
        labels = list(itertools.takewhile(lambda word: word.startswith(FASTTEXT_LABEL), words))
        if words:
            text = line.split(maxsplit=len(labels))[len(labels) :]
            found = json.dumps([label.removeprefix(FASTTEXT_LABEL) for label in labels], ensure_ascii=False)
            yield f"{name}:{number}", ["".join(text), *([found] if label_column else [])]


def read_whole_text(stream: IO[bytes], path: Path, wanted: Wanted) -> Iterator[Row]:
    """Yields the one row of a file that is one text; the names of folder and file are columns too."""
    text = "".join(decode_lines(stream, path.name, wanted.format.encoding))
    facts = {"folder": path.parent.name, "file": path.name, wanted.columns[1 + wanted.num_filters]: text.strip()}
    header, cells = list(facts), list(facts.values())
    yield from read_table(iter([(path.name, header), (path.name, cells)]), wanted)


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
        yield f"{name}:{number + 1}", [str(number), *(text.strip() for text in texts)]


def check_delimiter(where: str, header: list[str], columns: Sequence[str], delimiters: str) -> None:
    """Raises ValueError for a header line that a delimiter other than `delimiters` separates."""
    is_one = len(header) == 1 and header[0] not in columns
    if is_one and any(mark in header[0] for mark in OTHER_DELIMITERS if mark not in delimiters):
        allowed = " or ".join({"\t": "tabs", ",": "commas"}.get(mark, repr(mark)) for mark in delimiters)
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
