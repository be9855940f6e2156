"""The command that trains every configuration of a search space and ranks them; `--help` shows how.

Exit codes: 0 all trials ended well, 1 the sweep failed, 2 wrong use, 3 some trials failed, 4 a limit was reached, 130
interrupted.
"""

import argparse
import contextlib
import errno
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import NoReturn

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
from mtlib.runtime.command_line import (
    INTERRUPTED,
    SUCCESS,
    WRONG_USE,
    discard_output,
    parse_words,
    prepare_output,
    print_error,
    print_method_error,
)
from mtlib.runtime.console import output_width, show_lines, wrapped
from mtlib.runtime.program_names import import_from_project
from mtlib.tasks import Task
from search_spaces.space import grid_trials, list_spaces
from search_spaces.space_file import find_space, resolve_name
from sweeps.cli.arguments import SWEEP_FAILED, build_parser, check_data_folder, find_options, read_settings
from sweeps.cluster.garbage_collection import collect_rarely
from sweeps.cluster.ray_settings import stay_on_loopback
from sweeps.options import ENCODER_KEY, SweepOptions


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line, that of this process if None, and returns the exit code; a user's mistake is one line."""
    arguments = sys.argv[1:] if arguments is None else arguments
    prepare_output()
    try:
        import_from_project()
        parsed = parse_words(build_parser(), arguments)
        if parsed.list_spaces:
            return print_only(lambda: show_lines(space_lines(parsed)))
        if parsed.list_keys:
            return print_only(lambda: show_keys(parsed))
        with contextlib.ExitStack() as cluster:
            options = find_options(parsed, os.environ.get("RAY_ADDRESS"), cluster)
            if options.dry_run:
                return print_only(lambda: show_dry_run(options))

            if options.address is None:
                stay_on_loopback()
            from sweeps.cli.listeners import printing_listener
            from sweeps.driver.whole_sweep import run_or_resume

            return run_or_resume(options, printing_listener(), arguments).exit_code
    except ValueError as error:
        print_error(error)
        return WRONG_USE
    except BrokenPipeError:
        discard_output()
        with contextlib.suppress(BrokenPipeError):  # `2>&1 | head` has closed both
            show_lines(["interrupted: standard output was closed; --resume continues what has begun"], sys.stderr)
        return INTERRUPTED
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "the disk is full" if is_full else "a file or the network cannot be used"
        show_lines([f"error: {what}: {error}; continue with --resume once it can"], sys.stderr)
        return SWEEP_FAILED
    except KeyboardInterrupt:
        show_lines(["interrupted"], sys.stderr)
        return INTERRUPTED
    except Exception as error:
        print_method_error(error)
        return WRONG_USE


def print_only(print_all: Callable[[], None]) -> int:
    """Runs a command that only prints; a reader that stops early, such as `head`, is no error."""
    try:
        print_all()
    except BrokenPipeError:
        discard_output()
    return SUCCESS


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


# Imports are inside the functions: --help and --list-spaces answer at once, --dry-run loads no Ray.


def show_keys(parsed: argparse.Namespace) -> None:
    """Prints every key of the base configuration of --space, or of general settings, with --encoder and --set."""
    from mtlib.config.trial import with_methods
    from search_spaces.presets import general
    from search_spaces.task_fit import chosen_tasks
    from sweeps.cli.keys import key_lines
    from sweeps.plan.inputs import expand_keys

    changes, methods, tasks = read_settings(parsed.set), *methods_and_tasks(parsed)
    if parsed.space is None:
        base = with_methods(general(chosen_tasks(tasks, changes)), methods)
    else:
        base = find_space(resolve_name(parsed.space), tasks, changes, methods)[0].base
    encoder = {} if parsed.encoder is None else {ENCODER_KEY: read_encoder_name(parsed.encoder)}
    show_lines(key_lines(base.override({**encoder, **expand_keys(changes, base)}), output_width()))


def show_dry_run(options: SweepOptions) -> None:
    """Prints what a new sweep would do."""
    from mtlib.model.encoder import preview_encoder
    from search_spaces.space import encoder_names
    from sweeps.driver.whole_sweep import TRYING
    from sweeps.plan.encoder_checks import describe_families
    from sweeps.plan.inputs import read_inputs
    from sweeps.plan.machine_checks import check_machine, describe_gpus
    from sweeps.plan.precision import describe_precision, fit_encoders
    from sweeps.plan.report import describe_disk_need, describe_sweep, describe_total, describe_trials
    from sweeps.plan.time_estimate import describe_time
    from sweeps.plan.tokenizers import fit_tokenizers

    check_machine(options)
    inputs = read_inputs(options)
    show_lines([*describe_sweep(options, inputs), describe_gpus(options), TRYING])
    found = {name: preview_encoder(name) for name in encoder_names(inputs.space)}
    own = {name: preview.pretrained for name, preview in found.items()}
    inputs, encoders, tokenizer_lines = fit_tokenizers(options, inputs, own)
    inputs = fit_encoders(options, inputs, encoders)
    show_lines([*tokenizer_lines, *describe_families(encoders.values()), *describe_precision(inputs)])
    show_lines(
        f"The encoder {name} is {own.place}." if len(found) > 1 else f"The encoder is {own.place}."
        for name, own in found.items()
    )
    show_lines(describe_trials(options, inputs))
    show_lines(wrapped([describe_total(options, inputs)], output_width()))
    show_lines(describe_disk_need(options, inputs, encoders))
    show_lines(wrapped(describe_time(options, inputs, encoders), output_width()))
    show_lines(["Dry run: nothing was started."])


def exit_process(code: int) -> NoReturn:
    """Ends the process; where Ray was loaded, as `end_process` does."""
    if "sweeps.cluster.connection" in sys.modules:
        from sweeps.cluster.connection import end_process

        end_process(code)
    sys.exit(code)


if __name__ == "__main__":
    collect_rarely()
    exit_process(main())
