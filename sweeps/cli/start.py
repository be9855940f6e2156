"""Starts a sweep for a command, prints what it does, and turns what went wrong into an exit code."""

import contextlib
import contextvars
import errno
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from mtlib.runtime.command_line import (
    INTERRUPTED,
    SUCCESS,
    WRONG_USE,
    discard_output,
    prepare_output,
    print_error,
    print_method_error,
)
from mtlib.runtime.console import output_width, show_lines, wrapped
from mtlib.runtime.errors import first_line
from mtlib.runtime.program_names import import_from_project
from sweeps.cli.arguments import SWEEP_FAILED
from sweeps.cluster.background_run import is_inside_ray
from sweeps.cluster.ray_settings import stay_on_loopback
from sweeps.options import SweepOptions
from sweeps.plan.given_options import GivenOptions, read_options

# Imports are inside the functions: --help answers at once, --dry-run loads no Ray.


def run_given(given: GivenOptions, command: str) -> int:
    """Runs or resumes a sweep with options as they are given, or prints its plan; returns the exit code.

    `command` is what the user typed.
    """
    options = read_options(given, os.environ.get("RAY_ADDRESS"))
    if options.dry_run:
        return print_only(lambda: show_dry_run(options))
    if options.address is None:
        stay_on_loopback()
    from sweeps.cli.whole_sweep import run_or_resume

    return run_or_resume(options, command, is_verbose=True).exit_code


def show_dry_run(options: SweepOptions) -> None:
    """Prints what a new sweep would do."""
    from sweeps.plan.prepare import prepare
    from sweeps.plan.report import describe_disk_need, describe_total, describe_trials
    from sweeps.plan.time_estimate import describe_time

    with contextlib.ExitStack() as cluster:
        prepared = prepare(options, show_lines, cluster)
    options, inputs, encoders = prepared.options, prepared.inputs, prepared.encoders
    show_lines(describe_trials(options, inputs))
    show_lines(wrapped([describe_total(options, inputs)], output_width()))
    show_lines(describe_disk_need(options, inputs, encoders))
    show_lines(wrapped(describe_time(options, inputs, encoders), output_width()))
    show_lines(["Dry run: nothing was started."])


def print_only(print_all: Callable[[], None]) -> int:
    """Runs a command that only prints; a reader that stops early, such as `head`, is no error."""
    try:
        print_all()
    except BrokenPipeError:
        discard_output()
    return SUCCESS


def exit_code_of(run: Callable[[], int]) -> int:
    """Returns the exit code of a command that may run a sweep; what went wrong is one line on standard error."""
    prepare_output()
    try:
        import_from_project()
        return contextvars.copy_context().run(run)
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
        show_lines([f"error: {what}: {first_line(error)}; continue with --resume once it can"], sys.stderr)
        return SWEEP_FAILED
    except KeyboardInterrupt:
        show_lines(["interrupted"], sys.stderr)
        return INTERRUPTED
    except Exception as error:
        print_method_error(error)
        return WRONG_USE


def command_line(script: str, arguments: Sequence[str]) -> str:
    """Returns the command as it can be typed again in the project's folder."""
    return shlex.join(["python", script, *arguments])


def exit_process(code: int) -> NoReturn:
    """Ends the process with this exit code, also if a thread inside Ray would turn it into a segmentation fault."""
    if is_inside_ray():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
