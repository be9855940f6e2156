"""The stage store stores and fetches whole stages within its limit, with concurrent and killed processes."""

import errno
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeps.options import SweepOptions
from sweeps.reuse import stage_store as stages
from sweeps.reuse.stage_entry import ENTRY_FILE, is_intact, read_entry
from sweeps.reuse.stage_store import (
    PARTIAL,
    PARTIAL_SECONDS,
    StageStore,
    fetch_stage,
    has_stage,
    stage_store,
    store_stage,
)

FILES = {"state/tensors": b"weights" * 50, "state/numbers": b"{}", "empty": b""}
FACTS = {"epoch": 2, "score": 0.1}
ONE, TWO, THREE, FOUR = (digit * 64 for digit in "12ef")


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
    return {path.name for path in store.folder.glob(".*")}


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
    shutil.rmtree(store.folder)
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
    assert not any(tmp_path.iterdir())


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


def test_stage_that_others_evict_while_it_is_fetched_is_fetched_or_missing(
    store: StageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store, ONE, FILES)

    def remove_and_check(*arguments: Any) -> bool:
        shutil.rmtree(store.folder / ONE)
        return is_intact(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(stages, "is_intact", remove_and_check)
        assert fetch_stage(store, ONE, tmp_path / "taken") == FACTS
    assert contents(tmp_path / "taken") == FILES
    keep(store, TWO, FILES)
    link = os.link

    def remove_and_link(source: Path, target: Path) -> None:
        shutil.rmtree(store.folder / TWO, ignore_errors=True)
        link(source, target)

    monkeypatch.setattr(os, "link", remove_and_link)
    assert fetch_stage(store, TWO, tmp_path / "again") is None
    assert not (tmp_path / "again").exists()


def test_stage_that_two_sweeps_store_at_once_is_stored_once(store: StageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def store_first(*_arguments: Any) -> None:
        monkeypatch.undo()
        assert keep(store, ONE, FILES) is None

    monkeypatch.setattr(stages, "evict", store_first)
    assert keep(store, ONE, FILES) is None
    assert keys(store) == {ONE}
    assert hidden(store) == set()


def test_abandoned_partial_folders_are_removed_and_new_ones_stay(store: StageStore) -> None:
    for name, age in (("old", 2 * PARTIAL_SECONDS), ("new", 0.0)):
        path = store.folder / f"{PARTIAL}{name}"
        path.mkdir(parents=True)
        os.utime(path, (time.time() - age,) * 2)
    keep(store, ONE, FILES)
    assert hidden(store) == {f"{PARTIAL}new"}


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
        shutil.rmtree(store.folder / new)


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
    monkeypatch.setattr(os, "link", refuse(errno.EXDEV))
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


def test_facts_that_are_not_json_are_refused_and_leave_nothing(store: StageStore) -> None:
    with pytest.raises(TypeError):
        store_stage(store, ONE, {}, {"path": object()})
    assert keys(store) | hidden(store) == set()
