"""One trial on a lane: its starting point, its training stage by stage, what it stores for others, and how it ends.

Every worker runs this. Only rank 0 touches files and communicates with the driver; it broadcasts what it finds.
"""

import contextlib
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import torch
from ray.exceptions import ActorUnavailableError
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from mtlib.checkpoints.state import DiskFull, drop_states, newest_numbers, saved_states
from mtlib.config.trial import TrialConfig
from mtlib.runtime.errors import BucketError, TrainingDiverged, first_line, is_of_system
from mtlib.runtime.method_file import line_of_method
from mtlib.runtime.workers import from_rank_0, num_workers, worker_rank
from mtlib.stages.plan import num_epochs
from mtlib.train import train
from mtlib.training.epoch_report import StepProgress
from mtlib.training.step import Interrupted
from results.records.trial_folder import TrialEnd, TrialStart, read_start, write_end, write_start
from sweeps.driver.trials.messages import Assignment, TrialStatus
from sweeps.lanes.loaded_trial import LoadedTrial
from sweeps.lanes.peak_memory import peak_memory
from sweeps.lanes.reporter import Reporter
from sweeps.reuse.finished_trials import TrialFolder, register_finished
from sweeps.reuse.stage_store import has_stage
from sweeps.reuse.starting_point import prepare_starting_point, store_cut, truncate_trial


@dataclass(kw_only=True)
class TrialRun:
    """A trial that a lane runs."""

    assignment: Assignment
    loaded: LoadedTrial
    folder: TrialFolder
    reporter: Reporter
    device: torch.device
    is_leaving: Callable[[int], bool] = lambda _step: False
    """Whether the trial must go on elsewhere; called on all workers after each step, with its number."""
    is_mixed: bool = False
    """Whether a part was trained in another environment, so that others may not reuse it."""

    @property
    def is_shared(self) -> bool:
        """Whether others may reuse what this trial trains."""
        return self.folder.store is not None and not self.is_mixed


def run_trial(run: TrialRun) -> tuple[TrialStatus, str | None]:
    """Trains a trial from its starting point; its status and, if it failed, why.

    Raises:
        Exception: one that perhaps not all workers met.
        RuntimeError: another worker has died.
    """
    try:
        epochs, is_finished = from_rank_0(lambda: begin(run))
        stopped = run.reporter.replay(epochs, run.loaded.config)
        if stopped is not None:
            from_rank_0(lambda: truncate_trial(run.folder, stopped))
            return "pruned", None
        if not is_finished:
            train_stages(run)
            if run.reporter.is_stopped:
                return "pruned", None
        return ("reused" if is_finished else "complete"), None
    except Interrupted:
        return "interrupted", None
    except (TrainingDiverged, ValueError) as error:
        num_workers()  # raises if the process group is gone, for which torch also raises a ValueError
        run.reporter.log.add_error(error)
        return "failed", describe_error(error)


def begin(run: TrialRun) -> tuple[int, bool]:
    """On rank 0: puts the trial's files at its starting point; epochs that are done, and whether nothing is left."""
    loaded, begun = run.loaded, start_of(run.assignment, run.folder, socket.gethostname())
    found = prepare_starting_point(run.folder, begun, loaded.config, loaded.origin, loaded.cuts)
    environments = [dict(one) for one in begun.environments]
    if dict(loaded.origin.environment) not in environments:
        environments.append(dict(loaded.origin.environment))
    sizes = tuple(stage.micro_batch_size for stage in loaded.config.stages)
    notes = (*begun.notes, *(() if begun.micro_batch_sizes else describe_parts(run, sizes)), *found.notes)
    start = replace(found.start, environments=tuple(environments), micro_batch_sizes=sizes, notes=notes)
    run.is_mixed = found.is_mixed
    run.reporter.shared_seconds = start.shared_seconds
    write_start(run.folder.root, start)
    facts = {name: getattr(start, name) for name in ("shared_steps", "shared_seconds", "taken_from")}
    state = next((name.rpartition("-")[0] for name in saved_states(run.folder.states)), "")
    facts |= {"epochs": found.epochs, "notes": list(found.notes), "state": state}
    run.reporter.tell("starting_point", facts)
    if found.epochs and not found.is_finished:
        store_missed_stage(run, found.epochs)
    return found.epochs, found.is_finished


def describe_parts(run: TrialRun, sizes: Sequence[int | None]) -> tuple[str, ...]:
    """Returns a note for each stage whose batches do not fit a GPU's memory at once."""
    configured = TrialConfig.from_json(str(run.assignment.trial["config"])).stages
    changed = [index for index, stage in enumerate(configured) if stage.micro_batch_size != sizes[index]]
    trial, rule = run.folder.trial_id, "the GPU's memory does not hold a batch at once"
    return tuple(f"{trial}: {rule} in stage {index}; it passes in parts of {sizes[index]} rows" for index in changed)


