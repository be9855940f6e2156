"""A sweep from its checks to its end, for the command and for Python; what it prints is left to a listener."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mtlib.model.encoder import load_encoder
from mtlib.runtime.errors import require
from results.records.trials import TrialRecord
from sweeps.driver.resume import resume_sweep
from sweeps.options import SweepOptions, SweepPlan
from sweeps.reuse.file_locks import claim_file
from sweeps.setup.create import create_sweep, discard_unstarted
from sweeps.setup.encoder_checks import describe_family
from sweeps.setup.inputs import read_inputs
from sweeps.setup.machine_checks import check_machine, describe_gpus
from sweeps.setup.model_size import measure_encoder
from sweeps.setup.precision import describe_precision, fit_encoder
from sweeps.setup.report import describe_disk_need, describe_sweep, describe_total

if TYPE_CHECKING:  # Ray and Optuna are loaded below, once everything has been checked
    from sweeps.driver.run_sweep import OnEvent, SweepOutcome

TRYING = "Trying a step of each kind that the trials will take, here on the CPU ..."
"""Shown before the encoder is found and tried, which takes about four seconds for BERT-base."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a sweep ended, and what its user should know of it."""

    outcome: "SweepOutcome"
    exit_code: int
    messages: tuple[str, ...]
    """What went wrong, a line each."""


@dataclass(frozen=True, kw_only=True)
class Listener:
    """What the caller of a sweep does with what it hears."""

    show: Callable[[Iterable[str]], None]
    """Gets lines about the sweep before its first trial."""
    watch: Callable[[], "AbstractContextManager[OnEvent]"]
    """Opened while trials run; yields the function that gets each event."""
    answer: Callable[[SweepOptions], None]
    """Called once all trials have ended, before anything is closed; after that if the sweep ended in another way."""
    finish: Callable[[SweepOptions, "SweepOutcome"], Ending]
    """Called at the end, after `answer`, while the sweep's folder is still locked."""


def run_or_resume(options: SweepOptions, listener: Listener, arguments: Sequence[str]) -> Ending:
    """Runs a new sweep, or what is left of one that is resumed; `arguments` are those of its command.

    Raises:
        ValueError: one line: space, data, encoder, machine or storage do not fit the options.
        KeyboardInterrupt: interrupted twice, or before its trials.
    """
    check_machine(options)
    inputs = read_inputs(options)
    listener.show([*describe_sweep(options, inputs), describe_gpus(options), TRYING])
    encoder = load_encoder(inputs.space.base.encoder.name)
    inputs = fit_encoder(options, inputs, encoder)
    listener.show([*describe_family(encoder), *describe_precision(inputs)])
    if options.resume:
        with exclusive_folder(options.folder):
            resumed = resume_sweep(options, inputs, encoder, arguments)
            listener.show(resumed.notes)
            run = finish_ended_sweep if resumed.is_over else run_and_finish
            return run(options, resumed.plan, listener, resumed.known)
    need = describe_disk_need(options, inputs, measure_encoder(encoder))
    listener.show([describe_total(options, inputs), *need])
    plan = create_sweep(options, inputs, encoder, arguments)
    with exclusive_folder(options.folder):
        return run_and_finish(options, plan, listener, ())


@contextlib.contextmanager
def exclusive_folder(folder: Path) -> Iterator[None]:
    """Locks a sweep's folder for this process; ValueError if another one runs the sweep."""
    claim = claim_file(folder / ".lock")
    require(claim is not None, "a sweep must not be running already", folder)
    assert claim is not None
    try:
        yield
    finally:
        claim.release()


def finish_ended_sweep(
    options: SweepOptions, plan: SweepPlan, listener: Listener, known: Sequence[TrialRecord]
) -> Ending:
    """Finishes a resumed sweep with nothing left to run, and completes what a kill at its very end prevented."""
    from sweeps.driver.ledger import open_ledger
    from sweeps.driver.run_sweep import close_records, outcome_of
    from sweeps.search.searcher import SweepSearcher
    from sweeps.search.study import open_study

    # A new searcher tells the study the ends that it has missed.
    SweepSearcher(
        plan, open_study(plan.options.folder, plan.options.name), on_new=lambda _spec: None, max_live=1, known=known
    )
    ledger = open_ledger(plan, known)
    listener.answer(options)
    return listener.finish(options, outcome_of(ledger, close_records(plan, ledger)))


def run_and_finish(options: SweepOptions, plan: SweepPlan, listener: Listener, known: Sequence[TrialRecord]) -> Ending:
    """Runs a sweep in its folder and finishes it; removes the folder if an error comes before the first trial."""
    is_answered = False

    def answer() -> None:
        nonlocal is_answered
        display.close()
        listener.answer(options)
        is_answered = True

    try:
        from sweeps.driver.run_sweep import run_plan

        with contextlib.ExitStack() as display:
            on_event = display.enter_context(listener.watch())
            outcome = run_plan(plan, on_event, known, on_trained=answer)
    except Exception:
        if not options.resume:
            discard_unstarted(plan.options.folder)
        raise
    if not is_answered:
        listener.answer(options)
    return listener.finish(options, outcome)
