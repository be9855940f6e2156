"""A trial in progress: its parts, its position, its state to save and restore."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import AdamW

from mtlib.checkpoints.state import State
from mtlib.config.schema import settings_of
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.multitask import MultiTaskModel
from mtlib.runtime.errors import require
from mtlib.runtime.late_reading import LateReader
from mtlib.runtime.lazy_functions import load_function
from mtlib.stages.active_weights import active_weights
from mtlib.stages.keys import ENVIRONMENT, Origin, key_parts, next_stage_starts_from_best
from mtlib.stages.plan import PlannedStage, tasks_active_by
from mtlib.stages.sampler import Step
from mtlib.training.linear_probe import fit_heads
from mtlib.training.optimizer import make_optimizer, optimizer_tensors, restore_optimizer


@dataclass(kw_only=True)
class Run:
    """A trial in progress. Position, sums and best scores change; the rest is fixed at the start."""

    config: TrialConfig
    corpus: Corpus
    device: torch.device
    plan: tuple[PlannedStage, ...]
    lengths: dict[str, np.ndarray]
    """(rows,) input length of every train row, by set."""
    own_rows: dict[str, int]
    """Train rows of each set without augmentation."""
    origin: Origin
    """What its result depends on besides the configuration."""
    model: MultiTaskModel
    teacher: MultiTaskModel | None
    """The mean teacher of the proximal term."""
    average: MultiTaskModel | None
    """The average of the stage's weights so far, which is scored and kept; None where those of the last step are."""
    objective: nn.Module
    """The objective as it was wrapped for several workers."""
    optimizer: AdamW
    method_state: dict[str, Tensor] = field(default_factory=dict)
    """What the loss weighting and the gradient method keep from step to step, by name; the objective reads it too."""
    unread: LateReader | None = None
    """Reads the losses of steps late; None where they are read at once."""
    stage: int = 0
    """The stage that is trained, from 0."""
    epoch: int = 0
    """The epoch within the stage, from 0; the number of its epochs once the stage is over."""
    step: int = 0
    """Steps done within the epoch."""
    sums: dict[str, dict[str, tuple[float, int]]] = field(default_factory=dict)
    """By task and term of the loss: its sum over rows, and the number of rows, in the epoch's batches so far that have
    the term. Likewise the norms of gradients (`mtlib.training.gradient_norms`), over the steps that are measured."""
    best: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Best score and its epoch (1-based over all stages), by task and for `overall`."""
    risen: tuple[float, int] | None = None
    """The stage's highest overall dev score so far, and its evaluations since then; None before the first."""
    skipped_steps: int = 0
    """Steps, over all stages, of the epochs that took none because the patience of their stage had run out."""
    stage_best: tuple[float, dict[str, Tensor]] | None = None
    """The stage's best score and its weights, where the next stage starts from them."""
    is_ending: bool = False
    """Whether some worker's run should not continue, as read late."""
    is_wanted: bool = True
    """Whether this worker's run should continue; False ends it on all workers at the next step."""
    environments: tuple[str, ...] = ()
    """Digests of the environments in which it was trained before it was resumed here, if they are not the present one.
    """
    num_rows: int = 0
    """Train rows in the steps since the trial was started or resumed here, all workers together."""
    num_tokens: int = 0
    """Tokens of these rows, special ones included and padding not."""
    seconds_before: float = 0.0
    """Seconds this trial had trained before it was resumed here."""
    started: float = field(default_factory=time.monotonic)

    @property
    def scored_model(self) -> MultiTaskModel:
        """The model that is scored and kept."""
        return self.model if self.average is None else self.average

    @property
    def averages(self) -> dict[str, MultiTaskModel]:
        """The averages of the weights that there are, `teacher` and `average`."""
        both = {"teacher": self.teacher, "average": self.average}
        return {name: model for name, model in both.items() if model is not None}

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
        return sum(stage.num_steps for stage in self.plan[: self.stage]) + self.stage_step - self.skipped_steps

    @property
    def total_epoch(self) -> int:
        """The epoch that is trained, 1-based over all stages."""
        return sum(stage.epochs for stage in self.plan[: self.stage]) + self.epoch + 1

    @property
    def num_steps(self) -> int:
        """Optimizer steps of the whole trial."""
        return sum(stage.num_steps for stage in self.plan)

    @property
    def is_scored_epoch(self) -> bool:
        """Whether dev is scored at the end of the epoch that is trained."""
        return not self.is_skipped_epoch and self.epoch + 1 in self.config.stages[self.stage].scored_epochs

    @property
    def is_skipped_epoch(self) -> bool:
        """Whether the epoch that comes next, or is trained, takes no step, as the patience of its stage has run out."""
        patience = self.config.stages[self.stage].patience
        return self.step == 0 and patience is not None and self.risen is not None and self.risen[1] >= patience

    @property
    def is_last_epoch(self) -> bool:
        return self.total_epoch == sum(stage.epochs for stage in self.plan)

    @property
    def is_stage_over(self) -> bool:
        return self.epoch == self.plan[self.stage].epochs

    @property
    def is_over(self) -> bool:
        return self.is_stage_over and self.stage + 1 == len(self.plan)


