"""One command for all, `multitask-sweeps run|select|...`, as `pip install` makes it."""

import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn

from mtlib.runtime.command_line import SUCCESS, WRONG_USE, print_error
from mtlib.runtime.console import show_lines
from mtlib.runtime.errors import require_name
from mtlib.runtime.program_names import CONSOLE_COMMAND, SCRIPTS, console_program
from sweeps.cluster.garbage_collection import collect_rarely

PURPOSES = {
    "run": "train every configuration of a search space, and rank them",
    "select": "choose an ensemble of trials for each task",
    "predict": "predict new text with what was chosen",
    "distil": "teach one model what the chosen ensembles know",
    "table": "print the answer and the ranking of a sweep",
    "report": "write a page about a sweep, or several: answers, figures, health",
    "export": "write a trial's weights so that transformers loads them",
    "status": "list the sweeps, running or ended, and what to type next",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command with its own arguments, those of this process if None, and returns its exit code."""
    name, *words = (sys.argv[1:] if arguments is None else arguments) or [""]
    if name in ("", "-h", "--help"):
        show_lines(help_lines(), sys.stderr if name == "" else sys.stdout)
        return WRONG_USE if name == "" else SUCCESS
    try:
        require_name(name, SCRIPTS, "command")
    except ValueError as error:
        print_error(error)
        return WRONG_USE
    # Loads no other command, so that each starts fast.
    code: int = importlib.import_module(SCRIPTS[name].removesuffix(".py").replace("/", ".")).main(words)
    return code


def help_lines() -> list[str]:
    """Returns the commands and what they do."""
    program = console_program() or CONSOLE_COMMAND
    width = max(map(len, PURPOSES))
    lines = (f"  {name:{width}}  {purpose}" for name, purpose in PURPOSES.items())
    return [f"usage: {program} COMMAND ... (COMMAND --help shows more)", "", "commands:", *lines]


def run_as_command() -> NoReturn:
    """Runs `main` and ends the process, as `sweeps.run` does where Ray was loaded."""
    collect_rarely()
    code = main()
    if "sweeps.cli.start" in sys.modules:
        from sweeps.cli.start import exit_process

        exit_process(code)
    sys.exit(code)


if __name__ == "__main__":
    run_as_command()
