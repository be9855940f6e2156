"""The workers of a lane: load once, then train one trial after another until none is left.

A lane is one run of Ray Train whose workers stay alive: imports, process group, encoder and data are there for every
trial after the first. Rank 0 asks for what is next and broadcasts it. A trial that diverges or cannot
be trained as configured has failed, and the lane goes on. Any other error ends the worker, and Ray Train restarts the
lane's workers. Where a disk cannot be read or written the trial is interrupted: that is not its failure.
"""

import gc
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import ray
import torch
from ray.actor import ActorHandle
from ray.train.torch import get_device
from safetensors import SafetensorError

from mtlib.config.trial import TrialConfig
from mtlib.runtime.environment import describe_environment
from mtlib.runtime.storage import BUCKET_WAIT, exists, is_file, local_path, make_folder, never_make_again
from mtlib.runtime.workers import expect_workers, from_rank_0, gather_from_workers, num_workers, worker_rank
from mtlib.training.micro_batches import (
    MicroBatches,
    fitting_micro_batches,
    is_out_of_memory,
    with_micro_batches,
)
from results.records.trial_folder import TrialEnd, delete_end, read_end, read_start, write_end, write_start
from results.records.trials import SWEEP_FILE
from sweeps.cluster.node_drain import NodeDrain
from sweeps.cluster.shared_storage import RULE, find_storage_fault
from sweeps.driver.trials.messages import Assignment, ErrorCause, Message, TrialStatus
from sweeps.lanes.loaded_trial import LoadedTrial, load_trial
from sweeps.lanes.peak_memory import limit_memory, release_memory, reset_peak_memory
from sweeps.lanes.reporter import Reporter
from sweeps.lanes.stored_inputs import InputsReader, StoredInputs
from sweeps.lanes.trial_run import TrialRun, describe_error, end_trial, run_trial, start_of
from sweeps.options import SweepPlan
from sweeps.reuse.finished_trials import TrialFolder, trial_folder

Made = TypeVar("Made")


@dataclass(frozen=True, kw_only=True)
class LaneSetup:
    """What a lane needs for all its trials."""

    lane: str
    """Its name."""
    channel: ActorHandle[Any]
    plan: SweepPlan
    inputs: StoredInputs
    driver_id: str
    """The id in `driver.json`."""


def run_lane(setup: LaneSetup) -> None:
    """Trains trials until there are none; runs on every worker of the lane, as Ray Train's training function."""
    torch.set_num_threads(setup.plan.options.cpus_per_worker)
    expect_workers(num_workers())
    node = ray.get_runtime_context().get_node_id()
    workers = gather_from_workers((node, os.getpid()))
    gpus = [(node, gpu) for node, found in gather_from_workers((node, ray.get_gpu_ids())) for gpu in found]
    nodes = sorted({node for node, _ in workers})
    has = Message(kind="workers_started", lane=setup.lane, facts={"nodes": nodes, "workers": workers, "gpus": gpus})
    if not from_rank_0(lambda: ray.get(setup.channel.ask.remote(has))):
        return
    why, refused = find_storage_faults(setup)
    reader = None
    if why is None:
        reader, why = made_by_all(lambda: open_inputs(setup), Exception)
    if reader is None:
        failed = Message(kind="lane_failed", lane=setup.lane, facts={"why": why, "refused": refused})
        from_rank_0(lambda: ray.get(setup.channel.tell.remote(failed)))
        return
    gc.collect()
    gc.freeze()  # excludes the libraries from later collections, which would take 0.2 s after each trial
    drain = NodeDrain()
    wants = Message(kind="wants_trial", lane=setup.lane, facts={"host": socket.gethostname()})
    while (answer := from_rank_0(lambda: ray.get(setup.channel.ask.remote(wants)))) != "close":
        if isinstance(answer, Assignment):
            train_assigned(setup, reader, answer, drain)
        if drain.nodes:
            break
    if drain.nodes:
        facts = {"why": f"node {', '.join(node[:8] for node in drain.nodes)} is drained", "refused": drain.nodes}
        left = Message(kind="drained", lane=setup.lane, facts=facts)
        from_rank_0(lambda: ray.get(setup.channel.tell.remote(left)))