def store_missed_stage(run: TrialRun, epochs: int) -> None:
    """Stores the stage at whose end the trial stands, if a kill prevented that; its state is known to be undamaged."""
    store, states = run.folder.store, run.folder.states
    ends = [cut for cut in run.loaded.cuts if cut.is_end and cut.total_epochs == epochs]
    numbers = newest_numbers(states)
    is_missing = store is not None and ends != [] and not has_stage(store, ends[0].key)
    is_at_end = numbers is not None and numbers["step"] == 0
    if run.is_shared and is_missing and is_at_end:
        store_stage_end(run, ends[0].stage)


def train_stages(run: TrialRun) -> None:
    """Trains the trial from its newest state."""
    loaded, folder = run.loaded, run.folder

    def on_step(progress: StepProgress) -> bool:
        is_leaving = run.is_leaving(progress.step)  # first: in it the workers wait for each other
        return run.reporter.on_step(progress) and not is_leaving

    def on_stage(stage: int) -> bool:
        if worker_rank() == 0 and run.is_shared:
            store_stage_end(run, stage)
        return True

    stores_stages = folder.store is not None and folder.store.keep_bytes != 0
    train(
        loaded.config,
        loaded.corpus,
        loaded.encoder,
        device=run.device,
        wrap=wrap_for(run.device),
        on_step=on_step,
        on_epoch=run.reporter.on_epoch,
        on_stage=on_stage,
        states=replace(folder.states, keeps_end=stores_stages and loaded.can_be_extended),
        start=loaded.start,
    )


def store_stage_end(run: TrialRun, stage: int) -> None:
    """On rank 0: stores the state at a stage's end, if some trial could continue from it."""
    loaded, is_last = run.loaded, stage + 1 == len(run.loaded.config.stages)
    if is_last and not loaded.can_be_extended:
        return
    seconds = float((newest_numbers(run.folder.states) or {}).get("seconds", 0.0))
    why_not = store_cut(run.folder, loaded.end_of(stage), seconds, is_spare=is_last)
    run.reporter.tell("stage_finished", {"stage": stage, "why_not": why_not})


def end_trial(run: TrialRun, status: TrialStatus, error: str | None) -> None:
    """On rank 0: records how a trial ended and reports it;
    an interrupted one has no end, and a pruned one has the driver's.

    Raises:
        OSError: the end could not be written; the states stay.
    """
    facts: dict[str, Any] = {"wall_seconds": run.reporter.wall_seconds, "peak_memory_bytes": peak_memory(run.device)}
    if status not in ("interrupted", "pruned"):
        is_complete = status in ("complete", "reused")
        cut = run.loaded.cuts[-1] if is_complete and run.is_shared else None
        epochs = num_epochs(run.loaded.config) if is_complete else 0
        key = cut.key if cut else ""
        end = TrialEnd(how=status, error=error, epochs=epochs, time=time.time(), key=key, **facts)
        write_end(run.folder.root, run.folder.trial_id, end)
        drop_states(run.folder.states)
        if cut is not None:
            with contextlib.suppress(OSError):  # no other trial will reuse it
                register_finished(run.folder, cut)
    if status == "pruned":
        drop_states(run.folder.states)
    run.reporter.report_end(status, error, facts)


def start_of(assignment: Assignment, folder: TrialFolder, host: str) -> TrialStart:
    """Returns what `trial.json` says at the beginning of an attempt;
    that of an earlier one with its notes and environments."""
    known = None
    with contextlib.suppress(ValueError):  # damaged: it is written again
        known = read_start(folder.root, folder.trial_id)
    if known is not None:
        return replace(known, host=host, **assignment.trial)
    return TrialStart(started=datetime.now(UTC).isoformat(timespec="milliseconds"), host=host, **assignment.trial)


def wrap_for(device: torch.device) -> Callable[[nn.Module], nn.Module]:
    """Returns how the objective is wrapped: by DistributedDataParallel if there are several workers."""
    if num_workers() == 1:
        return lambda objective: objective
    devices = [device] if device.type == "cuda" else None
    return lambda objective: DistributedDataParallel(
        objective,
        device_ids=devices,
        find_unused_parameters=True,  # tasks take turns: in any step the heads of the others have no gradient
        broadcast_buffers=False,  # they are the same on all workers
        gradient_as_bucket_view=True,  # one copy of the gradients instead of two
    )


def describe_error(error: BaseException) -> str:
    """Returns an error in one line, with its type unless its message is meant for users."""
    if isinstance(error, ActorUnavailableError):
        return "the sweep's driver does not answer"
    place = line_of_method(error)
    text = first_line(error) if place is None else f"{first_line(error)} ({place})"
    is_for_users = isinstance(error, ValueError | TrainingDiverged | DiskFull | BucketError)
    return text if is_for_users or is_of_system(error) else f"{type(error).__name__}: {text}"
