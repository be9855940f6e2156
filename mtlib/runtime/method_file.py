"""A user's file of methods: its content, the module in which it is run, and the line at which one of them failed."""

import functools
import hashlib
import importlib.util
import linecache
import sys
import traceback
import types
from dataclasses import dataclass
from pathlib import Path

from mtlib.runtime.errors import first_line
from mtlib.runtime.source_code import parsed_code, run_source

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


def read_method_file(path: Path) -> MethodFile:
    """Reads a file; ValueError in one line if it cannot be read."""
    try:
        return MethodFile(name=path.name, source=importlib.util.decode_source(path.read_bytes()))
    except OSError as error:
        raise ValueError(f"--methods must be a file that can be read, got '{path}': {error.strerror}") from error
    except (SyntaxError, UnicodeDecodeError) as error:  # the file declares an unknown encoding, or has another one
        raise ValueError(f"{path}: {first_line(error)}") from error


@functools.cache
def run_method_file(file: MethodFile) -> types.ModuleType:
    """Returns the module of a file, which is run once in a process;
    ValueError with the line of the file where it stops.

    It stays registered, as dataclasses look it up.
    """
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
