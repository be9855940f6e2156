"""Atomic writes and checked reads of a sweep's files, on a disk or behind a URI."""

import io
import json
import posixpath
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq

from mtlib.config.schema import from_dict, to_dict
from mtlib.runtime.errors import first_line, require
from mtlib.runtime.program_names import DEFAULT_STORAGE

Declared = TypeVar("Declared")

PROJECT_FOLDER = Path(__file__).resolve().parents[2]
"""Folder of the four packages."""

Location: TypeAlias = str | Path | fs.SubTreeFileSystem
"""A folder: a path, a URI such as `file:///mnt/sweeps/a` or `s3://bucket/sweeps/a`, or what `open_folder` returns."""

TEMPORARY_SUFFIX = ".tmp"
"""Ending of hidden files that are being written, or were left by a kill."""

JSON_KEYS = {"evaluations": "looks"}
"""Fields of records whose key in the file is not their name."""

NEVER_REPEATED = ("id", "logits", "value")
"""Columns without dictionary encoding, which would make them larger and slower."""


def open_folder(location: Location) -> fs.SubTreeFileSystem:
    """The file system whose root is this folder, which need not exist yet; ValueError if nothing can open the URI."""
    if isinstance(location, fs.SubTreeFileSystem):
        return location
    if "://" not in str(location):
        return fs.SubTreeFileSystem(str(Path(location).expanduser().absolute()), fs.LocalFileSystem())
    try:
        base, path = fs.FileSystem.from_uri(str(location))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"cannot open {location}: {first_line(error)}") from None
    return fs.SubTreeFileSystem(path, base)


def absolute_location(location: Location) -> str:
    """A folder as an absolute path, a URI as it is."""
    text = str(location)
    return text.rstrip("/") if "://" in text else str(Path(text).expanduser().resolve())


def local_path(location: Location) -> Path | None:
    """The absolute path of a file or folder; None if it is not on a disk of this machine."""
    if "://" in str(location) and not str(location).startswith("file://"):
        return None
    return Path(open_folder(location).base_path)


def check_output(flag: str, output: Location, inputs: Iterable[Location | None], *, overwrite: bool) -> None:
    """Raises ValueError if an output would overwrite an input, or without `--overwrite` anything else.

    Args:
        flag: of the output, in messages.
        output: a file or folder to write.
        inputs: files and folders that are read. None, and what is not there, is no input.
        overwrite: whether `--overwrite` was given.
    """
    path = local_path(output)
    for given in inputs:
        is_input = given is not None and (str(given) == str(output) if path is None else overwrites(path, given))
        require(not is_input, f"{flag} must not overwrite what is read, {given}", output)
    folder, _, name = str(output).rpartition("/")
    if path is None:
        is_there = open_folder(folder).get_file_info(name).type != fs.FileType.NotFound
    else:
        is_there = path.exists() or path.is_symlink()
    require(overwrite or not is_there, f"{flag} must be new, or be overwritten with --overwrite", output)


def overwrites(output: Path, given: Location) -> bool:
    """Whether a file or folder is an input, under any name, or holds it."""
    path = local_path(given)
    if path is None or not path.exists():
        return False
    is_same = output.exists() and output.samefile(path)  # hard links too
    return is_same or path.resolve().is_relative_to(output.resolve())


def sweep_location(sweep: Location) -> str:
    """A sweep's folder or URI as given or, where a name is given that is no path, its folder in the default storage."""
    path = Path(sweep).expanduser()
    is_name = "://" not in str(sweep) and len(path.parts) == 1 and not path.exists()
    return absolute_location(Path(DEFAULT_STORAGE) / path) if is_name else str(sweep)


def full_path(root: fs.SubTreeFileSystem, path: str) -> str:
    """Full path of a file in the folder, for messages."""
    return posixpath.join(root.base_path, path)


def folder_name(location: Location) -> str:
    """The last part of a folder's path."""
    return str(location).rstrip("/").rpartition("/")[2]


def list_files(root: fs.SubTreeFileSystem, folder: str) -> list[fs.FileInfo]:
    """Every file at any depth under `folder` ("" for all), sorted by path; none where the folder is missing."""
    selector = fs.FileSelector(folder, recursive=True, allow_not_found=True)
    found = [info for info in root.get_file_info(selector) if info.type == fs.FileType.File]
    return sorted(found, key=lambda info: str(info.path))


def is_file(root: fs.SubTreeFileSystem, path: str) -> bool:
    """Whether there is a file at this path."""
    return bool(root.get_file_info(path).type == fs.FileType.File)


def rename(root: fs.SubTreeFileSystem, source: str, target: str) -> None:
    """Renames a file, atomically on a disk; an existing target is replaced."""
    root.move(source, target)


def is_temporary(path: str) -> bool:
    """Whether a path is a temporary file of `open_atomic`."""
    name = posixpath.basename(path)
    return name.startswith(".") and name.endswith(TEMPORARY_SUFFIX)


@contextmanager
def open_atomic(root: fs.SubTreeFileSystem, path: str) -> Iterator[IO[bytes]]:
    """A stream in memory, whose content becomes the file at `path` when the block ends without an error."""
    stream = io.BytesIO()
    yield stream
    write_bytes(root, path, stream.getvalue())


