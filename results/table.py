"""Reads a sweep into pandas, and prints its ranking: `python results/table.py SWEEP`."""

import argparse
import json
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from mtlib.schema import require, require_name
from mtlib.tasks import TASKS
from results.command_line import ALL_WELL, WRONG_USE, new_parser, read_words, say_error
from results.epochs import read_curves, read_predictions
from results.heartbeat import stopped_since
from results.predictions import TrialEpoch, stack_predictions
from results.ranking import RankedConfiguration, rank, to_frame
from results.records import UNFINISHED, TrialRecord, read_sweep, read_trials_table, record_of
from results.render import PLAIN_WIDTH, penalty_notes, render_ranking
from results.storage import Location, open_folder

SCORED_SPLITS = ("dev", "train")

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


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What a sweep has left so far; it may still be running."""

    path: Location
    """Its folder, or the URI of a copy."""
    info: Mapping[str, Any]
    """What `sweep.json` holds: what was asked, and where it ran."""
    records: tuple[TrialRecord, ...]
    """The trials, as the program that ran them wrote them; `interrupted` if they ran when it was killed."""
    trials: pd.DataFrame
    """A row per trial: the columns of `trials.parquet`, with a column per searched key instead of `params`."""
    curves: pd.DataFrame
    """A row per point: trial, step, epoch, task, split, metric, value, seconds."""
    stopped_since: datetime | None = None
    """Since when nobody runs it though trials are left; None if it runs, is done, or never had a heartbeat."""

    def predictions(self, task: str, split: str, *, trial: str | None = None, epoch: int | None = None) -> pd.DataFrame:
        """Predictions for every example: id, trial, epoch, label, logits; of one trial or epoch if given.

        Args:
            task: one of `mtlib.tasks.TASKS`.
            split: `dev`, or `train` for the rows of it that are scored.
            trial, epoch: which; None for all.

        Raises:
            ValueError: there is no such task or split.
        """
        require_name(task, TASKS, "task")
        require_name(split, SCORED_SPLITS, "split")
        frame: pd.DataFrame = read_predictions(self.path, task, split, trial=trial, epoch=epoch).to_pandas()
        return frame


def load_sweep(path: Location) -> Sweep:
    """Reads a sweep that has ended or is still running; needs neither Ray nor torch.

    Args:
        path: the sweep's folder, or the URI of a copy, such as `s3://bucket/sweeps/a`.

    Raises:
        ValueError: there is no sweep, or a file is damaged or of another schema; one line names it.
    """
    info = read_sweep(path)
    since = stopped_since(path)
    table, tasks = read_trials_table(path)
    records, trials = [record_of(row, tasks) for row in table.to_pylist()], trials_frame(table.to_pandas())
    if since is not None:
        records = [replace(record, status=status_at_rest(record.status)) for record in records]
        trials["status"] = trials["status"].map(status_at_rest)
    return Sweep(
        path=path,
        info=info,
        records=tuple(records),
        trials=trials,
        curves=read_curves(path).to_pandas(),
        stopped_since=since if any(record.status in UNFINISHED for record in records) else None,
    )


def status_at_rest(status: str) -> str:
    """A trial's status where nobody runs its sweep."""
    return "interrupted" if status == "running" else status


def trials_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """`trials.parquet` with the searched values in columns of their own; a key that is a column already stays one."""
    params = [json.loads(text) for text in frame["params"]]
    names = list(dict.fromkeys(name for values in params for name in values if name not in frame))
    searched = pd.DataFrame({name: [values.get(name) for values in params] for name in names}, index=frame.index)
    known = list(frame)
    at = known.index("params")
    return pd.concat([frame, searched], axis=1)[[*known[:at], *names, *known[at + 1 :]]]


def rank_sweep(sweep: Sweep) -> list[RankedConfiguration]:
    """A sweep's configurations, best first; raises as `results.ranking.rank` does."""
    root = open_folder(sweep.path)

    def read(task: str, split: str, wanted: Sequence[TrialEpoch]) -> tuple[Any, Any]:
        return stack_predictions(root, task, split, wanted)

    return rank(sweep.records, sweep.curves, read)


def ranking(sweep: Sweep) -> pd.DataFrame:
    """A sweep's ranking as a data frame: see `results.ranking.to_frame` for its columns."""
    return to_frame(rank_sweep(sweep))


def print_ranking(sweep: Sweep, console: Console | None = None) -> None:
    """Prints a sweep's ranking, its legend and what failed; plain text of 100 columns where there is no terminal."""
    statuses = Counter(record.status for record in sweep.records)
    counts = ", ".join(f"{count} {status}" for status, count in statuses.items()) or "none yet"
    console = console or Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
    console.print(f"Trials in {sweep.path}: {counts}{describe_stop(sweep)}", markup=False, soft_wrap=True)
    console.print(render_ranking(rank_sweep(sweep), console.width, penalty_notes(sweep.curves)))


def describe_stop(sweep: Sweep) -> str:
    """Since when a sweep that is not done has stopped, and what goes on with it; nothing if it runs or is done."""
    since = sweep.stopped_since
    if since is None:
        return ""
    is_today = since.date() == datetime.now().astimezone().date()
    clock = since.strftime("%H:%M" if is_today else "%Y-%m-%d %H:%M")
    return f"; stopped since {clock}; --resume {shlex.quote(str(sweep.path))} goes on"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 2 where there is no sweep that can be read."""
    try:
        options = read_words(build_parser(), sys.argv[1:] if arguments is None else arguments)
        require(options.sweep is not None, "SWEEP must name the folder of a sweep, or a URI (see --help)", "none")
        sweep = load_sweep(options.sweep)
        if options.csv:
            print(ranking(sweep).to_csv(index=False), end="")
        else:
            print_ranking(sweep)
    except ValueError as error:
        say_error(error)
        return WRONG_USE
    return ALL_WELL


def build_parser() -> argparse.ArgumentParser:
    """The parser."""
    usage, description = "SWEEP [--csv]", "Prints the ranking of a sweep, ended or still running."
    parser = new_parser("python results/table.py", usage, description, EXAMPLES)
    parser.add_argument("sweep", nargs="?", metavar="SWEEP", help="folder of the sweep, or the URI of a copy")
    parser.add_argument("--csv", action="store_true", help="print comma-separated values, all digits, no legend")
    return parser


if __name__ == "__main__":
    sys.exit(main())
