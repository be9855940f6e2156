"""The stage store: what finished stages left, by key; whole or not there, bounded, and safe with many processes.

Entries appear and disappear by renaming, under the store's lock, which is held while links are made and files removed
but not while files are read. Whoever may train a stage is a matter of claims.
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

from mtlib.errors import first_line, require
from sweeps.reuse.file_locks import Claim, claim_file, file_lock, locked, remove_old_claims
from sweeps.reuse.stage_entry import (
    DESCRIPTION,
    Entry,
    build_entry,
    bytes_of,
    check_name,
    eviction_order,
    is_whole,
    last_change,
    link_entry,
    move_folder,
    renew_entry,
)

KEY = re.compile("[0-9a-f]{64}")
STORE_FOLDER = "stages"
"""Of a storage's store, among what its sweeps share."""
CLAIMS, LOCK, PARTIAL = ".claims", ".lock", ".partial-"
PARTIAL_KEPT_SECONDS = 3600.0
"""Time since the last change after which nobody is working on a half-made folder any more."""


@dataclass(frozen=True, kw_only=True)
class StageStore:
    """Where stages are kept, and how much of them."""

    folder: Path
    """Absolute; made when something is kept or claimed."""
    most_bytes: int | None
    """Bound on all entries' files together; None: no bound; 0: nothing is kept, taken or waited for."""

    def __post_init__(self) -> None:
        require(self.folder.is_absolute(), "the folder of a stage store must be absolute", self.folder)
        require(self.most_bytes is None or self.most_bytes >= 0, "most_bytes must be at least 0", self.most_bytes)


def store_stage(
    store: StageStore, key: str, files: Mapping[str, Path], facts: Mapping[str, Any], *, is_spare: bool = False
) -> str | None:
    """Keeps a stage, unless one of that key is there; makes room for it by removing others, spare ones first.

    Args:
        store: where.
        key: the stage's, 64 hex digits.
        files: by relative name, slashes allowed; they stay where they are and must not be written into any more.
        facts: plain JSON that `fetch_stage` gives back.
        is_spare: whether it is among the first to go when room is needed.

    Returns:
        None if the stage is in the store now, or that keeps nothing at all; otherwise why not, in one line.

    Raises:
        ValueError: if the key or a file's name is not one.
    """
    folder, partial = folder_of(store, key), new_partial(store)
    for name in files:
        check_name(name)
    if store.most_bytes == 0:
        return None
    try:
        if renew_entry(folder):
            return None
        num_bytes = sum(path.stat().st_size for path in files.values())
        if store.most_bytes is not None and num_bytes > store.most_bytes:
            note_size(store, key, num_bytes)
            return f"the stage has {num_bytes:,} bytes, all kept stages together may have {store.most_bytes:,}"
        build_entry(partial, files, facts, is_spare)
        publish(store, partial, folder, num_bytes)
    except OSError as error:
        return first_line(error)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return None


def fetch_stage(store: StageStore, key: str, into: Path) -> dict[str, Any] | None:
    """Puts a stage's files, checked, into a new folder; a damaged stage is removed from the store.

    Args:
        store: where.
        key: the stage's, 64 hex digits.
        into: a folder that does not exist; afterwards it is there whole, or not at all. Its files are the store's and
            must not be written into.

    Returns:
        The facts the stage was kept with; None where it is not there, damaged, or cannot be put there.
    """
    assert not into.exists(), f"{into} is there already"
    folder, partial = folder_of(store, key), new_partial(store)
    if store.most_bytes == 0 or not folder.exists():
        return None
    try:
        entry = link_from_store(store, folder, partial)
        if entry is None:
            return None
        if not is_whole(entry, partial):  # slow: not under the lock; the links stay even if the entry is removed
            remove_stage(store, key)
            return None
        move_folder(partial, into)
    except OSError:
        return None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return entry.facts


def has_stage(store: StageStore, key: str) -> bool:
    """Whether a stage is there; its files are not checked."""
    return store.most_bytes != 0 and (folder_of(store, key) / DESCRIPTION).is_file()


