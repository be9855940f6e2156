"""Folders on a disk of this machine, on a shared disk or in a bucket: opening them, and whole files in them.

A folder is named by a path or a URI (`s3://bucket/sweeps`, `gs://...`, `abfs://...`, `file:///...`), whose query goes
to pyarrow: `s3://bucket/sweeps?endpoint_override=host:9000&scheme=http`. A bucket has no renaming, no links, no locks
and no appending, and shows a file once it has been sent. So every file is written whole, a file that others depend on
is written before the file that names it, and nothing relies on a folder's existence.
"""

import errno
import functools
import os
import posixpath
import re
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.fs as fs

from mtlib.runtime.console import show_note
from mtlib.runtime.errors import BucketError, first_line, reason_of

Location: TypeAlias = str | Path | fs.SubTreeFileSystem
"""A folder: a path, a URI, or what `open_folder` returns."""

Answer = TypeVar("Answer")

TEMPORARY_SUFFIX = ".tmp"
"""Ending of hidden files that are being written, or were left by a kill."""
RETRY_SECONDS = 300.0
"""How long a bucket that does not answer, or answers with an error, is asked again: a restart of a server or a
network takes minutes, and a trial that is given up trains again from its last state."""
NOTE_SECONDS, NOTE_EVERY = 20.0, 60.0
"""Seconds after which a process says that it waits for a bucket, and between two such lines."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
"""Seconds between two requests: doubled from the first pause up to the longest."""
KEPT_FOLDERS: list[Path] = []
"""Folders that this process does not make again (`never_make_again`)."""
ONE_SLASH = re.compile(r"(s3|gs|gcs|abfss?|hdfs|file|https?):/(?!/)")
"""A path that begins as a URI with a slash too few does."""
SERVER_ERROR = re.compile(
    r"AWS Error (?P<name>[A-Z_]+)(?: \(HTTP status (?P<status>\d+)\))? during \w+ operation: "
    r"(?:Unable to parse ExceptionName: (?P<code>\w+) Message: )?(?:curlCode: \d+, )?(?P<text>.*?)"
    r"(?:; Details: .*)?\.?(?: \(Request ID: .*)?$",
    re.DOTALL,
)
"""What pyarrow makes of an answer of S3; its name of an error that it does not know is UNKNOWN."""
SERVER_WORDS = {
    "ACCESS_DENIED": "403 AccessDenied",
    "INTERNAL_FAILURE": "500 InternalError",
    "INVALID_ACCESS_KEY_ID": "403 InvalidAccessKeyId",
    "NETWORK_CONNECTION": "no answer",
    "NO_SUCH_BUCKET": "404 NoSuchBucket",
    "REQUEST_TIME_TOO_SKEWED": "403 RequestTimeTooSkewed",
    "SIGNATURE_DOES_NOT_MATCH": "403 SignatureDoesNotMatch",
    "SLOW_DOWN": "503 SlowDown",
}
"""S3's own words for pyarrow's names."""
FINAL_ERROR = re.compile(r"(301|400(?! RequestTimeout)|401|403|404)\b|Bucket '.*' not found")
"""Words of a server that waiting cannot change, such as those for credentials that have expired."""


@dataclass(kw_only=True)
class BucketWait:
    """How a process waits for its buckets."""

    since: float | None = None
    """When the first of the requests began that have failed since another succeeded, on the monotonic clock."""
    noted: float = -float("inf")
    """When a line was shown last."""
    show: Callable[[str], None] = show_note

    def note(self, text: str) -> None:
        """Shows a line, unless another was shown within `NOTE_EVERY`."""
        if time.monotonic() - self.noted >= NOTE_EVERY:
            self.noted = time.monotonic()
            with suppress(OSError):  # nobody reads the output
                self.show(text)


BUCKET_WAIT = BucketWait()
"""How this process waits."""


def open_folder(location: Location) -> fs.SubTreeFileSystem:
    """Returns the file system whose root is this folder, which need not exist yet;
    ValueError if nothing can open the URI.

    Requests to a bucket are repeated for `RETRY_SECONDS` before they fail.
    """
    if isinstance(location, fs.SubTreeFileSystem):
        return location
    if not is_uri(location):
        return fs.SubTreeFileSystem(str(expanded_path(location).absolute()), fs.LocalFileSystem())
    base, path = open_uri(str(location))
    return fs.SubTreeFileSystem(path, base)


@functools.lru_cache(maxsize=64)
def open_uri(uri: str) -> tuple[fs.FileSystem, str]:
    """Returns the file system of a URI, and the path in it; opening one may cost a request to the bucket."""
    try:
        base, path = fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"cannot open {uri}: {first_line(error)}") from None
    is_local = isinstance(base, fs.LocalFileSystem)
    return (base if is_local else fs.PyFileSystem(PatientHandler(base))), path


def check_location(location: str | Path) -> None:
    """Raises ValueError, in one line, if a URI lacks a slash or nothing can open it."""
    text = str(location)
    if ONE_SLASH.match(text) and not Path(text).exists():
        raise ValueError(f"a URI must have two slashes after its scheme, got {text}")
    open_folder(location)


def check_answer(location: str | Path) -> None:
    """Raises ValueError, in one line, as `check_location`, or if the bucket of a URI does not answer at once.

    Otherwise a command that begins would wait for it as long as a sweep that runs.
    """
    check_location(location)
    if local_path(location) is not None:
        return
    try:
        base, path = fs.FileSystem.from_uri(str(location))
        retry(lambda: base.get_file_info(path), "reading", path, seconds=0.0)
    except OSError as error:
        raise ValueError(f"cannot reach {location}: {first_line(error)}") from None


def subfolder(root: fs.SubTreeFileSystem, path: str) -> fs.SubTreeFileSystem:
    """Returns the file system whose root is a folder below another root."""
    return fs.SubTreeFileSystem(posixpath.join(root.base_path, path), root.base_fs)


def expanded_path(path: str | Path) -> Path:
    """Returns a path with a home folder in place of `~` or `~NAME`; ValueError where there is none, as for a user of a
    container who has neither HOME nor an entry in passwd."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        rule = "~ must stand for a home folder, which HOME or the list of users names"
        raise ValueError(f"{rule}, got {path}") from None


