"""Mirrors a sweep's records and best weights to another place, such as a bucket."""

import posixpath
import shutil
from contextlib import suppress
from datetime import timedelta

import pyarrow.fs as fs

from results.records.files import Location, list_files, open_atomic, open_folder
from results.records.trials import CURVES_FILE, SPACE_FILE, SWEEP_FILE, TRIALS_FILE

MIRRORED_SUFFIXES = (".parquet", ".json", ".safetensors", ".html")

COPIED_LAST = (CURVES_FILE, TRIALS_FILE, SWEEP_FILE)
"""Files that point at others, in this order."""

CLOCK_MARGIN = timedelta(minutes=1)
"""By how much the clocks of two places may differ: a copy must be newer by this much to count as current."""

CHUNK_BYTES = 8 * 2**20


def update_mirror(folder: Location, uri: Location) -> int:
    """Brings the mirror of a sweep's folder up to date; `load_sweep(uri)` reads it.

    New and changed files are copied atomically, data before the files that point at it. Trials' files that `compact`
    has merged are deleted from the mirror. Training states (`state-*`), hidden files and files other than records, the
    page and weights (Optuna's journal, logs) are left out.

    Args:
        folder: the sweep's folder.
        uri: the mirror's: a URI that pyarrow can open (else ValueError), or a path outside `folder`.

    Returns:
        How many files were copied.
    """
    source, target = open_folder(folder), open_folder(uri)
    wanted = {info.path: info for info in list_files(source, "") if is_mirrored(info.path)}
    there = {info.path: info for info in list_files(target, "")}
    outdated = [path for path in sorted(wanted, key=copy_order) if not is_current(wanted[path], there.get(path))]
    for path in outdated:
        mirror_file(source, target, path)
    for path in there:
        if path.startswith("trials/") and is_mirrored(path) and path not in wanted:
            target.delete_file(path)
    return len(outdated)


def is_mirrored(path: str) -> bool:
    """Whether a file is mirrored."""
    is_kept_back = any(part.startswith((".", "state-")) for part in path.split("/"))
    return (path.endswith(MIRRORED_SUFFIXES) or path == SPACE_FILE) and not is_kept_back


def copy_order(path: str) -> tuple[int, str]:
    """A sort key: files that point at others come after them."""
    name = posixpath.basename(path)
    return COPIED_LAST.index(name) + 1 if name in COPIED_LAST else 0, path


def is_current(info: fs.FileInfo, copy: fs.FileInfo | None) -> bool:
    """Whether a copy is as large as the file and was made after it."""
    return copy is not None and copy.size == info.size and bool(copy.mtime - info.mtime >= CLOCK_MARGIN)


def mirror_file(source: fs.SubTreeFileSystem, target: fs.SubTreeFileSystem, path: str) -> None:
    """Copies one file atomically; one that `compact` has deleted since it was listed is skipped."""
    with suppress(FileNotFoundError), source.open_input_stream(path) as reader, open_atomic(target, path) as stream:
        shutil.copyfileobj(reader, stream, CHUNK_BYTES)
