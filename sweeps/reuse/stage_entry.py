"""An entry of the stage store: a folder of files, and `stage.json` with their sizes and checksums.

The modification time of `stage.json` is the entry's last use. Files are hard links where the file system allows, so a
file must not be written into once it has been stored or fetched.
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

ENTRY_VERSION = 1
ENTRY_FILE = "stage.json"


@dataclass(frozen=True, kw_only=True)
class StageEntry:
    """Content of `stage.json`."""

    facts: dict[str, Any]
    is_spare: bool
    """Whether the entry is evicted before others."""
    files: dict[str, list[int]]
    """Bytes and CRC-32 by name."""


def check_name(name: str) -> None:
    """Raises ValueError unless a file name stays inside its folder and is not `stage.json`."""
    parts = PurePosixPath(name).parts
    is_inside = bool(parts) and ".." not in parts and parts[0] not in ("/", "//", ENTRY_FILE)
    require(is_inside, f"a stage's file must have a relative name, inside its folder and not {ENTRY_FILE}", repr(name))


def build_entry(folder: Path, files: Mapping[str, Path], facts: Mapping[str, Any], is_spare: bool) -> None:
    """Creates a folder of links to files, given by relative name, and writes its `stage.json`.

    Raises:
        OSError: of the file system; the folder is then incomplete.
    """
    link_files(files, folder)
    measured = {name: measure(folder / name) for name in files}
    content = {"version": ENTRY_VERSION, "facts": to_dict(facts), "is_spare": is_spare, "files": measured}
    (folder / ENTRY_FILE).write_text(json.dumps({**content, "checksum": content_checksum(content)}))


def read_entry(folder: Path) -> StageEntry | None:
    """An entry, its files unchecked; None if its `stage.json` is missing or damaged."""
    try:
        content = json.loads((folder / ENTRY_FILE).read_bytes())
        if content.pop("checksum") != content_checksum(content) or content.pop("version") != ENTRY_VERSION:
            return None
        return StageEntry(**content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def touch_entry(folder: Path) -> bool:
    """Marks an entry as used now; returns whether it exists."""
    if read_entry(folder) is None:
        return False
    with contextlib.suppress(OSError):  # belongs to another user
        os.utime(folder / ENTRY_FILE)
    return True


def link_entry(folder: Path, target: Path) -> StageEntry | None:
    """Links an entry's files into a new folder; None if the entry or one of its files is missing.

    Raises:
        OSError: of the file system; the new folder is then incomplete.
    """
    entry = read_entry(folder)
    if entry is None:
        return None
    try:
        link_files({name: folder / name for name in entry.files}, target)
    except FileNotFoundError:
        return None
    return entry


def is_intact(entry: StageEntry, folder: Path) -> bool:
    """Whether the sizes and checksums of a folder's files are those of the entry."""
    try:
        return all(measure(folder / name) == expected for name, expected in entry.files.items())
    except OSError:
        return False


def move_folder(folder: Path, into: Path) -> None:
    """Renames a folder; onto another file system, copies it to a temporary name there first.

    Raises:
        OSError: of the file system; the target then does not exist.
    """
    into.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.rename(into)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        partial = into.with_name(f".{into.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            shutil.copytree(folder, partial, copy_function=shutil.copyfile)
            partial.rename(into)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def eviction_order(folder: Path) -> tuple[int, float, str]:
    """Sort key of eviction: damaged entries first, then spare ones, then others, each least recently used first."""
    entry = read_entry(folder)
    if entry is None:
        return 0, 0, folder.name
    return 1 if entry.is_spare else 2, last_change(folder / ENTRY_FILE) or 0, folder.name


def stored_bytes(folder: Path) -> int:
    """Bytes of an entry's files when they were stored; those on disk if its `stage.json` is damaged."""
    entry = read_entry(folder)
    if entry is not None:
        return sum(num_bytes for num_bytes, _ in entry.files.values())
    return sum(status.st_size for status in statuses(folder) if stat.S_ISREG(status.st_mode))


def last_change(path: Path) -> float | None:
    """Last modification of a file, or of a folder and its content, in seconds since 1970; None if it is missing."""
    return max((status.st_mtime for status in statuses(path)), default=None)


def statuses(path: Path) -> Iterator[os.stat_result]:
    """Status of a file, or of a folder and all its content; skips what is removed meanwhile."""
    inside = (Path(root) / name for root, folders, names in os.walk(path) for name in (*folders, *names))
    for found in (path, *inside):
        with contextlib.suppress(FileNotFoundError):
            yield found.lstat()


def link_files(files: Mapping[str, Path], folder: Path) -> None:
    """Creates a folder with hard links to files, or copies where links are impossible, by relative name."""
    folder.mkdir(parents=True)
    for name, path in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        source = path.resolve()  # a hard link to a symbolic link would not hold the content
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)


def measure(path: Path) -> list[int]:
    """Bytes and CRC-32 of a file."""
    return [path.stat().st_size, file_crc32(path)]


def content_checksum(content: Mapping[str, Any]) -> int:
    """CRC-32 of the content of `stage.json`, which survives a round trip through JSON."""
    return zlib.crc32(json.dumps(content).encode())
