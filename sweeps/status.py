"""The command that lists the sweeps of a storage, or the trials of one, from their files alone; `--help` shows how."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mtlib.runtime.command_line import INTERRUPTED, SUCCESS, WRONG_USE, duration, new_parser, parse_words, run_command
from mtlib.runtime.errors import first_line, require
from mtlib.runtime.program_names import DEFAULT_STORAGE
from sweeps.cli.arguments import find_sweep_folder, read_storage
from sweeps.cli.sweep_state import SweepState, epoch_text, list_sweeps, read_sweep_state, score_texts, step_text

FOLLOW_SECONDS = 3.0
"""Between two readings with --follow."""
UNLIMITED_WIDTH = 10_000
"""Columns where there is no terminal: no line is wrapped."""

EXAMPLES = f"""\
examples:
  every sweep of the default storage, the newest first: trials done, running and left, best score, what to type next
    python sweeps/status.py
  the sweeps of another storage
    python sweeps/status.py --storage DIR
  the trials of one sweep, by its name or folder
    python sweeps/status.py NAME
  likewise, drawn again every {FOLLOW_SECONDS:g} seconds until the sweep ends
    python sweeps/status.py NAME --follow

Only files are read, so it works beside a running sweep. A sweep that was killed counts as running for a minute.

exit codes: {SUCCESS} listed, {WRONG_USE} wrong use, {INTERRUPTED} interrupted
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    return run_command(lambda: run_status(arguments))


def run_status(arguments: Sequence[str] | None) -> None:
    """Shows the sweeps, or the trials of one, once or until none runs."""
    options = parse_words(build_parser(), arguments)
    storage = read_storage(options.storage)
    if options.sweep is None:
        is_given = "--storage" in options.given
        require(storage.is_dir() or not is_given, "--storage must be a folder that exists", storage)
        show(lambda: overview(storage), options.follow)
    else:
        folder = find_sweep_folder(options.sweep, storage)
        is_log = options.follow and not sys.stdout.isatty()  # which gets every new line
        show(lambda: detail(folder, has_steps=not is_log), options.follow)


def build_parser() -> argparse.ArgumentParser:
    """The parser."""
    usage, description = "[SWEEP] [--storage DIR] [--follow]", "Lists the sweeps of a storage, or the trials of one."
    parser = new_parser("python sweeps/status.py", usage, description, EXAMPLES)
    parser.add_argument("sweep", nargs="?", metavar="SWEEP", help="name or folder of a sweep (default: all sweeps)")
    storage_help = "folder of all sweeps (default: %(default)s)"
    parser.add_argument("--storage", metavar="DIR", default=DEFAULT_STORAGE, help=storage_help)
    parser.add_argument("--follow", action="store_true", help="show it again every few seconds until nothing runs")
    return parser


def show(draw: Callable[[], tuple[RenderableType, bool]], is_followed: bool) -> None:
    """Prints what `draw` returns; where that is followed, again until it also returns that nothing runs."""
    console = Console(width=None if sys.stdout.isatty() else UNLIMITED_WIDTH, highlight=False)
    drawn, runs = draw()
    if not (is_followed and runs):
        console.print(drawn)
    elif console.is_terminal:
        with Live(drawn, console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:
            while runs:
                time.sleep(FOLLOW_SECONDS)
                drawn, runs = draw()
                live.update(drawn, refresh=True)
    else:
        follow_plainly(console, draw, drawn)


def follow_plainly(console: Console, draw: Callable[[], tuple[RenderableType, bool]], drawn: RenderableType) -> None:
    """Prints the first lines, and then each line that is new, until nothing runs."""
    before, runs = text_lines(console, drawn), True
    console.print("\n".join(before), markup=False, soft_wrap=True)
    while runs:
        time.sleep(FOLLOW_SECONDS)
        drawn, runs = draw()
        lines = text_lines(console, drawn)
        for line in (line for line in lines if line not in before):
            console.print(line, markup=False, soft_wrap=True)
        before = lines


def text_lines(console: Console, drawn: RenderableType) -> list[str]:
    """What a console would print, as lines of plain text."""
    with console.capture() as captured:
        console.print(drawn)
    return [line.rstrip() for line in captured.get().splitlines()]


def overview(storage: Path) -> tuple[RenderableType, bool]:
    """All sweeps of a storage, the newest first, and whether one of them runs."""
    states, damaged = list_sweeps(storage)
    table = new_table("sweep", "state", "done", "running", "left", "failed", "best", "next")
    for state in states:
        numbers = (state.num_done, state.num_running, state.num_left, state.num_failed)
        table.add_row(*map(Text, (state.name, state.life, *map(str, numbers), state.best_text, state.next_command)))
    parts: list[RenderableType] = [Text(f"No sweeps in {storage}.")] if not (states or damaged) else []
    parts += [table] if states else []
    parts += [Text(f"{folder.name} cannot be read: {first_line(error)}") for folder, error in damaged]
    return Group(*parts), any(state.is_running for state in states)


def detail(folder: Path, *, has_steps: bool) -> tuple[RenderableType, bool]:
    """The trials of a sweep, with the steps of those that run or without, and whether it runs."""
    state = read_sweep_state(folder)
    if not has_steps:
        state = replace(state, progress={name: {} for name in state.progress})
    table = new_table("trial", "status", "epoch", "step", *state.searched_keys, "newest dev scores")
    for record in state.records:
        values = (str(record.params.get(key, "")) for key in state.searched_keys)
        cells = (
            record.trial_id,
            record.status,
            epoch_text(record),
            step_text(record, state.progress.get(record.trial_id, {})),
            *values,
            record.error or "  ".join(score_texts(record, state.tasks)),
        )
        table.add_row(*map(Text, cells))
    return Group(*map(Text, status_lines(state)), Text(), table), state.is_running


def status_lines(state: SweepState) -> Iterator[str]:
    """What is known of a sweep as a whole, and the next command."""
    yield f"{state.name}: {state.question}"
    counts = f"{state.num_done} done, {state.num_running} running, {state.num_left} left, {state.num_failed} failed"
    left = "" if state.seconds_left is None else f"; about {duration(state.seconds_left)} left"
    yield f"{state.life}: {counts}{left}"
    if state.best_text:
        yield f"best: {state.best_text}"
    yield f"next: {state.next_command}"


def new_table(*titles: str) -> Table:
    """A table without lines; numbers are to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for title in titles:
        is_number = title in ("done", "running", "left", "failed")
        table.add_column(title, justify="right" if is_number else "left", no_wrap=title in ("sweep", "trial", "status"))
    return table


if __name__ == "__main__":
    sys.exit(main())
