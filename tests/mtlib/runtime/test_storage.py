"""Folders of a disk and a bucket behave alike: files are whole, missing ones named, failing requests repeated."""

import errno
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pyarrow.fs as fs
import pytest

from mtlib.runtime import storage
from mtlib.runtime.errors import BucketError
from mtlib.runtime.storage import (
    BucketWait,
    PatientHandler,
    absolute_location,
    check_answer,
    copy_file,
    delete_file,
    delete_folder,
    exists,
    expanded_path,
    is_away,
    is_file,
    is_temporary,
    join_location,
    list_files,
    local_path,
    make_folder,
    move_file,
    never_make_again,
    open_folder,
    read_bytes,
    retry,
    server_word,
    split_location,
    subfolder,
    write_bytes,
)
from tests.gate import open_gate
from tests.killed import Killed
from tests.one_line_error import one_line_error
from tests.s3_server import BUCKET, uri_of


def paths(root: fs.SubTreeFileSystem, folder: str = "") -> list[str]:
    return [info.path for info in list_files(root, folder)]


# Names.


@pytest.mark.parametrize(
    ("start", "query"),
    [("/disk/a?b", ""), ("s3://bucket/sweeps", ""), ("s3://bucket/sweeps", "?scheme=http&region=x")],
)
def test_names_join_and_split(start: str, query: str) -> None:
    joined = join_location(start + query, "first", "trials")
    assert joined == f"{start}/first/trials{query}"
    assert split_location(joined) == (f"{start}/first{query}", "trials")
    if start.startswith("s3"):  # a slash at the end does not matter
        assert absolute_location(f"{start}/{query}") == start + query
        assert join_location(f"{start}/{query}", "a") == f"{start}/a{query}"


def test_paths_become_absolute_and_a_file_uri_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_location("sweeps") == str(tmp_path / "sweeps")
    assert absolute_location("~/sweeps") == str(Path.home().resolve() / "sweeps")
    assert local_path("sweeps") == local_path((tmp_path / "sweeps").as_uri()) == tmp_path / "sweeps"
    write_bytes(open_folder((tmp_path / "sweeps").as_uri()), "a", b"1")
    assert read_bytes(open_folder("sweeps"), "a") == b"1"


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
    assert exists(location) == (local_path(location) is not None)
    write_bytes(open_folder(location), "a/b", b"")
    assert not make_folder(location)
    assert [exists(join_location(location, *names)) for names in ((), "a", "ab", "ac")] == [True, True, True, False]


# On a disk.


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
    monkeypatch.setattr(storage, "BUCKET_WAIT", BucketWait())
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


@pytest.mark.parametrize("error", [OSError("reading 'ACCESS_DENIED': AWS Error NETWORK_CONNECTION"), TimeoutError()])
def test_request_is_repeated_with_growing_pauses(error: Exception, pauses: list[float]) -> None:
    assert retry(failing(error, 8), "writing", "b/k") == "answer"
    assert pauses == [0.5, 1, 2, 4, 8, 15, 15, 15]


def test_request_is_given_up_after_a_while_and_later_ones_are_made_once_until_one_succeeds(pauses: list[float]) -> None:
    error = server_error("AWS Error SLOW_DOWN during PutObject")
    for _ in range(3):
        with pytest.raises(BucketError, match=r"^writing k in bucket b: 503 SlowDown$"):
            retry(failing(error, float("inf")), "writing", "b/k")
        assert storage.RETRY_SECONDS - storage.LONGEST_PAUSE <= sum(pauses) <= storage.RETRY_SECONDS
    pauses.clear()
    assert retry(failing(error, 0), "writing", "b/k") == retry(failing(error, 2), "writing", "b/k") == "answer"
    assert len(pauses) == 2


def server_error(text: str) -> OSError:
    """An error of S3 in pyarrow's words."""
    return OSError(f"When writing key 'k' in bucket 'b': {text} operation: No response body.")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PermissionError("no"), "no"),
        (server_error("AWS Error ACCESS_DENIED during HeadObject"), "403 AccessDenied"),
        (server_error("AWS Error UNKNOWN (HTTP status 400) during HeadObject"), "400: bad request, as with .* expired"),
        (server_error("AWS Error UNKNOWN (HTTP status 301) during HeadObject"), "301"),
        (OSError("Bucket 'b' not found. To create buckets, enable"), "Bucket 'b' not found. To create .*"),
    ],
)
def test_error_that_stays_is_raised_at_once(error: Exception, line: str, pauses: list[float]) -> None:
    with pytest.raises(OSError, match=f"^(writing k in bucket b: )?{line}$"):
        retry(failing(error, 1), "writing", "b/k")
    assert pauses == []


