"""Folders of a disk and a bucket behave alike: files are whole, missing ones named, failing requests repeated."""

import errno
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.fs as fs
import pytest

from mtlib.runtime import storage
from mtlib.runtime.storage import (
    PatientHandler,
    absolute_location,
    check_answer,
    copy_file,
    delete_file,
    delete_folder,
    exists,
    full_path,
    is_file,
    is_temporary,
    join_location,
    list_files,
    local_path,
    make_folder,
    move_file,
    open_folder,
    read_bytes,
    retry,
    split_location,
    subfolder,
    without_home,
    write_bytes,
)
from tests.killed import Killed
from tests.one_line_error import one_line_error
from tests.s3_server import BUCKET

QUERY = "?scheme=http&region=here"


def paths(root: fs.SubTreeFileSystem, folder: str = "") -> list[str]:
    return [info.path for info in list_files(root, folder)]


# Names.


@pytest.mark.parametrize(
    ("start", "query"),
    [("/disk/a?b", ""), ("s3://bucket/sweeps", ""), ("s3://bucket/sweeps", QUERY), ("gs://bucket", QUERY)],
)
def test_names_join_and_split(start: str, query: str) -> None:
    joined = join_location(start + query, "first", "trials")
    assert joined == f"{start}/first/trials{query}"
    assert split_location(joined) == (f"{start}/first{query}", "trials")


@pytest.mark.parametrize("query", ["", QUERY])
def test_slash_at_the_end_of_a_uri_does_not_matter(query: str) -> None:
    assert absolute_location(f"s3://bucket/sweeps/{query}") == f"s3://bucket/sweeps{query}"
    assert join_location(f"s3://bucket/sweeps/{query}", "a") == f"s3://bucket/sweeps/a{query}"
    assert split_location(f"s3://bucket/sweeps/a/{query}") == (f"s3://bucket/sweeps{query}", "a")


def test_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_location("sweeps") == str(tmp_path / "sweeps")
    assert absolute_location("~/sweeps") == str(Path.home().resolve() / "sweeps")
    assert local_path("sweeps") == local_path((tmp_path / "sweeps").as_uri()) == tmp_path / "sweeps"
    assert open_folder("sweeps").base_path.rstrip("/") == str(tmp_path / "sweeps")


def test_file_uri_is_on_the_disk_and_a_bucket_is_not(tmp_path: Path, bucket: str) -> None:
    write_bytes(open_folder(tmp_path.as_uri()), "a", b"1")
    assert (tmp_path / "a").read_bytes() == b"1"
    assert local_path(bucket) is None


@pytest.mark.parametrize("uri", ["nonsense://bucket/sweeps", "s3://bucket/sweeps?unknown=1"])
def test_uri_that_cannot_be_opened_is_one_line(uri: str) -> None:
    assert one_line_error(open_folder, uri).startswith(f"cannot open {uri}: ")


# Files.


def test_files_are_written_listed_and_deleted(location: str) -> None:
    root = open_folder(location)
    assert paths(root) == paths(root, "a") == []
    for name, content in (("b", b"2"), ("a/c", b""), ("a/b/d", b"0" * 2**20), ("b", b"3")):
        write_bytes(root, name, content)
        assert read_bytes(root, name) == content
    assert paths(root) == ["a/b/d", "a/c", "b"]
    assert paths(root, "a/b") == ["a/b/d"]
    assert paths(subfolder(root, "a")) == ["b/d", "c"]
    assert read_bytes(open_folder(join_location(location, "a")), "c") == b""
    assert (is_file(root, "b"), is_file(root, "a"), is_file(root, "x")) == (True, False, False)
    with root.open_input_file("a/b/d") as file:
        assert (file.size(), file.read(3)) == (2**20, b"000")
    for _ in range(2):
        delete_file(root, "b")
        delete_folder(root, "a")
    assert paths(root) == []


def test_missing_files_are_named(location: str) -> None:
    root = open_folder(location)
    write_bytes(root, "a", b"1")
    attempts: tuple[Callable[[], object], ...] = (
        lambda: read_bytes(root, "missing"),
        lambda: root.open_input_file("missing"),
        lambda: copy_file(root, "missing", root, "b"),
        lambda: move_file(root, "missing", "b"),
    )
    for attempt in attempts:
        with pytest.raises(FileNotFoundError, match="missing"):
            attempt()
    assert paths(root) == ["a"]
    assert full_path(root, "missing").endswith("/sweeps/missing")


def test_files_are_copied_and_moved(location: str) -> None:
    first, second = (open_folder(join_location(location, name)) for name in ("first", "second"))
    for content in (b"old", b"new"):
        write_bytes(first, "a/b", content)
        copy_file(first, "a/b", second, "c/d")
    write_bytes(first, "a/b", b"later")
    assert read_bytes(second, "c/d") == b"new"
    move_file(second, "c/d", "e/f")
    assert (paths(second), read_bytes(second, "e/f")) == (["e/f"], b"new")


