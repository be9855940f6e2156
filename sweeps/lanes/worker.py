"""What the workers of a lane do: load once, then train one trial after another, until there is none left.

A lane is one run of Ray Train whose workers stay: imports, process group, encoder weights and token cache are warm for
every trial after the first. The first worker talks with the mailbox; the others learn from it what is next. An error
that all workers meet alike fails the trial and the lane goes on; any other ends the worker, and Ray Train starts the
lane's workers anew.
"""

import gc
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import ray.train.torch
import torch
from ray.actor import ActorHandle

from mtlib.checkpoints.state import why_full
from mtlib.config.trial import TrialConfig
from mtlib.errors import first_line
from mtlib.runtime.environment import describe_environment
from mtlib.runtime.workers import expect_workers, gather_from_workers, num_workers, worker_rank
from results.records.recovery import drop_end, write_end
from sweeps.lanes.loaded_trial import Course, corpus_of, find_course
from sweeps.lanes.messages import Assignment, FinalStatus
from sweeps.lanes.peak_memory import peak_memory, reset_peak_memory
from sweeps.lanes.reporter import TrialReporter
from sweeps.lanes.worker_trial import TrialRun, describe, finish_files, run_trial, states_of, tell
from sweeps.reuse.finished_trials import FINISHED_FOLDER, TrialFolder
from sweeps.reuse.stage_store import StageStore


@dataclass(frozen=True, kw_only=True)
class LaneSetup:
    """What a lane needs to know, the same for all its trials."""

    lane: str
    mailbox: ActorHandle[Any]
    base: str
    """The sweep's base configuration as JSON: what is loaded before the first trial is asked for."""
    metric: str
    """What the search maximises: `overall` or a task."""
    folder: Path
    """The sweep's folder."""
    data_folder: Path
    cache_folder: Path
    cpus_per_worker: int
    checkpoint_steps: int
    """Optimizer steps between two saved states."""
    store: StageStore | None
    """Stages to take over and to leave; None: nothing is shared."""


def run_lane(setup: LaneSetup) -> None:
    """Trains trials until the mailbox has none; runs on every worker of the lane."""
    torch.set_num_threads(setup.cpus_per_worker)
    expect_workers(num_workers())
    nodes = dict(gather_from_workers((ray.get_runtime_context().get_node_id(), socket.gethostname())))
    if not tell(lambda: ray.get(setup.mailbox.register_lane.remote(setup.lane, nodes))):
        return
    try:
        refusal = agree_on_error(lambda: load(setup, TrialConfig.from_json(setup.base)))
    except Exception as error:
        ray.get(setup.mailbox.report_load_crash.remote(setup.lane, describe(error)))
        raise
    if refusal is not None:
        tell(lambda: ray.get(setup.mailbox.report_load_error.remote(setup.lane, refusal)))
        return
    gc.collect()
    gc.freeze()  # libraries are here to stay: looking through them again after each trial would take 0.2 s
    place = socket.gethostname(), os.getpid()
    while (answer := tell(lambda: ray.get(setup.mailbox.next_trial.remote(setup.lane, *place)))) != "close":
        if isinstance(answer, Assignment):
            run_assignment(setup, answer)


def agree_on_error(attempt: Callable[[], Any]) -> str | None:
    """Runs something on every worker; the message of the first ValueError that any of them raised, on all of them."""
    try:
        attempt()
        message = None
    except ValueError as error:
        message = first_line(error)
    return next((found for found in gather_from_workers(message) if found is not None), None)


def load(setup: LaneSetup, config: TrialConfig) -> None:
    """Holds encoder and token cache of a trial in memory."""
    corpus_of(config, setup.data_folder, setup.cache_folder)


def run_assignment(setup: LaneSetup, assignment: Assignment) -> None:
    """Trains one trial and says how it ended.

    Raises:
        Exception: one that perhaps not all workers met; they must be started anew.
    """
    device = ray.train.torch.get_device()
    reset_peak_memory(device)
    is_alone, is_first = num_workers() == 1, worker_rank() == 0  # asked before anything happens to the others
    place, course = place_of(setup, assignment.trial_id), None
    link = TrialReporter(setup.mailbox, setup.folder, assignment.trial_id, setup.metric)
    if is_first:
        drop_end(setup.folder, assignment.trial_id)
    how: FinalStatus = "failed"
    is_full = False
    try:
        course, error = agree_on_course(setup, TrialConfig.from_json(assignment.config), device)
        if course is not None:
            how, error = run_trial(TrialRun(course=course, place=place, link=link, device=device))
    except Exception as found:
        if not is_contained(found, device, is_alone):
            say_why(link, found)
            raise
        error, is_full = describe(found), why_full(found) is not None
    if is_first:
        facts = {"peak_memory_bytes": peak_memory(device), **link.facts}
        if how != "interrupted" and record_end(place, {"how": how, "error": error, "time": time.time(), **facts}):
            finish_files(place, how, keeps_states=is_full)  # once there is room, it can go on from them
        link.report_end(how, error, facts)
    free_memory()


def record_end(place: TrialFolder, facts: Mapping[str, Any]) -> bool:
    """Records how a trial ended; whether there was room for it: states must not go before that."""
    try:
        write_end(place.folder, place.trial_id, facts)
    except OSError as error:
        if why_full(error) is None:
            raise
        return False
    return True


def agree_on_course(setup: LaneSetup, config: TrialConfig, device: torch.device) -> tuple[Course | None, str | None]:
    """A trial with all that its result follows from, on every worker; None and why, if any of them cannot load it."""
    found: list[Course] = []
    environment = describe_environment(device)
    folders = setup.data_folder, setup.cache_folder
    refusal = agree_on_error(lambda: found.append(find_course(config, *folders, environment)))
    return (None, refusal) if refusal is not None else (found[0], None)


def place_of(setup: LaneSetup, trial_id: str) -> TrialFolder:
    """Where a trial's files are, and what it may take over."""
    return TrialFolder(
        folder=setup.folder,
        trial_id=trial_id,
        states=states_of(setup.folder, trial_id, setup.checkpoint_steps),
        store=setup.store,
        finished_folder=setup.cache_folder / FINISHED_FOLDER,
    )


def is_contained(error: BaseException, device: torch.device, is_alone: bool) -> bool:
    """Whether this process can train the next trial: no other worker waits for it, and no CUDA error has spoilt it.

    Args:
        error: what it met.
        device: where it trains.
        is_alone: whether it was the only worker before: now the others, and the process group, may have gone.
    """
    return is_alone and not (device.type == "cuda" and may_come_from_outside(error))


def may_come_from_outside(error: BaseException) -> bool:
    """Whether the trial may be innocent: torch says with a RuntimeError that a peer has gone or a GPU is broken."""
    return isinstance(error, RuntimeError) and not isinstance(error, torch.OutOfMemoryError | NotImplementedError)


def say_why(link: TrialReporter, error: BaseException) -> None:
    """Tells the mailbox what this worker dies of: the trial's own fault, or one that another attempt may not meet."""
    if may_come_from_outside(error):
        link.report_worker_error(describe(error))
    else:
        link.report_end("failed", describe(error), {})


def free_memory() -> None:
    """Gives back what the last trial held."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