def find_storage_faults(setup: LaneSetup) -> tuple[str | None, list[str]]:
    """Returns why some of the lane's nodes do not share the storage with the driver, and their ids; None if all do."""
    node, folder = ray.get_runtime_context().get_node_id(), setup.plan.options.folder

    def is_seen(path: str) -> bool:
        return bool(ray.get(setup.channel.has_file.remote(path)))

    is_apart = node != setup.inputs.node and local_path(folder) is not None
    fault = find_storage_fault(folder, setup.driver_id, is_seen) if is_apart else None
    found = [one for one in gather_from_workers((node, socket.gethostname(), fault)) if one[2] is not None]
    if not found:
        return None, []
    faults = {host: f"on {host} {fault}" for _, host, fault in found}
    return f"{RULE}, got {folder}: {'; '.join(faults.values())}", sorted({node for node, _, _ in found})


def open_inputs(setup: LaneSetup) -> InputsReader:
    """Returns the inputs of the sweep, with those of the base read."""
    reader = InputsReader(setup.inputs)
    reader.read_encoder(setup.plan.space.base)
    reader.read_corpus(setup.plan.space.base)
    return reader


def made_by_all(make: Callable[[], Made], errors: type[Exception]) -> tuple[Made | None, str | None]:
    """Returns what every worker makes; None and the message, if any of them cannot for one of these errors."""
    made, message = None, None
    try:
        made = make()
    except errors as error:
        message = describe_error(error)
    problem = next((found for found in gather_from_workers(message) if found is not None), None)
    return (made, None) if problem is None else (None, problem)


def train_assigned(setup: LaneSetup, reader: InputsReader, assignment: Assignment, drain: NodeDrain) -> None:
    """Trains one trial and reports how it ended, unless a node is drained: it saves its state and goes on elsewhere.

    Raises:
        Exception: one that perhaps not all workers met; they must be restarted.
    """
    plan = setup.plan
    device: torch.device = get_device() if plan.options.gpus_per_worker > 0 else torch.device("cpu")
    reset_peak_memory(device)
    is_alone, is_first = num_workers() == 1, worker_rank() == 0  # before anything can happen to the others
    folder = trial_folder(plan.options, assignment.trial_id)
    reporter = Reporter(setup.channel, folder.root, assignment, plan.space.metric, plan.tasks, device)

    def note_wait(text: str) -> None:
        setup.channel.tell.remote(Message(kind="waits", trial_id=assignment.trial_id, facts={"text": text}))

    BUCKET_WAIT.show = note_wait
    run = None
    try:
        limit_memory(device, 1.0 if assignment.has_gpu_alone else plan.options.gpus_per_worker)
        never_make_again(folder.root)
        end = from_rank_0(lambda: find_end(folder, assignment))
        never_make_again(folder.root, folder.own)
        if end is not None:  # the worker before died after it had ended the trial
            if is_first:
                reporter.report_end(cast(TrialStatus, end.how), end.error, {"wall_seconds": end.wall_seconds})
            return
        status: TrialStatus = "failed"
        config, environment = TrialConfig.from_json(str(assignment.trial["config"])), describe_environment(device)

        known = from_rank_0(lambda: known_micro_batches(folder, config))

        def size_parts() -> MicroBatches:
            return known or fitting_micro_batches(
                config, reader.read_corpus(config), reader.read_encoder(config), device
            )

        def load(sized: TrialConfig) -> LoadedTrial:
            corpus, start = reader.read_corpus(config), reader.read_start(config)
            return load_trial(sized, reader.read_encoder(config), corpus, start, environment)

        loaded, (sizes, error) = None, made_by_all(size_parts, ValueError)
        if sizes is not None:
            sized = with_micro_batches(config, smallest(gather_from_workers(sizes)))
            loaded, error = made_by_all(lambda: load(sized), ValueError)
        if loaded is not None:
            if device.type == "cuda":  # steps that were tried
                reset_peak_memory(device)
            run = TrialRun(assignment=assignment, loaded=loaded, folder=folder, reporter=reporter, device=device)
            run.is_leaving = drain.is_announced
            with reporter.log.collecting():
                reporter.log.add(f"attempt {assignment.attempt} on {setup.lane}, {socket.gethostname()}")
                status, error = run_trial(run)
    except Exception as found:
        cause = cause_of(found, plan.options.gpus_per_worker)
        status, error = end_by_fault(folder, found)
        if not (is_alone and cause == "storage"):
            if status == "failed" and is_first:
                reporter.report_end(status, error, {"wall_seconds": reporter.wall_seconds})
            reporter.report_error(error, cause)
            if cause != "storage":  # where a log cannot be written either
                reporter.log.add_error(found)
            raise
    release_memory()  # before the table lets another trial begin on the same GPU
    if is_first and drain.nodes and status == "interrupted":
        reporter.log.write()
    elif is_first:
        try:
            if run is not None:
                end_trial(run, status, error)
            else:
                record_unloaded(folder, assignment, status, error)
                reporter.report_end(status, error, {"wall_seconds": reporter.wall_seconds})
        except OSError as found:  # its states are still there
            reporter.report_end(*end_by_fault(folder, found), {"wall_seconds": reporter.wall_seconds})