def test_folders_exist_once_something_is_in_them(location: str) -> None:
    assert not exists(location)
    assert make_folder(location)
    write_bytes(open_folder(location), "a/b", b"")
    assert not make_folder(location)
    assert exists(location)
    assert exists(join_location(location, "a"))
    assert exists(join_location(location, "a", "b"))
    assert not exists(join_location(location, "a", "c"))


def test_folder_made_on_a_disk_is_there(tmp_path: Path) -> None:
    assert make_folder(tmp_path / "a" / "b")
    assert not make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


# On a disk.


def test_copy_on_a_disk_is_a_hard_link_to_the_content(tmp_path: Path) -> None:
    root = open_folder(tmp_path)
    write_bytes(root, "a", b"1")
    (tmp_path / "symbolic").symlink_to("a")
    copy_file(root, "a", root, "b")
    copy_file(root, "symbolic", root, "c")
    assert not (tmp_path / "c").is_symlink()
    assert {(tmp_path / name).stat().st_ino for name in "bc"} == {(tmp_path / "a").stat().st_ino}


def test_copy_to_another_disk_has_bytes_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: Any) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", refuse)
    root = open_folder(tmp_path)
    write_bytes(root, "a", b"1")
    copy_file(root, "a", root, "b")
    (tmp_path / "a").write_bytes(b"2")
    assert read_bytes(root, "b") == b"1"
    monkeypatch.setattr(shutil, "copyfile", refuse)
    with pytest.raises(OSError, match="cross-device"):
        copy_file(root, "a", root, "c")
    assert paths(root) == ["a", "b"]


@pytest.mark.parametrize("name", ["write_bytes", "rename"])
def test_interrupted_write_leaves_the_old_file(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = open_folder(tmp_path)
    write_bytes(root, "a", b"old")

    def fail(path: Path, *_arguments: Any) -> None:
        assert is_temporary(str(path)), "the old file is not written into"
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Path, name, fail)
        with pytest.raises(Killed):
            write_bytes(root, "a", b"new")
    assert (read_bytes(root, "a"), paths(root)) == (b"old", ["a"])


