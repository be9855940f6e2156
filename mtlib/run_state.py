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


@dataclass(kw_only=True)
class Run:
    """A trial in progress. Position and sums change; the rest is what it was started with."""

    config: TrialConfig
    corpus: Corpus
    device: torch.device
    plan: tuple[PlannedStage, ...]
    lengths: dict[str, np.ndarray]
    """(rows,) input length of every train row, by set."""
    own_rows: dict[str, int]
    """Train rows of each set without augmentation."""
    origin: dict[str, str]
    """Fingerprints of configuration, data, encoder and starting weights: what a saved state must agree with."""
    model: MultiTaskModel
    teacher: MultiTaskModel | None
    """The mean teacher of the proximal term."""
    objective: nn.Module
    """The objective as it was wrapped for several workers."""
    optimizer: torch.optim.AdamW
    stage: int = 0
    """The stage that is trained, from 0."""
    epoch: int = 0
    """The epoch within the stage, from 0."""
    step: int = 0
    """Steps done within the epoch."""
    sums: dict[str, dict[str, tuple[float, int]]] = field(default_factory=dict)
    """By task and term of the loss, over the epoch's batches so far that carry it: the sum over rows, and the rows."""
    best: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Best score and its epoch (1-based over all stages), by task and for `overall`."""
    stage_best: tuple[float, dict[str, Tensor]] | None = None
    """The stage's best score and its weights, where the next stage starts from them."""
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
        return self.plan[self.stage].first_step(self.epoch) + self.step

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
    """Moves on to the next epoch, or to the first of the next stage."""
    run.epoch, run.step, run.sums = run.epoch + 1, 0, {}
    if run.epoch == run.plan[run.stage].epochs and run.stage + 1 < len(run.plan):
        run.stage, run.epoch = run.stage + 1, 0
        begin_stage(run)


def begin_stage(run: Run) -> None:
    """Takes over the stage before: its last or best weights, and the optimizer's moments unless they start anew."""
    stage, moments = run.config.stages[run.stage], optimizer_tensors(run.optimizer, run.model)
    if stage.start_from == "best":
        assert run.stage_best is not None, "the stage before has scored an epoch"
        run.model.load_state_dict(run.stage_best[1])
        if run.teacher is not None:
            run.teacher.load_state_dict(run.stage_best[1])
    run.stage_best = None
    carry_optimizer(run, {} if stage.start_from == "best" or stage.reset_optimizer else moments)


def note_stage_best(run: Run, score: float) -> None:
    """Keeps the current weights if the next stage starts from the best epoch of this one, and this is it so far."""
    stages = run.config.stages
    is_asked = run.stage + 1 < len(stages) and stages[run.stage + 1].start_from == "best"
    if is_asked and (run.stage_best is None or score > run.stage_best[0]):
        weights = {name: tensor.detach().clone() for name, tensor in run.model.state_dict().items()}
        run.stage_best = (score, weights)


def carry_optimizer(run: Run, tensors: dict[str, Tensor]) -> None:
    """An optimizer over the tasks that are active by the current stage, with the given moments."""
    run.optimizer = make_optimizer(run.config, run.model, tasks_active_by(run.config, run.stage))
    restore_optimizer(run.optimizer, run.model, tensors)


def state_of(run: Run) -> State:
    """Everything that decides how the run goes on. Random streams need no place here: they follow from the position."""
    groups = {"model": run.model.state_dict(), "optimizer": optimizer_tensors(run.optimizer, run.model)}
    if run.teacher is not None:
        groups["teacher"] = run.teacher.state_dict()
    if run.stage_best is not None:
        groups["stage_best"] = run.stage_best[1]
    tensors = {f"{group}.{name}": tensor for group, found in groups.items() for name, tensor in found.items()}
    numbers: dict[str, Any] = {name: getattr(run, name) for name in ("stage", "epoch", "step", "sums", "best")}
    best = None if run.stage_best is None else run.stage_best[0]
    return State(tensors=tensors, numbers={**numbers, "stage_best": best, "origin": run.origin, "seconds": run.seconds})


def restore(run: Run, state: State) -> None:
    """Puts the run where `state` was taken.

    Raises:
        ValueError: the state is of another configuration, data, encoder or starting weights.
    """
    numbers = state.numbers
    for name, fingerprint in run.origin.items():
        rule = f"a saved state must be of the same {name}, {fingerprint[:12]}"
        require(numbers["origin"][name] == fingerprint, rule, numbers["origin"][name][:12])
    run.model.load_state_dict(group_of(state, "model."))
    if run.teacher is not None:
        run.teacher.load_state_dict(group_of(state, "teacher."))
    kept = {name: tensor.to(run.device) for name, tensor in group_of(state, "stage_best.").items()}
    run.stage_best = None if numbers["stage_best"] is None else (numbers["stage_best"], kept)
    run.stage, run.epoch, run.step = numbers["stage"], numbers["epoch"], numbers["step"]
    run.sums = {
        task: {name: (total, rows) for name, (total, rows) in sums.items()} for task, sums in numbers["sums"].items()
    }
    run.best = {name: (score, epoch) for name, (score, epoch) in numbers["best"].items()}
    run.seconds_before = numbers["seconds"]
    carry_optimizer(run, group_of(state, "optimizer."))


def group_of(state: State, prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.tensors.items() if name.startswith(prefix)}
