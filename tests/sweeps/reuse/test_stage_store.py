"""The stage store stores and fetches whole stages within its limit, with concurrent and killed processes."""

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from sweeps.options import SweepOptions
from sweeps.reuse import file_locks
from sweeps.reuse import stage_store as stages
from sweeps.reuse.file_locks import locked
from sweeps.reuse.stage_entry import ENTRY_FILE, is_intact, read_entry
from sweeps.reuse.stage_store import (
    LOCK,
    StageStore,
    claim_stage,
    fetch_stage,
    has_stage,
    remove_stage,
    stage_store,
    store_stage,
)

ROOT = Path(__file__).parents[3]
FILES = {"state/tensors": b"weights" * 50, "state/numbers": b"{}", "empty": b""}
FACTS = {"epoch": 2, "score": 0.1}
ONE, TWO, THREE, FOUR = (digit * 64 for digit in "12ef")
HOUR = 3600


@pytest.fixture
def store(tmp_path: Path) -> StageStore:
    return StageStore(folder=tmp_path / "storage" / "stages", keep_bytes=10**9)


def bounded(store: StageStore, keep_bytes: int) -> StageStore:
    return StageStore(folder=store.folder, keep_bytes=keep_bytes)


def keep(store: StageStore, key: str, files: dict[str, bytes], **options: Any) -> str | None:
    """Stores files of the given contents under a key; the sources stay in a folder of that name."""
    sources = store.folder.parents[1] / "sources" / key
    for name, content in files.items():
        (sources / name).parent.mkdir(parents=True, exist_ok=True)
        (sources / name).write_bytes(content)
    return store_stage(store, key, {name: sources / name for name in files}, FACTS, **options)


def keep_sized(store: StageStore, key: str, num_bytes: int, used: float, is_spare: bool = False) -> None:
    """Stores a stage with the given time of last use."""
    assert keep(store, key, {"file": bytes(num_bytes)}, is_spare=is_spare) is None
    os.utime(store.folder / key / ENTRY_FILE, (used, used))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def keys(store: StageStore) -> set[str]:
    """Keys visible in the store, without hidden names."""
    return {path.name for path in store.folder.glob("*") if not path.name.startswith(".")}


def hidden(store: StageStore) -> set[str]:
    return {path.name for path in store.folder.glob(".*")} - {".lock", ".claims"}


@contextlib.contextmanager
def claimed(store: StageStore, key: str) -> Iterator[FileLock]:
    claim = claim_stage(store, key)
    assert claim is not None
    try:
        yield claim
    finally:
        claim.release()


def stage_facts(store: StageStore, key: str) -> dict[str, Any] | None:
    """The facts stored with a stage; None if it is missing or its description is damaged."""
    entry = read_entry(store.folder / key)
    return None if entry is None else entry.facts


def store_bytes(store: StageStore) -> int:
    """Bytes of all stages together."""
    return sum(entry.num_bytes for key in keys(store) if (entry := read_entry(store.folder / key)))


def refuse(number: int) -> Any:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_store_follows_the_storage_and_its_limit(tmp_path: Path) -> None:
    options = SweepOptions(space="tiny", name="first", storage=tmp_path, keep_gb=7e-9)
    assert stage_store(options) == StageStore(folder=tmp_path / ".cache" / "stages", keep_bytes=7)
    assert stage_store(replace(options, reuse=False)) is None


def test_fetched_stage_has_the_stored_files(store: StageStore, tmp_path: Path) -> None:
    assert not has_stage(store, ONE)
    assert keep(store, ONE, FILES) is None
    assert has_stage(store, ONE)
    assert stage_facts(store, ONE) == FACTS
    assert fetch_stage(store, ONE, tmp_path / "trial" / "deeper") == FACTS
    assert contents(tmp_path / "trial" / "deeper") == FILES
    for name in FILES:
        inodes = {
            (folder / name).stat().st_ino
            for folder in (tmp_path / "sources" / ONE, store.folder / ONE, tmp_path / "trial" / "deeper")
        }
        assert len(inodes) == 1
    assert hidden(store) == set()


def test_stage_outlives_its_sources_and_fetched_copies(store: StageStore, tmp_path: Path) -> None:
    keep(store, ONE, FILES)
    shutil.rmtree(tmp_path / "sources")
    fetch_stage(store, ONE, tmp_path / "first")
    shutil.rmtree(tmp_path / "first")
    assert fetch_stage(store, ONE, tmp_path / "second") == FACTS
    remove_stage(store, ONE)
    assert contents(tmp_path / "second") == FILES


