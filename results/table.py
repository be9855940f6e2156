"""Reads a sweep into pandas, and prints its ranking: `python results/table.py SWEEP`."""

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import pandas as pd
from rich.console import Console

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from mtlib.errors import require
from mtlib.runtime.command_line import new_parser, parse_words, run_command
from results.ranking.rank import RankedConfiguration, rank, to_frame
from results.ranking.render import PLAIN_WIDTH, penalty_notes, render_ranking
from results.records.files import open_folder
from results.records.predictions import stack_predictions
from results.records.sweep import Sweep
from results.records.sweep import load_sweep as load_sweep

EXAMPLES = """\
examples:
  python results/table.py ~/multitask-sweeps/NAME
  python results/table.py ~/multitask-sweeps/NAME --csv > ranking.csv
  python results/table.py s3://bucket/sweeps/NAME

in Python:
  from results.table import load_sweep
  sweep = load_sweep("~/multitask-sweeps/NAME")
  sweep.trials, sweep.curves, sweep.predictions(task, "dev")     # pandas data frames
"""


def rank_sweep(sweep: Sweep) -> list[RankedConfiguration]:
    """A sweep's configurations, best first; raises as `results.ranking.rank.rank` does."""
    return rank(sweep.records, sweep.curves, partial(stack_predictions, open_folder(sweep.path)))


def ranking(sweep: Sweep) -> pd.DataFrame:
    """A sweep's ranking as a data frame: see `results.ranking.rank.to_frame` for its columns."""
    return to_frame(rank_sweep(sweep))


def print_ranking(sweep: Sweep) -> None:
    """Prints a sweep's ranking, its legend and what failed; plain text of 100 columns where there is no terminal."""
    statuses = Counter(record.status for record in sweep.records)
    counts = ", ".join(f"{count} {status}" for status, count in statuses.items()) or "none yet"
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
    console.print(f"Trials in {sweep.path}: {counts}{describe_stop(sweep)}", markup=False, soft_wrap=True)
    console.print(render_ranking(rank_sweep(sweep), console.width, penalty_notes(sweep.curves)))


def describe_stop(sweep: Sweep) -> str:
    """When an unfinished sweep stopped and the flag that resumes it; empty if it runs or has finished."""
    stopped = sweep.stopped_at
    if stopped is None:
        return ""
    is_today = stopped.date() == datetime.now().astimezone().date()
    clock = stopped.strftime("%H:%M" if is_today else "%Y-%m-%d %H:%M")
    return f"; stopped at {clock}; continue with --resume {shlex.quote(str(sweep.path))}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 2 where there is no sweep that can be read."""
    return run_command(lambda: run_table(arguments))


def run_table(arguments: Sequence[str] | None) -> None:
    """Prints a sweep's ranking as a table or as CSV."""
    options = parse_words(build_parser(), arguments)
    require(options.sweep is not None, "SWEEP must name the folder of a sweep, or a URI (see --help)", "none")
    sweep = load_sweep(options.sweep)
    if options.csv:
        print(ranking(sweep).to_csv(index=False), end="")
    else:
        print_ranking(sweep)


def build_parser() -> argparse.ArgumentParser:
    """The parser."""
    usage, description = "SWEEP [--csv]", "Prints the ranking of a sweep, ended or still running."
    parser = new_parser("python results/table.py", usage, description, EXAMPLES)
    parser.add_argument("sweep", nargs="?", metavar="SWEEP", help="folder of the sweep, or the URI of a copy")
    parser.add_argument("--csv", action="store_true", help="print comma-separated values, all digits, no legend")
    return parser


if __name__ == "__main__":
    sys.exit(main())
