"""The stage store: finished stages by their keys, bounded in size, which the sweeps of a storage share.

A stage is a folder: `stage.json` names its files, which lie in a folder of their own beside it, and is written last.
Its last use is the time of the empty file `last_use`. Nothing is locked: two sweeps that finish one stage at once both
have trained it, and the last `stage.json` stays; a stage that is evicted while it is fetched counts as missing.
"""

import contextlib
import json
import re
import secrets
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.fs as fs

from mtlib.config.schema import to_dict
from mtlib.runtime.errors import first_line
from mtlib.runtime.storage import (
    Location,
    copy_file,
    delete_file,
    delete_folder,
    is_file,
    join_location,
    list_files,
    open_folder,
    read_bytes,
    subfolder,
    write_bytes,
)
from sweeps.options import SweepOptions

KEY = re.compile("[0-9a-f]{64}")
STORE_FOLDER = "stages"
"""Folder of a storage's store, below the folder that its sweeps share."""
STAGE_FILE, USE_FILE = "stage.json", "last_use"
STAGE_VERSION = 2
ABANDONED_SECONDS = 3600.0
"""Age at which files that no `stage.json` names are considered abandoned: a stage is written in minutes, also to a
slow bucket, and `stage.json` last."""


@dataclass(frozen=True, kw_only=True)
class StageStore:
    """A store's folder and its size limit."""

    folder: Location
    """Made when a stage is stored."""
    keep_bytes: int
    """Limit on the size of all stages, at least 0; 0: nothing is stored or fetched."""

    @property
    def root(self) -> fs.SubTreeFileSystem:
        """The folder, opened."""
        return open_folder(self.folder)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The content of a stage's `stage.json`."""

    facts: dict[str, Any]
    is_spare: bool
    """Whether the stage is evicted before others."""
    folder: str
    """Folder of its files, below the folder of its key."""
    files: tuple[str, ...]
    """Names in that folder."""


def stage_store(options: SweepOptions) -> StageStore | None:
    """Returns the storage's stage store; None if nothing is reused."""
    folder = join_location(options.shared_folder, STORE_FOLDER)
    return StageStore(folder=folder, keep_bytes=options.keep_bytes) if options.reuse else None


def store_stage(
    store: StageStore,
    key: str,
    source: fs.SubTreeFileSystem,
    files: Mapping[str, str],
    facts: Mapping[str, Any],
    *,
    is_spare: bool = False,
) -> str | None:
    """Stores a stage unless its key exists; evicts others to fit it, spare ones first.

    Args:
        store: the store.
        key: 64 hex digits.
        source: the folder that holds its files, on the same file system as the store.
        files: paths in `source` by name in the stage; they must not be written into afterwards.
        facts: plain JSON that is kept with the stage.
        is_spare: whether it is evicted before others.

    Returns:
        None if the stage is in the store now, or the store's limit is 0; otherwise why not, in one line.
    """
    if store.keep_bytes == 0:
        return None
    root = store.root
    try:
        if find_stage(store, key) is not None:
            return None
        num_bytes = sum(info.size or 0 for info in source.get_file_info(list(files.values())))
        if num_bytes > store.keep_bytes:
            return f"the stage has {num_bytes:,} bytes, all stored stages together may have {store.keep_bytes:,}"
        evict(store, num_bytes)
        write_bytes(root, f"{key_folder(key)}/{USE_FILE}", b"")  # first: linked files may look abandoned by their age
        folder = secrets.token_hex(8)
        own = subfolder(root, f"{key_folder(key)}/{folder}")
        for name, path in files.items():
            copy_file(source, path, own, name)
        content = {"version": STAGE_VERSION, "facts": to_dict(facts), "is_spare": is_spare}
        content |= {"folder": folder, "files": sorted(files)}
        write_bytes(root, f"{key}/{STAGE_FILE}", json.dumps({**content, "checksum": checksum_of(content)}).encode())
    except OSError as error:
        return first_line(error)
    return None


def find_stage(store: StageStore, key: str) -> Stage | None:
    """Returns a stage of the store, which is used now; its files are not checked. None if it is missing or damaged."""
    if store.keep_bytes == 0:
        return None
    stage = read_stage(store.root, key_folder(key))
    if stage is not None:
        with contextlib.suppress(PermissionError):  # another account's, which shares the storage
            write_bytes(store.root, f"{key}/{USE_FILE}", b"")
    return stage


def stage_files(store: StageStore, key: str, stage: Stage) -> fs.SubTreeFileSystem:
    """Returns the folder of a stage's files, which must not be written into."""
    return subfolder(store.root, f"{key_folder(key)}/{stage.folder}")


def has_stage(store: StageStore, key: str) -> bool:
    """Returns whether a stage is stored; its files are not checked."""
    return store.keep_bytes != 0 and is_file(store.root, f"{key_folder(key)}/{STAGE_FILE}")


def remove_stage(store: StageStore, key: str) -> None:
    """Removes a stage if it is there: `stage.json` first, so that a kill leaves no stage without files."""
    delete_file(store.root, f"{key_folder(key)}/{STAGE_FILE}")
    delete_folder(store.root, key)


def evict(store: StageStore, num_bytes: int) -> None:
    """Removes what was abandoned, and then stages until `num_bytes` more fit.

    Spare ones go first, each kind least recently used first.
    """
    by_key: dict[str, list[fs.FileInfo]] = {}
    for info in list_files(store.root, ""):
        by_key.setdefault(str(info.path).partition("/")[0], []).append(info)
    sizes = {key: sum(info.size or 0 for info in infos) for key, infos in by_key.items()}
    excess = sum(sizes.values()) + num_bytes - store.keep_bytes
    oldest = time.time() - ABANDONED_SECONDS
    whole = {key for key, infos in by_key.items() if any(info.path == f"{key}/{STAGE_FILE}" for info in infos)}
    for key in by_key.keys() - whole:
        if last_change(by_key[key]) < oldest:
            delete_folder(store.root, key)
            excess -= sizes[key]
    if excess <= 0:  # no `stage.json` needs to be read
        return
    stages = {key: read_stage(store.root, key) for key in whole}
    spare = {key for key, stage in stages.items() if stage is None or stage.is_spare}  # a damaged one is of no use
    uses = {key: last_change(by_key[key], f"{key}/{USE_FILE}") for key in whole}
    for key in sorted(whole, key=lambda key: (key not in spare, uses[key], key)):
        if excess <= 0:
            return
        remove_stage(store, key)
        excess -= sizes[key]


def last_change(infos: Iterable[fs.FileInfo], path: str | None = None) -> float:
    """Returns the last change of some files, or of the one at `path` among them, in seconds since 1970;
    0 without one."""
    times = (info.mtime for info in infos if path in (None, info.path))
    return max((found.timestamp() for found in times if found is not None), default=0.0)


def read_stage(root: fs.SubTreeFileSystem, key: str) -> Stage | None:
    """Returns the content of a `stage.json`; None if it is missing or damaged."""
    try:
        content = json.loads(read_bytes(root, f"{key}/{STAGE_FILE}"))
        if content.pop("checksum") != checksum_of(content) or content.pop("version") != STAGE_VERSION:
            return None
        return Stage(**{**content, "files": tuple(content["files"])})
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError, AttributeError):
        return None


def key_folder(key: str) -> str:
    """Returns the folder of a key."""
    assert KEY.fullmatch(key), f"a stage's key must be 64 hex digits, got {key!r}"
    return key


def checksum_of(content: Mapping[str, Any]) -> int:
    """CRC-32 of the content of `stage.json`, which survives a round trip through JSON."""
    return zlib.crc32(json.dumps(content).encode())
