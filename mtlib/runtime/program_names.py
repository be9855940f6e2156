"""How this process was started: what its user types for each command, and where a script imports from."""

import shlex
import sys
from pathlib import Path

from mtlib.runtime.errors import require

CONSOLE_SCRIPT = "multitask-sweeps"
"""The one command for all, which `pip install` makes."""
MODULE = "python -m sweeps"
"""The same in any folder where the packages can be imported, also where no `pip install` made the command."""
DEFAULT_STORAGE = "~/multitask-sweeps"
"""Folder of all sweeps, unless `--storage` names another."""
PROJECT_FOLDER = Path(__file__).resolve().parents[2]
"""Folder of the four packages."""
COMMANDS = {
    "run": ("sweeps/run.py", "train every configuration of a search space, and rank them"),
    "select": ("results/selector.py", "choose an ensemble of trials for each task"),
    "predict": ("results/predict.py", "predict new text with what was chosen"),
    "distil": ("sweeps/distil.py", "teach one model what the chosen ensembles know"),
    "table": ("results/table.py", "print the answer and the ranking of a sweep"),
    "report": ("results/report.py", "write a page about a sweep, or several: answers, figures, health"),
    "export": ("sweeps/export.py", "write a trial's weights so that transformers loads them"),
    "status": ("sweeps/status.py", "list the sweeps, running or ended, and what to type next"),
}
"""The script and the purpose of each command, by its name after `multitask-sweeps`."""


def console_program() -> str | None:
    """Returns the one command for all, or the module that is it, if it started this process; None otherwise."""
    path = Path(sys.argv[0])
    if path.stem == CONSOLE_SCRIPT:
        return CONSOLE_SCRIPT
    return MODULE if path.parts[-2:] == ("sweeps", "__main__.py") else None


def typed_command(name: str) -> str:
    """Returns what the user of this process types for a command: a script in the project's folder alone."""
    program = console_program()
    if program is None and PROJECT_FOLDER.samefile("."):
        return f"python {COMMANDS[name][0]}"
    return f"{program or MODULE} {name}"


def import_from_project() -> None:
    """Lets a script of the project import from the project's folder in place of its own, whose files, such as
    `results/table.py`, would hide modules of the same name; Ray's workers get the driver's path.

    Raises:
        ValueError: the script lies in another checkout than the packages that were imported.
    """
    script = Path(sys.argv[0]).resolve()
    folder = script.parent.parent
    is_checkout = (folder / "mtlib").is_dir()  # else a user's own script has the same name
    if not is_checkout or script not in [folder / path for path, _ in COMMANDS.values()]:
        return
    rule = f"{script} must run with the packages beside it (pip install -e {shlex.quote(str(folder))})"
    require(folder == PROJECT_FOLDER, rule, f"the installed ones of {PROJECT_FOLDER}")
    if Path(sys.path[0]).resolve() == script.parent:
        sys.path[0] = str(PROJECT_FOLDER)
