"""Locks on files between processes: one to wait for, and claims, which are had at once or not at all.

They are flock's: the kernel releases them when a process dies, and the files, which are empty, stay.
"""

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

LOCK_SECONDS = 300.0
"""How long to wait for a lock."""
CLAIM_SECONDS = 0.02
"""How long to try for a claim: whoever looks for old ones holds it for less, and its file may just be removed."""
CLAIM_KEPT_SECONDS = 30 * 86400.0
"""Time since a claim was made after which its file is removed, unless it is held."""
WITHOUT_FLOCK = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL})
"""What a file system that knows no flock answers."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """An exclusive right, until `release`, the end of a `with` block, of this object or of the process."""

    lock: FileLock

    @property
    def is_exclusive(self) -> bool:
        """False once released, and where the file system cannot lock."""
        return self.lock.is_locked

    def release(self) -> None:
        """Gives the right back; a second time does nothing."""
        self.lock.release()

    def __enter__(self) -> "Claim":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock on a file, which is made; nothing where the file system knows no flock.

    Raises:
        OSError: if it cannot be had within `LOCK_SECONDS`, or the file cannot be made.
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


def claim_file(path: Path) -> Claim | None:
    """Claims a file, which is made, without waiting.

    Where the file system cannot lock, or the file cannot be made, everybody gets a claim that excludes nobody.

    Returns:
        None if another process, or another claim of this one, has it.
    """
    lock = file_lock(path)
    try:
        lock.acquire(timeout=CLAIM_SECONDS, poll_interval=CLAIM_SECONDS / 4)
        os.utime(path)
    except Timeout:
        return None
    except OSError:
        return Claim(lock=lock)
    return Claim(lock=lock)


def remove_old_claims(folder: Path) -> None:
    """Removes the files of claims that nobody holds or has made for `CLAIM_KEPT_SECONDS`.

    A file is removed while it is held. A process that opened it before and locks it after finds that its file has no
    name any more (`filelock` looks), and tries again with a new one: two processes never hold one claim.
    """
    for path in folder.glob("*"):
        with contextlib.suppress(OSError):  # held, or removed meanwhile
            if path.stat().st_mtime < time.time() - CLAIM_KEPT_SECONDS:
                with file_lock(path).acquire(blocking=False):
                    path.unlink()


def file_lock(path: Path) -> FileLock:
    """A lock that any thread may release, that counts for itself alone and that never turns into a marker file."""
    return FileLock(path, thread_local=False, is_singleton=False, fallback_to_soft=False)