def test_stage_without_files_holds_its_facts(store: StageStore, tmp_path: Path) -> None:
    assert store_stage(store, ONE, {}, FACTS) is None
    assert fetch_stage(store, ONE, tmp_path / "taken") == FACTS
    assert contents(tmp_path / "taken") == {}
    assert store_bytes(store) == 0


def test_storing_twice_keeps_the_first_and_renews_its_use(store: StageStore, tmp_path: Path) -> None:
    keep_sized(store, ONE, 10, used=1000)
    before = time.time() - 1
    assert store_stage(store, ONE, {"other": tmp_path / "missing"}, {"epoch": 9}) is None
    assert store_stage(bounded(store, 0), ONE, {}, {}) is None
    assert stage_facts(store, ONE) == FACTS
    assert contents(store.folder / ONE).keys() == {"file", ENTRY_FILE}
    assert (store.folder / ONE / ENTRY_FILE).stat().st_mtime > before


def test_fetching_a_missing_stage_creates_nothing(store: StageStore, tmp_path: Path) -> None:
    assert fetch_stage(store, ONE, tmp_path / "taken") is None
    assert stage_facts(store, ONE) is None
    assert store_bytes(store) == 0
    remove_stage(store, ONE)
    assert not any(tmp_path.iterdir())


def test_dropped_stage_can_be_stored_again(store: StageStore) -> None:
    keep(store, ONE, FILES)
    keep(store, TWO, FILES)
    remove_stage(store, ONE)
    assert keys(store) == {TWO}
    assert hidden(store) == set()
    assert keep(store, ONE, FILES) is None
    assert keys(store) == {ONE, TWO}


@pytest.mark.parametrize("damage", ["truncated", "flipped", "longer", "missing", "description", "no description"])
def test_damaged_stage_is_removed_and_can_be_stored_again(store: StageStore, tmp_path: Path, damage: str) -> None:
    keep(store, ONE, FILES)
    keep(store, TWO, FILES)
    shutil.rmtree(tmp_path / "sources")  # hard links share the damage
    path, content = store.folder / ONE / "state/tensors", FILES["state/tensors"]
    description = store.folder / ONE / ENTRY_FILE
    damages: dict[str, Callable[[], object]] = {
        "truncated": lambda: path.write_bytes(content[:-1]),
        "flipped": lambda: path.write_bytes(content[:-1] + b"S"),
        "longer": lambda: path.write_bytes(content + b"s"),
        "missing": path.unlink,
        "description": lambda: description.write_text("{"),
        "no description": description.unlink,
    }
    damages[damage]()
    assert fetch_stage(store, ONE, tmp_path / "taken") is None
    assert not (tmp_path / "taken").exists()
    assert not has_stage(store, ONE)
    assert keys(store) == {TWO}
    assert hidden(store) == set()
    assert keep(store, ONE, FILES) is None
    assert fetch_stage(store, ONE, tmp_path / "taken") == FACTS


def test_storing_replaces_an_unreadable_entry(store: StageStore, tmp_path: Path) -> None:
    keep(store, ONE, FILES)
    (store.folder / ONE / ENTRY_FILE).write_text("{")
    assert stage_facts(store, ONE) is None
    assert keep(store, ONE, FILES) is None
    assert fetch_stage(store, ONE, tmp_path / "taken") == FACTS


def test_files_are_checked_without_the_lock_while_others_remove_the_stage(
    store: StageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store, ONE, FILES)

    def remove_and_check(*arguments: Any) -> bool:
        with locked(store.folder / LOCK):
            shutil.rmtree(store.folder / ONE)
        return is_intact(*arguments)

    monkeypatch.setattr(stages, "is_intact", remove_and_check)
    assert fetch_stage(store, ONE, tmp_path / "taken") == FACTS
    assert contents(tmp_path / "taken") == FILES


def test_limit_is_kept_exactly(store: StageStore) -> None:
    store = bounded(store, 100)
    keep_sized(store, ONE, 60, used=1)
    keep_sized(store, TWO, 40, used=2)
    assert store_bytes(store) == 100
    assert keys(store) == {ONE, TWO}
    keep_sized(store, THREE, 1, used=3)
    assert keys(store) == {TWO, THREE}
    assert hidden(store) == set()


