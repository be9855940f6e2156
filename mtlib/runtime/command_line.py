"""What every command shares: a parser whose errors are one line, types of values, exit codes."""

import argparse
import codecs
import contextvars
import functools
import io
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import ParamSpec

from mtlib.runtime.console import show_lines, visible_lines
from mtlib.runtime.errors import TrainingDiverged, first_line, is_of_system, require, require_name, typed_line
from mtlib.runtime.method_file import TRUST, line_of_method
from mtlib.runtime.program_names import import_from_project

LISTED_FLAG = re.compile(r"^  (?:-\w, )?(--?\w[\w-]*)", re.MULTILINE)
"""A flag at its own place in what --help prints."""
COLOUR = re.compile(r"\x1b\[[\d;]*m")
"""What colours help on a terminal, from Python 3.14 on."""
SUCCESS, WRONG_USE, INTERRUPTED = 0, 2, 130
"""Exit codes of every command."""
Arguments = ParamSpec("Arguments")


def new_parser(
    program: str, usage: str, description: str, epilog: str, *, runs_methods: bool = False
) -> argparse.ArgumentParser:
    """Returns a parser for `parse_words`, without arguments but for --trust-methods of a command that runs methods;
    `usage` follows `program`, and `epilog` is printed verbatim."""
    text = visible_lines(epilog)
    parser = argparse.ArgumentParser(
        prog=program,
        usage=f"%(prog)s {usage}",
        description=description,
        epilog=text.replace("%", "%%") if "%(prog)" in text else text,  # argparse fills in the name only then
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        exit_on_error=False,
    )
    if runs_methods:
        words = (
            "run Python that comes with a sweep, model or bundle also if it is not yours, or in a bucket (SECURITY.md)"
        )
        parser.add_argument("--trust-methods", action="store_true", help=words)
    return parser


def parse_words(parser: argparse.ArgumentParser, words: Sequence[str] | None) -> argparse.Namespace:
    """Parses a command line (None: the process's own), with flags anywhere among the positional arguments.

    --trust-methods holds for the rest of the command, which has a context of its own (`run_command`).

    Returns:
        The value of every argument; `flags`, those on the command line; and `given`, the values on it by name.

    Raises:
        ValueError: an unknown flag (the nearest known one is named), a flag without its value, or a wrong value.
        SystemExit: with code 0, after --help.
    """
    words = sys.argv[1:] if words is None else words
    try:
        options, unknown = parser.parse_known_intermixed_args(words)
        # Over a value that is there, though it is None, argparse puts no default.
        unset = argparse.Namespace(**dict.fromkeys(vars(options)))
        given, _ = parser.parse_known_intermixed_args(words, unset)
    except argparse.ArgumentError as error:
        separator = " " if error.message.startswith("must ") else ": "
        raise ValueError(f"{error.argument_name}{separator}{error.message}") from error
    for word in unknown:
        if word.startswith("-"):
            known = LISTED_FLAG.findall(COLOUR.sub("", parser.format_help()))
            require_name(word.split("=")[0], known, "flag")
        raise ValueError(f"every value must follow its flag, got '{word}' (see --help)")
    options.flags = [word.split("=")[0] for word in words if word.startswith("--")]
    options.given = {name: value for name, value in vars(given).items() if value is not None}
    if options.given.pop("trust_methods", False):
        TRUST.set(True)
    return options


def whole_number(text: str) -> int:
    """Returns the type of an argument that takes a whole number."""
    try:
        return int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be a whole number, got '{text}'") from error


def key_and_value(flag: str, text: str, example: str) -> tuple[str, str]:
    """Returns a flag's `KEY=VALUE` as key and value, without white space around them;
    ValueError with an example otherwise."""
    key, equals, value = map(str.strip, text.partition("="))
    require(bool(key and equals), f"{flag} must be KEY=VALUE, e.g. {example}", f"'{text}'")
    return key, value


def number(text: str) -> float:
    """Returns the type of an argument that takes a number."""
    try:
        return float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be a number, got '{text}'") from error


def as_command(body: Callable[Arguments, object]) -> Callable[Arguments, int]:
    """Makes a function the `main` of a command: which returns the exit code, as `run_command` does."""

    @functools.wraps(body)
    def main(*args: Arguments.args, **kwargs: Arguments.kwargs) -> int:
        return run_command(lambda: body(*args, **kwargs))

    return main


def run_command(command: Callable[[], object]) -> int:
    """Runs a command and returns its exit code; a user's mistake or a diverging run is one line on stderr."""
    prepare_output()
    try:
        import_from_project()
        contextvars.copy_context().run(command)
    except BrokenPipeError:  # a reader such as `head` has enough
        discard_output()
    except (ValueError, OSError, TrainingDiverged) as error:
        print_error(error)
        return WRONG_USE
    except KeyboardInterrupt:
        show_lines(["interrupted"], sys.stderr)
        return INTERRUPTED
    except Exception as error:
        print_method_error(error)
        return WRONG_USE
    return SUCCESS


def prepare_output() -> None:
    """Lets standard output and error take every character, also where the locale has ASCII alone (LC_ALL=C).

    A warning is one line there, without the line of code that gave it.
    """
    warnings.showwarning = show_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            is_ascii = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding="utf-8" if is_ascii else None, errors="backslashreplace")


def show_warning(message: Warning | str, *_where: object, **_further: object) -> None:
    """Prints a warning on standard error, in one line."""
    show_lines([f"warning: {' '.join(str(message).split())}"], sys.stderr)


def print_error(error: BaseException) -> None:
    """Prints an error's message on standard error, in one line, with the line of a user's own file where it arose."""
    place = line_of_method(error)
    text = first_line(error) if is_of_system(error) else str(error)
    message = text if place is None else f"{place}: {typed_line(error)}"
    show_lines([f"error: {' '.join(message.split())}"], sys.stderr)


def print_method_error(error: Exception) -> None:
    """Prints an error that arose in a user's own file; raises any other."""
    if line_of_method(error) is None:
        raise error
    print_error(error)


def duration(seconds: float) -> str:
    """`8 s`, `1:05` or `2:03:40`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def counted(number: int, noun: str) -> str:
    """E.g. `1 trial` and `2,000 trials`."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


def in_words(words: Iterable[str]) -> str:
    """Words in a sentence: `a`, `a and b`, `a, b and c`."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def discard_output() -> None:
    """Sends standard output to /dev/null, as Python would fail on a closed pipe when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