def write_bytes(root: fs.SubTreeFileSystem, path: str, content: bytes) -> None:
    """Writes a file whole or not at all, and makes its folder: by renaming on a disk, by one request to a bucket.

    A bucket has no renaming, and shows a file once it has been sent; so all of its bytes must be there before.
    """
    if not isinstance(root.base_fs, fs.LocalFileSystem):
        with root.open_output_stream(path) as stream:
            stream.write(content)
        return
    folder, name = posixpath.split(path)
    root.base_fs.create_dir(posixpath.join(root.base_path, folder), recursive=True)
    temporary = posixpath.join(folder, f".{name}.{uuid.uuid4().hex}{TEMPORARY_SUFFIX}")
    try:
        with root.open_output_stream(temporary) as stream:
            stream.write(content)
        rename(root, temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            root.delete_file(temporary)
        raise


def write_parquet(root: fs.SubTreeFileSystem, path: str, table: pa.Table) -> None:
    """Writes a table atomically, as one row group."""
    with open_atomic(root, path) as stream, parquet_writer(stream, table.schema) as writer:
        write_group(writer, table)


def parquet_writer(stream: IO[bytes], schema: pa.Schema) -> pq.ParquetWriter:
    """A Parquet writer whose pages carry checksums."""
    repeated = [name for name in schema.names if name not in NEVER_REPEATED]
    return pq.ParquetWriter(
        stream, schema, compression="zstd", use_dictionary=repeated, write_page_checksum=True, write_statistics=True
    )


def write_group(writer: pq.ParquetWriter, table: pa.Table) -> None:
    """Appends a table as one row group."""
    writer.write_table(table, row_group_size=max(table.num_rows, 1))


@contextmanager
def report_damage(name: str) -> Iterator[None]:
    """Turns the errors of reading a damaged file into one ValueError that names it."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{name}: truncated or damaged: {first_line(error)}") from None


def open_parquet(root: fs.SubTreeFileSystem, path: str) -> pq.ParquetFile:
    """Opens a Parquet file; FileNotFoundError if there is none, ValueError if it is truncated or no Parquet."""
    with report_damage(full_path(root, path)):
        return pq.ParquetFile(root.open_input_file(path), page_checksum_verification=True)


def open_checked_parquet(root: fs.SubTreeFileSystem, path: str, declared: pa.Schema) -> pq.ParquetFile:
    """Opens a Parquet file that must have the declared schema; raises as `open_parquet` and `check_schema` do."""
    file = open_parquet(root, path)
    check_schema(file.schema_arrow, declared, full_path(root, path))
    return file


def read_parquet(root: fs.SubTreeFileSystem, path: str, declared: pa.Schema) -> pa.Table:
    """A whole Parquet file that must have the declared schema; raises as `open_checked_parquet` does."""
    with open_checked_parquet(root, path, declared) as file, report_damage(full_path(root, path)):
        return file.read()


def read_parquet_if_exists(root: fs.SubTreeFileSystem, path: str, declared: pa.Schema) -> pa.Table | None:
    """`read_parquet`, or None where there is no such file."""
    try:
        return read_parquet(root, path, declared)
    except FileNotFoundError:
        return None


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
    with open_atomic(root, path) as stream:
        stream.write((json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def read_json(root: fs.SubTreeFileSystem, path: str, removed: Collection[str] = ()) -> dict[str, Any]:
    """Reads a JSON object, leaving keys out at any depth; FileNotFoundError if there is none, ValueError if damaged."""
    with root.open_input_stream(path) as stream:
        text = stream.readall()
    try:
        value = json.loads(text, object_hook=lambda tree: {key: tree[key] for key in tree if key not in removed})
    except ValueError as error:
        raise ValueError(f"{full_path(root, path)}: truncated or damaged: {first_line(error)}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{full_path(root, path)}: must be a JSON object, got {type(value).__name__}")
    return value


def check_version(tree: Mapping[str, Any], name: str, key: str, version: int) -> None:
    """Raises ValueError, naming the file, unless its JSON object has this version at `key`."""
    require(tree.get(key) == version, f"{name}: {key.replace('_', ' ')} must be {version}", tree.get(key, "none"))


def write_dataclass(root: fs.SubTreeFileSystem, path: str, value: Any) -> None:
    """Writes a dataclass as an indented JSON object, atomically."""
    tree = to_dict(value)
    write_json(root, path, {JSON_KEYS.get(name, name): tree[name] for name in tree})


def read_dataclass(
    root: fs.SubTreeFileSystem, path: str, declared: type[Declared], removed: Collection[str] = ()
) -> Declared:
    """Reads a JSON object that a dataclass declares; its first field is the file's version.

    Args:
        declared: the dataclass; the default of its first field is the version that the file must have.
        removed: keys that are ignored, at any depth.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, of another version, or not as declared; one line names it.
    """
    tree, name, key = read_json(root, path, removed), full_path(root, path), next(iter(declared.__annotations__))
    check_version(tree, name, key, getattr(declared, key))
    names = {key: field for field, key in JSON_KEYS.items()}
    try:
        found: Declared = from_dict(declared, {names.get(key, key): tree[key] for key in tree}, "")
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    return found
