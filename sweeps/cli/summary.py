"""The summary at a sweep's end: ranking, ensembles, files, the next commands, and the exit code."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from mtlib.runtime.command_line import INTERRUPTED, SUCCESS, discard_output
from mtlib.runtime.console import COMMAND_INDENT, output_width, show_lines
from mtlib.runtime.errors import first_line, typed_line
from mtlib.runtime.storage import is_away, is_file, open_folder
from results.answers.answer_data import ANSWER_FILE, write_answer
from results.answers.next_commands import report_command, resume_command, selector_command, table_command
from results.records.race import EXCLUDED_CLAIM, OPEN_CLAIM
from results.records.selection import write_selection
from results.records.tables import read_trials
from results.records.trials import COMPLETED, TrialRecord
from results.selection.report import brief_verdict
from results.selection.select_all import SelectionRequest, select_from
from results.sweep import load_sweep
from results.table import print_ranking
from sweeps.cli.arguments import CLAIM_EXCLUDED, CLAIM_OPEN, LIMIT_REACHED, SOME_FAILED, SWEEP_FAILED
from sweeps.driver.run_sweep import SweepOutcome
from sweeps.options import SweepOptions


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a sweep ended, and what its user should know of it."""

    folder: str
    """Of the sweep, whose name may have been made for it."""
    outcome: SweepOutcome
    exit_code: int
    messages: tuple[str, ...]
    """What went wrong, a line each."""


def show_answer(folder: str) -> bool:
    """Prints the answer to a sweep's question and its ranking, from the records of its trials so far.

    Returns:
        Whether they could be made; else why not is printed.
    """

    def rank() -> list[str]:
        found = load_sweep(folder)
        closed = [replace(own, status="interrupted") if own.status == "running" else own for own in found.records]
        print_ranking(replace(found, records=tuple(closed)))  # a full disk keeps what ran in `driver.json`
        return []

    try:
        show_lines([""])
        why_not = list(lines_or_failure("The ranking", rank))
        show_lines(why_not or [""])
    except BrokenPipeError:  # the sweep goes on to its end
        discard_output()
        return True
    return not why_not


def finish_sweep(
    options: SweepOptions, outcome: SweepOutcome, *, is_ranked: bool = True, is_verbose: bool = True
) -> Ending:
    """Returns how a sweep ended, and leaves its answer as data in its folder; prints the end below the ranking if
    `is_verbose`.

    Each part is printed even if others fail. After an interruption or an error no ensembles are chosen, which may take
    long; the command for it is printed instead. Nothing is read of a sweep that is lost.
    """
    cannot_read = is_away(options.folder)
    nothing_is_read = outcome.is_lost or (cannot_read and bool(outcome.error or outcome.closing_errors))
    no_answer = [] if nothing_is_read else list(lines_or_failure(ANSWER_FILE, lambda: leave_answer(options.folder)))
    is_well = is_ranked and not no_answer
    code = exit_code(outcome) if is_well or outcome.is_interrupted else SWEEP_FAILED
    error_says_it = cannot_read and outcome.error is not None  # a bucket fails for one reason at a time
    closing_errors = () if error_says_it else outcome.closing_errors
    messages = (*no_answer, *closing_errors, *describe_outcome(outcome, options))
    ending = Ending(folder=options.folder, outcome=outcome, exit_code=code, messages=messages)
    if not is_verbose:
        return ending
    is_short = outcome.is_interrupted or outcome.error is not None
    parts: list[tuple[str, Callable[[], Iterable[str]]]] = [
        ("Choosing ensembles", lambda: () if is_short else chain(choose_ensembles(options.folder), [""])),
        ("The page", lambda: () if is_short else write_report(options.folder)),
        ("Counting shared steps", lambda: describe_shared(read_trials(options.folder))),
        ("The list of files", lambda: describe_files(options, outcome)),
    ]
    try:
        for title, make_lines in () if nothing_is_read else parts:
            show_lines(lines_or_failure(title, make_lines))
        show_lines(ending.messages, sys.stderr)
    except BrokenPipeError:  # the sweep is over and recorded
        discard_output()
    return ending


def lines_or_failure(title: str, make_lines: Callable[[], Iterable[str]]) -> Iterator[str]:
    """Yields the lines of a part of the summary as they are made, or one that says why it failed."""
    try:
        yield from make_lines()
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:  # the other parts must still be printed
        yield f"{title} was interrupted."
    except Exception as error:  # likewise
        yield f"{title} failed: {typed_line(error)}"


