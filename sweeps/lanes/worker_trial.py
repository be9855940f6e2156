"""One trial on a lane: its starting point, its training stage by stage, what it stores for others, and how it ends.

Every worker runs this. Only rank 0 touches files and communicates with the mailbox; it broadcasts what it finds.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from filelock import FileLock
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from mtlib.checkpoints.state import DiskFull, newest_numbers, read_state, saved_states
from mtlib.runtime.errors import TrainingDiverged, first_line
from mtlib.runtime.workers import gather_from_workers, num_workers, worker_rank
from mtlib.stages.keys import Cut
from mtlib.train import train
from mtlib.training.step import Interrupted
from sweeps.lanes.loaded_trial import LoadedTrial
from sweeps.lanes.messages import FinalStatus
from sweeps.lanes.reporter import TrialReporter
from sweeps.reuse.file_locks import claim_file
from sweeps.reuse.finished_trials import TrialFolder, find_finished, register_finished, score_names
from sweeps.reuse.stage_store import claim_stage, has_stage
from sweeps.reuse.starting_point import StartingPoint, epochs_of, prepare_starting_point, store_cut, truncate_trial

LOCK_FILE = ".lock"
"""In a trial's folder, claimed by the process that trains it: a killed driver may have left workers behind."""
WAIT_SECONDS = 1.0
"""Between two attempts to claim a stage that another sweep is training."""


@dataclass(kw_only=True)
class TrialClaims:
    """Claims of rank 0 while it trains: its trial, and the stage that others wait for."""

    trial: FileLock | None = None
    stage: FileLock | None = None

    def release(self) -> None:
        for held in filter(None, (self.stage, self.trial)):
            held.release()
        self.stage = self.trial = None


@dataclass(frozen=True, kw_only=True)
class TrialRun:
    """A trial that a lane runs."""

    loaded: LoadedTrial
    folder: TrialFolder
    reporter: TrialReporter
    device: torch.device
    claims: TrialClaims = field(default_factory=TrialClaims)


def from_rank_0(call: Callable[[], Any]) -> Any:
    """Calls on rank 0 and returns the result on all workers."""
    return gather_from_workers(call() if worker_rank() == 0 else None)[0]


def run_trial(run: TrialRun) -> tuple[FinalStatus, str | None]:
    """Trains a trial from its starting point; its status and, if it failed, why.

    Raises:
        Exception: one that perhaps not all workers met.
        RuntimeError: another worker has died.
    """
    try:
        while True:
            start = wait_for_start(run)
            stopped = run.reporter.replay(start.epochs, run.loaded.config)
            if stopped is not None:
                if worker_rank() == 0:
                    run.reporter.reused = truncate_trial(run.folder, stopped)
                return "pruned", None
            if start.is_finished:
                register_end(run)
                return ("complete" if start.reused.taken_from is None else "reused"), None
            if train_stages(run):
                if run.reporter.is_stopped:
                    return "pruned", None
                register_end(run)  # before the claim of the last stage is released
                return "complete", None
    except Interrupted:
        return "interrupted", None
    except (TrainingDiverged, ValueError) as error:
        num_workers()  # raises if the process group is gone, for which torch also raises a ValueError
        return "failed", describe_error(error)
    finally:
        run.claims.release()


def register_end(run: TrialRun) -> None:
    """Registers a completed trial for equal ones, if it may be reused."""
    if worker_rank() == 0 and run.folder.store is not None:
        with contextlib.suppress(OSError):  # no other trial will reuse it
            register_finished(run.folder, run.loaded.cuts[-1])


def wait_for_start(run: TrialRun) -> StartingPoint:
    """Waits until no other process trains what the trial needs next, and puts its files at its starting point.

    Raises:
        Interrupted: the trial is not wanted any more.
    """
    notes: list[str] = []
    while True:
        start: StartingPoint | None = from_rank_0(lambda: try_to_start(run, notes))
        if start is not None:
            return start
        time.sleep(WAIT_SECONDS)
        if not from_rank_0(run.reporter.is_wanted):
            raise Interrupted("interrupted while it waited for a stage that another sweep trains")


def try_to_start(run: TrialRun, notes: list[str]) -> StartingPoint | None:
    """On rank 0: the trial's starting point; None while another process trains it, or the stage that it needs.

    `notes` are messages for the user, to be reported once it starts; those found now are added.
    """
    folder, claims = run.folder, run.claims
    is_new = claims.trial is None
    if claims.trial is None:
        folder.path.mkdir(parents=True, exist_ok=True)
        claims.trial = claim_file(folder.path / LOCK_FILE)
    if claims.trial is None:
        run.reporter.report_waiting("a worker left over from an earlier run of this sweep is still training it")
        return None
    start = available_start(run, notes)
    if is_new:
        store_missed_stage(run, start.epochs)
    while start.epochs < run.loaded.cuts[-1].total_epochs:
        cut = run.loaded.next_end(start.epochs)
        if not claim_cut(run, cut):
            run.reporter.report_waiting(f"stage {cut.stage}, which it needs, is being trained elsewhere")
            return None
        if not is_stored(run, cut):
            break
        before, start = start, available_start(run, notes)  # it was finished just before the claim
        if start.epochs == before.epochs:
            break  # it is stored, but cannot be fetched
    run.reporter.report_starting_point(replace(start, note="; ".join(notes) or None))
    return start