# Requests that fail.


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between requests, which take no time; the clock goes by them alone."""
    found: list[float] = []
    monkeypatch.setattr(storage, "GAVE_UP", threading.Event())
    monkeypatch.setattr("time.sleep", found.append)
    monkeypatch.setattr("time.monotonic", lambda: sum(found))
    return found


def failing(error: Exception, times: float) -> Callable[[], str]:
    """A request that fails so often and then succeeds."""
    calls = [0]

    def request() -> str:
        calls[0] += 1
        if calls[0] <= times:
            raise error
        return "answer"

    return request


@pytest.mark.parametrize("error", [OSError("AWS Error NETWORK_CONNECTION"), ConnectionResetError(), TimeoutError()])
def test_request_is_repeated_with_growing_pauses(error: Exception, pauses: list[float]) -> None:
    assert retry(failing(error, 8)) == "answer"
    assert pauses == [0.5, 1, 2, 4, 8, 15, 15, 15]


def test_request_is_given_up_after_a_while_with_its_last_error(pauses: list[float]) -> None:
    error = OSError("AWS Error SLOW_DOWN")
    with pytest.raises(OSError) as found:
        retry(failing(error, float("inf")))
    assert found.value is error
    assert storage.RETRY_SECONDS - storage.LONGEST_PAUSE <= sum(pauses) <= storage.RETRY_SECONDS


def test_requests_after_one_that_was_given_up_are_made_once_until_one_succeeds(pauses: list[float]) -> None:
    error = OSError("AWS Error NETWORK_CONNECTION")
    for _ in range(3):
        with pytest.raises(OSError):
            retry(failing(error, float("inf")))
    assert sum(pauses) <= storage.RETRY_SECONDS
    pauses.clear()
    assert retry(failing(error, 0)) == retry(failing(error, 2)) == "answer"
    assert len(pauses) == 2


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file or directory"),
        PermissionError(),
        OSError("When writing: AWS Error ACCESS_DENIED during PutObject operation: Access Denied"),
        OSError("AWS Error NO_SUCH_BUCKET during CreateMultipartUpload operation"),
        ValueError("not of the storage"),
    ],
)
def test_error_that_stays_is_raised_at_once(error: Exception, pauses: list[float]) -> None:
    with pytest.raises(type(error)):
        retry(failing(error, 1))
    assert pauses == []


def test_missing_bucket_is_named_at_once(bucket: str, pauses: list[float]) -> None:
    root = open_folder(bucket.replace(f"//{BUCKET}/", "//elsewhere/"))
    for attempt in (lambda: write_bytes(root, "a", b"1"), lambda: root.create_dir("a")):
        with pytest.raises(OSError, match="'elsewhere'"):
            attempt()
    assert pauses == []


@pytest.mark.parametrize("named", ["key 'Bucket/NO_SUCH_BUCKET'", "bucket 'ACCESS_DENIED'", "'a' in HeadBucket"])
def test_names_in_a_message_do_not_decide_whether_a_request_is_repeated(named: str, pauses: list[float]) -> None:
    assert retry(failing(OSError(f"When reading {named}: AWS Error NETWORK_CONNECTION"), 2)) == "answer"
    assert len(pauses) == 2


class Flaky(fs.FileSystemHandler):  # type: ignore[misc]
    """A local file system that answers every third request only."""

    def __init__(self) -> None:
        self._disk, self._calls = fs.LocalFileSystem(), 0

    def _request(self) -> fs.LocalFileSystem:
        self._calls += 1
        if self._calls % 3:
            raise OSError("the bucket does not answer")
        return self._disk

    def get_type_name(self) -> str:
        return "flaky"

    def normalize_path(self, path: str) -> str:
        return str(self._disk.normalize_path(path))

    def get_file_info(self, names: list[str]) -> Any:
        return self._request().get_file_info(names)

    def get_file_info_selector(self, selector: fs.FileSelector) -> Any:
        return self._request().get_file_info(selector)

    def create_dir(self, path: str, recursive: bool) -> None:
        self._request().create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        self._request().delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self._request().delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        raise AssertionError

    def delete_file(self, path: str) -> None:
        self._request().delete_file(path)

    def move(self, src: str, dest: str) -> None:
        self._request().move(src, dest)

    def copy_file(self, src: str, dest: str) -> None:
        self._request().copy_file(src, dest)

    def open_input_stream(self, path: str) -> Any:
        return self._request().open_input_stream(path)

    def open_input_file(self, path: str) -> Any:
        return self._request().open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        return self._request().open_output_stream(path, metadata=metadata)

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise NotImplementedError


def test_bucket_that_often_does_not_answer_works_as_any_other(tmp_path: Path, pauses: list[float]) -> None:
    root = fs.SubTreeFileSystem(str(tmp_path), fs.PyFileSystem(PatientHandler(fs.PyFileSystem(Flaky()))))
    assert local_path(root) is None
    write_bytes(root, "a", b"1")
    assert read_bytes(root, "a") == b"1"
    with root.open_input_file("a") as file:
        assert file.read() == b"1"
    copy_file(root, "a", root, "b")
    assert paths(root) == ["a", "b"]
    move_file(root, "b", "c")
    delete_file(root, "a")
    assert (is_file(root, "a"), is_file(root, "c"), exists(root)) == (False, True, True)
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            read_bytes(root, "missing")
    with pytest.raises(FileNotFoundError):
        copy_file(root, "missing", root, "d")
    with pytest.raises(FileNotFoundError):
        move_file(root, "missing", "d")
    root.create_dir("folder")
    delete_folder(root, "folder")
    assert paths(root) == ["c"]
    assert len(pauses) > 10


def test_whole_bucket_is_never_deleted(bucket: str) -> None:
    root = open_folder(bucket)
    write_bytes(root, "a", b"1")
    with pytest.raises(PermissionError):
        root.base_fs.delete_dir_contents("", accept_root_dir=True)
    assert paths(root) == ["a"]


@pytest.mark.parametrize(
    ("location", "error"),
    [
        ("s3:/bucket/sweeps", "a URI must have two slashes after its scheme, got s3:/bucket/sweeps"),
        ("nonsense://a/b", "cannot open nonsense://a/b: "),
        (f"s3://b/x{QUERY}&endpoint_override=127.0.0.1:9", "cannot reach s3://b/x?"),  # nothing listens on this port
    ],
)
def test_mistaken_uri_is_one_line_at_once(location: str, error: str) -> None:
    began = time.monotonic()
    assert one_line_error(lambda: check_answer(location)).startswith(error)
    assert time.monotonic() - began < storage.RETRY_SECONDS / 2


def test_bucket_that_answers_and_any_path_are_no_mistake(bucket: str, tmp_path: Path) -> None:
    for location in (bucket, join_location(bucket, "not", "there"), tmp_path, "s3", "relative/s3:"):
        check_answer(location)


def test_a_home_folder_is_not_shown_also_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lustre").mkdir()
    (tmp_path / "home").symlink_to("lustre")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    text = " ".join(f"{tmp_path}/{name}" for name in ("home/x", "lustre/x", "home", "homes/x"))
    assert without_home(f"{text} file://{tmp_path}/home/x") == f"~/x ~/x ~ {tmp_path}/homes/x ~/x"
