"""Opens files of rows, compressed ones too: `.gz`, `.zst`, and `.zip` with one member."""

import contextlib
import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa

from mtlib.runtime.errors import first_line, require

DAMAGE = (EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError)
"""What libraries of compression raise besides OSError; the last one for kinds of ZIP files that they do not know."""


@contextlib.contextmanager
def open_decompressed(path: Path) -> Iterator[IO[bytes]]:
    """A stream of a file's bytes, without its compression.

    Raises:
        OSError: it cannot be opened, is not compressed as the ending of its name says, or is damaged, which may show
            only while it is read.
        ValueError: a ZIP file has no member or several, or a password.
    """
    stream: Any
    try:
        with contextlib.ExitStack() as stack:
            match path.suffix.lower():
                case ".gz":
                    stream = stack.enter_context(gzip.open(path, "rb"))
                case ".zst":
                    file = stack.enter_context(pa.OSFile(str(path)))
                    raw = stack.enter_context(pa.CompressedInputStream(file, "zstd"))
                    stream = io.BytesIO(raw.read())  # streams of Arrow have no lines
                case ".zip":
                    stream = stack.enter_context(open_member(stack.enter_context(zipfile.ZipFile(path)), path))
                case _:
                    stream = stack.enter_context(path.open("rb"))
            yield cast("IO[bytes]", stream)
    except DAMAGE as error:
        raise OSError(first_line(error)) from error


def open_member(archive: zipfile.ZipFile, path: Path) -> IO[bytes]:
    """Opens the one member of a ZIP file that is a file, those that macOS adds aside."""
    hidden = ("__MACOSX/", ".")
    members = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith(hidden)]
    require(len(members) == 1, f"{path.name} must hold one file", ", ".join(members[:3]) or "none")
    has_password = archive.getinfo(members[0]).flag_bits & 1
    require(not has_password, f"{path.name} must be a ZIP file without a password", "one with a password")
    return archive.open(members[0])