def is_uri(location: Location) -> bool:
    """Returns whether a folder is named by a URI."""
    return not isinstance(location, fs.SubTreeFileSystem) and "://" in str(location)


def absolute_location(location: str | Path) -> str:
    """Returns a folder as an absolute path; a URI as it is, without a slash at the end of its path."""
    if not is_uri(location):
        return str(expanded_path(location).resolve())
    path, mark, query = str(location).partition("?")
    return path.rstrip("/") + mark + query


def join_location(location: str | Path, *names: str) -> str:
    """Returns the location of a file or folder below another one; a URI keeps its query."""
    path, mark, query = absolute_location(location).partition("?") if is_uri(location) else (str(location), "", "")
    return posixpath.join(path, *names) + mark + query


def split_location(location: str | Path) -> tuple[str, str]:
    """Returns the location of the folder that holds a file or folder, and its name."""
    path, mark, query = absolute_location(location).partition("?") if is_uri(location) else (str(location), "", "")
    folder, name = posixpath.split(path.rstrip("/"))
    return folder + mark + query, name


def local_path(location: Location) -> Path | None:
    """Returns the absolute path of a file or folder; None if it is not on a disk of this machine."""
    root = open_folder(location)
    return Path(root.base_path) if isinstance(root.base_fs, fs.LocalFileSystem) else None


def is_away(location: Location) -> bool:
    """Returns whether a file or folder is in a bucket, and the last request to one failed."""
    return BUCKET_WAIT.since is not None and local_path(location) is None


def exists(location: Location) -> bool:
    """Returns whether there is a file or folder; in a bucket, a folder is one that holds something."""
    root = open_folder(location)
    return bool(root.base_fs.get_file_info(root.base_path.rstrip("/") or "/").type != fs.FileType.NotFound)


def make_folder(location: Location) -> bool:
    """Makes a folder and those above it; False if it was there. In a bucket, which has no folders, it only looks."""
    path = local_path(location)
    if path is None:
        return not exists(location)
    make_parents(path)
    try:
        path.mkdir()
    except FileExistsError:
        return False
    return True


def never_make_again(*folders: Location) -> None:
    """Declares, until the next call, folders that no write of this process makes again once they are renamed or
    removed: they would hold a part of their files."""
    KEPT_FOLDERS[:] = filter(None, map(local_path, folders))


def make_parents(path: Path) -> None:
    """Makes the folders above a file or folder; FileNotFoundError if one of `KEPT_FOLDERS` is gone."""
    for folder in KEPT_FOLDERS:
        if path.is_relative_to(folder) and not folder.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
    path.parent.mkdir(parents=True, exist_ok=True)


def full_path(root: fs.SubTreeFileSystem, path: str) -> str:
    """Full path of a file in the folder, for messages."""
    return posixpath.join(root.base_path, path)