def count_step(run: Run, step: Step) -> None:
    """Counts the rows and tokens of a step that has been taken."""
    run.num_rows += sum(len(part.rows) for part in step)
    run.num_tokens += sum(num_tokens(run, part.set, part.rows) for part in step)


def num_tokens(run: Run, name: str, rows: np.ndarray) -> int:
    """Tokens of train rows of a set as the trial's inputs: special ones included, padding not, a pair's texts both."""
    encoding = run.config.tasks[run.config.task_of(name)].encoding
    return int(run.corpus[name, "train"].input_lengths(rows, encoding, run.config.encoder.max_length).sum())


def end_epoch(run: Run) -> None:
    """Moves on to the next epoch of the stage, or to its end."""
    weighting = run.config.weighting_entry
    if run.is_skipped_epoch:
        run.skipped_steps += run.plan[run.stage].steps[run.epoch]
    elif weighting.after_epoch is not None and run.config.stages[run.stage].sums_tasks:
        settings = settings_of(weighting.settings, run.config)
        load_function(weighting.after_epoch)(mean_losses(run), run.method_state, **settings)
    run.epoch, run.step, run.sums = run.epoch + 1, 0, {}


def mean_losses(run: Run) -> dict[str, float]:
    """Returns the mean loss of each task over the rows of the epoch so far."""
    found = {task: sums["loss"] for task, sums in run.sums.items()}
    return {task: total / rows for task, (total, rows) in found.items()}


def begin_next_stage(run: Run) -> None:
    """Moves to the next stage, which starts from the last or best weights and keeps the optimizer's moments, and the
    state of loss weighting and gradient method, unless they are reset. Where the weights are not those of the last
    step, the mean teacher starts from them too."""
    run.stage, run.epoch = run.stage + 1, 0
    stage, moments = run.config.stages[run.stage], optimizer_tensors(run.optimizer, run.model)
    if stage.start_from == "best":
        assert run.stage_best is not None, "the stage before has scored an epoch"
        weights = run.stage_best[1]
    else:
        weights = {} if run.average is None else kept_weights(run, run.average)
    for model in (run.model, run.teacher) if weights else ():
        if model is not None:
            load_weights(model, weights)
    run.stage_best = run.risen = None
    fit_new_heads(run)
    is_reset = stage.start_from == "best" or stage.reset_optimizer
    carry_optimizer(run, {} if is_reset else moments)
    if is_reset:
        run.method_state.clear()


def fit_new_heads(run: Run) -> None:
    """Fits the heads of the tasks that the stage, which is about to begin, is the first to train, unless they were
    loaded; the mean teacher begins with the same."""
    before, loaded = tasks_active_by(run.config, run.stage - 1), run.origin.started
    new = [
        task for task in tasks_active_by(run.config, run.stage) if task not in before and f"heads.{task}" not in loaded
    ]
    for task in fit_heads(run.model, run.config, run.corpus, new, run.device):
        if run.teacher is not None:
            load_weights(run.teacher.heads[task], run.model.heads[task].state_dict())


def note_stage_best(run: Run, score: float) -> None:
    """Notes whether the stage's overall score has risen, and keeps the current weights if the next stage starts from
    this stage's best epoch, and that is this one so far."""
    run.risen = (score, 0) if run.risen is None or score > run.risen[0] else (run.risen[0], run.risen[1] + 1)
    if next_stage_starts_from_best(run.config, run.stage) and (run.stage_best is None or score > run.stage_best[0]):
        weights = kept_weights(run, run.scored_model)
        run.stage_best = (score, {name: tensor.detach().clone() for name, tensor in weights.items()})


def kept_weights(run: Run, model: nn.Module) -> dict[str, Tensor]:
    """Returns the weights to save. Tasks that have not been active are left out: they are as initialised."""
    return active_weights(run.config, tasks_active_by(run.config, run.stage), model.state_dict())