def available_start(run: TrialRun, notes: list[str]) -> StartingPoint:
    """Prepares the starting point that is available now, and collects its note."""
    start = prepare_starting_point(run.folder, run.loaded.config, run.loaded.origin, run.loaded.cuts)
    if start.note is not None and start.note not in notes:
        notes.append(start.note)
    return start


def store_missed_stage(run: TrialRun, epochs: int) -> None:
    """Stores the stage at whose end the trial stands, if a kill prevented that."""
    ends = [cut for cut in run.loaded.cuts if cut.is_end and cut.total_epochs == epochs]
    if run.folder.store is None or not ends or is_stored(run, ends[0]):
        return
    newest = next(map(read_state, saved_states(run.folder.states)), None)  # in full, as damage must not spread
    if newest is not None and epochs_of(run.loaded.config, newest.numbers) == epochs and newest.numbers["step"] == 0:
        store_stage_end(run, ends[0].stage)


def claim_cut(run: TrialRun, cut: Cut) -> bool:
    """Claims the right to train up to a cut, and releases the previous claim; False if another process holds it."""
    store, claims = run.folder.store, run.claims
    if store is None:
        return True
    if claims.stage is not None:
        claims.stage.release()
    claims.stage = claim_stage(store, cut.key)
    return claims.stage is not None


def is_stored(run: TrialRun, cut: Cut) -> bool:
    """Whether a cut is in the store, or is the end of a registered equal trial."""
    if run.folder.store is None:
        return False
    if cut == run.loaded.cuts[-1] and find_finished(run.folder, cut, score_names(run.loaded.config)):
        return True
    return has_stage(run.folder.store, cut.key)


def train_stages(run: TrialRun) -> bool:
    """Trains the trial from its newest state; False if it must look for a new starting point."""
    loaded, folder = run.loaded, run.folder
    must_restart = False

    def on_stage(stage: int) -> bool:
        nonlocal must_restart
        if folder.store is None:
            return True
        must_restart = not from_rank_0(lambda: finish_stage(run, stage))
        return not must_restart

    stores_stages = folder.store is not None and folder.store.keep_bytes != 0
    train(
        loaded.config,
        loaded.corpus,
        loaded.encoder,
        device=run.device,
        wrap=wrap_for(run.device),
        on_step=run.reporter.on_step,
        on_epoch=run.reporter.on_epoch,
        on_stage=on_stage,
        states=replace(folder.states, keeps_end=stores_stages and loaded.can_be_extended),
    )
    return not must_restart


def finish_stage(run: TrialRun, stage: int) -> bool:
    """On rank 0: stores a finished stage; whether to train the next one here and now."""
    loaded = run.loaded
    store_stage_end(run, stage)
    if stage + 1 == len(loaded.config.stages):
        return True  # its claim is held until the trial is registered as finished
    if run.claims.stage is not None:
        run.claims.stage.release()
        run.claims.stage = None
    following = loaded.next_end(loaded.end_of(stage).total_epochs)
    return claim_cut(run, following) and not is_stored(run, following)


def store_stage_end(run: TrialRun, stage: int) -> None:
    """On rank 0: stores the state at a stage's end, if some trial could continue from it."""
    loaded, is_last = run.loaded, stage + 1 == len(run.loaded.config.stages)
    if is_last and not loaded.can_be_extended:
        return
    seconds = float((newest_numbers(run.folder.states) or {}).get("seconds", 0.0))
    why_not = store_cut(run.folder, loaded.end_of(stage), seconds, is_spare=is_last)
    run.reporter.report_stage_finished(stage, why_not)


def wrap_for(device: torch.device) -> Callable[[nn.Module], nn.Module]:
    """How the objective is wrapped: by DistributedDataParallel if there are several workers."""
    if num_workers() == 1:
        return lambda objective: objective
    devices = [device] if device.type == "cuda" else None
    # Tasks take turns, so in any step the heads of the others have no gradient.
    return lambda objective: DistributedDataParallel(objective, device_ids=devices, find_unused_parameters=True)


def describe_error(error: BaseException) -> str:
    """An error in one line, with its type unless its message is meant for users."""
    text = first_line(error)
    return text if isinstance(error, ValueError | TrainingDiverged | DiskFull) else f"{type(error).__name__}: {text}"
