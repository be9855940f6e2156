"""Opens files of rows, compressed ones too: `.gz`, `.zst`, and `.zip` with one member."""

import contextlib
import gzip
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa

from mtlib.runtime.errors import require


@contextlib.contextmanager
def open_rows(path: Path) -> Iterator[IO[bytes]]:
    """A stream of a file's bytes, without its compression.

    Raises:
        OSError: it cannot be opened, or is not compressed as the ending of its name says.
        ValueError: a ZIP file has no member or several.
    """
    with contextlib.ExitStack() as stack:
        stream: Any
        match path.suffix.lower():
            case ".gz":
                stream = stack.enter_context(gzip.open(path, "rb"))
            case ".zst":
                raw = stack.enter_context(pa.CompressedInputStream(stack.enter_context(pa.OSFile(str(path))), "zstd"))
                stream = pa.BufferReader(raw.read())
            case ".zip":
                stream = stack.enter_context(open_member(stack.enter_context(zipfile.ZipFile(path)), path))
            case _:
                stream = stack.enter_context(path.open("rb"))
        yield cast("IO[bytes]", stream)


def open_member(archive: zipfile.ZipFile, path: Path) -> IO[bytes]:
    """Opens the one member of a ZIP file that is a file, those that macOS adds aside."""
    hidden = ("__MACOSX/", ".")
    members = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith(hidden)]
    require(len(members) == 1, f"{path.name} must hold one file", ", ".join(members[:3]) or "none")
    return archive.open(members[0])
