"""One command for all, `multitask-sweeps run|select|...`, as `pip install` makes it."""

import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn

from mtlib.runtime.command_line import SUCCESS, WRONG_USE, print_error
from mtlib.runtime.console import show_lines
from mtlib.runtime.errors import require_name
from mtlib.runtime.program_names import COMMANDS, CONSOLE_SCRIPT, console_program
from sweeps.cluster.garbage_collection import collect_rarely


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command with its own arguments, those of this process if None, and returns its exit code."""
    name, *words = (sys.argv[1:] if arguments is None else arguments) or [""]
    if name in ("", "-h", "--help"):
        show_lines(help_lines(), sys.stderr if name == "" else sys.stdout)
        return WRONG_USE if name == "" else SUCCESS
    try:
        require_name(name, COMMANDS, "command")
    except ValueError as error:
        print_error(error)
        return WRONG_USE
    script, _ = COMMANDS[name]
    # Loads no other command, so that each starts fast.
    code: int = importlib.import_module(script.removesuffix(".py").replace("/", ".")).main(words)
    return code


def help_lines() -> list[str]:
    """Returns the commands and what they do."""
    program = console_program() or CONSOLE_SCRIPT
    width = max(map(len, COMMANDS))
    lines = (f"  {name:{width}}  {purpose}" for name, (_, purpose) in COMMANDS.items())
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
