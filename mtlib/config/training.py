"""Settings of training: the stages of a plan, the optimizer and its rates.

Sources: BB is BERT and Beyond, TT Triple Threat, TU Tuning Up BERT, MP My PAL BERT.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from mtlib.config.batch_orders import BATCH_ORDERS, AnnealedSettings, BatchOrder
from mtlib.config.schema import check_types, fields_of, settings_of, with_fields
from mtlib.runtime.errors import require, require_once


@dataclass(frozen=True, kw_only=True)
@with_fields(fields_of(order.settings for order in BATCH_ORDERS.values()))
class StageConfig:
    """One stage of a plan: which tasks are trained, in which order, for how long.

    The settings of all orders are fields too.
    """

    batch_orders: ClassVar[Mapping[str, BatchOrder]] = BATCH_ORDERS
    """The table that `order` names an entry of."""
    tasks: tuple[str, ...]
    """Names of the tasks trained in this stage, at least one, none twice."""
    extra_data: tuple[str, ...] = ()
    """Names of further data sets, keys of `data.sources` with role `extra`, each of a task of this stage. In the order
    of batches each is a set of its own, after the tasks. Source: MP 4.1 adds SNLI and CFIMDB."""
    order: Annotated[str, tuple(BATCH_ORDERS)] = "batch_round_robin"
    """Which batch comes next: an order over the stage's sets, the data of each task and each of `extra_data`."""
    if TYPE_CHECKING:  # a setting of an order that typed code gives; `BATCH_ORDERS` declares all
        annealing: float = AnnealedSettings.annealing
    sum_losses: bool = False
    """False: one optimizer step per batch (BB, MP). True: the batches of a round are summed into one step (TT 4.3)."""
    epochs: int = 1
    """Number of epochs, at least 1."""
    score_every: int = 1
    """Dev and the scored rows of train are scored every so many epochs of the stage, at least 1, and after its last.
    Other epochs have training losses only: neither can they be the best one, nor are they selected, nor does a
    scheduler count them. Source: this project."""
    steps_per_epoch: int | None = None
    """Optimizer steps of an epoch, at least 1. None: as many as the order needs, or, where tasks are drawn at random,
    as one pass over all rows needs. Otherwise an epoch is the next so many steps of the order, which begins again,
    reshuffled, whenever it has ended. `sequential` divides the steps of each epoch among the sets, in proportion to
    their batches, at least one each, `unimax` the steps of the stage. Source: TU 5.2, MP 5.3."""
    micro_batch_size: int | None = None
    """Most rows of a batch that a worker passes through the network at once, at least 1: gradients of the parts add up,
    and losses and gradients are those of the whole batch, but for dropout masks, which are drawn anew for each part. A
    smaller one needs less memory and more time. None: all rows, or, on a GPU whose memory does not hold them, half of
    them, a quarter and so on, which is tried before the trial begins and noted in its record. SimCSE needs all rows."""
    start_from: Literal["last", "best"] = "last"
    """Weights at the stage's start: the `last` of the stage before it, or those of its `best` epoch by the mean dev
    score of the tasks that had been active, with a new optimizer. With `optimizer.average_power` both are averages.
    Source: TU table 4."""
    patience: int | None = None
    """The stage ends once its overall dev score has not risen for so many evaluations, at least 1; its further epochs
    take no step, and the next stage starts as from the planned end. The score is the mean over the tasks that have been
    active. Rates follow the planned length: one that falls then never becomes low. None: all epochs are trained.
    As `EarlyStopping` of Keras and of transformers, without a smallest difference."""
    reset_optimizer: bool = False
    """Whether the optimizer's moments start at 0 in this stage, as they always do in the first."""

    @property
    def order_entry(self) -> BatchOrder:
        """The entry of the stage's order."""
        return self.batch_orders[self.order]

    @property
    def sums_tasks(self) -> bool:
        """Whether a step holds several tasks."""
        return self.sum_losses and len(self.tasks) > 1

    @property
    def scored_epochs(self) -> tuple[int, ...]:
        """The epochs, from 1, at whose end dev is scored."""
        return tuple(
            epoch for epoch in range(1, self.epochs + 1) if epoch % self.score_every == 0 or epoch == self.epochs
        )

    def __post_init__(self) -> None:
        check_types(self)
        require(bool(self.tasks), "a stage must name at least one task", list(self.tasks))
        for name in ("tasks", "extra_data"):
            require_once(getattr(self, name), f"{name} of a stage must not be named twice")
        require(self.epochs >= 1, "epochs must be at least 1", self.epochs)
        require(self.score_every >= 1, "score_every must be at least 1", self.score_every)
        for order in self.batch_orders.values():
            settings_of(order.settings, self)  # checks their ranges
        steps = self.steps_per_epoch
        require(steps is None or steps >= 1, "steps_per_epoch must be at least 1", steps)
        require(self.patience is None or self.patience >= 1, "patience must be at least 1", self.patience)
        rule = f"patience must be none with the order {self.order}, or a set may never be trained"
        require(self.patience is None or not self.order_entry.is_one_set_per_epoch, rule, self.patience)
        micro = self.micro_batch_size
        require(micro is None or micro >= 1, "micro_batch_size must be at least 1", micro)
        sets = len(self.tasks) + len(self.extra_data)
        rule = f"epochs of {self.order} must be at least the number of its sets, {sets}, or one is never trained"
        require(not self.order_entry.is_one_set_per_epoch or self.epochs >= sets, rule, self.epochs)
        rule = (
            f"steps_per_epoch of {self.order} must be at least the number of its sets, {sets}, or one is never trained"
        )
        require(not self.order_entry.has_all_sets_per_epoch or steps is None or steps >= sets, rule, steps)
        in_rounds = ", ".join(name for name, order in self.batch_orders.items() if order.has_rounds)
        rule = f"sum_losses needs rounds: order must be one of {in_rounds}"
        require(not self.sum_losses or self.order_entry.has_rounds, rule, self.order)


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """AdamW (Loshchilov and Hutter 2019) and its rates. Each stage runs through the whole schedule."""

    learning_rate: float = 2e-5
    """Peak rate, above 0. Source: BB 4.3 and MP 5.3 use 2e-5; TT 3 and TU 5.2 use 1e-5; TT table 12 searches it."""
    head_learning_rate: float | None = None
    """Peak rate of all that is not pretrained: heads, PALs, relational layer, projections, learned weights; above 0.
    None: the same."""
    weight_decay: float = 0.01
    """Decoupled weight decay, at least 0. Source: BB 4.3 and MP 5.3 use .01, TU 5.2 none."""
    decay_biases_and_norms: bool = True
    """Whether biases and LayerNorm parameters decay too, as in the papers. Devlin et al. 2019 leave them out."""
    layer_decay: float = 1.0
    """xi, ratio of one layer's rate to that of the layer above it, above 0 and at most 1; embeddings count as a layer
    below the first. Source: Sun et al. 2019; TT table 10 searches it."""
    chosen_scale: float = 1.0
    """beta, factor of the rate of the layers in a task's `chosen_layers` in that task's steps, at least 0.
    Source: TT 4.5, table 11."""
    other_scale: float = 1.0
    """alpha, factor of the rate of its other layers, at least 0. Embeddings and heads keep the plain rate.
    Source: TT 4.5, table 11."""
    beta1: float = 0.9
    """Decay of the first moment, 0 <= beta1 < 1. Source: BB 4.3."""
    beta2: float = 0.999
    """Decay of the second moment, 0 <= beta2 < 1. Source: BB 4.3."""
    epsilon: float = 1e-8
    """Added to the root of the second moment, above 0."""
    schedule: Literal["constant", "constant_with_warmup", "cosine", "slanted_triangular"] = "constant"
    """`constant`, or one that rises linearly from 0 to the peak and then stays there (`constant_with_warmup`), falls by
    half a cosine to 0 (`cosine`), or falls linearly to 0 (`slanted_triangular`). Source: MP 4.1 has the last; the other
    two are as in Hugging Face's transformers, cosine after Loshchilov and Hutter 2017."""
    warmup_fraction: float = 0.1
    """Part of a stage's steps in which the rate rises, at least 0 and below 1; `constant` has none. Source: MP 4.1."""
    clip_norm: float | None = None
    """Largest norm of a step's gradient over all parameters that it moves, above 0: longer gradients are scaled to it,
    once micro-batches, workers and tasks are combined. The curve `clipped_steps` has the share of steps by task. None:
    gradients stay as they are. Source: Pascanu et al. 2013; Hugging Face's Trainer has 1."""
    average_power: float | None = None
    """eta, at least 0: dev is scored with the average of the weights over the stage's steps so far, checkpoints hold
    it, and the next stage starts from it, with the moments of the last step unless they are reset. Step s counts in
    proportion to about s^eta (0: all alike; 1: half of the weight is on the last 29 % of the steps; 4: on the last
    13 %). The stage's own steps stay as they are. It takes the memory of one more model, and a pass over all weights in
    each step. None: the weights after the last step. Source: Shamir and Zhang 2013 (polynomial-decay averaging)."""

    @property
    def is_constant(self) -> bool:
        """Whether the rate is the same in all steps."""
        return self.schedule == "constant" or (self.schedule == "constant_with_warmup" and self.warmup_fraction == 0)

    def __post_init__(self) -> None:
        check_types(self)
        require(self.learning_rate > 0, "optimizer.learning_rate must be above 0", self.learning_rate)
        head_rate = self.head_learning_rate
        require(head_rate is None or head_rate > 0, "optimizer.head_learning_rate must be above 0", head_rate)
        require(self.weight_decay >= 0, "optimizer.weight_decay must be at least 0", self.weight_decay)
        require(0 < self.layer_decay <= 1, "optimizer.layer_decay must be above 0 and at most 1", self.layer_decay)
        require(self.chosen_scale >= 0, "optimizer.chosen_scale must be at least 0", self.chosen_scale)
        require(self.other_scale >= 0, "optimizer.other_scale must be at least 0", self.other_scale)
        require(0 <= self.beta1 < 1, "optimizer.beta1 must be at least 0 and below 1", self.beta1)
        require(0 <= self.beta2 < 1, "optimizer.beta2 must be at least 0 and below 1", self.beta2)
        require(self.epsilon > 0, "optimizer.epsilon must be above 0", self.epsilon)
        fraction = self.warmup_fraction
        require(0 <= fraction < 1, "optimizer.warmup_fraction must be at least 0 and below 1", fraction)
        norm = self.clip_norm
        require(norm is None or norm > 0, "optimizer.clip_norm must be above 0", norm)
        power = self.average_power
        require(power is None or power >= 0, "optimizer.average_power must be at least 0", power)
