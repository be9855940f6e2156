"""Compressed files are read as what they hold; damaged ones are one line."""

import gzip
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from mtlib.data.files.opening import open_decompressed
from tests.one_line_error import one_line_error

CONTENT = b"text,label\n" + b"A line.,1\n" * 5_000


def write(path: Path, content: bytes = CONTENT) -> Path:
    """Writes a file that is compressed as the ending of its name says."""
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content))
    elif path.suffix == ".zst":
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(content)
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("inner/rows.csv", content)
    else:
        path.write_bytes(content)
    return path


def read(path: Path) -> bytes:
    with open_decompressed(path) as stream:
        return stream.read()


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.csv.zst", "rows.csv.zip", "ROWS.CSV.GZ"])
def test_a_file_is_read_without_its_compression(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write(tmp_path / name.lower()).rename(path)
    assert read(path) == CONTENT
    with open_decompressed(path) as stream:
        assert list(stream)[:2] == CONTENT.splitlines(keepends=True)[:2]


@pytest.mark.parametrize("name", ["rows.csv.gz", "rows.csv.zst", "rows.csv.zip"])
def test_a_damaged_file_is_an_os_error(name: str, tmp_path: Path) -> None:
    whole = write(tmp_path / name).read_bytes()
    middle = len(whole) // 2
    for damaged in (b"no such file", whole[:middle], whole[: middle - 9] + b"\xff" * 18 + whole[middle + 9 :]):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(OSError):
            read(tmp_path / name)


def test_a_zip_file_holds_one_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.mkdir("inner")
        archive.writestr("inner/rows.csv", CONTENT)
        archive.writestr("__MACOSX/inner/._rows.csv", b"x")
    assert read(path) == CONTENT
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("more.csv", b"x")
    assert one_line_error(read, path) == "rows.csv.zip must hold one file, got inner/rows.csv, more.csv"
    with zipfile.ZipFile(path, "w"):
        pass
    assert one_line_error(read, path) == "rows.csv.zip must hold one file, got none"


def test_a_zip_file_has_no_password(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv.zip")
    content = bytearray(path.read_bytes())
    content[6] |= 1  # the flag of the member
    content[content.rindex(b"PK\x01\x02") + 8] |= 1  # and that of the directory
    path.write_bytes(content)
    assert one_line_error(read, path) == "rows.csv.zip must be a ZIP file without a password, got one with a password"
