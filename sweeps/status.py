"""The command that lists the sweeps of a storage, or the trials of one, from their files alone; `--help` shows how."""

import argparse
import shutil
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from mtlib.runtime.command_line import INTERRUPTED, SUCCESS, WRONG_USE, as_command, duration, new_parser, parse_words
from mtlib.runtime.console import COMMAND_INDENT, PrintedTable, show_lines, table_lines
from mtlib.runtime.errors import first_line, require
from mtlib.runtime.method_file import trusting_methods
from mtlib.runtime.program_names import DEFAULT_STORAGE, typed_command
from mtlib.runtime.storage import check_answer, exists
from results.answers.ranking_table import broken_key
from results.stats.texts import value_texts
from sweeps.cli.sweep_state import SweepState, list_sweeps, read_sweep_state, score_texts, step_text
from sweeps.cli.time_left import num_planned_epochs
from sweeps.plan.given_options import find_sweep_folder, read_storage

UNLIMITED_WIDTH = 10_000
"""Columns where there is neither a terminal nor the variable COLUMNS."""


@as_command
def main(arguments: Sequence[str] | None = None) -> None:
    """Shows the sweeps, or the trials of one."""
    options = parse_words(build_parser(), arguments)
    storage = read_storage(options.storage)
    check_answer(storage)
    with trusting_methods(None):
        if options.sweep is None:
            is_given = "--storage" in options.flags
            require(exists(storage) or not is_given, "--storage must be a folder that exists", storage)
            show_lines(overview(storage))
        else:
            show_lines(detail(find_sweep_folder(options.sweep, storage)))


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser."""
    status = typed_command("status")
    usage, description = "[SWEEP] [--storage DIR]", "Lists the sweeps of a storage, or the trials of one."
    examples = f"""\
examples:
  every sweep of the default storage, the newest first: trials done, running and left, best score, what to type next
    {status}
  the sweeps of another storage
    {status} --storage DIR
  the trials of one sweep, by its name or folder
    {status} NAME
  likewise, drawn again every few seconds
    watch -n 5 {status} NAME

Only files are read, so it works beside a running sweep. One that was killed elsewhere counts as running for a minute.

exit codes: {SUCCESS} listed, {WRONG_USE} wrong use, {INTERRUPTED} interrupted
"""
    parser = new_parser(status, usage, description, examples)
    parser.add_argument("sweep", nargs="?", metavar="SWEEP", help="name or folder of a sweep (default: all sweeps)")
    storage_help = "folder of all sweeps (default: %(default)s)"
    parser.add_argument("--storage", metavar="DIR", default=DEFAULT_STORAGE, help=storage_help)
    return parser


def overview(storage: str) -> list[str]:
    """Returns all sweeps of a storage, the newest first, as lines, and what to type next for each."""
    states, damaged = list_sweeps(storage)
    titles = ["sweep", "state", "done", "running", "left", "failed", "best"]
    rows = []
    for state in states:
        numbers = (state.num_done, state.counts["running"], state.num_left, state.counts["failed"])
        counts = [[str(number)] for number in numbers]
        rows.append([[state.name], state.life.split(" ", 1), *counts, state.best_text.split(" ")])
    unread = [f"{name} cannot be read: {first_line(error)}" for name, error in damaged]
    notes = unread if states or damaged else [f"No sweeps in {storage}."]
    table = fitting_table(titles, rows, " ", numbers=range(2, 6))
    return [*notes, *table, *next_lines([state.next_command for state in states])]


def detail(folder: str) -> list[str]:
    """Returns the trials of a sweep as lines, and what to type next."""
    state = read_sweep_state(folder)
    keys = list(dict.fromkeys(key for record in state.records for key in record.params))
    texts = {key: value_texts([record.params[key] for record in state.records if key in record.params]) for key in keys}
    rows = []
    for record in state.records:
        step = step_text(record, state.progress.get(record.trial_id, {}))
        epochs = f"{record.epochs} of {num_planned_epochs(record)}"
        values = [texts[key].pop(0) if key in record.params else "" for key in keys]
        cells = [[cell] for cell in (record.trial_id, record.status, epochs, step, *values)]
        rows.append([*cells, [record.error] if record.error else score_texts(record, state.tasks)])
    titles = ["trial", "status", "epoch", "step", *keys, "newest dev scores"]
    return [*status_lines(state), "", *fitting_table(titles, rows, "  "), *next_lines([state.next_command])]


def fitting_table(
    titles: Sequence[str], rows: Sequence[Sequence[Sequence[str]]], separator: str, numbers: Collection[int] = ()
) -> list[str]:
    """Returns a table with the parts of cells side by side, or, on a narrow terminal, with them and the parts of titles
    below each other; nothing without rows."""
    if not rows:
        return []
    joined = [[separator.join(parts) for parts in row] for row in rows]
    wide = PrintedTable(titles=titles, rows=joined, names=titles, numbers=numbers, has_rule=False)
    broken = [title.split(" ") if " " in title else broken_key(title) for title in titles]
    width = shutil.get_terminal_size((UNLIMITED_WIDTH, 24)).columns
    return table_lines(width, wide, replace(wide, titles=broken, rows=rows, is_spaced=True))


def next_lines(commands: Sequence[str]) -> list[str]:
    """Returns what to type next, below a title; nothing without commands."""
    return ["", "Next:", *(f"{COMMAND_INDENT}{command}" for command in commands)] if commands else []


def status_lines(state: SweepState) -> Iterator[str]:
    """Yields what is known of a sweep as a whole."""
    yield f"{state.name}: {state.space.get('question', '')}"
    running, failed = state.counts["running"], state.counts["failed"]
    counts = f"{state.num_done} done, {running} running, {state.num_left} left, {failed} failed"
    left = "" if state.seconds_left is None else f"; about {duration(state.seconds_left)} left"
    yield f"{state.life}: {counts}{left}"
    if state.best_text:
        yield f"best: {state.best_text}"


if __name__ == "__main__":
    sys.exit(main())
