"""A user's file of methods: its content, whether and in which module it is run, and the line at which one failed.

Records hold such contents, and whoever wrote a record chose them. A process runs a content only if the user named the
file, a record of the user's own holds it, the user trusts the record (`--trust-methods`), or a driver sent it to a
worker.
"""

import contextlib
import functools
import hashlib
import importlib.util
import linecache
import os
import sys
import traceback
import types
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtlib.runtime.errors import first_line
from mtlib.runtime.source_code import parsed_code, run_source
from mtlib.runtime.storage import Location, full_path, local_path, open_folder

MODULE_PREFIX = "methods_of_a_file_"
"""Beginning of the names of the modules in which files are run; the rest is a digest of name and content."""


@dataclass(frozen=True, kw_only=True)
class MethodFile:
    """A file by its content, which is all that is kept of it."""

    name: str
    """The file's name without its folder, for messages."""
    source: str

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, of its code as it is parsed: comments and docstrings change no number."""
        return hashlib.sha256(parsed_code(self.source).encode()).hexdigest()

    def __deepcopy__(self, _known: object) -> "MethodFile":
        """Returns itself: a copy must not count as content that a driver has sent."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles, for workers, as content that may be run: who can send a pickle can run code anyway."""
        return permitted, (self.name, self.source)


class UntrustedCodeError(ValueError):
    """Code would have to be run that is neither the user's nor trusted."""


WHY_NOT_RUN: dict[MethodFile, str] = {}
"""Why a content that this process has read must not be run; "" where it may be. What is not here is refused."""
TRUST: ContextVar[bool | None] = ContextVar("TRUST", default=False)
"""Whether code of records that are read now may be run whoever wrote them; None: not even the user's own."""


@contextlib.contextmanager
def trusting_methods(trust: bool | None = True) -> Iterator[None]:
    """Permits the code in records that are read meanwhile; with None not even the user's own; False changes nothing."""
    token = TRUST.set(TRUST.get() if trust is False else trust)
    try:
        yield
    finally:
        TRUST.reset(token)


def permitted(name: str, source: str) -> MethodFile:
    """Returns a file whose content this process may run."""
    file = MethodFile(name=name, source=source)
    WHY_NOT_RUN[file] = ""
    return file


def why_not_run(folder: Location, name: str) -> str:
    """Returns why code in a file must not be run, in a line; "" if it may be: the user owns the file, or trusts it."""
    place, trust, owner = full_path(open_folder(folder), name), TRUST.get(), other_owner(folder, name)
    if trust is None:
        return f"code in {place} is not run by this command"
    rule = f"code in {place} is run only if the file is yours, or with --trust-methods (in Python trust_methods=True)"
    return f"{rule}, got a file {owner}" if owner and not trust else ""


def other_owner(folder: Location, name: str) -> str:
    """Returns who owns a file, in words; "" if it is this user, or if files have no owners on this system."""
    path = local_path(folder)
    if path is None:
        return "in a bucket, where files have no owner"
    number = (path / name).stat().st_uid
    if not hasattr(os, "getuid") or number == os.getuid():
        return ""
    import pwd  # here: Windows has none

    try:
        return f"of {pwd.getpwuid(number).pw_name}"
    except KeyError:  # this machine does not know the user
        return f"of user {number}"


def permit_stored(tree: Any, folder: Location, name: str) -> None:
    """Decides whether contents in a record that has been read, as plain data, may be run; what may be already, may."""
    if files := list(stored_files(tree)):
        reason = why_not_run(folder, name)
        for file in files:
            WHY_NOT_RUN[file] = WHY_NOT_RUN.get(file, reason) and reason


def stored_files(tree: Any) -> Iterator[MethodFile]:
    """Yields the files of methods in plain data: each is a name and a source."""
    if (
        isinstance(tree, dict)
        and set(tree) == {"name", "source"}
        and all(isinstance(own, str) for own in tree.values())
    ):
        yield MethodFile(**tree)
    elif isinstance(tree, dict | list):
        for own in tree.values() if isinstance(tree, dict) else tree:
            yield from stored_files(own)


def read_method_file(path: Path) -> MethodFile:
    """Reads a file that the user names, which may be run; ValueError in one line if it cannot be read."""
    try:
        return permitted(path.name, importlib.util.decode_source(path.read_bytes()))
    except OSError as error:
        raise ValueError(f"--methods must be a file that can be read, got '{path}': {error.strerror}") from error
    except (SyntaxError, UnicodeDecodeError) as error:  # the file declares an unknown encoding, or has another one
        raise ValueError(f"{path}: {first_line(error)}") from error


@functools.cache
def run_method_file(file: MethodFile) -> types.ModuleType:
    """Returns the module of a file, which is run once in a process;
    ValueError with the line of the file where it stops, or why it must not be run (`UntrustedCodeError`).

    It stays registered, as dataclasses look it up.
    """
    if reason := WHY_NOT_RUN.get(file, f"code of {file.name} must be in a record of yours, got one of unknown origin"):
        raise UntrustedCodeError(reason)
    digest = hashlib.sha256(f"{file.name}\0{file.source}".encode()).hexdigest()
    module = types.ModuleType(f"{MODULE_PREFIX}{digest[:16]}")
    module.__file__ = file.name
    lines = file.source.splitlines(keepends=True)
    linecache.cache[file.name] = len(file.source), None, lines, file.name  # for tracebacks, also where it is not
    sys.modules[module.__name__] = module
    run_source(file.source, file.name, module)
    return module


def line_of_method(error: BaseException) -> str | None:
    """E.g. `my_methods.py, line 12`: the last line of such a file that an error passed through; None without."""
    places = [
        f"{frame.f_code.co_filename}, line {line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).startswith(MODULE_PREFIX)
    ]
    return places[-1] if places else None
