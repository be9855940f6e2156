"""A sweep from its checks to its end, for the command and for Python; what it prints is left to a listener."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from mtlib.runtime.errors import first_line
from results.records.driver_file import Ownership, read_driver
from sweeps.cluster.ray_settings import set_driver_variables
from sweeps.driver.history import KnownTrials
from sweeps.driver.resume import resume_sweep
from sweeps.lanes.channel import Event
from sweeps.lanes.training_inputs import TrainingInputs, read_training_inputs
from sweeps.options import SweepOptions, SweepPlan
from sweeps.plan.create import create_sweep, discard_unstarted
from sweeps.plan.prepare import PreparedSweep, Show, prepare
from sweeps.plan.report import describe_disk_need, describe_total
from sweeps.plan.space_changes import writing_to
from sweeps.tracking.listener import Trackers

if TYPE_CHECKING:  # Ray and Optuna are loaded below, once everything has been checked
    from sweeps.driver.ledger import Ledger
    from sweeps.driver.run_sweep import OnEvent, SweepOutcome


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a sweep ended, and what its user should know of it."""

    folder: str
    """Of the sweep, whose name may have been made for it."""
    outcome: "SweepOutcome"
    exit_code: int
    messages: tuple[str, ...]
    """What went wrong, a line each."""


@dataclass(frozen=True, kw_only=True)
class Listener:
    """What the caller of a sweep does with what it hears."""

    show: Show
    """Gets lines about the sweep before its first trial and after its end; reads them all, as they may be made by work.
    """
    watch: Callable[[], "AbstractContextManager[OnEvent]"]
    """Opened while trials run; yields the function that gets each event."""
    answer: Callable[[SweepOptions], None]
    """Called once all trials have ended, before anything is closed; after that if the sweep ended in another way."""
    finish: Callable[[SweepOptions, "SweepOutcome"], Ending]
    """Called at the end, after `answer`, while the sweep's folder is still locked."""


def run_or_resume(options: SweepOptions, listener: Listener, command: str) -> Ending:
    """Runs a new sweep, or what is left of one that is resumed; `command` is what started it.

    A cluster stays connected to the end. An error before the first trial of a new sweep leaves no folder.

    Raises:
        ValueError: one line: space, data, encoder, machine or storage do not fit the options.
        KeyboardInterrupt: interrupted twice, or before its trials.
    """
    with contextlib.ExitStack() as cluster:
        prepared = prepare(options, listener.show, cluster)
        options = prepared.options
        if options.resume:
            with Ownership(options.folder) as ownership:
                resumed = resume_sweep(prepared, command)
                listener.show(resumed.notes)
                if resumed.is_over:
                    return finish_ended_sweep(resumed.plan, listener, resumed.known)
                training_inputs = prepare_training_inputs(prepared)
                del prepared  # whose texts take more memory than their tokens
                return run_and_finish(resumed.plan, training_inputs, listener, ownership, resumed.known)
        need = describe_disk_need(options, prepared.inputs, prepared.encoders)
        listener.show([describe_total(options, prepared.inputs), *need])
        plan = create_sweep(prepared, command)
        ownership = Ownership(options.folder)
        try:
            with ownership:
                training_inputs = prepare_training_inputs(prepared)
                del prepared  # as above
                return run_and_finish(plan, training_inputs, listener, ownership)
        except Exception:
            driver = read_driver(options.folder)  # after its last writing
            if driver is not None and driver.id == ownership.id:  # in a bucket another command may have taken the name
                discard_unstarted(options.folder)
            raise


def prepare_training_inputs(prepared: PreparedSweep) -> TrainingInputs:
    """Returns what trials are trained from; ValueError if it cannot be tokenised,
    or the cache of tokens cannot be written."""
    inputs, cache = prepared.inputs, prepared.options.cache_folder
    with writing_to(str(cache)):
        return read_training_inputs(inputs.space, inputs.tables, prepared.encoders, inputs.data_folder, cache)


def finish_ended_sweep(plan: SweepPlan, listener: Listener, known: KnownTrials) -> Ending:
    """Finishes a resumed sweep with nothing left to run, and completes what a kill at its very end prevented."""
    from sweeps.driver.ledger import open_ledger
    from sweeps.driver.run_sweep import close_records, outcome_of
    from sweeps.search.searcher import SweepSearcher
    from sweeps.search.study import journal_path, open_study, save_journal

    options = plan.options
    with TemporaryDirectory(prefix="sweep-") as scratch:
        journal = journal_path(options.folder, Path(scratch))
        study = open_study(journal, options.name, plan.space.metric)
        SweepSearcher(  # tells the study of all ends
            plan, study, on_new=lambda _spec: None, max_live=1, known=known.records, history=known.reports
        )
        save_journal(options.folder, journal)
    ledger = open_ledger(plan, known.records)
    closing_errors = close_records(plan, ledger)
    listener.answer(options)
    ending = listener.finish(options, outcome_of(ledger, closing_errors))
    trackers = Trackers(options.log_to, options.folder, plan.tasks, known.records)
    listener.show(report_answer(options, trackers))
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


def run_and_finish(
    plan: SweepPlan,
    inputs: TrainingInputs,
    listener: Listener,
    ownership: Ownership,
    known: KnownTrials | None = None,
) -> Ending:
    """Runs a sweep in its folder and finishes it."""
    options, is_answered = plan.options, False

    def answer() -> None:
        nonlocal is_answered
        display.close()
        listener.answer(options)
        is_answered = True

    set_driver_variables()
    from sweeps.driver.run_sweep import run_plan

    trackers, has_ended = Trackers(options.log_to, options.folder, plan.tasks, known.records if known else ()), False
    try:
        with contextlib.ExitStack() as display:
            show = display.enter_context(listener.watch())

            def track_and_show(event: Event, ledger: "Ledger") -> None:
                show(event, ledger)
                for text in trackers.on_event(event, ledger.records):
                    show(Event(kind="note", facts={"text": text}), ledger)

            on_event = track_and_show if options.log_to else show
            outcome = run_plan(plan, inputs, on_event, ownership, known, on_trained=answer)
        if not is_answered:
            listener.answer(options)
        ending = listener.finish(options, outcome)
        has_ended = not outcome.is_interrupted
        return ending
    finally:
        listener.show(report_answer(options, trackers) if has_ended else trackers.finish([], is_interrupted=True))
