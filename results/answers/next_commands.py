"""The commands that a user types next, as they are typed in the current folder."""

import shlex

from mtlib.runtime.program_names import typed_command
from mtlib.runtime.storage import Location, absolute_location


def resume_command(path: Location) -> str:
    """The command that resumes the sweep in a folder, wherever its storage is."""
    return f"{typed_command('run')} --resume {shlex.quote(absolute_location(path))}"


def report_command(path: Location) -> str:
    """Returns the command that writes the page of the sweep in a folder."""
    return f"{typed_command('report')} {shlex.quote(absolute_location(path))}"


def selector_command(path: Location) -> str:
    """Returns the command that chooses ensembles of the sweep in a folder."""
    return f"{typed_command('select')} {shlex.quote(absolute_location(path))}"
