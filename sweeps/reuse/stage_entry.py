"""One entry of the stage store: a folder of files, and `stage.json` with their sizes and checksums.

The time at which `stage.json` was changed is the entry's last use. Files are hard links wherever the file system
allows: nobody may write into a file once it has been kept or taken.
"""

import contextlib
import errno
import json
import os
import shutil
import stat
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from mtlib.config.schema import to_dict
from mtlib.errors import require
from mtlib.runtime.checksum import file_crc32

VERSION = 1
DESCRIPTION = "stage.json"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What `stage.json` says."""

    facts: dict[str, Any]
    is_spare: bool
    files: dict[str, list[int]]
    """Bytes and CRC-32 by name."""


def check_name(name: str) -> None:
    """Raises ValueError unless a name stays inside the folder it is put in, and leaves `stage.json` alone."""
    parts = PurePosixPath(name).parts
    is_inside = bool(parts) and ".." not in parts and parts[0] not in ("/", "//", DESCRIPTION)
    require(is_inside, f"a stage's file must have a relative name, inside its folder and not {DESCRIPTION}", repr(name))


def build_entry(folder: Path, files: Mapping[str, Path], facts: Mapping[str, Any], is_spare: bool) -> None:
    """Fills a new folder with links to files and with their description.

    Args:
        folder: must not exist.
        files: by relative name.
        facts: plain JSON.
        is_spare: whether the entry is the first to go when room is needed.

    Raises:
        OSError: if the file system does not let it; the folder is then left half made.
    """
    place_files(files, folder)
    measured = {name: list(measure(folder / name)) for name in files}
    described = {"version": VERSION, "facts": to_dict(facts), "is_spare": is_spare, "files": measured}
    (folder / DESCRIPTION).write_text(json.dumps({**described, "checksum": description_checksum(described)}))


def read_entry(folder: Path) -> Entry | None:
    """What an entry's `stage.json` says, its files unchecked; None if that is missing or damaged."""
    try:
        described = json.loads((folder / DESCRIPTION).read_bytes())
        if described.pop("checksum") != description_checksum(described) or described.pop("version") != VERSION:
            return None
        return Entry(**described)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def renew_entry(folder: Path) -> bool:
    """Whether an entry is there; if so, it has been used now."""
    if read_entry(folder) is None:
        return False
    with contextlib.suppress(OSError):  # not ours to change
        os.utime(folder / DESCRIPTION)
    return True


def link_entry(folder: Path, target: Path) -> Entry | None:
    """Links an entry's files into a new folder; None if the entry is not there, or something of it is missing.

    Raises:
        OSError: if the file system does not let it; the new folder is then left half made.
    """
    entry = read_entry(folder)
    if entry is None:
        return None
    try:
        place_files({name: folder / name for name in entry.files}, target)
    except FileNotFoundError:
        return None
    return entry


def is_whole(entry: Entry, folder: Path) -> bool:
    """Whether a folder's files are those that an entry was kept with, byte for byte."""
    try:
        return all(list(measure(folder / name)) == expected for name, expected in entry.files.items())
    except OSError:
        return False


def move_folder(folder: Path, into: Path) -> None:
    """Renames a folder; where that is another file system, copies it beside its new place first.

    Raises:
        OSError: if the file system does not let it; then nothing is at the new place.
    """
    into.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.rename(into)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        beside = into.with_name(f".{into.name}.partial")
        shutil.rmtree(beside, ignore_errors=True)
        try:
            shutil.copytree(folder, beside, copy_function=shutil.copyfile)
            beside.rename(into)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


def eviction_order(folder: Path) -> tuple[int, float, str]:
    """How much an entry is needed: a damaged one least, then spare ones, then others; each by its last use."""
    entry = read_entry(folder)
    if entry is None:
        return 0, 0, folder.name
    return 1 if entry.is_spare else 2, last_change(folder / DESCRIPTION) or 0, folder.name


def bytes_of(folder: Path) -> int:
    """Bytes of an entry's files, as they were kept; those on disk if its description is damaged."""
    entry = read_entry(folder)
    if entry is not None:
        return sum(num_bytes for num_bytes, _ in entry.files.values())
    return sum(status.st_size for status in statuses(folder) if stat.S_ISREG(status.st_mode))


def last_change(path: Path) -> float | None:
    """When a file, or a folder or anything in it, was changed last, in seconds since 1970; None if it is not there."""
    return max((status.st_mtime for status in statuses(path)), default=None)


def statuses(path: Path) -> Iterator[os.stat_result]:
    """Of a file, or of a folder and all that is in it; what others remove meanwhile is left out."""
    inside = (Path(root) / name for root, folders, names in os.walk(path) for name in (*folders, *names))
    for found in (path, *inside):
        try:
            status = found.lstat()
        except FileNotFoundError:
            continue
        yield status


def place_files(files: Mapping[str, Path], folder: Path) -> None:
    """Puts files under their names into a new folder, as hard links, or as copies where those cannot be made."""
    folder.mkdir(parents=True)
    for name, path in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        source = path.resolve()  # a hard link to a symbolic link would hold nothing
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)


def measure(path: Path) -> tuple[int, int]:
    """Bytes and CRC-32 of a file."""
    return path.stat().st_size, file_crc32(path)


def description_checksum(described: Mapping[str, Any]) -> int:
    """CRC-32 of a description, which JSON writes again as it was read."""
    return zlib.crc32(json.dumps(described).encode())
