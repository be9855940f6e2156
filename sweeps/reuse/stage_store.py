"""The stage store: a content-addressed cache of finished stages, bounded in size and shared by processes.

Entries appear and disappear by renaming under the store's lock, which is held while links are created and files
removed, but not while files are read. A claim decides which process may train a stage.
"""

import contextlib
import re
import secrets
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from mtlib.runtime.errors import first_line
from sweeps.options import SweepOptions
from sweeps.reuse.file_locks import claim_file, file_lock, locked, remove_old_claims
from sweeps.reuse.stage_entry import (
    ENTRY_FILE,
    StageEntry,
    build_entry,
    is_intact,
    last_change,
    last_use,
    link_entry,
    read_entry,
    touch_entry,
)

KEY = re.compile("[0-9a-f]{64}")
STORE_FOLDER = "stages"
"""Folder of a storage's store, below the folder that its sweeps share."""
CLAIMS, LOCK, PARTIAL = ".claims", ".lock", ".partial-"
PARTIAL_SECONDS = 3600.0
"""Age at which an incomplete folder is considered abandoned."""


@dataclass(frozen=True, kw_only=True)
class StageStore:
    """A store's folder and its size limit."""

    folder: Path
    """Absolute; created when a stage is stored or claimed."""
    keep_bytes: int
    """Limit on the size of all entries, at least 0; 0: nothing is stored, fetched or waited for."""


def stage_store(options: SweepOptions) -> StageStore | None:
    """The storage's stage store; None if nothing is reused."""
    folder = options.cache_folder / STORE_FOLDER
    return StageStore(folder=folder, keep_bytes=options.keep_bytes) if options.reuse else None


def store_stage(
    store: StageStore, key: str, files: Mapping[str, Path], facts: Mapping[str, Any], *, is_spare: bool = False
) -> str | None:
    """Stores a stage unless its key exists; evicts others to fit it, spare ones first.

    Args:
        store: the store.
        key: 64 hex digits.
        files: by relative name, slashes allowed; they stay where they are and must not be written into afterwards.
        facts: plain JSON that `fetch_stage` returns.
        is_spare: whether it is evicted before others.

    Returns:
        None if the stage is in the store now, or the store's limit is 0; otherwise why not, in one line.
    """
    folder, partial = entry_folder(store, key), new_partial(store)
    if store.keep_bytes == 0:
        return None
    try:
        if touch_entry(folder):
            return None
        num_bytes = sum(path.stat().st_size for path in files.values())
        if num_bytes > store.keep_bytes:
            record_size(store, key, num_bytes)
            return f"the stage has {num_bytes:,} bytes, all stored stages together may have {store.keep_bytes:,}"
        build_entry(partial, files, facts, is_spare)
        add_entry(store, partial, folder, num_bytes)
    except OSError as error:
        return first_line(error)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return None


def fetch_stage(store: StageStore, key: str, into: Path) -> dict[str, Any] | None:
    """Links a stage's files, checked, into a new folder; removes a damaged stage from the store.

    Args:
        store: the store.
        key: 64 hex digits.
        into: a folder that does not exist; afterwards it is complete or does not exist, except after a kill on another
            file system. Its files are the store's and must not be written into.

    Returns:
        The facts that the stage was stored with; None if it is missing or damaged, or cannot be linked.
    """
    assert not into.exists(), f"{into} exists already"
    folder, partial = entry_folder(store, key), new_partial(store)
    if store.keep_bytes == 0 or not folder.exists():
        return None
    try:
        entry = link_from_store(store, folder, partial)
        if entry is None:
            return None
        if not is_intact(entry, partial):  # slow, so not under the lock; the links outlive the entry
            remove_stage(store, key)
            return None
        into.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(partial, into, copy_function=shutil.copyfile)
    except OSError:
        shutil.rmtree(into, ignore_errors=True)  # copied in part, from another file system
        return None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return entry.facts


def has_stage(store: StageStore, key: str) -> bool:
    """Whether a stage is stored; its files are not checked."""
    return store.keep_bytes != 0 and (entry_folder(store, key) / ENTRY_FILE).is_file()


