"""The stage store: a content-addressed cache of finished stages, bounded in size, which sweeps share.

An entry appears by renaming a complete folder, so readers see whole entries or none. Nothing is locked: two sweeps that
finish one stage at once both have trained it, and one entry stays; an entry that is evicted while it is fetched counts
as missing.
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

from mtlib.runtime.errors import first_line
from sweeps.options import SweepOptions
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
PARTIAL = ".partial-"
PARTIAL_SECONDS = 3600.0
"""Age at which an incomplete folder is considered abandoned."""


@dataclass(frozen=True, kw_only=True)
class StageStore:
    """A store's folder and its size limit."""

    folder: Path
    """Absolute; created when a stage is stored."""
    keep_bytes: int
    """Limit on the size of all entries, at least 0; 0: nothing is stored or fetched."""


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
            return f"the stage has {num_bytes:,} bytes, all stored stages together may have {store.keep_bytes:,}"
        build_entry(partial, files, facts, is_spare)
        remove_entry(store, folder)  # a damaged one
        evict(store, num_bytes)
        with contextlib.suppress(OSError):  # another sweep has just stored it
            partial.rename(folder)
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
        into: a folder that does not exist; afterwards it is complete or does not exist, except after a kill. Its files
            are the store's and must not be written into.

    Returns:
        The facts that the stage was stored with; None if it is missing or damaged, or cannot be linked.
    """
    assert not into.exists(), f"{into} exists already"
    folder = entry_folder(store, key)
    if store.keep_bytes == 0 or not folder.exists():
        return None
    try:
        entry = link_entry(folder, into)
        if entry is not None and is_intact(entry, into):
            touch_entry(folder)
            return entry.facts
        remove_entry(store, folder)
    except OSError:
        pass
    shutil.rmtree(into, ignore_errors=True)
    return None


def has_stage(store: StageStore, key: str) -> bool:
    """Whether a stage is stored; its files are not checked."""
    return store.keep_bytes != 0 and (entry_folder(store, key) / ENTRY_FILE).is_file()


def entry_folder(store: StageStore, key: str) -> Path:
    assert KEY.fullmatch(key), f"a stage's key must be 64 hex digits, got {key!r}"
    return store.folder / key


def new_partial(store: StageStore) -> Path:
    """A new name for a folder that is being created or removed."""
    return store.folder / f"{PARTIAL}{secrets.token_hex(8)}"


def entry_folders(store: StageStore) -> list[Path]:
    return [path for path in store.folder.glob("*") if KEY.fullmatch(path.name)]


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
