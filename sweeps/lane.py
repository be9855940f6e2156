"""What the workers of a lane do: load once, then train one trial after another, until there is none left.

A lane is one run of Ray Train whose workers stay: imports, process group, encoder weights and token cache are warm for
every trial after the first. The first worker talks with the mailbox; the others learn from it what is next. An error
that all workers meet alike fails the trial and the lane goes on; any other ends the worker, and Ray Train starts the
lane's workers anew.
"""

import functools
import gc
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import ray.train.torch
import torch
from ray.actor import ActorHandle
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from mtlib.checkpoint import StateFolder, drop_states
from mtlib.config import TrialConfig
from mtlib.encoder import PretrainedEncoder, load_encoder
from mtlib.losses import TrainingDiverged
from mtlib.schema import first_line
from mtlib.sources import Key, Parts, check_files, find_parts, read_parts
from mtlib.step import Interrupted
from mtlib.tokens import Corpus, tokenize
from mtlib.train import train
from mtlib.workers import gather_from_workers, num_workers, worker_rank
from sweeps.lane_link import LaneLink
from sweeps.memory import peak_memory, reset_peak_memory
from sweeps.messages import Assignment, End


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
    state_steps: int
    """Optimizer steps between two saved states."""


def run_lane(setup: LaneSetup) -> None:
    """Trains trials until the mailbox has none; runs on every worker of the lane."""
    torch.set_num_threads(setup.cpus_per_worker)
    if not tell(lambda: ray.get(setup.mailbox.open_lane.remote(setup.lane))):
        return
    try:
        refusal = agree_on_error(lambda: load(setup, TrialConfig.from_json(setup.base)))
    except Exception as error:
        ray.get(setup.mailbox.say_trouble.remote(setup.lane, describe(error)))
        raise
    if refusal is not None:
        tell(lambda: ray.get(setup.mailbox.refuse_lane.remote(setup.lane, refusal)))
        return
    gc.collect()
    gc.freeze()  # libraries are here to stay: looking through them again after each trial would take 0.2 s
    place = socket.gethostname(), os.getpid()
    while (answer := tell(lambda: ray.get(setup.mailbox.next_trial.remote(setup.lane, *place)))) != "close":
        if isinstance(answer, Assignment):
            run_assignment(setup, answer)


def tell(ask: Callable[[], Any]) -> Any:
    """What the first worker found out, on all workers."""
    return gather_from_workers(ask() if worker_rank() == 0 else None)[0]


def agree_on_error(attempt: Callable[[], Any]) -> str | None:
    """Runs something on every worker; the message of the first ValueError that any of them raised, on all of them."""
    try:
        attempt()
        message = None
    except ValueError as error:
        message = first_line(error)
    return next((found for found in gather_from_workers(message) if found is not None), None)


def load(setup: LaneSetup, config: TrialConfig) -> tuple[PretrainedEncoder, Corpus]:
    """Encoder and token cache of a trial: at hand if an earlier trial used them."""
    return encoder_of(config.encoder.name), corpus_of(config, setup.data_folder, setup.cache_folder)


@functools.lru_cache(maxsize=1)
def encoder_of(name: str) -> PretrainedEncoder:
    """The encoder that is held in memory."""
    return load_encoder(name)


def corpus_of(config: TrialConfig, data_folder: Path, cache_folder: Path) -> Corpus:
    """The data of a trial as the encoder's word pieces: the same for all trials that learn from the same rows."""
    wanted = tuple(find_parts(config, data_folder).items())
    return read_corpus(config.encoder.name, wanted, data_folder, cache_folder)


@functools.lru_cache(maxsize=4)
def read_corpus(encoder: str, wanted: tuple[tuple[Key, Parts], ...], data_folder: Path, cache_folder: Path) -> Corpus:
    """The token cache, mapped into memory: shared by all workers of a machine."""
    check_files((parts for _, parts in wanted), data_folder)
    tables = {key: read_parts(parts, data_folder) for key, parts in wanted}
    return tokenize(tables, encoder_of(encoder).tokenizer, cache_folder)


def run_assignment(setup: LaneSetup, assignment: Assignment) -> None:
    """Trains one trial and says how it ended.

    Raises:
        Exception: one that perhaps not all workers met; they must be started anew.
    """
    device = ray.train.torch.get_device()
    reset_peak_memory(device)
    link = LaneLink(setup.mailbox, setup.folder, assignment.trial_id, setup.metric)
    folder = setup.folder / "trials" / assignment.trial_id / "checkpoint"
    states = StateFolder(path=folder, every_steps=setup.state_steps)
    try:
        how, error = train_trial(setup, TrialConfig.from_json(assignment.config), device, link, states)
    except Exception as found:
        if not is_contained(found, device):
            say_why(link, found)
            raise
        how, error = "failed", describe(found)
    if worker_rank() == 0:
        if how != "interrupted":
            drop_states(states)
        link.ended(how, error, {"peak_memory_bytes": peak_memory(device)})
    free_memory()


def train_trial(
    setup: LaneSetup, config: TrialConfig, device: torch.device, link: LaneLink, states: StateFolder
) -> tuple[End, str | None]:
    """Trains one trial; how it ended and, if it failed, why."""
    refusal = agree_on_error(lambda: load(setup, config))
    if refusal is not None:
        return "failed", refusal
    encoder, corpus = load(setup, config)
    try:
        train(
            config,
            corpus,
            encoder,
            device=device,
            wrap=wrap_for(device),
            on_step=link.on_step,
            on_epoch=link.on_epoch,
            states=states,
        )
    except Interrupted:
        return "interrupted", None
    except (TrainingDiverged, ValueError) as error:
        return "failed", describe(error)
    return ("pruned" if link.is_stopped else "complete"), None


def wrap_for(device: torch.device) -> Callable[[nn.Module], nn.Module]:
    """How the objective is wrapped: not at all for one worker, else so that gradients are averaged."""
    if num_workers() == 1:
        return lambda objective: objective
    devices = [device] if device.type == "cuda" else None
    # Tasks take turns, so that in any step the heads of the others have no gradient.
    return lambda objective: DistributedDataParallel(objective, device_ids=devices, find_unused_parameters=True)


def describe(error: BaseException) -> str:
    """An error in one line, with its kind unless it is a message for people."""
    text = first_line(error)
    return text if isinstance(error, ValueError | TrainingDiverged) else f"{type(error).__name__}: {text}"


def is_contained(error: BaseException, device: torch.device) -> bool:
    """Whether this process can train the next trial: no other worker waits for it, and no CUDA error has spoilt it."""
    return num_workers() == 1 and not (device.type == "cuda" and may_come_from_outside(error))


def may_come_from_outside(error: BaseException) -> bool:
    """Whether the trial may be innocent: torch says with a RuntimeError that a peer has gone or a GPU is broken."""
    return isinstance(error, RuntimeError) and not isinstance(error, torch.OutOfMemoryError | NotImplementedError)


def say_why(link: LaneLink, error: BaseException) -> None:
    """Tells the mailbox what this worker dies of: the trial's own fault, or one that another attempt may not meet."""
    if may_come_from_outside(error):
        link.suspect(describe(error))
    else:
        link.ended("failed", describe(error), {})


def free_memory() -> None:
    """Gives back what the last trial held."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
