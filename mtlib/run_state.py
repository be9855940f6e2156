"""What a trial is made of while it runs, and how it becomes a saved state and comes back from one."""

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mtlib.checkpoint import State
from mtlib.config import TrialConfig
from mtlib.model import MultiTaskModel
from mtlib.optim import make_optimizer, optimizer_tensors, restore_optimizer
from mtlib.plan import PlannedStage, tasks_active_by
from mtlib.schema import require
from mtlib.tokens import Corpus

CURVES_OF_TRAINING = ("loss", "smart_penalty", "noise_norm")
"""What the running sums of an epoch become, in the order of the objective's details."""


@dataclass(kw_only=True)
class Run:
    """A trial in progress. Position and sums change; the rest is what it was started with."""

    config: TrialConfig
    corpus: Corpus
    device: torch.device
    plan: tuple[PlannedStage, ...]
    lengths: dict[str, np.ndarray]
    """(rows,) input length of every train row, by task."""
    origin: dict[str, str]
    """Fingerprints of configuration, data and encoder: what a saved state must agree with."""
    model: MultiTaskModel
    objective: nn.Module
    """The objective as it was wrapped for several workers."""
    optimizer: torch.optim.AdamW
    stage: int = 0
    """The stage that is trained, from 0."""
    epoch: int = 0
    """The epoch within the stage, from 0."""
    step: int = 0
    """Steps done within the epoch."""
    sums: dict[str, list[float]] = field(default_factory=dict)
    """By task, over the epoch's rows so far: sums of loss, penalty and noise norm, and number of rows."""
    best: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Best score and its epoch (1-based over all stages), by task and for `overall`."""
    is_wanted: bool = True
    """Whether this worker wants to go on; False ends the run on all workers at the next step."""
    seconds_before: float = 0.0
    """Seconds this trial had trained before it was resumed here."""
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Seconds of work on this trial, evaluation included, over all its resumptions."""
        return self.seconds_before + time.monotonic() - self.started

    @property
    def stage_step(self) -> int:
        """Steps done within the stage."""
        return self.epoch * self.plan[self.stage].steps_per_epoch + self.step

    @property
    def total_step(self) -> int:
        """Steps done over all stages."""
        return sum(stage.num_steps for stage in self.plan[: self.stage]) + self.stage_step

    @property
    def total_epoch(self) -> int:
        """The epoch that is trained, 1-based over all stages."""
        return sum(stage.epochs for stage in self.plan[: self.stage]) + self.epoch + 1

    @property
    def num_steps(self) -> int:
        """Optimizer steps of the whole trial."""
        return sum(stage.num_steps for stage in self.plan)

    @property
    def is_last_epoch(self) -> bool:
        return self.total_epoch == sum(stage.epochs for stage in self.plan)


def next_epoch(run: Run) -> None:
    """Moves on to the next epoch, or to the first of the next stage with the optimizer carried over."""
    run.epoch, run.step, run.sums = run.epoch + 1, 0, {}
    if run.epoch == run.plan[run.stage].epochs and run.stage + 1 < len(run.plan):
        run.stage, run.epoch = run.stage + 1, 0
        carry_optimizer(run, optimizer_tensors(run.optimizer, run.model))


def carry_optimizer(run: Run, tensors: dict[str, Tensor]) -> None:
    """An optimizer over the tasks that are active by the current stage, with the given moments."""
    run.optimizer = make_optimizer(run.config.optimizer, run.model, tasks_active_by(run.config, run.stage))
    restore_optimizer(run.optimizer, run.model, tensors)


def state_of(run: Run) -> State:
    """Everything that decides how the run goes on. Random streams need no place here: they follow from the position."""
    tensors = {f"model.{name}": tensor for name, tensor in run.model.state_dict().items()}
    tensors |= {f"optimizer.{name}": tensor for name, tensor in optimizer_tensors(run.optimizer, run.model).items()}
    numbers: dict[str, Any] = {name: getattr(run, name) for name in ("stage", "epoch", "step", "sums", "best")}
    return State(tensors=tensors, numbers={**numbers, "origin": run.origin, "seconds": run.seconds})


def restore(run: Run, state: State) -> None:
    """Puts the run where `state` was taken.

    Raises:
        ValueError: the state is of another configuration, data or encoder.
    """
    numbers = state.numbers
    for name, fingerprint in run.origin.items():
        rule = f"a saved state must be of the same {name}, {fingerprint[:12]}"
        require(numbers["origin"][name] == fingerprint, rule, numbers["origin"][name][:12])
    run.model.load_state_dict(group_of(state, "model."))
    run.stage, run.epoch, run.step = numbers["stage"], numbers["epoch"], numbers["step"]
    run.sums = {task: list(sums) for task, sums in numbers["sums"].items()}
    run.best = {name: (score, epoch) for name, (score, epoch) in numbers["best"].items()}
    run.seconds_before = numbers["seconds"]
    carry_optimizer(run, group_of(state, "optimizer."))


def group_of(state: State, prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.tensors.items() if name.startswith(prefix)}