def list_files(root: fs.SubTreeFileSystem, folder: str) -> list[fs.FileInfo]:
    """Returns every file at any depth under `folder` ("" for all), sorted by path; none where the folder is missing."""
    selector = fs.FileSelector(folder, recursive=True, allow_not_found=True)
    found = [info for info in root.get_file_info(selector) if info.type == fs.FileType.File]
    return sorted(found, key=lambda info: str(info.path))


def is_file(root: fs.SubTreeFileSystem, path: str) -> bool:
    """Returns whether there is a file at this path."""
    return bool(root.get_file_info(path).type == fs.FileType.File)


def read_bytes(root: fs.SubTreeFileSystem, path: str) -> bytes:
    """Returns a file's content; FileNotFoundError if there is none."""
    with root.open_input_stream(path) as stream:
        content: bytes = stream.readall()
    return content


def write_bytes(root: fs.SubTreeFileSystem, path: str, content: bytes) -> None:
    """Writes a file whole or not at all, and makes its folder.

    Raises:
        OSError: it cannot be written; an earlier file at this path stays.
    """
    if local_path(root) is None:

        def send() -> None:
            with root.open_output_stream(path) as stream:
                stream.write(content)

        retry(send, "writing", full_path(root, path))
    else:
        write_local(root, path, lambda temporary: temporary.write_bytes(content))


