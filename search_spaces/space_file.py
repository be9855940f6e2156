"""Search spaces by name or from a file of the user's own, which is run once and not installed."""

import importlib.util
import sys
import traceback
import types
from pathlib import Path

from mtlib.data.file_suggestions import describe_missing
from mtlib.runtime.errors import first_line, require
from search_spaces.space import SearchSpace, load_space, space_names

SUFFIX = ".py"
MODULE_NAME = "space_of_a_file"
"""Name of a file's module while it is run. Afterwards no module has this name: whatever is pickled for workers holds
what it needs of the file, so that workers do not import it."""


def find_space(name: str) -> tuple[SearchSpace, bytes | None]:
    """A built-in space by its name, or the space in a file by its path, with the file's content.

    Raises:
        ValueError: as `load_space` and `read_space_file`.
    """
    if is_path(name):
        return read_space_file(Path(name))
    file = Path(f"{name}{SUFFIX}")
    is_file_meant = name not in space_names() and file.is_file()
    require(not is_file_meant, "--space must be a name or a path", f"'{name}'; did you mean '{file}'?")
    return load_space(name), None


def is_path(name: str) -> bool:
    """Whether a space is given by the path of its file: it has a separator or ends in .py."""
    return "/" in name or name.endswith(SUFFIX)


def resolve_name(name: str) -> str:
    """A path made absolute, or the name of the built-in space that it leads to; a name as it is."""
    if not is_path(name):
        return name
    path = Path(name).expanduser().resolve()
    is_built_in = path.parent == Path(__file__).resolve().parent and path.stem in space_names()
    return path.stem if is_built_in else str(path)


def read_space_file(path: Path) -> tuple[SearchSpace, bytes]:
    """Runs a Python file and returns the search space that it defines, and the file's content.

    The file may import installed packages and `search_spaces`, but no file beside it: its content alone is kept.

    Raises:
        ValueError: one line with the path, and with the line of the file where there is one: the file cannot be read or
            run, or it does not define exactly one search space, `SPACE`, under a name that no built-in space has.
    """
    source = content_of(path)
    defined = run_source(source, path)
    others = sorted(name for name, value in defined.items() if isinstance(value, SearchSpace) and name != "SPACE")
    found = f"{', '.join(others)}, a SearchSpace" if others else "no SearchSpace"
    require("SPACE" in defined, f"{path} must define SPACE, a SearchSpace", found)
    space = defined["SPACE"]
    if type(space) is not SearchSpace:  # workers lack the class of any other
        raise ValueError(f"SPACE in {path} must be a SearchSpace, got {type(space).__name__} {space!r:.80}")
    require(not others, f"{path} must define one SearchSpace, SPACE", f"{', '.join(others)} too")
    rule = f"the space in {path} must have a name that no built-in space has"
    require(space.name not in space_names(), rule, f"name='{space.name}'")
    return space, source


def content_of(path: Path) -> bytes:
    """The content of a file; ValueError names the files that are there if it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        built_in = f"did you mean '{path.stem}', a built-in space? " if path.stem in space_names() else ""
        hint = built_in + describe_missing(path.parent, [path.name], suffixes=(SUFFIX,))
        raise ValueError(f"--space must be a file that exists, got '{path}'; {hint}") from None
    except OSError as error:
        raise ValueError(f"--space must be a file that can be read, got '{path}': {error.strerror}") from error


def run_source(source: bytes, path: Path) -> dict[str, object]:
    """What a file defines, by name; ValueError with the line of the file where it stops."""
    code = compile_source(source, path)
    module = types.ModuleType(MODULE_NAME)
    module.__file__ = str(path)
    sys.modules[MODULE_NAME] = module  # dataclasses look it up
    try:
        exec(code, vars(module))
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        raise ValueError(f"{path}, line {lines[-1]}: {kind}{first_line(error)}") from error
    finally:
        del sys.modules[MODULE_NAME]
    return vars(module)


def compile_source(source: bytes, path: Path) -> types.CodeType:
    """The code of a file; ValueError with the line that is no Python."""
    try:
        return compile(importlib.util.decode_source(source), str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        place = f"{path}, line {error.lineno}" if error.lineno else path
        raise ValueError(f"{place}: {type(error).__name__}: {error.msg}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {first_line(error)}") from error
