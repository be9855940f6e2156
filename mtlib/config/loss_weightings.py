"""The methods that weigh the losses of the tasks: the table `LOSS_WEIGHTINGS`, an entry each."""

from dataclasses import dataclass
from typing import Any

from mtlib.runtime.errors import require
from mtlib.runtime.lazy_functions import Function


@dataclass(frozen=True, kw_only=True)
class LossWeighting:
    """Everything about one way to weigh losses but its formulas.

    A weight is learned with the model, or set in each step that sums the losses of several tasks, or is `loss_weight`.
    """

    description: str
    """What it does and its source, for the page of the configuration."""
    regularizer: float | None = None
    """Where weights are learned with the model as exp(-s), with an s per task, this multiple of s is added. None: they
    are not learned so."""
    halves_squared_errors: bool = False
    """Whether a learned weight of a squared error is half of exp(-s)."""
    function: Function | None = None
    """Where each step sets the weights, a function, or `module:function`, from the losses of the step's tasks by name,
    means over the global batch without penalties, the method's state, tensors by name, and the settings by name to the
    weights, (tasks,)."""
    after_step: Function | None = None
    """A function that changes the state after a step, from the losses before it, the losses after it of the same
    batches with the same dropout masks, which cost a further forward pass, the state and the settings."""
    after_epoch: Function | None = None
    """A function that changes the state after an epoch, from the tasks' mean losses in it, the state and the settings.
    """
    settings: type[Any] | None = None
    """Dataclass whose fields become fields of the configuration. They are inert where another method is chosen."""


@dataclass(frozen=True, kw_only=True)
class FamoSettings:
    """Settings of `famo`."""

    famo_learning_rate: float = 0.025
    """Rate of Adam for the logits of the weights, above 0. Source: Liu et al. 2023."""
    famo_weight_decay: float = 0.001
    """gamma, decay of the logits, at least 0, added to their gradient. Source: Liu et al. 2023, algorithm 2; the
    authors' code has .00001."""

    def __post_init__(self) -> None:
        require(self.famo_learning_rate > 0, "famo_learning_rate must be above 0", self.famo_learning_rate)
        require(self.famo_weight_decay >= 0, "famo_weight_decay must be at least 0", self.famo_weight_decay)


@dataclass(frozen=True, kw_only=True)
class DwaSettings:
    """Settings of `dwa`."""

    dwa_temperature: float = 2.0
    """T, above 0: the larger, the more alike the weights. Source: Liu et al. 2019."""

    def __post_init__(self) -> None:
        require(self.dwa_temperature > 0, "dwa_temperature must be above 0", self.dwa_temperature)


@dataclass(frozen=True, kw_only=True)
class StchSettings:
    """Settings of `stch`."""

    stch_mu: float = 0.1
    """mu, above 0, in units of a loss: the smaller, the more of the weight has the task with the largest loss. Source:
    Lin et al. 2024 try .01, .1, .5 and 1."""

    def __post_init__(self) -> None:
        require(self.stch_mu > 0, "stch_mu must be above 0", self.stch_mu)


LOSS_WEIGHTINGS: dict[str, LossWeighting] = {
    "fixed": LossWeighting(description="The tasks' `loss_weight`."),
    "uncertainty": LossWeighting(
        description="Weights learned with the model: the loss of a task counts exp(-s), half that for a squared error, "
        "and s / 2 is added, for a learned s per task that starts at 0 (Kendall et al. 2018).",
        regularizer=0.5,
        halves_squared_errors=True,
    ),
    "imtl_l": LossWeighting(
        description="Weights learned with the model: the loss of a task counts exp(-s), and s is added, for a learned "
        "s per task that starts at 0 (IMTL-L, Liu et al. 2021, whose parameter is -s).",
        regularizer=1.0,
    ),
    "famo": LossWeighting(
        description="Weights under which the losses fall at equal rates, learned from how much each step lowers them "
        "(FAMO, Liu et al. 2023). Each step takes a further forward pass, penalties included.",
        function="mtlib.loss.loss_weights:weights_famo",
        after_step="mtlib.loss.loss_weights:update_famo",
        settings=FamoSettings,
    ),
    "dwa": LossWeighting(
        description="The slower a task's mean loss fell from the epoch before the last to the last one, the larger its "
        "weight; all 1 in the first two epochs (Dynamic Weight Average, Liu et al. 2019).",
        function="mtlib.loss.loss_weights:weights_dwa",
        after_epoch="mtlib.loss.loss_weights:note_epoch_dwa",
        settings=DwaSettings,
    ),
    "stch": LossWeighting(
        description="The larger a task's loss in the step, the larger its weight: the gradient of a smooth maximum of "
        "the losses (smooth Tchebycheff scalarization, Lin et al. 2024).",
        function="mtlib.loss.loss_weights:weights_stch",
        settings=StchSettings,
    ),
}
"""By the name in `loss_weighting`. A new method is one entry here and its functions."""
