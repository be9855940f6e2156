"""The project's commands by the names that the user of this process types: scripts, or `multitask-sweeps COMMAND`."""

import re
import sys
from pathlib import Path

CONSOLE_COMMAND = "multitask-sweeps"
"""The command that `pip install` makes."""
DEFAULT_STORAGE = "~/multitask-sweeps"
"""Folder of all sweeps, unless `--storage` names another."""
SCRIPTS = {
    "run": "sweeps/run.py",
    "select": "results/selector.py",
    "predict": "results/predict.py",
    "distil": "sweeps/distil.py",
    "table": "results/table.py",
    "report": "results/report.py",
    "export": "sweeps/export.py",
    "status": "sweeps/status.py",
}
"""The script of each command of `multitask-sweeps`."""
TYPED_SCRIPT = re.compile(rf"(?<!-- )python ({'|'.join(map(re.escape, SCRIPTS.values()))})")
"""A script in a text; after `--` it is the command of a job on a cluster, which has the project's folder."""


def console_program() -> str | None:
    """Returns how this process was started if it is the one command for all: by its name or as a module;
    None for a script."""
    path = Path(sys.argv[0])
    if path.stem == CONSOLE_COMMAND:
        return CONSOLE_COMMAND
    return "python -m sweeps" if path.parts[-2:] == ("sweeps", "__main__.py") else None


def as_typed(text: str) -> str:
    """Returns a text with `python SCRIPT` replaced by what the user types,
    if this process is the one command for all."""
    program = console_program()
    if program is None:
        return text
    names = {script: name for name, script in SCRIPTS.items()}
    return TYPED_SCRIPT.sub(lambda found: f"{program} {names[found[1]]}", text)
