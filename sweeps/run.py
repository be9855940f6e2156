"""The command that trains every configuration of a search space and ranks them; `--help` shows how.

Exit codes: 0 all trials ended well, 1 the sweep failed, 2 wrong use, 3 some trials failed, 4 a limit was reached, 130
interrupted.
"""

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from mtlib.runtime.command_line import INTERRUPTED, SUCCESS, WRONG_USE, discard_output, parse_words, print_error
from mtlib.runtime.errors import require
from search_spaces.space import grid_trials, list_spaces
from search_spaces.space_file import find_space, resolve_name
from sweeps.cli.arguments import SWEEP_FAILED, build_parser, read_options
from sweeps.options import SweepOptions, SweepPlan

if TYPE_CHECKING:
    from results.records.trials import TrialRecord


TRYING = "Trying a step of each kind that the trials will take, here on the CPU ..."
"""Printed before the encoder is found and tried, which takes about four seconds for BERT-base."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line, that of this process if None, and returns the exit code; a user's mistake is one line."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        parsed = parse_words(build_parser(), arguments)
        if parsed.list_spaces:
            return print_only(lambda: show(space_lines(parsed.space)))
        options = read_options(parsed, datetime.now(), os.environ.get("RAY_ADDRESS"))
        if not (options.resume or "--gpus-per-worker" in parsed.given):
            from sweeps.setup.machine_checks import use_gpus

            options = use_gpus(options)
        if options.dry_run:
            return print_only(lambda: show_dry_run(options))
        return run_or_resume(options, arguments)
    except ValueError as error:
        print_error(error)
        return WRONG_USE
    except BrokenPipeError:
        discard_output()
        print("interrupted: standard output was closed; continue with --resume", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print(f"error: the disk is full: {error}; free some room and continue with --resume", file=sys.stderr)
        return SWEEP_FAILED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def print_only(print_all: Callable[[], None]) -> int:
    """Runs a command that only prints; a reader that stops early, such as `head`, is no error."""
    try:
        print_all()
    except BrokenPipeError:
        discard_output()
    return SUCCESS


def show(lines: Iterable[str]) -> None:
    """Prints lines."""
    for line in lines:
        print(line, flush=True)


def space_lines(name: str | None) -> list[str]:
    """Every built-in search space with its size and question, or the space with this name or path alone."""
    spaces = list_spaces() if name is None else [find_space(resolve_name(name))[0]]
    width = max(len(space.name) for space in spaces)
    sizes = {space.name: f"{len(grid_trials(space))} on the grid" if space.grid else "ranges only" for space in spaces}
    return [f"{space.name:{width}}  {sizes[space.name]:>14}  {space.question}" for space in spaces]


# Imports are inside the functions below: --help and --list-spaces answer at once, --dry-run loads no Ray.


def show_dry_run(options: SweepOptions) -> None:
    """Prints what a sweep would do, or what is left to run of one."""
    from mtlib.model.encoder import preview_encoder
    from sweeps.dry_run.model_size import measure_encoder
    from sweeps.dry_run.report import describe_disk_need, describe_stages, describe_sweep, describe_trials
    from sweeps.resume.resume import describe_resume
    from sweeps.setup.encoder_checks import check_encoder_fits
    from sweeps.setup.inputs import read_inputs
    from sweeps.setup.machine_checks import check_machine, describe_gpus

    check_machine(options)
    inputs = read_inputs(options)
    show([*describe_sweep(options, inputs), describe_gpus(options), TRYING])
    encoder = preview_encoder(inputs.space.base.encoder.name)
    check_encoder_fits(options, inputs, encoder.pretrained)
    show([f"The encoder is {encoder.place}."])
    if options.resume:
        with exclusive_folder(options.folder):
            fingerprint = encoder.pretrained.fingerprint if encoder.is_local else None
            show(describe_resume(options, inputs, fingerprint))
    else:
        show(describe_trials(options, inputs))
        show(describe_stages(options, inputs))
        show(describe_disk_need(options, inputs, measure_encoder(encoder.pretrained)))
    show(["Dry run: nothing was started."])


def run_or_resume(options: SweepOptions, arguments: Sequence[str]) -> int:
    """Runs a sweep from its checks to its ranking."""
    from mtlib.model.encoder import load_encoder
    from sweeps.dry_run.model_size import measure_encoder
    from sweeps.dry_run.report import describe_disk_need, describe_sweep, describe_total
    from sweeps.resume.resume import resume_sweep
    from sweeps.setup.create import create_sweep
    from sweeps.setup.encoder_checks import check_encoder_fits
    from sweeps.setup.inputs import read_inputs
    from sweeps.setup.machine_checks import check_machine, describe_gpus

    check_machine(options)
    inputs = read_inputs(options)
    show([*describe_sweep(options, inputs), describe_gpus(options), TRYING])
    encoder = load_encoder(inputs.space.base.encoder.name)
    check_encoder_fits(options, inputs, encoder)
    if options.resume:
        with exclusive_folder(options.folder):
            resumed = resume_sweep(options, inputs, encoder, arguments)
            show(resumed.notes)
            run = finish_ended_sweep if resumed.is_over else run_and_finish
            return run(options, resumed.plan, resumed.known)
    show([describe_total(options, inputs), *describe_disk_need(options, inputs, measure_encoder(encoder))])
    plan = create_sweep(options, inputs, encoder, arguments)
    with exclusive_folder(options.folder):
        return run_and_finish(options, plan)


@contextlib.contextmanager
def exclusive_folder(folder: Path) -> Iterator[None]:
    """Locks a sweep's folder for this process; ValueError if another one runs the sweep."""
    from sweeps.reuse.file_locks import claim_file

    claim = claim_file(folder / ".lock")
    require(claim is not None, "a sweep must not be running already", folder)
    assert claim is not None
    try:
        yield
    finally:
        claim.release()