def choose_ensembles(folder: str) -> Iterator[str]:
    """Chooses the ensemble of each task; the verdict in lines, or why there is none. Then writes `selection.json`."""
    yield "Choosing an ensemble for each task ..."
    try:
        selection = select_from(SelectionRequest(sweeps=[str(folder)]), command="at the sweep's end")
    except (ValueError, OSError) as error:
        yield f"No ensemble was chosen: {first_line(error)}."
        return
    yield from brief_verdict(selection, output_width())
    try:
        write_selection(folder, selection)
    except OSError as error:
        yield f"The selection could not be written: {first_line(error)}."


def leave_answer(folder: str) -> list[str]:
    """Writes the answer as data; no lines."""
    write_answer(folder, load_sweep(folder).answer_data())
    return []


def write_report(folder: str) -> Iterator[str]:
    """Writes the sweep's page; where it is, in a line."""
    from results.page.write import write_sweep_page  # here: the verdict is printed before it is loaded

    yield f"Page: {write_sweep_page(load_sweep(folder))}"


def exit_code(outcome: SweepOutcome) -> int:
    """Returns the exit code for an outcome."""
    if outcome.error is not None or (outcome.closing_errors and not outcome.is_interrupted):
        return SWEEP_FAILED
    if outcome.is_interrupted:
        return INTERRUPTED
    if outcome.limit is not None:
        return LIMIT_REACHED
    if outcome.failures:
        return SOME_FAILED
    return {EXCLUDED_CLAIM: CLAIM_EXCLUDED, OPEN_CLAIM: CLAIM_OPEN}.get(outcome.verdict, SUCCESS)


def describe_outcome(outcome: SweepOutcome, options: SweepOptions) -> list[str]:
    """Returns what went wrong, and the command that goes on, in lines. Failed trials are named below the ranking."""
    counts = ", ".join(f"{count} {status}" for status, count in outcome.counts.items())
    has_finished = any(outcome.counts.get(status) for status in COMPLETED)
    kept = "what had finished is kept and ranked" if has_finished else "no trial had finished"
    ranked, resume = f"(trials: {counts}); {kept}", resume_command(options.folder)
    if outcome.is_lost:
        return [f"The sweep ended here: {outcome.error}."]
    if outcome.error is not None:
        lines = [f"The sweep failed: {outcome.error} (trials: {counts}); what had finished is kept. Continue with:"]
    elif outcome.is_interrupted:
        why = f"Interrupted: {outcome.interruption}" if outcome.interruption else "Interrupted"
        lines = [f"{why} {ranked}. Continue with:"]
    elif outcome.limit is not None:
        lines, resume = [f"{outcome.limit} was reached {ranked}. Continue with:"], f"{resume} {outcome.limit}"
    else:
        num_failed, num_trials = len(outcome.failures), sum(outcome.counts.values())
        failed = [f"{num_failed} of {num_trials} trials failed."] if num_failed else []
        if not outcome.closing_errors:
            return failed
        lines = [*failed, "What was trained is kept. Complete the records with:"]
    return [*lines, f"{COMMAND_INDENT}{resume}"]


def describe_shared(records: Sequence[TrialRecord]) -> list[str]:
    """Returns how many of the trials' steps were reused, in a line; empty if none were."""
    shared, steps = (sum(getattr(record, name) for record in records) for name in ("shared_steps", "steps"))
    return [f"Shared: {shared:,} of {steps:,} optimizer steps were reused instead of trained."] if shared else []


def describe_files(options: SweepOptions, outcome: SweepOutcome) -> list[str]:
    """Returns where the records are, and the next commands."""
    from results.page.write import PAGE_FILE  # here: the verdict is printed before it is loaded

    resume = resume_command(options.folder)
    all_methods = "the scores of all selection methods; --max-models 3 for a cheaper ensemble"
    has_page = is_file(open_folder(options.folder), PAGE_FILE)
    report = "the page again; --images for a paper, --texts" if has_page else "a page with its figures"
    is_short = outcome.is_interrupted or outcome.error is not None
    selects = "chooses an ensemble for each task from what has finished" if is_short else all_methods
    commands = [
        *([("what has failed, once more", f"{resume} --retry-failed")] if outcome.failures else []),
        ("this ranking again; --csv for all digits", table_command(options.folder)),
        (selects, selector_command(options.folder)),
        (report, report_command(options.folder)),
    ]
    return [
        f"Files: {options.folder}",
        "Next:",
        *(line for purpose, command in commands for line in (f"  {purpose}", f"    {command}")),
    ]
