"""Takes command lines apart, and says in one line what is wrong with them."""

import argparse
import os
import sys
from collections.abc import Sequence

from mtlib.errors import require_name

ALL_WELL, WRONG_USE, INTERRUPTED = 0, 2, 130
"""Exit codes of every command."""


def new_parser(program: str, usage: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """A parser without arguments, for `read_words`.

    Args:
        program: the command as it is typed.
        usage: what is typed after it.
        description: one sentence, above the arguments in --help.
        epilog: below them, shown as it is.
    """
    return argparse.ArgumentParser(
        prog=program,
        usage=f"%(prog)s {usage}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        exit_on_error=False,
    )


def read_words(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """Takes the words of a command line apart, wherever flags stand among them.

    Args:
        parser: made by `new_parser`; its positional arguments are optional.
        words: the words after the command's name.

    Returns:
        The value of every flag, and `said`: the names of those that were given.

    Raises:
        ValueError: an unknown flag (the nearest right one is named), a flag without its value, or a wrong value.
        SystemExit: with code 0, after --help.
    """
    try:
        found, extra = parser.parse_known_intermixed_args(words)
    except argparse.ArgumentError as error:
        raise ValueError(f"{error.argument_name}: {error.message}") from error
    for word in extra:
        if word.startswith("-"):
            require_name(word.split("=")[0], [*parser._option_string_actions], "flag")
        raise ValueError(f"every value must follow its flag, got '{word}' (see --help)")
    said = {word.split("=")[0] for word in words}
    found.said = frozenset(action.dest for action in parser._actions if said.intersection(action.option_strings))
    return found


def say_error(error: BaseException) -> None:
    """Says a user's mistake on standard error, in one line."""
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)


def be_silent() -> None:
    """Lets standard output go nowhere: nobody reads it, and Python would complain of that as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
