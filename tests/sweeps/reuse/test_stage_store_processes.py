"""The stage store under concurrent and killed processes: locks, claims and whole stages."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from sweeps.reuse import file_locks
from sweeps.reuse.file_locks import locked
from sweeps.reuse.stage_store import (
    LOCK,
    StageStore,
    claim_stage,
    fetch_stage,
    has_stage,
    remove_stage,
)
from tests.sweeps.reuse.test_stage_store import (
    FACTS,
    FILES,
    ONE,
    THREE,
    TWO,
    bounded,
    hidden,
    keep,
    keep_sized,
    keys,
    store_bytes,
)

ROOT = Path(__file__).parents[3]


HOUR = 3600


@contextlib.contextmanager
def claimed(store: StageStore, key: str) -> Iterator[FileLock]:
    claim = claim_stage(store, key)
    assert claim is not None
    try:
        yield claim
    finally:
        claim.release()


def test_lock_timeout_is_not_an_error(store: StageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(store, ONE, FILES)
    monkeypatch.setattr(file_locks, "LOCK_SECONDS", 0.02)
    with locked(store.folder / LOCK):
        said = keep(store, TWO, FILES)
        assert said is not None
        assert ".lock" in said
        assert fetch_stage(store, ONE, tmp_path / "taken") is None
        remove_stage(store, ONE)
    assert keys(store) == {ONE}
    assert hidden(store) == set()
    assert fetch_stage(store, ONE, tmp_path / "taken") == FACTS


def test_stage_is_claimed_once(store: StageStore) -> None:
    with claimed(store, ONE):
        assert claim_stage(store, ONE) is None
        with claimed(store, TWO):
            pass
        assert keep(store, ONE, FILES) is None  # a claim does not prevent storing
    with claimed(store, ONE) as again:
        assert again.is_locked
    assert keys(store) == {ONE}


def test_store_of_size_zero_stores_fetches_and_claims_nothing(store: StageStore, tmp_path: Path) -> None:
    keep(store, ONE, FILES)
    nothing = bounded(store, 0)
    assert not has_stage(nothing, ONE)
    assert fetch_stage(nothing, ONE, tmp_path / "taken") is None
    assert not (tmp_path / "taken").exists()
    assert keep(nothing, TWO, FILES) is None, "no message: no stage was meant to be stored"
    assert keys(store) == {ONE}
    with (
        claimed(nothing, TWO),
        claimed(nothing, TWO) as two,
    ):
        assert not two.is_locked
        with claimed(store, TWO) as other:
            assert other.is_locked


def test_claims_are_not_needed_for_stages_too_large_to_store(store: StageStore) -> None:
    small, large = bounded(store, 2000), bounded(store, 2001)
    with claimed(small, ONE):
        assert claim_stage(small, ONE) is None, "it is not known yet"
        assert "2,001 bytes" in str(keep(small, ONE, {"file": bytes(2001)}))
        with claimed(small, ONE) as second:
            assert not second.is_locked
        assert claim_stage(large, ONE) is None, "a sweep with a larger bound will keep it"
        assert claim_stage(store, ONE) is None
    with claimed(large, ONE) as third:
        assert third.is_locked


def test_mark_of_a_large_stage_expires_like_old_claims(store: StageStore) -> None:
    small = bounded(store, 10)
    keep(small, ONE, FILES)
    (note,) = (store.folder / ".claims").iterdir()
    note.write_text("?")
    with claimed(small, ONE) as held:
        assert held.is_locked, "a damaged mark is ignored"
    os.utime(note, (0, 0))
    keep_sized(small, TWO, 1, used=1)
    assert not note.exists()


def test_eviction_removes_old_claims_and_files_of_dead_processes(store: StageStore) -> None:
    for key in (ONE, TWO):
        with claimed(store, key):
            pass
    old_claim = store.folder / ".claims" / ONE
    os.utime(old_claim, (0, 0))
    old, working = store.folder / ".partial-old", store.folder / ".partial-working"
    for path in (old / "deeper", working / "deeper"):
        path.mkdir(parents=True)
        (path / "file").touch()
        for found in (path / "file", path, path.parent):
            os.utime(found, (time.time() - HOUR - 60,) * 2)
    os.utime(working / "deeper" / "file", (time.time() - HOUR + 60,) * 2)
    keep(store, THREE, FILES)
    assert hidden(store) == {".partial-working"}
    assert keys(store) == {THREE}
    assert [path.name for path in (store.folder / ".claims").iterdir()] == [TWO]


DIE_BEFORE_RENAMING = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from sweeps.reuse.stage_store import StageStore, store_stage
Path.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
store_stage(StageStore(folder=Path(sys.argv[1]), keep_bytes=10**9), sys.argv[2], {"file": Path(sys.argv[3])}, {})
"""