def finish_ended_sweep(options: SweepOptions, plan: SweepPlan, known: Sequence["TrialRecord"]) -> int:
    """Summarises a resumed sweep with nothing left to run, and completes whatever a kill at its very end prevented."""
    from sweeps.cli.summary import finish_sweep
    from sweeps.driver.ledger import open_ledger
    from sweeps.driver.run_sweep import close_records, outcome_of
    from sweeps.search.searcher import SweepSearcher
    from sweeps.search.study import open_study

    # A new searcher tells the study the ends that it has missed.
    SweepSearcher(
        plan, open_study(plan.options.folder, plan.options.name), on_new=lambda _spec: None, max_live=1, known=known
    )
    ledger = open_ledger(plan, known)
    return finish_sweep(options, outcome_of(ledger, close_records(plan, ledger)))


def run_and_finish(options: SweepOptions, plan: SweepPlan, known: Sequence["TrialRecord"] = ()) -> int:
    """Runs a sweep in its folder and summarises it; removes the folder if an error comes before the first trial."""
    from rich.console import Console

    from sweeps.cli.progress import show_progress
    from sweeps.cli.summary import exit_code, finish_sweep
    from sweeps.setup.create import discard_unstarted

    try:
        from sweeps.driver.run_sweep import run_sweep

        with show_progress(Console()) as on_event:
            outcome = run_sweep(plan, on_event, known)
    except SystemExit as error:  # rich raises it when standard output is closed
        raise BrokenPipeError from error
    except Exception:
        if not options.resume:
            discard_unstarted(plan.options.folder)
        raise
    try:
        return finish_sweep(options, outcome)
    except BrokenPipeError:  # the sweep is over and recorded
        discard_output()
        return exit_code(outcome)


def exit_process(code: int) -> NoReturn:
    """Ends the process; where Ray was loaded, as `end_process` does."""
    if "sweeps.cluster.connection" in sys.modules:
        from sweeps.cluster.connection import end_process

        end_process(code)
    sys.exit(code)


if __name__ == "__main__":
    exit_process(main())