def remove_stage(store: StageStore, key: str) -> None:
    """Removes a stage if it exists and the file system allows it."""
    folder = entry_folder(store, key)
    if folder.exists():
        with contextlib.suppress(OSError), locked(store.folder / LOCK):
            remove_entry(store, folder)


def claim_stage(store: StageStore, key: str) -> FileLock | None:
    """Claims the exclusive right to train a stage, without waiting; it ends with the returned object.

    On a file system without flock every caller gets a claim that excludes nobody: a stage is then trained twice, which
    is wasteful but correct. The same holds for a stage too large to be stored, for which waiting would be in vain.

    Returns:
        None if another process, or another claim of this one, holds it.
    """
    path = store.folder / CLAIMS / entry_folder(store, key).name
    return file_lock(path) if is_too_large(store, key) else claim_file(path)


def entry_folder(store: StageStore, key: str) -> Path:
    assert KEY.fullmatch(key), f"a stage's key must be 64 hex digits, got {key!r}"
    return store.folder / key


def size_path(store: StageStore, key: str) -> Path:
    return store.folder / CLAIMS / f"{key}.bytes"


def record_size(store: StageStore, key: str, num_bytes: int) -> None:
    """Records the size of a stage that is too large to be stored; the file ages like those of claims."""
    path = size_path(store, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(str(num_bytes))


def is_too_large(store: StageStore, key: str) -> bool:
    """Whether a stage is known to be larger than the store's limit."""
    try:
        return store.keep_bytes == 0 or int(size_path(store, key).read_text()) > store.keep_bytes
    except (OSError, ValueError):
        return False


def new_partial(store: StageStore) -> Path:
    """A new name for a folder that is being created or removed."""
    return store.folder / f"{PARTIAL}{secrets.token_hex(8)}"


def entry_folders(store: StageStore) -> list[Path]:
    return [path for path in store.folder.glob("*") if KEY.fullmatch(path.name)]


def add_entry(store: StageStore, partial: Path, folder: Path, num_bytes: int) -> None:
    """Turns a complete folder into an entry, unless another process was faster."""
    with locked(store.folder / LOCK):
        if not touch_entry(folder):
            remove_entry(store, folder)  # a damaged one
            evict(store, num_bytes)
            partial.rename(folder)


def link_from_store(store: StageStore, folder: Path, partial: Path) -> StageEntry | None:
    """Links an entry's files into a new folder of the store; removes the entry if one of them is missing."""
    with locked(store.folder / LOCK):
        entry = link_entry(folder, partial)
        if entry is None:
            remove_entry(store, folder)
        else:
            touch_entry(folder)
        return entry


def remove_entry(store: StageStore, folder: Path) -> None:
    """Removes an entry if it exists, atomically for other processes."""
    removed = new_partial(store)
    with contextlib.suppress(FileNotFoundError):
        folder.rename(removed)
        shutil.rmtree(removed, ignore_errors=True)


def evict(store: StageStore, num_bytes: int) -> None:
    """Removes leftovers of dead processes and damaged entries, then others until `num_bytes` more fit.

    Spare entries go first, each kind least recently used first.
    """
    remove_partials(store)
    remove_old_claims(store.folder / CLAIMS)
    kept: dict[Path, StageEntry] = {}
    for folder in entry_folders(store):
        if (entry := read_entry(folder)) is None:
            remove_entry(store, folder)
        else:
            kept[folder] = entry
    excess = sum(entry.num_bytes for entry in kept.values()) + num_bytes - store.keep_bytes
    for folder in sorted(kept, key=lambda folder: (not kept[folder].is_spare, last_use(folder), folder.name)):
        if excess <= 0:
            return
        remove_entry(store, folder)
        excess -= kept[folder].num_bytes


def remove_partials(store: StageStore) -> None:
    """Removes abandoned incomplete folders."""
    oldest = time.time() - PARTIAL_SECONDS
    for path in store.folder.glob(f"{PARTIAL}*"):
        if last_change(path) < oldest:
            shutil.rmtree(path, ignore_errors=True)
