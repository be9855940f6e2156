"""The stage store finds what was stored whole and nothing else, within its limit, with other sweeps and after kills."""

import errno
import itertools
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from mtlib.runtime.storage import (
    copy_file,
    delete_folder,
    join_location,
    list_files,
    open_folder,
    read_bytes,
    write_bytes,
)
from sweeps.reuse import stage_store as stages
from sweeps.reuse.stage_store import (
    ABANDONED_SECONDS,
    STAGE_FILE,
    STAGE_VERSION,
    USE_FILE,
    StageStore,
    checksum_of,
    find_stage,
    has_stage,
    remove_stage,
    stage_files,
    store_stage,
)
from tests.killed import Killed

FILES = {"state/tensors": b"weights" * 50, "state/numbers": b"{}", "empty": b""}
FACTS = {"epoch": 3, "score": 0.1 + 0.2, "names": ["a", "ü"], "by": {"x": None}, "bound": float("inf")}
ONE, TWO, THREE, FOUR = (digit * 64 for digit in "12ef")
SOURCES = "sources"
"""Folder of the files to store, beside the store."""


@pytest.fixture
def store(tmp_path: Path) -> StageStore:
    """An empty store of a gigabyte on a disk."""
    return StageStore(folder=str(tmp_path / "stages"), keep_bytes=10**9)


@pytest.fixture
def any_store(location: str) -> StageStore:
    """On a disk and in a bucket."""
    return StageStore(folder=join_location(location, "stages"), keep_bytes=10**9)


def keep(
    store: StageStore, key: str, files: dict[str, bytes] = FILES, facts: dict[str, Any] = FACTS, **options: Any
) -> str | None:
    """Stores files of these contents under a key."""
    source = open_folder(join_location(str(store.folder).replace("/stages", f"/{SOURCES}"), key))
    for name, content in files.items():
        write_bytes(source, f"in the trial/{name}", content)
    return store_stage(store, key, source, {name: f"in the trial/{name}" for name in files}, facts, **options)


def found_files(store: StageStore, key: str) -> dict[str, bytes] | None:
    """The content of a stage's files; None if it is not found."""
    stage = find_stage(store, key)
    if stage is None:
        return None
    root = stage_files(store, key, stage)
    assert [info.path for info in list_files(root, "")] == sorted(stage.files)
    return {name: read_bytes(root, name) for name in stage.files}


def keys(store: StageStore) -> set[str]:
    """Keys with a stage."""
    return {
        key for key in (info.path.partition("/")[0] for info in list_files(store.root, "")) if has_stage(store, key)
    }


def store_bytes(store: StageStore) -> int:
    """Bytes of all files that were given to the store."""
    infos = list_files(store.root, "")
    return sum(info.size for info in infos if info.base_name not in (STAGE_FILE, USE_FILE))


def keep_sized(store: StageStore, key: str, num_bytes: int, used: float, is_spare: bool = False) -> None:
    """Stores a stage with the given time of last use; its description counts too."""
    empty = {"version": STAGE_VERSION, "facts": {}, "is_spare": is_spare, "folder": "0" * 16, "files": ["file"]}
    num_described = len(json.dumps({**empty, "checksum": 10**9}))
    assert keep(store, key, {"file": bytes(num_bytes - num_described)}, {}, is_spare=is_spare) is None
    os.utime(f"{store.folder}/{key}/{USE_FILE}", (used, used))


# Storing and finding.


def test_found_stage_has_the_stored_files_and_facts(any_store: StageStore) -> None:
    assert not has_stage(any_store, ONE)
    assert keep(any_store, ONE, is_spare=True) is None
    assert has_stage(any_store, ONE)
    stage = find_stage(any_store, ONE)
    assert stage is not None
    assert (stage.facts, stage.is_spare) == (FACTS, True)
    assert found_files(any_store, ONE) == FILES


def test_stage_outlives_its_sources(any_store: StageStore) -> None:
    keep(any_store, ONE)
    delete_folder(open_folder(str(any_store.folder).replace("/stages", "")), SOURCES)
    assert found_files(any_store, ONE) == FILES


def test_stage_on_a_disk_takes_no_room_beside_its_trial(store: StageStore, tmp_path: Path) -> None:
    keep(store, ONE)
    inodes = [{path.stat().st_ino for path in (tmp_path / name).rglob("tensors")} for name in (SOURCES, "stages")]
    assert inodes[0] == inodes[1] != set()


def test_storing_twice_keeps_the_first(any_store: StageStore) -> None:
    keep(any_store, ONE)
    assert keep(any_store, ONE, {"other": b""}, {"epoch": 9}) is None
    assert found_files(any_store, ONE) == FILES
    assert store_bytes(any_store) == sum(map(len, FILES.values()))


# Damage, kills and other sweeps.


def described(**changes: Any) -> str:
    """A `stage.json` with a right checksum."""
    content = {"version": STAGE_VERSION, "facts": {}, "is_spare": False, "folder": "a", "files": [], **changes}
    return json.dumps({**content, "checksum": checksum_of(content)})


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", "{}", '{"checksum": 0}', "\udcff"),
        described(version=1),
        described(further=1),
        described(files=None),
    ],
)
def test_stage_without_a_readable_description_is_missing_and_stored_again(text: str, store: StageStore) -> None:
    write_bytes(store.root, f"{ONE}/{STAGE_FILE}", described().encode())
    assert find_stage(store, ONE) is not None
    write_bytes(store.root, f"{ONE}/{STAGE_FILE}", text.encode(errors="surrogateescape"))
    assert find_stage(store, ONE) is None
    assert keep(store, ONE) is None
    assert found_files(store, ONE) == FILES