def test_spare_stages_are_evicted_first_then_least_recently_used(store: StageStore) -> None:
    everything = [ONE, TWO, THREE, FOUR]
    for index, (key, is_spare) in enumerate(zip(everything, (False, True, False, True), strict=True)):
        keep_sized(store, key, 10, used=index, is_spare=is_spare)
    # Of 40 bytes under a limit of 40, this many stages are evicted to store 1, 11, 21 or 31 more.
    for num_bytes, gone in ((1, [TWO]), (11, [FOUR]), (21, [ONE]), (31, [THREE])):
        new = f"{num_bytes:064x}"
        keep_sized(bounded(store, 40), new, num_bytes, used=99)
        everything = [key for key in everything if key not in gone]
        assert keys(store) == {*everything, new}
        remove_stage(store, new)


def test_damaged_stage_is_evicted_before_all_others(store: StageStore) -> None:
    keep_sized(store, ONE, 10, used=1, is_spare=True)
    keep_sized(store, TWO, 10, used=2)
    (store.folder / TWO / ENTRY_FILE).write_text("damaged...")
    keep_sized(bounded(store, 20), THREE, 10, used=3)
    assert keys(store) == {ONE, THREE}


def test_fetching_a_stage_renews_its_use(store: StageStore, tmp_path: Path) -> None:
    keep_sized(store, ONE, 10, used=1)
    keep_sized(store, TWO, 10, used=2)
    fetch_stage(store, ONE, tmp_path / "taken")
    keep_sized(bounded(store, 20), THREE, 10, used=3)
    assert keys(store) == {ONE, THREE}


def test_stage_larger_than_the_limit_is_not_stored_and_evicts_nothing(store: StageStore) -> None:
    keep_sized(store, ONE, 2000, used=1)
    said = keep(bounded(store, 2000), TWO, {"file": bytes(2001)})
    assert said is not None
    assert "2,001 bytes" in said
    assert "2,000" in said
    assert "\n" not in said
    assert keys(store) == {ONE}
    assert hidden(store) == set()
    assert keep(bounded(store, 2001), TWO, {"file": bytes(2001)}) is None
    assert keys(store) == {TWO}


def test_full_disk_while_storing_is_one_line_and_leaves_nothing(
    store: StageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store, ONE, FILES)
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refuse(errno.ENOSPC))
        patch.setattr(shutil, "copyfile", refuse(errno.ENOSPC))
        said = keep(store, TWO, FILES)
    assert said is not None
    assert "No space left on device" in said
    assert keys(store) == {ONE}
    assert hidden(store) == set()


def test_full_disk_while_fetching_keeps_the_stage_and_leaves_no_folder(
    store: StageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store, ONE, FILES)
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refuse(errno.ENOSPC))
        patch.setattr(shutil, "copyfile", refuse(errno.ENOSPC))
        assert fetch_stage(store, ONE, tmp_path / "taken") is None
    assert not (tmp_path / "taken").exists()
    assert hidden(store) == set()
    assert fetch_stage(store, ONE, tmp_path / "taken") == FACTS


def test_stage_is_copied_whole_to_another_file_system(
    store: StageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store, ONE, FILES)
    rename = os.rename

    def rename_within_the_store(source: Path, target: Path) -> None:
        if Path(target).parent != Path(source).parent:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        rename(source, target)

    monkeypatch.setattr(os, "rename", rename_within_the_store)
    assert fetch_stage(store, ONE, tmp_path / "taken") == FACTS
    assert contents(tmp_path / "taken") == FILES
    monkeypatch.setattr(shutil, "copyfile", refuse(errno.ENOSPC))
    assert fetch_stage(store, ONE, tmp_path / "again") is None
    assert not (tmp_path / "again").exists()
    assert hidden(store) == set()


def test_missing_source_and_blocked_folder_are_reported(store: StageStore, tmp_path: Path) -> None:
    said = store_stage(store, ONE, {"a": tmp_path / "missing"}, {})
    assert said is not None
    assert "missing" in said
    (tmp_path / "file").touch()
    assert store_stage(StageStore(folder=tmp_path / "file", keep_bytes=10**9), ONE, {}, {}) is not None


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


def test_facts_that_are_not_json_are_refused_and_leave_nothing(store: StageStore) -> None:
    with pytest.raises(TypeError):
        store_stage(store, ONE, {}, {"path": object()})
    assert keys(store) | hidden(store) == set()


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
