"""Opens and reads new text to predict, from a file or standard input; formats are those of `mtlib.data.files`."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from mtlib.data.files.json_files import read_json_stream
from mtlib.data.files.parquet_files import read_parquet_stream
from mtlib.data.files.readers import Wanted, check_surrogates, read_stream
from mtlib.data.files.suggestions import describe_folder
from mtlib.runtime.errors import require
from mtlib.runtime.storage import expanded_path
from mtlib.tasks import FileFormat

InputFormat = Literal["csv", "tsv", "jsonl", "json", "lines", "parquet"]
SUFFIX_FORMATS: dict[str, InputFormat] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".txt": "lines",
    "": "lines",
    ".parquet": "parquet",
}
"""The format of a file by the ending of its name."""
INPUT_SUFFIXES = tuple(filter(None, SUFFIX_FORMATS))
"""The endings of files whose format is known by them."""
STANDARD_INPUT = "-"
ID_COLUMN = "id"


@dataclass(frozen=True, kw_only=True)
class TextRow:
    """One text, or one pair of texts."""

    where: str
    """File and line."""
    id: str
    texts: tuple[str, ...]
    """Without white space at their ends."""

    def __post_init__(self) -> None:
        for text in self.texts:
            check_surrogates(f"{self.where}: a text", text)

    @property
    def is_blank(self) -> bool:
        """Whether a text is missing."""
        return not all(self.texts)


def find_format(place: str, flag: str = "--input") -> InputFormat:
    """Returns the format by the suffix of a file's name; plain lines for standard input.
    ValueError for any other suffix.

    `flag` is the one that named the file, for messages.
    """
    suffix = "" if place == STANDARD_INPUT else Path(place).suffix.lower()
    rule = f"{flag} must end in {', '.join(INPUT_SUFFIXES)}"
    rule += ", or its format be named with --format" if flag == "--input" else ""
    require(suffix in ("", *INPUT_SUFFIXES), rule, place)
    return SUFFIX_FORMATS[suffix]


def name_input(place: str) -> str:
    """Returns the name of the input in messages."""
    return "standard input" if place == STANDARD_INPUT else Path(place).name


def input_file(place: str) -> Path:
    """Returns the file of the input; standard input may be a pipe."""
    return expanded_path("/dev/stdin" if place == STANDARD_INPUT else place)


@contextlib.contextmanager
def open_input(place: str, flag: str = "--input") -> Iterator[IO[bytes]]:
    """A stream of a file's bytes, or of standard input's; ValueError, about the flag, if the file cannot be read."""
    if place == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    try:
        stream = input_file(place).open("rb")
    except OSError as error:
        path, is_missing = input_file(place), isinstance(error, FileNotFoundError)
        hint = f"; {describe_folder(path.parent, INPUT_SUFFIXES)}" if is_missing else ""
        raise ValueError(f"{flag} must be a readable file, got {place}: {error.strerror}{hint}") from error
    with stream:
        yield stream


def read_texts(
    stream: IO[bytes],
    name: str,
    form: InputFormat,
    columns: Sequence[str],
    id_column: str = ID_COLUMN,
    quoting: str = "",
) -> Iterator[TextRow]:
    """Reads rows of new text, each when it is asked for, also rows with a blank text.

    Rows are numbered from 0 where there is no `id_column`. `columns` are those of the texts; plain lines have none, but
    as many texts. `quoting` is that of the task's own TSV files. Raises ValueError as `read_stream` and
    `read_parquet_stream`, or if Parquet comes through a pipe.
    """
    wanted = Wanted(columns=(id_column, *columns), format=FileFormat(quoting=quoting), split="")
    if form == "parquet":
        require(stream.seekable(), "--input must be a file where it is Parquet", name)
        rows = read_parquet_stream(stream, name, wanted)
    elif form in ("json", "jsonl"):
        rows = read_json_stream(stream, name, form == "jsonl", wanted)
    else:
        rows = read_stream(stream, name, form, wanted)
    for where, cells in rows:
        yield TextRow(where=where, id=cells[0], texts=tuple(cells[1:]))
