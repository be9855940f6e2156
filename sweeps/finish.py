"""A sweep's end: its ranking and what failed, where the files are, what to run next, and the exit code."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from mtlib.schema import first_line
from results.choosing import Request, select_from
from results.command_line import ALL_WELL, INTERRUPTED
from results.mirror import mirror
from results.records import TrialRecord
from results.selection import write_selection
from results.selection_text import brief_verdict
from results.table import load_sweep, print_ranking
from sweeps.flags import SOME_FAILED, SWEEP_FAILED
from sweeps.opening import ROOT
from sweeps.options import SweepOptions
from sweeps.prepare import mirror_location
from sweeps.study import JOURNAL_NAME
from sweeps.tuner import SweepOutcome


def finish(options: SweepOptions, outcome: SweepOutcome) -> int:
    """Says how a sweep ended, and copies its records if it has a mirror.

    Args:
        options: the checked command line.
        outcome: how it ended; its records are in `options.folder`.

    Returns:
        The exit code.
    """
    sweep = load_sweep(options.folder)
    print()
    print_ranking(sweep)
    print()
    has_more = outcome.is_interrupted or outcome.error is not None
    chosen = choose_ensembles(options.folder)
    shared, files = describe_shared(sweep.records), describe_files(options, has_more, bool(outcome.failures))
    for line in [*chosen, "", *shared, *files]:
        print(line)
    error = copy_records(options)
    for line in [*describe_outcome(outcome), *([error] if error else [])]:
        print(line, file=sys.stderr)
    return SWEEP_FAILED if error else exit_code(outcome)


def choose_ensembles(folder: Path) -> list[str]:
    """Chooses the ensemble of each task and writes `selection.json`; the verdict, in lines, or why there is none."""
    try:
        selection = select_from(Request(sweeps=[str(folder)]), command="at the sweep's end")
        write_selection(folder, selection)
    except (ValueError, OSError) as error:
        return [f"No ensemble was chosen: {first_line(error)}."]
    return brief_verdict(selection)


def exit_code(outcome: SweepOutcome) -> int:
    """The exit code that says how the sweep ended."""
    if outcome.error is not None:
        return SWEEP_FAILED
    if outcome.is_interrupted:
        return INTERRUPTED
    return SOME_FAILED if outcome.failures else ALL_WELL


def describe_outcome(outcome: SweepOutcome) -> list[str]:
    """What went wrong, in a line; nothing if nothing did. Failed trials are named below the ranking."""
    counts = ", ".join(f"{count} {status}" for status, count in outcome.counts.items())
    if outcome.error is not None:
        return [f"The sweep failed: {outcome.error} (trials: {counts})"]
    if outcome.is_interrupted:
        return [f"Interrupted (trials: {counts}); what had finished is kept and ranked."]
    return [f"{len(outcome.failures)} of {sum(outcome.counts.values())} trials failed."] if outcome.failures else []


def describe_shared(records: Sequence[TrialRecord]) -> list[str]:
    """How many of the trials' steps were taken over, in a line; nothing if none were."""
    shared, steps = (sum(getattr(record, name) for record in records) for name in ("shared_steps", "steps"))
    return [f"Shared: {shared:,} of {steps:,} optimizer steps were taken over instead of trained."] if shared else []


def describe_files(options: SweepOptions, has_more: bool, has_failed: bool) -> list[str]:
    """Where the records are, and commands that go on from them.

    Args:
        options: the checked command line.
        has_more: whether some trials have not ended.
        has_failed: whether some have failed.
    """
    folder = shlex.quote(str(options.folder))
    copies = [f"Copies: {mirror_location(options)}"] if options.mirror else []
    is_here = Path.cwd() == ROOT
    again = "python results/table.py" if is_here else "python -m results.table"
    select = "python results/selector.py" if is_here else "python -m results.selector"
    resume = "python sweeps/run.py" if is_here else "python -m sweeps.run"
    return [
        f"Files: {options.folder}",
        *copies,
        "Next:",
        *([f"  {resume} --resume {folder}    # what is left"] if has_more else []),
        *([f"  {resume} --resume {folder} --retry-failed    # what has failed, once more"] if has_failed else []),
        f"  {again} {folder}    # this ranking again; --csv for all digits",
        f"  {select} {folder}    # every way in which an ensemble was tried; --max-models 3 for a cheaper one",
        f"  optuna-dashboard {folder}/{JOURNAL_NAME}    # the search in a browser; pip install optuna-dashboard",
    ]


def copy_records(options: SweepOptions) -> str | None:
    """Copies the records to the mirror, if there is one; why that failed, if it did."""
    if options.mirror is None:
        return None
    try:
        mirror(options.folder, mirror_location(options))
    except (OSError, ValueError) as error:
        return f"The records could not be copied to {mirror_location(options)}: {first_line(error)}"
    return None
