"""A sweep from its checks to its end, for the command, which prints all of it, and for Python."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from mtlib.runtime.console import new_console, show_lines
from mtlib.runtime.errors import first_line
from mtlib.runtime.storage import BUCKET_WAIT, is_away
from results.records.driver_file import Ownership, read_driver
from sweeps.cluster.ray_settings import set_driver_variables
from sweeps.driver.resume import resume_sweep
from sweeps.driver.trials.changes import note
from sweeps.driver.trials.table import Event, TrialTable, open_table
from sweeps.driver.trials.trial import num_left_to_run
from sweeps.lanes.training_inputs import TrainingInputs, read_training_inputs
from sweeps.options import SweepOptions
from sweeps.plan.create import create_sweep, discard_unstarted
from sweeps.plan.prepare import PreparedSweep, prepare
from sweeps.plan.report import describe_disk_need, describe_total
from sweeps.plan.space_changes import writing_to
from sweeps.tracking.listener import Trackers

if TYPE_CHECKING:  # Ray and Optuna are loaded below, once everything has been checked
    from sweeps.cli.summary import Ending


def run_or_resume(options: SweepOptions, command: str, *, is_verbose: bool) -> "Ending":
    """Runs a new sweep, or what is left of one that is resumed.

    A cluster stays connected to the end. An error before the first trial of a new sweep leaves no folder.

    Args:
        options: of the sweep.
        command: what started it.
        is_verbose: whether to print the sweep, its progress, the ranking, the ensembles, which are selected for that,
            and the next commands; otherwise nothing is printed or selected.

    Raises:
        ValueError: one line: space, data, encoder, machine or storage do not fit the options.
        KeyboardInterrupt: interrupted twice, or before its trials.
    """
    if is_verbose:
        BUCKET_WAIT.show = lambda text: show_lines([text])
    with contextlib.ExitStack() as cluster:
        prepared = prepare(options, lambda lines: show(lines, is_verbose), cluster)
        options = prepared.options
        if options.resume:
            claim = Ownership(options.folder, takes_over=options.take_over, say=lambda text: show([text], is_verbose))
            with claim as ownership:
                plan, known = resume_sweep(prepared, command)
                show(known.notes, is_verbose)
                table = open_table(plan, known.records, known.reports)
                if num_left_to_run(plan, known.records, plan.race) == 0:
                    return finish_ended_sweep(table, is_verbose)
                training_inputs = prepare_training_inputs(prepared)
                del prepared  # whose texts take more memory than their tokens
                return run_and_finish(table, training_inputs, ownership, is_verbose)
        need = describe_disk_need(options, prepared.inputs, prepared.encoders)
        show([describe_total(options, prepared.inputs), *need], is_verbose)
        plan = create_sweep(prepared, command)
        ownership = Ownership(options.folder)
        try:
            with ownership:
                training_inputs = prepare_training_inputs(prepared)
                del prepared  # as above
                return run_and_finish(open_table(plan), training_inputs, ownership, is_verbose)
        except Exception:
            driver = read_driver(options.folder)  # after its last writing
            if driver is not None and driver.id == ownership.id:  # in a bucket another command may have taken the name
                discard_unstarted(options.folder)
            raise


def show(lines: Iterable[str], is_verbose: bool) -> None:
    """Prints lines about a sweep that is verbose; of any other it only reads them, as they may be made by work."""
    if is_verbose:
        show_lines(lines)
    else:
        list(lines)


def prepare_training_inputs(prepared: PreparedSweep) -> TrainingInputs:
    """Returns what trials are trained from; ValueError if it cannot be tokenised,
    or the cache of tokens cannot be written."""
    inputs, cache = prepared.inputs, prepared.options.cache_folder
    with writing_to(str(cache)):
        return read_training_inputs(inputs.space, inputs.tables, prepared.encoders, inputs.data_folder, cache)


def finish_ended_sweep(table: TrialTable, is_verbose: bool) -> "Ending":
    """Finishes a resumed sweep with nothing left to run, and completes what a kill at its very end prevented."""
    from sweeps.cli.summary import finish_sweep, show_answer
    from sweeps.driver.run_sweep import close_records, outcome_of
    from sweeps.search.searcher import SweepSearcher
    from sweeps.search.study import journal_path, open_study, save_journal

    plan, options = table.plan, table.plan.options
    with TemporaryDirectory(prefix="sweep-") as scratch:
        journal = journal_path(options.folder, Path(scratch))
        study = open_study(journal, options.name, plan.space.metric)
        SweepSearcher(table, study, tell=lambda _message: None)  # tells the study of all ends
        save_journal(options.folder, journal)
    closing_errors = close_records(plan, table.records)
    is_ranked = not is_verbose or show_answer(options.folder)
    outcome = outcome_of(table, closing_errors)
    ending = finish_sweep(options, outcome, is_ranked=is_ranked, is_verbose=is_verbose)
    trackers = Trackers(options.log_to, options.folder, plan.tasks, table.records.values())
    show(report_answer(options, trackers), is_verbose)
    return ending


def report_answer(options: SweepOptions, trackers: Trackers) -> Iterator[str]:
    """Sends the answer of a sweep that has ended to its trackers; yields lines to show."""
    from results.sweep import load_sweep  # here: it loads pandas, statistics and figures

    if not options.log_to:
        return
    try:
        answer = load_sweep(options.folder).answer()
    except (ValueError, OSError) as error:
        answer = [f"No answer: {first_line(error)}"]
    yield from trackers.finish(answer, is_interrupted=False)


def run_and_finish(table: TrialTable, inputs: TrainingInputs, ownership: Ownership, is_verbose: bool) -> "Ending":
    """Runs a sweep in its folder and finishes it, while the folder is still locked.

    The answer is printed once all trials have ended, before anything is closed; after that if the sweep ended in
    another way.
    """
    plan, options, is_ranked = table.plan, table.plan.options, None if is_verbose else True

    def answer() -> None:
        nonlocal is_ranked
        display.close()
        if is_ranked is None:
            is_ranked = show_answer(options.folder)

    set_driver_variables()
    from sweeps.cli.progress import show_progress
    from sweeps.cli.summary import finish_sweep, show_answer
    from sweeps.driver.run_sweep import run_plan

    trackers, has_ended = Trackers(options.log_to, options.folder, plan.tasks, table.records.values()), False
    try:
        with contextlib.ExitStack() as display:
            show_event = display.enter_context(show_progress(new_console(), table)) if is_verbose else lambda _: None

            def on_event(event: Event) -> None:
                if event.facts.get("is_wait"):  # one line for all workers and this process
                    BUCKET_WAIT.note(event.facts["text"])
                else:
                    show_event(event)
                for text in trackers.on_event(event):
                    show_event(note(text))

            outcome = run_plan(table, inputs, on_event, ownership, on_trained=answer)
        cannot_read = outcome.error is not None and is_away(options.folder)
        if not (cannot_read or outcome.is_lost):
            answer()
        ending = finish_sweep(options, outcome, is_ranked=bool(is_ranked), is_verbose=is_verbose)
        has_ended = not (outcome.is_interrupted or outcome.is_lost)
        return ending
    finally:
        lines = report_answer(options, trackers) if has_ended else trackers.finish([], is_interrupted=True)
        show(lines, is_verbose)
