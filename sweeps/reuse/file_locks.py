"""File locks between processes: a blocking one, and claims, which never wait.

They use flock: the kernel releases them when a process dies, and the empty files stay.
"""

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

LOCK_SECONDS = 300.0
"""Time limit for a lock."""
CLAIM_SECONDS = 0.02
"""Time limit for a claim; `remove_old_claims` holds one for less, and may just be removing its file."""
CLAIM_FILE_SECONDS = 30 * 86400.0
"""Age at which the file of a claim is removed, unless it is held."""
WITHOUT_FLOCK = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL})
"""Error codes of file systems without flock."""


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock on a file, which is created; does nothing on a file system without flock.

    Raises:
        OSError: the lock is not free within `LOCK_SECONDS`, or the file cannot be created.
    """
    lock = file_lock(path)
    try:
        lock.acquire(timeout=LOCK_SECONDS, poll_interval=0.01)
    except OSError as error:
        if error.errno not in WITHOUT_FLOCK:
            raise
    try:
        yield
    finally:
        lock.release()


def claim_file(path: Path) -> FileLock | None:
    """Claims a file, which is created, without waiting, until the claim is released or its object or process ends.

    On a file system without flock, or if the file cannot be created, every caller gets a claim that excludes nobody: it
    is not locked.

    Returns:
        None if another process, or another claim of this one, holds it.
    """
    lock = file_lock(path)
    try:
        lock.acquire(timeout=CLAIM_SECONDS, poll_interval=CLAIM_SECONDS / 4)
        os.utime(path)
    except Timeout:
        return None
    except OSError:
        pass
    return lock


def remove_old_claims(folder: Path) -> None:
    """Removes claim files older than `CLAIM_FILE_SECONDS` that no process holds.

    A file is removed while its lock is held. A process that opened it before and locks it afterwards finds that it has
    been unlinked (`filelock` checks), and retries with a new one, so two processes never hold the same claim.
    """
    for path in folder.glob("*"):
        with contextlib.suppress(OSError):  # held, or removed meanwhile
            if path.stat().st_mtime < time.time() - CLAIM_FILE_SECONDS:
                with file_lock(path).acquire(blocking=False):
                    path.unlink()


def file_lock(path: Path) -> FileLock:
    """A lock that any thread may release, that is not reentrant and never falls back to a marker file."""
    return FileLock(path, thread_local=False, is_singleton=False, fallback_to_soft=False)