def kill_at_change(patch: pytest.MonkeyPatch, number: int) -> None:
    """Makes change number `number` of the store, from 0, raise."""
    calls = itertools.count()

    def counted(change: Callable[..., None]) -> Callable[..., None]:
        def change_unless_killed(*arguments: Any) -> None:
            if next(calls) == number:
                raise Killed
            change(*arguments)

        return change_unless_killed

    for name in ("copy_file", "write_bytes"):
        patch.setattr(stages, name, counted(getattr(stages, name)))


@pytest.mark.parametrize("number", range(5))
def test_kill_while_a_stage_is_stored_leaves_none_and_it_can_be_stored_again(
    number: int, any_store: StageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its use, any of three files or its description is written."""
    with monkeypatch.context() as patch:
        kill_at_change(patch, number)
        with pytest.raises(Killed):
            keep(any_store, ONE)
    assert (find_stage(any_store, ONE), keys(any_store)) == (None, set())
    assert keep(any_store, ONE) is None
    assert found_files(any_store, ONE) == FILES
    remove_stage(any_store, ONE)
    assert list_files(any_store.root, "") == [], "what the kill left goes with the stage"


def test_stage_that_two_sweeps_store_at_once_is_stored(any_store: StageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def store_first(*_arguments: Any) -> None:
        monkeypatch.undo()
        assert keep(any_store, ONE) is None

    monkeypatch.setattr(stages, "evict", store_first)
    assert keep(any_store, ONE) is None
    assert keys(any_store) == {ONE}
    assert found_files(any_store, ONE) == FILES


def test_stage_that_another_sweep_evicts_meanwhile_counts_as_missing(
    any_store: StageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(any_store, ONE)
    stage = find_stage(any_store, ONE)
    assert stage is not None
    remove_stage(any_store, ONE)
    with pytest.raises(FileNotFoundError):
        read_bytes(stage_files(any_store, ONE, stage), "empty")
    keep(any_store, ONE)

    def evict_first(*arguments: Any) -> None:
        delete_folder(any_store.root, ONE)
        write_bytes(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(stages, "write_bytes", evict_first)
        assert find_stage(any_store, ONE) is not None, "it was there"
    assert find_stage(any_store, ONE) is None
    assert keep(any_store, ONE) is None
    assert found_files(any_store, ONE) == FILES


def test_abandoned_files_are_removed_and_new_ones_stay(store: StageStore) -> None:
    for key, age in ((ONE, 2 * ABANDONED_SECONDS), (TWO, 0.0)):
        write_bytes(store.root, f"{key}/abc/tensors", b"1")
        os.utime(f"{store.folder}/{key}/abc/tensors", (time.time() - age,) * 2)
    keep(store, THREE)
    assert {path.name for path in Path(str(store.folder)).iterdir()} == {TWO, THREE}


def test_stage_of_old_files_is_not_taken_for_abandoned(store: StageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial that resumes after a long time stores a stage by links to its old files."""

    def copy_while_another_stores(source: Any, path: str, target: Any, new_path: str) -> None:
        os.utime(f"{source.base_path}/{path}", (1, 1))
        copy_file(source, path, target, new_path)
        with monkeypatch.context() as patch:
            patch.setattr(stages, "copy_file", copy_file)
            remove_stage(store, TWO)
            keep(store, TWO)

    monkeypatch.setattr(stages, "copy_file", copy_while_another_stores)
    assert keep(store, ONE) is None
    assert found_files(store, ONE) == FILES


# The limit.


def test_spare_stages_are_evicted_first_then_least_recently_used(store: StageStore) -> None:
    everything = [ONE, TWO, THREE, FOUR]
    for index, (key, is_spare) in enumerate(zip(everything, (False, True, False, True), strict=True)):
        keep_sized(store, key, 1000, used=index, is_spare=is_spare)
    # Of 4000 bytes under a limit of 4000, this many stages are evicted to store the new one.
    for num_bytes, gone in ((900, TWO), (1900, FOUR), (2900, ONE), (3900, THREE)):
        new = f"{num_bytes:064x}"
        keep_sized(replace(store, keep_bytes=4000), new, num_bytes, used=99)
        everything.remove(gone)
        assert keys(store) == {*everything, new}
        remove_stage(store, new)


def test_stage_larger_than_the_limit_is_not_stored_and_evicts_nothing(any_store: StageStore) -> None:
    keep(any_store, ONE, {"file": bytes(1000)})
    said = keep(replace(any_store, keep_bytes=2000), TWO, {"file": bytes(2001)})
    assert said == "the stage has 2,001 bytes, all stored stages together may have 2,000"
    assert keys(any_store) == {ONE}


# What cannot be stored.


def test_full_disk_is_one_line_and_leaves_the_other_stages(store: StageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    full_disk = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    keep(store, ONE)
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", full_disk)
        patch.setattr(shutil, "copyfile", full_disk)
        said = keep(store, TWO)
    assert said is not None
    assert "No space left on device" in said
    assert "\n" not in said
    assert keys(store) == {ONE}
    assert keep(store, TWO) is None
    assert keys(store) == {ONE, TWO}
