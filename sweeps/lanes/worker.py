"""The workers of a lane: load once, then train one trial after another until none is left.

A lane is one run of Ray Train whose workers stay alive: imports, process group, encoder weights and token cache are
warm for every trial after the first. Rank 0 communicates with the mailbox and broadcasts what is next. An error that
all workers meet alike fails the trial and the lane continues; any other error ends the worker, and Ray Train restarts
the lane's workers.
"""

import gc
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ray
import torch
from ray.actor import ActorHandle
from ray.util.placement_group import get_current_placement_group

from mtlib.checkpoints.state import drop_states, why_full
from mtlib.config.trial import TrialConfig
from mtlib.runtime.environment import describe_environment
from mtlib.runtime.errors import first_line
from mtlib.runtime.workers import expect_workers, gather_from_workers, num_workers, worker_rank
from results.records.recovery import delete_end, write_end
from sweeps.lanes.loaded_trial import LoadedTrial, cached_corpus, load_trial
from sweeps.lanes.messages import Assignment, FinalStatus
from sweeps.lanes.peak_memory import peak_memory, release_memory, reset_peak_memory
from sweeps.lanes.reporter import TrialReporter
from sweeps.lanes.worker_trial import (
    TrialRun,
    describe_error,
    from_rank_0,
    run_trial,
)
from sweeps.options import SweepPlan
from sweeps.reuse.finished_trials import TrialFolder, trial_folder


@dataclass(frozen=True, kw_only=True)
class LaneSetup:
    """What a lane needs for all its trials."""

    lane: str
    """Its name."""
    mailbox: ActorHandle[Any]
    plan: SweepPlan


def run_lane(setup: LaneSetup) -> None:
    """Trains trials until the mailbox has none; runs on every worker of the lane."""
    torch.set_num_threads(setup.plan.options.cpus_per_worker)
    expect_workers(num_workers())
    nodes = dict(gather_from_workers((ray.get_runtime_context().get_node_id(), socket.gethostname())))
    if not from_rank_0(lambda: ray.get(setup.mailbox.register_lane.remote(setup.lane, nodes, own_group()))):
        return
    base, folders = setup.plan.space.base, (setup.plan.data_folder, setup.plan.options.cache_folder)
    try:  # loads data and encoder before the first trial is requested
        problem = first_problem(lambda: cached_corpus(base, *folders))
    except Exception as error:
        ray.get(setup.mailbox.report_load_failure.remote(setup.lane, describe_error(error), can_retry=True))
        raise
    if problem is not None:
        from_rank_0(lambda: ray.get(setup.mailbox.report_load_failure.remote(setup.lane, problem, can_retry=False)))
        return
    gc.collect()
    gc.freeze()  # excludes the libraries from later collections, which would take 0.2 s after each trial
    place = socket.gethostname(), os.getpid()
    while (answer := from_rank_0(lambda: ray.get(setup.mailbox.next_trial.remote(setup.lane, *place)))) != "close":
        if isinstance(answer, Assignment):
            run_assignment(setup, answer)


def own_group() -> str | None:
    """The id of the placement group that holds this worker; None outside of one."""
    group = get_current_placement_group()
    return None if group is None else group.id.hex()


def first_problem(attempt: Callable[[], Any]) -> str | None:
    """Runs `attempt` on every worker; returns, on all, the message of the first ValueError that any of them raised."""
    try:
        attempt()
        message = None
    except ValueError as error:
        message = first_line(error)
    return next((found for found in gather_from_workers(message) if found is not None), None)


def run_assignment(setup: LaneSetup, assignment: Assignment) -> None:
    """Trains one trial and reports how it ended.

    Raises:
        Exception: one that perhaps not all workers met; they must be restarted.
    """
    device = own_device(setup.plan.options.gpus_per_worker)
    reset_peak_memory(device)
    is_alone, is_first = num_workers() == 1, worker_rank() == 0  # before anything can happen to the others
    folder = trial_folder(setup.plan.options, assignment.trial_id)
    plan = setup.plan
    reporter = TrialReporter(setup.mailbox, folder.sweep_folder, assignment.trial_id, plan.space.metric, plan.tasks)
    if is_first:
        delete_end(folder.sweep_folder, assignment.trial_id)
    status: FinalStatus = "failed"
    is_full = False
    try:
        loaded, error = load_on_workers(setup.plan, TrialConfig.from_json(assignment.config), device)
        if loaded is not None:
            status, error = run_trial(TrialRun(loaded=loaded, folder=folder, reporter=reporter, device=device))
    except Exception as found:
        if not is_contained(found, device, is_alone):
            report_error(reporter, found)
            raise
        error, is_full = describe_error(found), why_full(found) is not None
    if is_first:
        facts = {"peak_memory_bytes": peak_memory(device), **reporter.facts}
        end = {"how": status, "error": error, "time": time.time(), **facts}
        if status != "interrupted" and record_end(folder, end) and not is_full:
            drop_states(folder.states)  # where the disk was full, a retry continues from them
        reporter.report_end(status, error, facts)
    release_memory()


def own_device(gpus_per_worker: float) -> torch.device:
    """The device that this worker trains on."""
    if gpus_per_worker == 0:
        return torch.device("cpu")
    from ray.train.torch import get_device  # here: it takes a quarter of a second to import

    device: torch.device = get_device()
    return device


def record_end(folder: TrialFolder, facts: Mapping[str, Any]) -> bool:
    """Records how a trial ended; False if the disk is full: the states must then stay."""
    try:
        write_end(folder.sweep_folder, folder.trial_id, facts)
    except OSError as error:
        if why_full(error) is None:
            raise
        return False
    return True


def load_on_workers(
    plan: SweepPlan, config: TrialConfig, device: torch.device
) -> tuple[LoadedTrial | None, str | None]:
    """Loads a trial on every worker; None and the reason, if any of them cannot."""
    found: list[LoadedTrial] = []
    environment = describe_environment(device)
    folders = plan.data_folder, plan.options.cache_folder
    problem = first_problem(lambda: found.append(load_trial(config, *folders, environment)))
    return (None, problem) if problem is not None else (found[0], None)


def is_contained(error: BaseException, device: torch.device, is_alone: bool) -> bool:
    """Whether this process can train the next trial: no other worker waits for it, and its CUDA context is sound.

    `is_alone` says whether it was the only worker before the error; now the others and the process group may be gone.
    """
    return is_alone and not (device.type == "cuda" and may_be_external(error))


def may_be_external(error: BaseException) -> bool:
    """Whether the trial may not be the cause: torch raises a RuntimeError for a lost peer and for a broken GPU."""
    return isinstance(error, RuntimeError) and not isinstance(error, torch.OutOfMemoryError | NotImplementedError)


def report_error(reporter: TrialReporter, error: BaseException) -> None:
    """Reports the error that ends this worker: as the trial's failure, or as one that a retry may not meet."""
    if may_be_external(error):
        reporter.report_worker_error(describe_error(error))
    else:
        reporter.report_end("failed", describe_error(error), {})
