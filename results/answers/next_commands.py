"""The commands that a user types next, as they are typed in the current folder."""

import shlex

from mtlib.runtime.program_names import typed_command
from mtlib.runtime.storage import Location, absolute_location
from results.records.trials import trust_flag


def resume_command(path: Location) -> str:
    """The command that resumes the sweep in a folder, wherever its storage is."""
    return f"{typed_command('run')} --resume {typed_place(path)}"


def report_command(path: Location) -> str:
    """Returns the command that writes the page of the sweep in a folder."""
    return f"{typed_command('report')} {typed_place(path)}"


def selector_command(path: Location) -> str:
    """Returns the command that chooses ensembles of the sweep in a folder."""
    return f"{typed_command('select')} {typed_place(path)}"


def table_command(path: Location) -> str:
    """Returns the command that prints the ranking of the sweep in a folder."""
    return f"{typed_command('table')} {typed_place(path)}"


def typed_place(path: Location) -> str:
    """Returns a sweep's folder as it is typed, with --trust-methods where its code is not run without."""
    return f"{shlex.quote(absolute_location(path))}{trust_flag(path)}"