def run(code: str, *arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_process_killed_before_renaming_leaves_nothing_visible(store: StageStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"one")
    assert run(DIE_BEFORE_RENAMING, store.folder, ONE, tmp_path / "file").wait() == -signal.SIGKILL
    assert len(hidden(store)) == 1
    assert not has_stage(store, ONE)
    assert fetch_stage(store, ONE, tmp_path / "taken") is None
    assert store_bytes(store) == 0
    assert keep(store, ONE, FILES) is None  # the kernel has released the store's lock
    assert fetch_stage(store, ONE, tmp_path / "taken") == FACTS


def test_store_loads_without_torch_ray_and_pyarrow() -> None:
    code = (
        "import sys, sweeps.reuse.stage_store; sys.exit(len({'torch', 'ray', 'pyarrow', 'optuna'} & set(sys.modules)))"
    )
    assert run(code).wait() == 0


WORK = """
import random, sys
from dataclasses import replace
from pathlib import Path
from sweeps.reuse.stage_entry import read_entry
from sweeps.reuse.stage_store import StageStore, remove_stage, has_stage, store_stage, fetch_stage
store, seed, own = StageStore(folder=Path(sys.argv[1]), keep_bytes=2000), int(sys.argv[2]), Path(sys.argv[3])
draw = random.Random(seed)
num_taken = 0
for step in range(60):
    number = draw.randrange(8)
    key, files = f"{number:064x}", {f"{part}/file": bytes([number, part]) * 25 * (1 + number) for part in range(3)}
    facts = {"number": number}
    action = draw.choice(["keep", "take", "take", "drop"] if step % 10 == 0 else ["keep", "take"])
    if action == "keep":
        for name, content in files.items():
            path = own / "sources" / str(step) / name
            path.parent.mkdir(parents=True)
            path.write_bytes(content)
        sources = {name: own / "sources" / str(step) / name for name in files}
        said = store_stage(store, key, sources, facts, is_spare=number % 2 == 1)
        assert said is None, said
    elif action == "take":
        taken = fetch_stage(store, key, own / "taken" / str(step))
        assert taken in (None, facts), taken
        assert (own / "taken" / str(step)).exists() == (taken is not None)
        for name, content in files.items() if taken else ():
            assert (own / "taken" / str(step) / name).read_bytes() == content
        num_taken += taken is not None
    else:
        remove_stage(store, key)
    entry = read_entry(store.folder / key)
    assert entry is None or entry.facts == facts
print(num_taken)
"""


def test_concurrent_processes_see_whole_stages_within_the_limit(store: StageStore, tmp_path: Path) -> None:
    """Eight stages of 150 to 1,200 bytes; two to five of them fit into the limit of 2,000."""
    store = bounded(store, 2000)
    workers = [run(WORK, store.folder, seed, tmp_path / str(seed)) for seed in range(4)]
    num_taken = [int(worker.communicate()[0]) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0, 0]
    assert sum(num_taken) > 0
    assert 0 < store_bytes(store) <= 2000
    assert hidden(store) == set()
    for key in keys(store):
        assert fetch_stage(store, key, tmp_path / "taken" / key) == {"number": int(key, 16)}
