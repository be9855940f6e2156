"""What a sweep shows while it runs and at its end: everything, on the terminal, or nothing."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from mtlib.runtime.command_line import discard_output
from mtlib.runtime.console import new_console, show_lines
from sweeps.driver.whole_sweep import Ending, Listener
from sweeps.options import SweepOptions

if TYPE_CHECKING:  # Ray is loaded below, once everything has been checked
    from sweeps.driver.run_sweep import OnEvent, SweepOutcome


def printing_listener() -> Listener:
    """Prints what the command prints: the sweep, its progress, the ranking, the ensembles, the next commands.

    Where the ranking fails, so has the sweep, by its exit code.
    """
    is_ranked = True

    def answer(options: SweepOptions) -> None:
        from sweeps.cli.summary import show_answer

        nonlocal is_ranked
        try:
            is_ranked = show_answer(options.folder)
        except BrokenPipeError:  # the sweep goes on to its end
            discard_output()

    def finish(options: SweepOptions, outcome: "SweepOutcome") -> Ending:
        from sweeps.cli.summary import end_sweep, finish_sweep

        try:
            return finish_sweep(options, outcome, is_ranked=is_ranked)
        except BrokenPipeError:  # the sweep is over and recorded
            discard_output()
            return end_sweep(options, outcome, is_ranked=is_ranked)

    return Listener(show=show_lines, watch=watch_on_console, answer=answer, finish=finish)


def silent_listener() -> Listener:
    """Prints nothing and selects no ensembles."""
    return Listener(show=discard_lines, watch=watch_nothing, answer=lambda _options: None, finish=end_silently)


def discard_lines(lines: Iterable[str]) -> None:
    """Reads lines, which may be made as they are read, and shows none."""
    for _line in lines:
        pass


@contextlib.contextmanager
def watch_on_console() -> "Iterator[OnEvent]":
    """Shows progress; BrokenPipeError if standard output is closed."""
    from sweeps.cli.progress import show_progress

    try:
        with show_progress(new_console()) as on_event:
            yield on_event
    except SystemExit as error:  # rich raises it when standard output is closed
        raise BrokenPipeError from error


@contextlib.contextmanager
def watch_nothing() -> "Iterator[OnEvent]":
    """Ignores events."""
    yield lambda _event, _ledger: None


def end_silently(options: SweepOptions, outcome: "SweepOutcome") -> Ending:
    """Only says how it ended."""
    from sweeps.cli.summary import end_sweep

    return end_sweep(options, outcome)
