"""Search spaces by name, from a file of the user's own, which is run and not installed, or built in Python."""

import contextlib
import functools
import importlib
import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path

from mtlib.config.methods import BUILT_IN, Methods
from mtlib.data.files.suggestions import describe_folder
from mtlib.runtime.errors import require
from mtlib.runtime.source_code import naming_lines, run_source
from mtlib.runtime.storage import expanded_path
from mtlib.tasks import Task
from search_spaces.space import SearchSpace, load_space, space_names
from search_spaces.space_json import space_from_json, space_to_json
from search_spaces.task_fit import NO_CHANGES, Changes, fit_space

SUFFIX = ".py"
MAKER = "make_space"
"""Name of the function that makes a space for the data's tasks."""
METHODS = "methods"
"""Name of its second argument, if it has one."""
MODULE_NAME = "space_of_a_file"
"""Name of a file's module while it is run. Afterwards no module has this name: whatever is pickled for workers holds
what it needs of the file, so that workers do not import it."""


def find_space(
    asked: str | SearchSpace, tasks: Mapping[str, Task], changes: Changes = NO_CHANGES, methods: Methods = BUILT_IN
) -> tuple[SearchSpace, bytes | None]:
    """Returns a space for the data's tasks, as `fit_space`, and what is kept of it: nothing of a built-in one.

    `asked` is the name of a built-in space, the path of a file, or a space that was built in Python.

    Raises:
        ValueError: as `load_space`, `fit_space`, `run_space_file` and `space_to_json`.
    """
    if isinstance(asked, SearchSpace):
        check_own_name(asked, "a space that is built in Python")
        kept = space_to_json(asked)
        return fit_space(space_from_json(kept), None, tasks, changes, methods), kept
    if is_path(asked):
        kept = content_of(Path(asked))
        return run_space_file(asked, kept, tasks, changes, methods), kept
    file = Path(f"{asked}{SUFFIX}")
    is_file_meant = asked not in space_names() and file.is_file()
    require(not is_file_meant, "--space must be a name or a path", f"'{asked}'; did you mean '{file}'?")
    space = load_space(asked)
    make_space = getattr(importlib.import_module(f"search_spaces.questions.{asked}"), MAKER, None)
    return fit_space(space, make_space, tasks, changes, methods), None


def is_path(name: str) -> bool:
    """Returns whether a space is given by the path of its file: it has a separator or ends in .py."""
    return "/" in name or name.endswith(SUFFIX)


def resolve_name(name: str) -> str:
    """Returns a path made absolute, or the name of the built-in space that it leads to; a name as it is."""
    if not is_path(name):
        return name
    path = expanded_path(name).resolve()
    folder = Path(__file__).resolve().parent
    # Questions once stood beside this file; a path that names one there still leads to it.
    is_built_in = path.parent in (folder / "questions", folder) and path.stem in space_names()
    return path.stem if is_built_in else str(path)


def run_space_file(
    place: str, source: bytes, tasks: Mapping[str, Task], changes: Changes = NO_CHANGES, methods: Methods = BUILT_IN
) -> SearchSpace:
    """Runs the content of a Python file and returns the search space that it defines; `place` is for messages.

    The file defines `SPACE`, or `make_space(tasks)`, a function that returns the space for the data's tasks, or both:
    the function is then called unless the data has exactly the tasks of `SPACE`. A function with a second argument,
    `methods`, gets the methods that configurations may name, for `with_methods`. The file may import installed packages
    and `search_spaces`, but no file beside it: its content alone is kept.

    Raises:
        ValueError: one line with the path, and with the line of the file where there is one: the file cannot be run, it
            defines neither or more than one space, the name is that of a built-in space, or as `fit_space`.
    """
    module = types.ModuleType(MODULE_NAME)
    module.__file__ = place
    with registered(module):
        run_source(source, place, module)
    defined = vars(module)
    others = sorted(name for name, value in defined.items() if isinstance(value, SearchSpace) and name != "SPACE")
    found = f"{', '.join(others)}, a SearchSpace" if others else "no SearchSpace"
    rule = f"{place} must define SPACE, a SearchSpace, or {MAKER}(tasks), a function that returns one"
    require("SPACE" in defined or MAKER in defined, rule, found)
    require(not others, f"{place} must define one SearchSpace, SPACE", f"{', '.join(others)} too")
    make, space = defined.get(MAKER), defined.get("SPACE")
    require(MAKER not in defined or callable(make), f"{MAKER} in {place} must be a function", f"{make!r:.80}")
    if "SPACE" in defined:
        check_is_space(space, f"SPACE in {place}")
    if make is not None and METHODS in inspect.signature(make).parameters:
        make = functools.partial(make, **{METHODS: methods})
    with registered(module), naming_lines(place):
        fitted = fit_space(space, make, tasks, changes, methods)
    check_is_space(fitted, f"what {MAKER} in {place} returns")
    check_own_name(fitted, f"the space in {place}")
    return fitted


def check_own_name(space: SearchSpace, what: str) -> None:
    """Raises ValueError if a space of the user's own has the name of a built-in one."""
    require(
        space.name not in space_names(), f"{what} must have a name that no built-in space has", f"name='{space.name}'"
    )


def check_is_space(space: object, what: str) -> None:
    """Raises ValueError if something is no search space; workers lack the class of any other."""
    if type(space) is not SearchSpace:
        raise ValueError(f"{what} must be a SearchSpace, got {type(space).__name__} {space!r:.80}")


def content_of(path: Path) -> bytes:
    """Returns the content of a file; ValueError names the files that are there if it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        built_in = f"did you mean '{path.stem}', a built-in space? " if path.stem in space_names() else ""
        hint = built_in + describe_folder(path.parent, (SUFFIX,))
        raise ValueError(f"--space must be a file that exists, got '{path}'; {hint}") from None
    except OSError as error:
        raise ValueError(f"--space must be a file that can be read, got '{path}': {error.strerror}") from error


@contextlib.contextmanager
def registered(module: types.ModuleType) -> Iterator[None]:
    """While a file's code runs, its module can be found by name, as dataclasses need."""
    sys.modules[MODULE_NAME] = module
    try:
        yield
    finally:
        del sys.modules[MODULE_NAME]
