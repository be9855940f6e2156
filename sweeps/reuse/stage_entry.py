"""An entry of the stage store: a folder of files, and `stage.json` with their sizes and checksums.

The modification time of `stage.json` is the entry's last use. Files are hard links where the file system allows, so a
file must not be written into once it has been stored or fetched.
"""

import contextlib
import json
import os
import shutil
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtlib.config.schema import to_dict
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

    @property
    def num_bytes(self) -> int:
        """Bytes of all files."""
        return sum(num_bytes for num_bytes, _ in self.files.values())


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


def last_use(folder: Path) -> float:
    """When an entry was last used, in seconds since 1970."""
    with contextlib.suppress(OSError):  # evicted by another sweep
        return (folder / ENTRY_FILE).stat().st_mtime
    return 0.0


def last_change(folder: Path) -> float:
    """Last modification of a folder or anything in it, in seconds since 1970; skips what is removed meanwhile."""
    newest = 0.0
    inside = (Path(root) / name for root, folders, names in os.walk(folder) for name in (*folders, *names))
    for path in (folder, *inside):
        with contextlib.suppress(FileNotFoundError):
            newest = max(newest, path.lstat().st_mtime)
    return newest


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