def known_micro_batches(folder: TrialFolder, config: TrialConfig) -> MicroBatches | None:
    """On rank 0: the sizes with which the trial has begun; None if it has not."""
    try:
        start = read_start(folder.root, folder.trial_id)
    except ValueError:  # damaged
        return None
    sizes = () if start is None else start.micro_batch_sizes
    return sizes if len(sizes) == len(config.stages) else None


def smallest(sizes: Sequence[MicroBatches]) -> MicroBatches:
    """Returns, for each stage, the smallest size of any worker."""
    by_stage = zip(*sizes, strict=True)
    return tuple(min((size for size in found if size is not None), default=None) for found in by_stage)


def find_end(folder: TrialFolder, assignment: Assignment) -> TrialEnd | None:
    """On rank 0: how the trial has ended in this run of the sweep, with a folder from now on; an end from before is
    deleted: it is run again."""
    make_folder(folder.own)
    if assignment.attempt == 1:
        delete_end(folder.root, folder.trial_id)
        return None
    try:
        return read_end(folder.root, folder.trial_id)
    except ValueError:  # damaged: it is trained to its end again
        return None


def record_unloaded(folder: TrialFolder, assignment: Assignment, status: TrialStatus, error: str | None) -> None:
    """Records the end of a trial that could not be loaded, unless it is interrupted."""
    if status != "interrupted":
        write_start(folder.root, start_of(assignment, folder, socket.gethostname()))
        write_end(folder.root, folder.trial_id, TrialEnd(how=status, error=error, time=time.time()))


def end_by_fault(folder: TrialFolder, error: Exception) -> tuple[TrialStatus, str]:
    """Returns how a trial ends that a disk stops, and why: where its own folder alone is gone, it has failed."""
    is_missing = isinstance(error, FileNotFoundError | SafetensorError)  # a state's file has the latter alone
    if is_missing and is_file(folder.root, SWEEP_FILE) and not exists(folder.own):
        return "failed", f"its folder {folder.own.base_path} was renamed or removed while it trained"
    return "interrupted", describe_error(error)


def cause_of(error: BaseException, gpus_per_worker: float) -> ErrorCause:
    """Returns what an error that ends a worker comes from."""
    if isinstance(error, OSError | SafetensorError):  # a disk is full, read-only, broken or away
        return "storage"
    return "shared_gpu" if 0 < gpus_per_worker < 1 and is_out_of_memory(error) else "trial"
