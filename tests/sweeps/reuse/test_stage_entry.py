"""Stage entries are read as written, damage is detected, and folders are linked whole."""

import errno
import json
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

from sweeps.reuse.stage_entry import (
    ENTRY_FILE,
    StageEntry,
    build_entry,
    is_intact,
    last_change,
    link_entry,
    measure,
    read_entry,
    touch_entry,
)

FACTS = {"epoch": 3, "score": 0.1 + 0.2, "names": ["a", "ü"], "by": {"x": None}, "bound": float("inf")}


def build(folder: Path, files: dict[str, bytes], is_spare: bool = False) -> StageEntry:
    """An entry with files of the given contents."""
    sources = folder.with_name(f"{folder.name} sources")
    sources.mkdir()
    for number, content in enumerate(files.values()):
        (sources / str(number)).write_bytes(content)
    build_entry(folder, {name: sources / str(number) for number, name in enumerate(files)}, FACTS, is_spare)
    entry = read_entry(folder)
    assert entry is not None
    return entry


def refuse(number: int) -> Any:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_entry_is_read_as_built(tmp_path: Path) -> None:
    entry = build(tmp_path / "entry", {"a": b"one", "deeper/b": b""}, is_spare=True)
    assert entry.facts == FACTS
    assert entry.is_spare
    assert entry.files == {"a": [3, zlib.crc32(b"one")], "deeper/b": [0, 0]}
    described = json.loads((tmp_path / "entry" / ENTRY_FILE).read_text())
    assert described["version"] == 1
    assert (described["facts"], described["is_spare"], described["files"]) == (FACTS, True, entry.files)
    assert entry.num_bytes == 3


def test_entry_may_have_no_files(tmp_path: Path) -> None:
    entry = build(tmp_path / "entry", {})
    assert (entry.files, entry.num_bytes) == ({}, 0)


def test_facts_may_hold_tuples_and_integer_keys(tmp_path: Path) -> None:
    build_entry(tmp_path / "entry", {}, {"tasks": ("a", "b"), "by": {10: 1, 9: 2}}, is_spare=False)
    entry = read_entry(tmp_path / "entry")
    assert entry is not None
    assert entry.facts == {"tasks": ["a", "b"], "by": {"10": 1, "9": 2}}


@pytest.mark.parametrize("position", [0.1, 0.5, 0.9])
def test_flipped_bit_in_a_description_is_detected(tmp_path: Path, position: float) -> None:
    build(tmp_path / "entry", {"a": b"one"})
    path = tmp_path / "entry" / ENTRY_FILE
    content = bytearray(path.read_bytes())
    content[int(position * len(content))] ^= 1
    path.write_bytes(content)
    assert read_entry(tmp_path / "entry") is None
    assert not touch_entry(tmp_path / "entry")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"checksum": 0}', '{"version": 1, "files": {}}'])
def test_invalid_description_is_no_entry(tmp_path: Path, text: str) -> None:
    (tmp_path / ENTRY_FILE).write_text(text)
    assert read_entry(tmp_path) is None
    assert read_entry(tmp_path / "missing") is None


def test_description_of_another_version_is_not_read(tmp_path: Path) -> None:
    described = {"version": 2, "facts": {}, "is_spare": False, "files": {}}
    checksum = zlib.crc32(json.dumps(described).encode())
    (tmp_path / ENTRY_FILE).write_text(json.dumps({**described, "checksum": checksum}))
    assert read_entry(tmp_path) is None


def test_linked_files_share_inodes_and_symbolic_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"one")
    (tmp_path / "symbolic").symlink_to("source")
    build_entry(tmp_path / "entry", {"a": tmp_path / "symbolic"}, {}, is_spare=False)
    assert link_entry(tmp_path / "entry", tmp_path / "taken") == read_entry(tmp_path / "entry")
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["a"]
    for folder in ("entry", "taken"):
        assert not (tmp_path / folder / "a").is_symlink()
        assert (tmp_path / folder / "a").stat().st_ino == (tmp_path / "source").stat().st_ino


def test_files_that_cannot_be_linked_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", refuse(errno.EXDEV))
    build(tmp_path / "entry", {"a": b"one"})
    (tmp_path / "entry sources" / "0").write_bytes(b"two")
    entry = link_entry(tmp_path / "entry", tmp_path / "taken")
    assert entry is not None
    assert is_intact(entry, tmp_path / "taken")
    assert (tmp_path / "taken" / "a").read_bytes() == b"one"


def test_entry_with_a_missing_file_is_not_linked(tmp_path: Path) -> None:
    build(tmp_path / "entry", {"a": b"one", "b": b"two"})
    (tmp_path / "entry" / "b").unlink()
    assert link_entry(tmp_path / "entry", tmp_path / "taken") is None
    assert link_entry(tmp_path / "missing", tmp_path / "taken too") is None


def test_entry_is_intact_only_with_every_byte(tmp_path: Path) -> None:
    entry = build(tmp_path / "entry", {"a": b"one", "deeper/b": b"three"})
    assert is_intact(entry, tmp_path / "entry")
    for damaged in (b"thre", b"threE", b"three.", b""):
        (tmp_path / "entry" / "deeper/b").write_bytes(damaged)
        assert not is_intact(entry, tmp_path / "entry")
    (tmp_path / "entry" / "deeper/b").unlink()
    assert not is_intact(entry, tmp_path / "entry")


@pytest.mark.parametrize("num_bytes", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_checksums_span_read_blocks(tmp_path: Path, num_bytes: int) -> None:
    content = bytes(index % 251 for index in range(num_bytes))
    (tmp_path / "file").write_bytes(content)
    assert measure(tmp_path / "file") == [num_bytes, zlib.crc32(content)]


def test_last_change_covers_all_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "folder" / "deeper").mkdir(parents=True)
    (tmp_path / "folder" / "deeper" / "file").touch()
    for path, time in (("folder", 10), ("folder/deeper", 20), ("folder/deeper/file", 30)):
        os.utime(tmp_path / path, (time, time))
    assert last_change(tmp_path / "folder") == 30
    assert last_change(tmp_path / "missing") == 0