def write_local(root: fs.SubTreeFileSystem, path: str, write: Callable[[Path], object]) -> None:
    """Lets `write` write a temporary file on a disk, and renames it."""
    target = Path(root.base_path) / path
    make_parents(target)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}{TEMPORARY_SUFFIX}")
    try:
        write(temporary)
        temporary.rename(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def is_temporary(path: str) -> bool:
    """Returns whether a path is a temporary file of `write_bytes`."""
    name = posixpath.basename(path)
    return name.startswith(".") and name.endswith(TEMPORARY_SUFFIX)


def copy_file(source: fs.SubTreeFileSystem, path: str, target: fs.SubTreeFileSystem, new_path: str) -> None:
    """Copies a file within one file system; an existing target is replaced. Neither may be written into afterwards.

    On a disk it is a hard link where the file system has them. In a bucket the bytes do not travel.

    Raises:
        FileNotFoundError: there is no such file.
    """
    if local_path(source) is None:
        source.base_fs.copy_file(full_path(source, path), full_path(target, new_path))
        return
    original = (Path(source.base_path) / path).resolve(strict=True)  # a link to a symbolic link is not to its content

    def link(temporary: Path) -> None:
        try:
            os.link(original, temporary)
        except OSError:
            shutil.copyfile(original, temporary)

    write_local(target, new_path, link)


def move_file(root: fs.SubTreeFileSystem, path: str, new_path: str) -> None:
    """Renames a file, atomically on a disk; an existing target is replaced."""
    if local_path(root) is not None:
        make_parents(Path(root.base_path) / new_path)
    root.move(path, new_path)


def delete_file(root: fs.SubTreeFileSystem, path: str) -> None:
    """Deletes a file if it exists."""
    with suppress(FileNotFoundError):
        root.delete_file(path)


def delete_folder(root: fs.SubTreeFileSystem, path: str) -> None:
    """Deletes a folder and all that is in it, if it exists."""
    with suppress(FileNotFoundError):
        root.delete_dir(path)


def retry(request: Callable[[], Answer], doing: str, path: str, seconds: float = RETRY_SECONDS) -> Answer:
    """Makes a request to a bucket until it succeeds, with growing pauses, for `seconds` at most; `BUCKET_WAIT` says so.

    `doing` is what is done with the file or folder at `path`, such as `writing`. A bucket that is away costs a process
    this time once, not for each request.

    Raises:
        BucketError: the last request failed; at once if waiting cannot change the server's word.
        OSError: a file is missing.
    """
    bucket, _, key = path.partition("/")
    what, word, has_ended = f"{doing} {key or 'the root'} in bucket {bucket}", "no answer", threading.Event()
    began, pause = time.monotonic() if BUCKET_WAIT.since is None else BUCKET_WAIT.since, FIRST_PAUSE

    def say() -> None:
        pause = max(0.0, began + NOTE_SECONDS - time.monotonic())
        while not has_ended.wait(pause):
            BUCKET_WAIT.note(f"Waiting for a bucket for {time.monotonic() - began:.0f} s: {what}: {word}")
            pause = NOTE_EVERY

    threading.Thread(target=say, name="bucket", daemon=True).start()  # a request may last for minutes
    try:
        while True:
            started = time.monotonic()
            try:
                answer = request()
            except (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError):
                BUCKET_WAIT.since = None  # the server has answered
                raise
            except OSError as error:
                word, end = server_word(error), 2 * time.monotonic() - started + pause  # of another such request
                if FINAL_ERROR.match(word) or end > began + seconds:
                    BUCKET_WAIT.since = began
                    raise BucketError(f"{what}: {word}") from None
            else:
                BUCKET_WAIT.since = None
                return answer
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
    finally:
        has_ended.set()


def server_word(error: OSError) -> str:
    """Returns what a bucket's server has answered, such as `503 SlowDown: Reduce your request rate`."""
    found = SERVER_ERROR.search(str(error))
    if found is None:
        return reason_of(error)
    name = found["code"] or ("" if found["name"] == "UNKNOWN" else found["name"].title().replace("_", ""))
    word = SERVER_WORDS.get(found["name"]) or " ".join(filter(None, (found["status"], name)))
    text = " ".join(found["text"].split())
    if text == "No response body":  # only the status is known
        text = "bad request, as with credentials that have expired" if word == "400" else ""
    return f"{word}: {text}" if text else word


class PatientHandler(fs.FileSystemHandler):  # type: ignore[misc]
    """A bucket whose requests are repeated while they fail; pyarrow's own wait a few seconds."""

    def __init__(self, bucket: fs.FileSystem) -> None:
        self._bucket = bucket

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PatientHandler) and bool(self._bucket == other._bucket)

    def __hash__(self) -> int:
        return hash(self._bucket.type_name)

    def get_type_name(self) -> str:
        """As the bucket's own, such as `s3`."""
        return str(self._bucket.type_name)

    def normalize_path(self, path: str) -> str:
        """Returns the bucket's own form of a path."""
        return str(self._bucket.normalize_path(path))

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        """Returns what is at these paths."""
        return list(retry(lambda: self._bucket.get_file_info(paths), "reading", ", ".join(paths)))

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        """Returns what a folder holds."""
        return list(retry(lambda: self._bucket.get_file_info(selector), "listing", selector.base_dir))

    def create_dir(self, path: str, recursive: bool) -> None:
        """Makes a folder."""
        retry(lambda: self._bucket.create_dir(path, recursive=recursive), "making", path)

    def delete_dir(self, path: str) -> None:
        """Deletes a folder and what it holds."""
        retry(lambda: self._bucket.delete_dir(path), "deleting", path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        """Deletes what a folder holds."""
        retry(lambda: self._bucket.delete_dir_contents(path, missing_dir_ok=missing_dir_ok), "deleting", path)

    def delete_root_dir_contents(self) -> None:
        """No part of the project deletes a whole bucket."""
        raise PermissionError(errno.EPERM, "all of a bucket is never deleted")

    def delete_file(self, path: str) -> None:
        """Deletes a file."""
        retry(lambda: self._bucket.delete_file(path), "deleting", path)

    def move(self, src: str, dest: str) -> None:
        """Copies and deletes; FileNotFoundError if there is no such file."""
        retry(lambda: self._change(src, lambda: self._bucket.move(src, dest)), "moving", src)

    def copy_file(self, src: str, dest: str) -> None:
        """Copies within the bucket; FileNotFoundError if there is no such file."""
        retry(lambda: self._change(src, lambda: self._bucket.copy_file(src, dest)), "copying", src)

    def _change(self, source: str, change: Callable[[], None]) -> None:
        """Copies or moves a file; S3's error for a missing one does not say so by its class."""
        try:
            change()
        except OSError:
            if self._bucket.get_file_info(source).type == fs.FileType.NotFound:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source) from None
            raise

    def open_input_stream(self, path: str) -> Any:
        """Returns a file's content, fetched whole."""

        def fetch() -> pa.Buffer:
            with self._bucket.open_input_file(path) as file:  # one request; a stream makes one for each megabyte
                return file.read_buffer()

        return pa.PythonFile(pa.BufferReader(retry(fetch, "reading", path)), mode="r")

    def open_input_file(self, path: str) -> Any:
        """Returns a file for random access; only its opening is repeated."""
        return pa.PythonFile(retry(lambda: self._bucket.open_input_file(path), "reading", path), mode="r")

    def open_output_stream(self, path: str, metadata: dict[str, str]) -> Any:
        """Returns a stream whose content appears as a file once it is closed;
        `write_bytes` repeats a write that fails."""
        return pa.PythonFile(self._bucket.open_output_stream(path, metadata=metadata), mode="w")

    def open_append_stream(self, path: str, metadata: dict[str, str]) -> Any:
        """No bucket can append."""
        raise NotImplementedError("files are written whole")
