"""The command that trains every configuration of a search space and ranks them; `--help` shows how.

Exit codes: 0 all trials ended well, 1 the sweep failed, 2 wrong use, 3 some trials failed, 4 a limit was reached, 130
interrupted.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType

if __name__ == "__main__":

    def say_interrupted(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Shows what ends the program as Python does, but for Ctrl-C while the imports below run: that is one line."""
        if issubclass(kind, KeyboardInterrupt):
            sys.stderr.write("interrupted\n")
        else:
            sys.__excepthook__(kind, error, trace)

    sys.excepthook = say_interrupted

from mtlib.config.methods import Methods, read_methods
from mtlib.data.load import data_tasks
from mtlib.model.hub import read_encoder_name
from mtlib.runtime.command_line import parse_words
from mtlib.runtime.console import output_width, show_lines
from mtlib.tasks import Task
from search_spaces.space import grid_trials, list_spaces
from search_spaces.space_file import find_space, resolve_name
from sweeps.cli.arguments import build_parser, given_options, read_settings
from sweeps.cli.start import command_line, exit_code_of, exit_process, print_only, run_given
from sweeps.cluster.garbage_collection import collect_rarely
from sweeps.options import ENCODER_KEY
from sweeps.plan.given_options import check_data_folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line, that of this process if None, and returns the exit code; a user's mistake is one line."""
    words = sys.argv[1:] if arguments is None else list(arguments)

    def run() -> int:
        parsed = parse_words(build_parser(), words)
        if parsed.list_spaces:
            return print_only(lambda: show_lines(space_lines(parsed)))
        if parsed.list_keys:
            return print_only(lambda: show_keys(parsed))
        return run_given(given_options(parsed), command_line("sweeps/run.py", words))

    return exit_code_of(run)


def space_lines(parsed: argparse.Namespace) -> list[str]:
    """Returns every built-in search space with its size and question, or the one of --space alone, for the tasks of
    --data."""
    methods, tasks = methods_and_tasks(parsed)
    name = parsed.space
    spaces = list_spaces() if name is None else [find_space(resolve_name(name), tasks, methods=methods)[0]]
    width = max(len(space.name) for space in spaces)
    sizes = {space.name: f"{len(grid_trials(space))} on the grid" if space.grid else "ranges only" for space in spaces}
    return [f"{space.name:{width}}  {sizes[space.name]:>14}  {space.question}" for space in spaces]


def methods_and_tasks(parsed: argparse.Namespace) -> tuple[Methods, Mapping[str, Task]]:
    """Returns the methods of --methods, and the definitions of the tasks of --data."""
    methods = read_methods(parsed.methods)
    return methods, data_tasks(None if parsed.data is None else check_data_folder(parsed.data), methods.own_metrics)


def show_keys(parsed: argparse.Namespace) -> None:
    """Prints every key of the base configuration of --space, or of general settings, with --encoder and --set."""
    from mtlib.config.trial import with_methods  # here: --help and --list-spaces answer at once
    from search_spaces.presets import general
    from search_spaces.set_values import expand_keys
    from search_spaces.task_fit import chosen_tasks
    from sweeps.cli.keys import key_lines

    changes, methods, tasks = read_settings(parsed.set), *methods_and_tasks(parsed)
    if parsed.space is None:
        base = with_methods(general(chosen_tasks(tasks, changes)), methods)
    else:
        base = find_space(resolve_name(parsed.space), tasks, changes, methods)[0].base
    encoder = {} if parsed.encoder is None else {ENCODER_KEY: read_encoder_name(parsed.encoder)}
    show_lines(key_lines(base.override({**encoder, **expand_keys(changes, base)}), output_width()))


if __name__ == "__main__":
    collect_rarely()
    exit_process(main())
