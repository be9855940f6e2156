"""Says where the command is now that teaches one model what a sweep's ensembles know."""

import sys
from collections.abc import Sequence

from mtlib.runtime.command_line import WRONG_USE, print_error
from mtlib.runtime.program_names import typed_command


def main(_arguments: Sequence[str] | None = None) -> int:
    """Prints the command; returns the exit code of wrong use."""
    print_error(ValueError(f"results/distil.py has moved, as it trains a sweep: {typed_command('distil')}"))
    return WRONG_USE


if __name__ == "__main__":
    sys.exit(main())