def remove_stage(store: StageStore, key: str) -> None:
    """Removes a stage if it is there and the file system lets it."""
    folder = folder_of(store, key)
    if folder.exists():
        with contextlib.suppress(OSError), locked(store.folder / LOCK):
            remove_entry(store, folder)


def claim(store: StageStore, key: str) -> Claim | None:
    """Takes the exclusive right to train a stage, without waiting; it ends with the object that is returned.

    Where the file system cannot lock, everybody gets a claim, which excludes nobody: a stage is then trained twice,
    which is correct, and only wasteful. So it is with a stage that will not be kept, for which nobody should wait.

    Returns:
        None if another process, or another claim of this one, has the right.
    """
    path = claim_path(store, key)
    return Claim(lock=file_lock(path)) if is_too_large(store, key) else claim_file(path)


def folder_of(store: StageStore, key: str) -> Path:
    require(KEY.fullmatch(key) is not None, "a stage's key must be 64 hex digits", repr(key))
    return store.folder / key


def claim_path(store: StageStore, key: str) -> Path:
    return store.folder / CLAIMS / folder_of(store, key).name


def size_path(store: StageStore, key: str) -> Path:
    return store.folder / CLAIMS / f"{key}.bytes"


def note_size(store: StageStore, key: str, num_bytes: int) -> None:
    """Notes how large a stage is that was not kept for that; the note goes as claims' files go."""
    path = size_path(store, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(str(num_bytes))


def is_too_large(store: StageStore, key: str) -> bool:
    """Whether a stage is known to be larger than all that may be kept."""
    if not store.most_bytes:
        return store.most_bytes == 0
    try:
        return int(size_path(store, key).read_text()) > store.most_bytes
    except (OSError, ValueError):
        return False


def new_partial(store: StageStore) -> Path:
    """A new name for a folder that is being made or removed."""
    return store.folder / f"{PARTIAL}{secrets.token_hex(8)}"


def entry_folders(store: StageStore) -> list[Path]:
    return [path for path in store.folder.glob("*") if KEY.fullmatch(path.name)]


def publish(store: StageStore, partial: Path, folder: Path, num_bytes: int) -> None:
    """Makes a finished folder an entry, unless another process was faster."""
    with locked(store.folder / LOCK):
        if not renew_entry(folder):
            remove_entry(store, folder)  # what is there is damaged
            evict(store, num_bytes)
            partial.rename(folder)


def link_from_store(store: StageStore, folder: Path, partial: Path) -> Entry | None:
    """Links an entry's files into a folder beside it; removes it if something of it is missing."""
    with locked(store.folder / LOCK):
        entry = link_entry(folder, partial)
        if entry is None:
            remove_entry(store, folder)
        else:
            renew_entry(folder)
        return entry


def remove_entry(store: StageStore, folder: Path) -> None:
    """Removes an entry if it is there; for others it is gone at once."""
    gone = new_partial(store)
    with contextlib.suppress(FileNotFoundError):
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def evict(store: StageStore, num_bytes: int) -> None:
    """Removes what dead processes left, then entries until so many bytes more fit, those least needed first."""
    remove_partials(store)
    remove_old_claims(store.folder / CLAIMS)
    if store.most_bytes is None:
        return
    sizes = {folder: bytes_of(folder) for folder in sorted(entry_folders(store), key=eviction_order)}
    excess = sum(sizes.values()) + num_bytes - store.most_bytes
    for folder, size in sizes.items():
        if excess <= 0:
            return
        remove_entry(store, folder)
        excess -= size


def remove_partials(store: StageStore) -> None:
    """Removes half-made folders that nobody is working on any more."""
    oldest = time.time() - PARTIAL_KEPT_SECONDS
    for path in store.folder.glob(f"{PARTIAL}*"):
        changed = last_change(path)
        if changed is not None and changed < oldest:
            shutil.rmtree(path, ignore_errors=True)