@pytest.mark.parametrize("code", ["400 ExpiredToken", "403 InvalidToken", "403 AccessDenied", "404 NoSuchBucket"])
def test_error_of_a_server_that_waiting_cannot_change_is_one_line_at_once(
    s3_address: str, pauses: list[float], code: str
) -> None:
    with open_gate(s3_address) as gate:
        root, gate.answer = open_folder(uri_of(gate.address, "sweep")), code
        with pytest.raises(BucketError) as found:
            write_bytes(root, "trials/a", b"1")
    assert str(found.value) == f"writing sweep/trials/a in bucket {BUCKET}: {code}: About {code[4:]}"
    assert found.value.errno == errno.EIO, "no sign of a damaged file"
    assert [is_away(root), is_away("/disk")] == [True, False]
    assert pauses == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("SLOW_DOWN during PutObject operation: Slow down. (Request ID: 1)", "503 SlowDown: Slow down"),
        ("UNKNOWN (HTTP status 502) during HeadObject operation: No response body.", "502"),
        (
            "UNKNOWN (HTTP status 429) during PutObject operation: "
            "Unable to parse ExceptionName: TooManyRequests Message: Wait. (Request ID: 1)",
            "429 TooManyRequests: Wait",
        ),
        (
            "NETWORK_CONNECTION during PutObject operation: curlCode: 7, Could not connect; Details: Failed after 0 ms",
            "no answer: Could not connect",
        ),
        ("REQUEST_TIMEOUT during PutObject operation: Idle.", "RequestTimeout: Idle"),
    ],
)
def test_word_of_a_server_that_is_asked_again_has_nothing_of_pyarrow(text: str, word: str, pauses: list[float]) -> None:
    error = OSError(f"When writing key 'k' in bucket 'b': AWS Error {text}")
    assert server_word(error) == word
    assert retry(failing(error, 1), "writing", "b/k") == "answer"
    assert len(pauses) == 1


def test_process_that_waits_for_a_bucket_says_so_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, shown = list[str](), threading.Event()

    def show(line: str) -> None:
        lines.append(line)
        shown.set()

    wait = BucketWait(show=show)
    monkeypatch.setattr(storage, "BUCKET_WAIT", wait)
    monkeypatch.setattr(storage, "NOTE_SECONDS", 0.0)
    for _ in range(2):
        assert retry(shown.wait, "writing", "b/trials/a")
    wait.note("too soon")
    (line,) = lines
    assert re.fullmatch(r"Waiting for a bucket for \d+ s: writing trials/a in bucket b: no answer", line)
    wait.noted -= storage.NOTE_EVERY
    wait.note("a minute later")
    assert lines[1:] == ["a minute later"]


def test_missing_bucket_is_named_at_once(bucket: str, pauses: list[float]) -> None:
    root = open_folder(bucket.replace(f"//{BUCKET}/", "//elsewhere/"))
    for attempt in (lambda: write_bytes(root, "a", b"1"), lambda: root.create_dir("a")):
        with pytest.raises(BucketError, match="in bucket elsewhere: "):
            attempt()
    assert pauses == []


class Flaky:
    """The local file system, which answers only every so many requests."""

    type_name = "flaky"

    def __init__(self, every: float) -> None:
        self._every, self._calls = every, 0
        self.normalize_path = fs.LocalFileSystem().normalize_path

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def request(*arguments: Any, **options: Any) -> Any:
            self._calls += 1
            if self._calls % self._every:
                raise OSError("the bucket does not answer")
            return getattr(fs.LocalFileSystem(), name)(*arguments, **options)

        return request


def test_bucket_that_often_does_not_answer_works_as_any_other(tmp_path: Path, pauses: list[float]) -> None:
    root = fs.SubTreeFileSystem(str(tmp_path), fs.PyFileSystem(PatientHandler(cast(Any, Flaky(3)))))
    write_bytes(root, "a", b"1")
    assert read_bytes(root, "a") == b"1"
    with root.open_input_file("a") as file:
        assert file.read() == b"1"
    copy_file(root, "a", root, "b")
    assert paths(root) == ["a", "b"]
    with pytest.raises(FileNotFoundError):
        copy_file(root, "missing", root, "c")
    delete_file(root, "a")
    assert paths(root) == ["b"]
    assert len(pauses) > 5


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
    ],
)
def test_mistaken_uri_is_one_line(location: str, error: str) -> None:
    assert one_line_error(check_answer, location).startswith(error)


@pytest.mark.parametrize("path", ["~/sweeps", "~", "~no_such_user/data"])
def test_a_home_folder_that_is_unknown_is_one_line_where_it_is_named(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", Mock(side_effect=KeyError))
    for error in (one_line_error(open_folder, path), one_line_error(absolute_location, path)):
        assert error.endswith(f"got {path}")
    assert absolute_location("/data") == str(expanded_path("/data")) == "/data"


def test_folders_that_are_kept_are_not_made_again_by_a_write(tmp_path: Path) -> None:
    root, kept = open_folder(tmp_path), tmp_path / "first"
    write_bytes(root, "first/one", b"1")
    never_make_again(kept)
    kept.rename(tmp_path / "elsewhere")
    for write in (lambda: write_bytes(root, "first/a/two", b"2"), lambda: make_folder(kept)):
        with pytest.raises(FileNotFoundError):
            write()
    write_bytes(root, "first-b/three", b"3")
    assert not kept.exists()
    never_make_again()
    write_bytes(root, "first/one", b"1")
