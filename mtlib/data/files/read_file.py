"""Reads the rows of one file in any format."""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from mtlib.config.data import Format, format_of, has_format
from mtlib.data.files.excel_files import read_excel_stream
from mtlib.data.files.json_files import has_split_arrays, read_json_stream
from mtlib.data.files.opening import DAMAGE, open_decompressed
from mtlib.data.files.parquet_files import carried_names, read_parquet_stream
from mtlib.data.files.quoting import find_quoting
from mtlib.data.files.readers import Row, Wanted, read_stream, read_whole_text, short_name
from mtlib.runtime.errors import first_line
from mtlib.tasks import FileFormat


def read_one_file(path: Path, wanted: Wanted) -> Iterator[Row]:
    """Yields the rows of a file; ValueError as the readers of its format, or if it cannot be opened."""
    form: Format | None = wanted.format.name or format_of(path.name)  # type: ignore[assignment]
    with faults_as_value_error(str(path)):
        if form == "tsv" and not wanted.format.quoting:
            found = dataclasses.replace(wanted.format, quoting=find_quoting(path, wanted.format).name)
            wanted = dataclasses.replace(wanted, format=found)
        with open_decompressed(path) as stream:
            if form == "text":
                yield from read_whole_text(stream, path, wanted)
            elif form is not None:
                yield from read_rows(stream, short_name(path), form, wanted)
            else:
                raise ValueError(f"{path} must have a format that its name says")


def read_rows(stream: IO[bytes], name: str, form: Format, wanted: Wanted) -> Iterator[Row]:
    """Yields the rows of a stream of bytes in any format but `text`; ValueError as the reader of its format, or if it
    cannot be read, about its `name`."""
    with faults_as_value_error(name):
        match form:
            case "parquet":
                yield from read_parquet_stream(stream, name, wanted)
            case "xlsx":
                yield from read_excel_stream(stream, name, wanted)
            case "json" | "jsonl":
                yield from read_json_stream(stream, name, form == "jsonl", wanted)
            case _:
                yield from read_stream(stream, name, form, wanted)


@contextlib.contextmanager
def faults_as_value_error(name: str) -> Iterator[None]:
    """Raises ValueError, about a file, for what its system and libraries raise when it cannot be read."""
    try:
        yield
    except (OSError, pa.ArrowException, *DAMAGE) as error:
        why = getattr(error, "strerror", None) or first_line(error)
        raise ValueError(f"{name} must be a readable file, got: {why}") from error


def is_file_of_splits(path: Path, given: FileFormat, splits: Iterable[str]) -> bool:
    """Returns whether a file is a JSON object that has an array for each of these splits."""
    if not has_format(path.name, given, "json"):
        return False
    with open_decompressed(path) as stream:
        return has_split_arrays(stream, given.encoding, splits)


def carried_by(path: Path, given: FileFormat, column: str) -> tuple[str, ...]:
    """Returns the names of the numbers of labels that a Parquet file carries; none for any other file."""
    if not has_format(path.name, given, "parquet"):
        return ()
    try:
        return carried_names(pq.read_schema(path), column)
    except (pa.ArrowException, OSError):
        return ()
