"""The commands that a user types next, as they are typed in the current folder."""

import shlex
from pathlib import Path

from mtlib.runtime.program_names import as_typed, console_program
from mtlib.runtime.storage import Location, absolute_location
from results.records.files import PROJECT_FOLDER


def resume_command(path: Location) -> str:
    """The command that resumes the sweep in a folder, wherever its storage is."""
    return f"{program('sweeps', 'run')} --resume {shlex.quote(absolute_location(path))}"


def report_command(path: Location) -> str:
    """Returns the command that writes the page of the sweep in a folder."""
    return f"{program('results', 'report')} {shlex.quote(absolute_location(path))}"


def selector_command(path: Location) -> str:
    """Returns the command that chooses ensembles of the sweep in a folder."""
    return f"{program('results', 'selector')} {shlex.quote(absolute_location(path))}"


def program(package: str, module: str) -> str:
    """Returns the command of a module; the current folder, where scripts are not found outside the project's,
    may be gone."""
    try:
        is_here = Path.cwd() == PROJECT_FOLDER
    except OSError:
        is_here = False
    if is_here or console_program() is not None:
        return as_typed(f"python {package}/{module}.py")
    return f"python -m {package}.{module}"
