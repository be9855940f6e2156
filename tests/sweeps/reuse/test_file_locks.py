"""Locks and claims between threads, between processes, and after a process is killed."""

import contextlib
import errno
import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from sweeps.reuse import file_locks
from sweeps.reuse.file_locks import claim_file, locked, remove_old_claims

ROOT = Path(__file__).parents[3]
HOLD_CLAIM = """
import sys, time
from pathlib import Path
from sweeps.reuse.file_locks import claim_file
held = claim_file(Path(sys.argv[1]))
print("none" if held is None else held.is_locked, flush=True)
time.sleep(60)
"""
NO_FLOCK = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)
MONTH = 30 * 86400


def start(code: str, *arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def first_word(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def kill(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


def make_older(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds, time.time() - seconds))


def held(path: Path) -> FileLock:
    claim = claim_file(path)
    assert claim is not None
    assert claim.is_locked
    return claim


@contextlib.contextmanager
def holding(path: Path) -> Iterator[None]:
    claim = held(path)
    try:
        yield
    finally:
        claim.release()


def refuse_flock(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(_file: int, _operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)


def test_a_file_is_claimed_once_until_released(tmp_path: Path) -> None:
    first = held(tmp_path / "deeper" / "claim")
    assert claim_file(tmp_path / "deeper" / "claim") is None
    with holding(tmp_path / "another"):
        first.release()
    first.release()
    assert not first.is_locked
    with holding(tmp_path / "deeper" / "claim"):
        first.release()  # releasing twice leaves the new holder's claim alone
        assert claim_file(tmp_path / "deeper" / "claim") is None


def test_claim_ends_with_its_object(tmp_path: Path) -> None:
    claim = held(tmp_path / "claim")
    del claim
    held(tmp_path / "claim").release()


def test_claim_can_be_released_by_another_thread(tmp_path: Path) -> None:
    claim = held(tmp_path / "claim")
    thread = threading.Thread(target=claim.release)
    thread.start()
    thread.join()
    held(tmp_path / "claim").release()


def test_claim_succeeds_while_old_claims_are_removed(tmp_path: Path) -> None:
    is_over = threading.Event()

    def remove_repeatedly() -> None:
        while not is_over.is_set():
            with contextlib.suppress(FileNotFoundError):
                make_older(tmp_path / "claim", 2 * MONTH)
            remove_old_claims(tmp_path)
            time.sleep(0.001)

    thread = threading.Thread(target=remove_repeatedly)
    thread.start()
    try:
        for _ in range(20):
            held(tmp_path / "claim").release()
    finally:
        is_over.set()
        thread.join()


def test_claim_of_a_killed_process_is_free(tmp_path: Path) -> None:
    process = start(HOLD_CLAIM, tmp_path / "claim")
    try:
        assert first_word(process) == "True"
        assert claim_file(tmp_path / "claim") is None
    finally:
        kill(process)
    with holding(tmp_path / "claim"):
        other = start(HOLD_CLAIM, tmp_path / "claim")
        assert first_word(other) == "none"
        kill(other)


@pytest.mark.parametrize("number", NO_FLOCK)
def test_without_flock_claims_succeed_and_locks_do_not_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    refuse_flock(monkeypatch, number)
    first, second = claim_file(tmp_path / "claim"), claim_file(tmp_path / "claim")
    assert first is not None
    assert second is not None
    assert not first.is_locked
    with locked(tmp_path / "lock"), locked(tmp_path / "lock"):
        first.release()
    make_older(tmp_path / "claim", 2 * MONTH)
    remove_old_claims(tmp_path)
    assert (tmp_path / "claim").exists()  # no claim can be known to be free


def test_claim_succeeds_where_its_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    claim = claim_file(tmp_path / "file" / "claim")
    assert claim is not None
    assert not claim.is_locked


def test_other_lock_errors_are_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_flock(monkeypatch, errno.EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)), locked(tmp_path / "lock"):
        pass


def test_lock_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_locks, "LOCK_SECONDS", 0.05)
    with locked(tmp_path / "lock"), pytest.raises(OSError, match="lock"), locked(tmp_path / "lock"):
        pass
    with locked(tmp_path / "lock"):
        pass


def test_threads_hold_a_lock_in_turn(tmp_path: Path) -> None:
    inside: list[int] = []

    def enter() -> None:
        for _ in range(5):
            with locked(tmp_path / "lock"):
                inside.append(1)
                assert len(inside) == 1
                time.sleep(0.001)
                inside.pop()

    threads = [threading.Thread(target=enter) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not inside


def test_old_unheld_claim_files_are_removed(tmp_path: Path) -> None:
    for name in ("old", "young", "old and held", "old and claimed again"):
        held(tmp_path / name).release()
        make_older(tmp_path / name, MONTH + (-60 if name == "young" else 60))
    with holding(tmp_path / "old and held"):
        make_older(tmp_path / "old and held", MONTH + 60)
        held(tmp_path / "old and claimed again").release()
        remove_old_claims(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {"young", "old and held", "old and claimed again"}
        assert claim_file(tmp_path / "old and held") is None
    remove_old_claims(tmp_path / "missing")


def test_file_removed_between_opening_and_locking_gives_one_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the holder of the deleted file and the creator of the next one would both have the claim."""
    path, flock, moments = tmp_path / "claim", fcntl.flock, iter([True])
    path.touch()

    def lock_too_late(file: int, operation: int) -> Any:
        if next(moments, False):
            path.unlink()
        return flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", lock_too_late)
    with holding(path):
        assert path.exists()
        assert claim_file(path) is None
