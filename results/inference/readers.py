"""Opens and reads new text to predict, from a file or standard input; formats are those of `mtlib.data.files`."""

import contextlib
import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal, cast

from mtlib.config.data import TABLE_SUFFIXES, format_of, has_format, without_compression
from mtlib.data.files.opening import open_decompressed
from mtlib.data.files.quoting import find_quoting
from mtlib.data.files.read_file import read_rows
from mtlib.data.files.readers import Wanted, check_surrogates
from mtlib.data.files.suggestions import describe_folder
from mtlib.runtime.errors import first_line, require
from mtlib.runtime.storage import expanded_path
from mtlib.tasks import FileFormat, Task

InputFormat = Literal["csv", "tsv", "jsonl", "json", "lines", "parquet", "xlsx"]
LINES_SUFFIX = ".txt"
"""The ending of files of plain lines."""
INPUT_SUFFIXES = (*TABLE_SUFFIXES, LINES_SUFFIX)
"""The endings of files whose format is known by them."""
STANDARD_INPUT = "-"
ID_COLUMN = "id"
PLAIN_FORMAT = FileFormat()
"""UTF-8, unquoted in TSV."""


@dataclass(frozen=True, kw_only=True)
class TextRow:
    """One text, or one pair of texts."""

    where: str
    """File and line."""
    id: str
    texts: tuple[str, ...]
    """Without white space at their ends."""
    carried: Mapping[str, str] = field(default_factory=dict)
    """The cells of further columns that the input has, which the output has too."""

    def __post_init__(self) -> None:
        for text in self.texts:
            check_surrogates(f"{self.where}: a text", text)

    @property
    def is_blank(self) -> bool:
        """Whether a text is missing."""
        return not all(self.texts)


def find_format(place: str, flag: str = "--input") -> InputFormat:
    """Returns the format by the suffix of a file's name, compressed or not; plain lines for standard input, and without
    any suffix. ValueError for any other suffix.

    `flag` is the one that named the file, for messages.
    """
    if found := format_of(place):
        return cast("InputFormat", found)
    suffix = "" if place == STANDARD_INPUT else Path(without_compression(place)).suffix.lower()
    rule = f"{flag} must end in {', '.join(INPUT_SUFFIXES)}"
    rule += ", or its format be named with --format" if flag == "--input" else ""
    require(suffix in ("", LINES_SUFFIX), rule, place)
    return "lines"


def name_input(place: str) -> str:
    """Returns the name of the input in messages."""
    return "standard input" if place == STANDARD_INPUT else Path(place).name


def input_file(place: str) -> Path:
    """Returns the file of the input; standard input may be a pipe."""
    return expanded_path("/dev/stdin" if place == STANDARD_INPUT else place)


@contextlib.contextmanager
def open_input(place: str, flag: str = "--input") -> Iterator[IO[bytes]]:
    """A stream of a file's bytes, without its compression, or of standard input's; ValueError, about the flag, if the
    file cannot be read."""
    if place == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    with contextlib.ExitStack() as stack:
        try:
            stream = stack.enter_context(open_decompressed(input_file(place)))
        except OSError as error:
            path, is_missing = input_file(place), isinstance(error, FileNotFoundError)
            hint = f"; {describe_folder(path.parent, INPUT_SUFFIXES)}" if is_missing else ""
            why = error.strerror or first_line(error)
            raise ValueError(f"{flag} must be a readable file, got {place}: {why}{hint}") from error
        yield stream


def new_text_format(task: Task, place: str, form: InputFormat) -> FileFormat:
    """Returns how new text for a task is read: as its own files, or where these do not show whether TSV is quoted, as
    the new file shows."""
    files, is_file = task.files, place != STANDARD_INPUT
    own = FileFormat() if files is None else files.format
    is_alike = files is not None and any(has_format(path, own, form) for path in files.paths("train"))
    encoding, separator = own.encoding if is_file else "", own.separator if is_alike else ""
    given = FileFormat(quoting=own.quoting, encoding=encoding, separator=separator)
    if form != "tsv" or not is_file or own.quoting in ("standard", "none"):
        return given
    return dataclasses.replace(given, quoting=find_quoting(input_file(place), given).name)


def read_texts(
    stream: IO[bytes],
    name: str,
    form: InputFormat,
    columns: Sequence[str],
    id_column: str = ID_COLUMN,
    given: FileFormat = PLAIN_FORMAT,
    carried: Sequence[str] = (),
) -> Iterator[TextRow]:
    """Reads rows of new text, each when it is asked for, also rows with a blank text.

    Rows are numbered from 0 where there is no `id_column`. `columns` are those of the texts; plain lines have none, but
    as many texts. `given` is what `new_text_format` returns. `carried` names further columns, which the input need not
    have. Raises ValueError as `read_rows`, or if Parquet or Excel comes through a pipe.
    """
    wanted, end = Wanted(columns=(id_column, *columns), carried=carried, format=given, split=""), 1 + len(columns)
    rule = "--input must be a file where it is Parquet or Excel"
    require(form not in ("parquet", "xlsx") or stream.seekable(), rule, name)
    for where, cells in read_rows(stream, name, form, wanted):
        further = dict(zip(wanted.findings.carried, cells[end:], strict=True))
        yield TextRow(where=where, id=cells[0], texts=tuple(cells[1:end]), carried=further)
