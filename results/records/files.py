"""Atomic writes and checked reads of a sweep's files, on a disk or behind a URI."""

import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq

from mtlib.config.schema import from_dict
from mtlib.runtime.errors import first_line, require
from mtlib.runtime.method_file import permit_stored
from mtlib.runtime.program_names import DEFAULT_STORAGE
from mtlib.runtime.storage import (
    Location,
    absolute_location,
    check_answer,
    expanded_path,
    full_path,
    is_uri,
    local_path,
    open_folder,
    read_bytes,
    split_location,
    write_bytes,
)

Declared = TypeVar("Declared")

NEVER_REPEATED = ("id", "logits", "value")
"""Columns without dictionary encoding, which would make them larger and slower."""


def check_output(flag: str, output: Location, inputs: Iterable[Location | None], *, overwrite: bool) -> None:
    """Raises ValueError if an output would overwrite an input, or without `--overwrite` anything else.

    Args:
        flag: of the output, in messages.
        output: a file or folder to write.
        inputs: files and folders that are read. None, and what is not there, is no input.
        overwrite: whether `--overwrite` was given.
    """
    folder, name = split_location(str(output))
    path = None if local_path(folder or ".") is None else local_path(output)
    for given in inputs:
        is_input = given is not None and (str(given) == str(output) if path is None else overwrites(path, given))
        require(not is_input, f"{flag} must not overwrite what is read, {given}", output)
    if path is None:
        is_there = open_folder(folder).get_file_info(name).type != fs.FileType.NotFound
    else:
        is_there = path.exists() or path.is_symlink()
    require(overwrite or not is_there, f"{flag} must be new, or be overwritten with --overwrite", output)


def overwrites(output: Path, given: Location) -> bool:
    """Returns whether a file or folder is an input, under any name, or holds it."""
    path = local_path(given)
    if path is None or not path.exists():
        return False
    is_same = output.exists() and output.samefile(path)  # hard links too
    return is_same or path.resolve().is_relative_to(output.resolve())


def find_sweep(sweep: str | Path) -> str:
    """Returns a sweep's folder or URI as given or, where a name is given that is no path,
    its folder in the default storage.

    Raises:
        ValueError: as `check_answer`.
    """
    check_answer(sweep)
    path = expanded_path(sweep)
    is_name = not is_uri(sweep) and len(path.parts) == 1 and not path.exists()
    return absolute_location(Path(DEFAULT_STORAGE) / path) if is_name else str(sweep)


def folder_name(location: Location) -> str:
    """Returns the last part of a folder's path."""
    return split_location(full_path(location, "") if isinstance(location, fs.SubTreeFileSystem) else location)[1]


def write_parquet(root: fs.SubTreeFileSystem, path: str, table: pa.Table) -> None:
    """Writes a table atomically, as one row group."""
    write_row_groups(root, path, table.schema, [table])


def write_row_groups(root: fs.SubTreeFileSystem, path: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """Writes tables of one schema into one file atomically, a row group each; its pages carry checksums."""
    stream = io.BytesIO()
    repeated = [name for name in schema.names if name not in NEVER_REPEATED]
    with pq.ParquetWriter(
        stream, schema, compression="zstd", use_dictionary=repeated, write_page_checksum=True, write_statistics=True
    ) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=max(table.num_rows, 1))
    write_bytes(root, path, stream.getvalue())


@contextmanager
def report_damage(name: str) -> Iterator[None]:
    """Turns the errors of parsing a damaged file into one ValueError that names it.

    pyarrow raises OSError without a number for damaged pages; one with a number is the system's, and passes.
    """
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"{name}: truncated or damaged: {first_line(error)}") from None


@contextmanager
def open_parquet(root: fs.SubTreeFileSystem, path: str) -> Iterator[pq.ParquetFile]:
    """A Parquet file, open, which is fetched whole from a bucket: a request that fails is no damage.

    Raises:
        FileNotFoundError: there is none.
        OSError: it cannot be read.
        ValueError: it is truncated or no Parquet, also where this is found while it is open; one line names it.
    """
    is_local = local_path(root) is not None
    content = root.open_input_file(path) if is_local else pa.BufferReader(read_bytes(root, path))
    with report_damage(full_path(root, path)), pq.ParquetFile(content, page_checksum_verification=True) as file:
        yield file


def read_parquet(root: fs.SubTreeFileSystem, path: str, declared: pa.Schema) -> pa.Table:
    """Returns a whole Parquet file that must have the declared schema;
    raises as `open_parquet` and `check_schema` do."""
    with open_parquet(root, path) as file:
        check_schema(file.schema_arrow, declared, full_path(root, path))
        return file.read()


def check_schema(found: pa.Schema, declared: pa.Schema, name: str) -> None:
    """Raises ValueError, naming file and first difference, unless a file has the declared metadata and columns."""
    metadata = found.metadata or {}
    for key in (b"table", b"schema_version"):
        wanted, got = declared.metadata[key].decode(), metadata.get(key, b"none").decode()
        if wanted != got:
            raise ValueError(f"{name}: {key.decode().replace('_', ' ')} must be {wanted}, got {got}")
    for field in declared:
        if field.name not in found.names:
            raise ValueError(f"{name}: column '{field.name}' is missing")
        if found.field(field.name).type != field.type:
            raise ValueError(f"{name}: column '{field.name}' must be {field.type}, got {found.field(field.name).type}")
    if found.names != declared.names:
        raise ValueError(f"{name}: columns must be {', '.join(declared.names)}, got {', '.join(found.names)}")


def write_json(root: fs.SubTreeFileSystem, path: str, value: Mapping[str, Any]) -> None:
    """Writes an indented JSON object atomically."""
    write_bytes(root, path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def read_json(root: fs.SubTreeFileSystem, path: str) -> dict[str, Any]:
    """Reads a JSON object, and decides whether code in it may be run (`mtlib.runtime.method_file`).

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is damaged.
    """
    text = read_bytes(root, path)
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{full_path(root, path)}: truncated or damaged: {first_line(error)}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{full_path(root, path)}: must be a JSON object, got {type(value).__name__}")
    permit_stored(value, root, path)
    return value


def json_checksum(content: Mapping[str, Any]) -> int:
    """CRC-32 of plain JSON."""
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def check_version(tree: Mapping[str, Any], name: str, key: str, version: int, remedy: str | None = None) -> None:
    """Raises ValueError, naming the file and how it is made again, unless its JSON object has this version at `key`."""
    hint = "" if remedy is None else f" ({remedy})"
    rule = f"{name}: {key.replace('_', ' ')} must be {version}{hint}"
    require(tree.get(key) == version, rule, tree.get(key, "none"))


def read_dataclass(
    root: fs.SubTreeFileSystem, path: str, declared: type[Declared], remedy: str | None = None
) -> Declared:
    """Reads a JSON object that a dataclass declares; its first field is the file's version.

    Args:
        declared: the dataclass; the default of its first field is the version that the file must have.
        remedy: what the user does about a file of another version, such as `make it again with COMMAND`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, of another version, or not as declared; one line names it.
    """
    tree, name, key = read_json(root, path), full_path(root, path), next(iter(declared.__annotations__))
    check_version(tree, name, key, getattr(declared, key), remedy)
    try:
        found: Declared = from_dict(declared, tree, "")
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    return found