def load_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Loads weights into a model; those that are not given stay."""
    unknown = model.load_state_dict(weights, strict=False).unexpected_keys
    assert not unknown, unknown


def carry_optimizer(run: Run, tensors: dict[str, Tensor]) -> None:
    """Gives the run an optimizer over the tasks that are active by the current stage, with the given moments."""
    run.optimizer = make_optimizer(run.config, run.model, tasks_active_by(run.config, run.stage))
    restore_optimizer(run.optimizer, run.model, tensors)


def state_of(run: Run) -> State:
    """Everything that decides how the run continues. Random streams follow from the position, and weights of tasks that
    have not been active are as initialised."""
    groups = {"model": kept_weights(run, run.model), "optimizer": optimizer_tensors(run.optimizer, run.model)}
    groups |= {name: kept_weights(run, average) for name, average in run.averages.items()}
    groups["method_state"] = run.method_state
    if run.stage_best is not None:
        groups["stage_best"] = run.stage_best[1]
    tensors = {f"{group}.{name}": tensor for group, found in groups.items() for name, tensor in found.items()}
    fields = ("stage", "epoch", "step", "sums", "best", "risen", "skipped_steps")
    numbers: dict[str, Any] = {name: getattr(run, name) for name in fields}
    best = None if run.stage_best is None else run.stage_best[0]
    origin = key_parts(run.config, run.stage, run.epoch, run.origin)
    numbers |= {"stage_best": best, "origin": origin, "seconds": run.seconds, "environments": list(run.environments)}
    return State(tensors=tensors, numbers=numbers)


def restore(run: Run, state: State) -> None:
    """Restores a saved state: of this trial, or of another one that was equal up to there.

    Raises:
        ValueError: the state is of another configuration, data, encoder or starting weights, or lacks best weights that
            the next stage starts from.
    """
    numbers = state.numbers
    check_origin(run.config, run.origin, numbers)
    run.environments = other_environments(run.config, run.origin, numbers)
    load_weights(run.model, group_of(state, "model."))
    for name, average in run.averages.items():
        load_weights(average, group_of(state, f"{name}."))
    run.method_state.clear()  # the objective has the same object
    run.method_state |= group_of(state, "method_state.")
    run.stage, run.epoch, run.step = numbers["stage"], numbers["epoch"], numbers["step"]
    kept = {name: tensor.to(run.device) for name, tensor in group_of(state, "stage_best.").items()}
    is_kept = numbers["stage_best"] is not None and next_stage_starts_from_best(run.config, run.stage)
    run.stage_best = (numbers["stage_best"], kept) if is_kept else None
    run.sums = {
        task: {name: (total, rows) for name, (total, rows) in sums.items()} for task, sums in numbers["sums"].items()
    }
    run.best = {name: (score, epoch) for name, (score, epoch) in numbers["best"].items()}
    run.risen = None if numbers.get("risen") is None else (numbers["risen"][0], numbers["risen"][1])
    run.skipped_steps = numbers.get("skipped_steps", 0)
    run.seconds_before = numbers["seconds"]
    carry_optimizer(run, group_of(state, "optimizer."))


def check_origin(config: TrialConfig, origin: Origin, numbers: Mapping[str, Any]) -> None:
    """Raises ValueError unless the state with these numbers is one that the trial reaches."""
    stage, epoch = numbers["stage"], numbers["epoch"]
    is_known = stage < len(config.stages) and epoch <= config.stages[stage].epochs
    require(is_known, "a saved state must be of the same configuration", f"one after epoch {epoch} of stage {stage}")
    for name, fingerprint in key_parts(config, stage, epoch, origin).items():
        rule = f"a saved state must be of the same {name}, {fingerprint[:12]}"
        is_same = name == ENVIRONMENT or numbers["origin"][name] == fingerprint
        require(is_same, rule, numbers["origin"][name][:12])
    is_scored = epoch >= config.stages[stage].scored_epochs[0]
    has_best = not is_scored or not next_stage_starts_from_best(config, stage) or numbers["stage_best"] is not None
    rule = "a saved state must hold the stage's best weights, from which the next stage starts"
    require(has_best, rule, "one without them")


def other_environments(config: TrialConfig, origin: Origin, numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """Digests of the environments that led to the state with these numbers, if any is not the present one.

    Such a state is not the one that its key stands for: other code, libraries, device or threads have trained a part.
    """
    present = key_parts(config, numbers["stage"], numbers["epoch"], origin)[ENVIRONMENT]
    found = dict.fromkeys([*numbers.get("environments", []), numbers["origin"][ENVIRONMENT]])
    return () if list(found) == [present] else tuple(found)


def group_of(state: State, prefix: str) -> dict[str, Tensor]:
    """Returns the tensors whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.tensors.items() if name.startswith(prefix)}
