"""The penalties that can be added to a task's loss: the table `PENALTIES`, an entry and a group of settings each.

The contract of a penalty: its function returns a value for each row of the batch, not their mean or sum. The objective
takes the mean over the batch, or the sum where the settings' `reduction` is `sum`, and adds `weight` times it to the
task's loss, which is minimized. A value is at least 0, unless the entry is `is_signed`. Training checks the shape in
every step and the sign in every batch.

The task's weight scales them with the loss, be it fixed (`loss_weight`) or learned (`loss_weighting`).

Sources: BB is BERT and Beyond, TT Triple Threat, TU Tuning Up BERT, MP My PAL BERT.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from mtlib.config.schema import check_types
from mtlib.runtime.errors import require, require_once
from mtlib.runtime.lazy_functions import Function


@dataclass(frozen=True, kw_only=True)
class Penalty:
    """Everything about one penalty but its formula."""

    title: str
    """Name for people, as in a model card and in errors."""
    function: Function
    """A function, or `module:function`, from a `mtlib.loss.clean_pass.CleanPass` and the group of settings to a tensor
    for each of `terms`, (rows,): first the penalty, then what is only reported."""
    settings: type[Any]
    """Dataclass that is a group of the configuration under the penalty's name. It has `weight` (0 turns the penalty
    off) and `tasks`; `every_batches` and `reduction` mean what they mean in `SmartConfig`, where it has them."""
    terms: tuple[str, ...]
    """Names in the curves of what the function returns."""
    is_signed: bool = False
    """Whether its values may be below 0, as those of a confidence penalty, the negative entropy of the predictions
    (Pereyra et al. 2017). The size of such a penalty says nothing about its effect, and no note compares it."""
    needs_embeddings: bool = False
    """Whether it perturbs the embedded text. Then the encoder must have one module that embeds, whose output the clean
    pass keeps."""
    needs_teacher: bool = False
    """Whether it compares predictions with those of the mean teacher, which then follows the model."""
    needs_whole_batch: bool = False
    """Whether a row's value depends on the other rows of its batch, which then cannot pass in parts."""
    needs_encoder: bool = False
    """Whether it trains only the encoder and the layers of tasks inside it, but no head."""
    inert: Callable[[Any], tuple[str, ...]] = lambda _settings: ()
    """From its settings to those fields of them that have no effect although it is on."""
    always_counts: tuple[str, ...] = ()
    """Fields that have an effect from the first step on, also before one of its tasks is active."""
    length_counts: Callable[[Any], bool] = lambda _settings: False
    """From its settings to whether the first steps of a stage depend on the stage's length."""
    check: Callable[[Any, Any], None] = lambda _settings, _config: None
    """From its settings and the whole `TrialConfig`: raises ValueError where they do not fit together. It is called
    where the penalty is on."""


@dataclass(frozen=True, kw_only=True)
class SmartConfig:
    """SMART smoothness penalty (Jiang et al. 2020, equation 2) on chosen tasks."""

    weight: float = 0.0
    """lambda_s, the weight of the penalty, at least 0; 0 turns it off. Source: BB table 6 and TU table 3 search it."""
    tasks: tuple[str, ...] = ()
    """Tasks that carry the penalty. Source: BB 3.5 uses SST and QQP, not STS."""
    mode: Literal["unit_norm", "paper", "random"] = "unit_norm"
    """How noise becomes a perturbation. `unit_norm`: noise plus a gradient step, scaled to inf-norm 1 per token (what
    BB ran). `paper`: a step of `step_size` along the gradient over its inf-norm, projected on the ball of radius
    `epsilon` (Jiang et al. 2020, algorithm 1); refused under `precision=bf16`, in which its noise vanishes. `random`:
    scaled as `unit_norm`, no gradient step, for a lower cost."""
    noise_std: float = 1e-5
    """sigma, standard deviation of the first noise, in units of the embedding output, at least 0. Source: BB 4.3. At 0
    an ascent step starts from rounding errors alone."""
    step_size: float = 1e-3
    """eta, size of an ascent step, above 0. Source: BB 4.3."""
    epsilon: float = 1e-6
    """`paper`: radius of the ball. Otherwise: guard of the division by the norm. Above 0. Source: BB 4.3; TU 5.3.3 uses
    1e-5."""
    num_steps: int = 1
    """T, number of ascent steps, at least 1; `random` takes none. Source: BB 4.3."""
    reduction: Literal["mean", "sum"] = "mean"
    """Over the batch: `mean` makes the weight independent of the batch size, `sum` reproduces BB."""
    masks: Literal["independent", "shared"] = "independent"
    """Whether dropout draws new masks for the perturbed passes, or uses those of the clean pass again (in
    `precision=bf16` the ascent steps then run in fp32, as rounding errors would hide what they climb)."""
    every_batches: int = 1
    """k: only every k-th batch of a task carries the penalty, the first of each epoch and then in steps of k; at least
    1. Its weight is not raised for that."""
    row_share: float = 1.0
    """The share of each batch's rows that carry the penalty, above 0 and at most 1, for a lower cost; rounded to whole
    rows, at least one. They are drawn at random for each batch, and count for all its rows, so that the weight has the
    same meaning. With `masks=shared` these rows get a further clean pass, whose masks the penalty's passes share."""

    def __post_init__(self) -> None:
        check_types(self)
        require(self.noise_std >= 0, "smart.noise_std must be at least 0", self.noise_std)
        require(self.step_size > 0, "smart.step_size must be above 0", self.step_size)
        require(self.epsilon > 0, "smart.epsilon must be above 0", self.epsilon)
        require(self.num_steps >= 1, "smart.num_steps must be at least 1", self.num_steps)
        is_moved = self.weight == 0 or self.mode != "random" or self.noise_std > 0
        require(is_moved, "smart.noise_std must be above 0 for mode random, which has nothing else", self.noise_std)
        require(self.every_batches >= 1, "smart.every_batches must be at least 1", self.every_batches)
        require(0 < self.row_share <= 1, "smart.row_share must be above 0 and at most 1", self.row_share)
        check_penalty("smart", self)


@dataclass(frozen=True, kw_only=True)
class ProximalConfig:
    """Bregman proximal point term (Jiang et al. 2020, 3.2): predictions stay near those of a mean teacher."""

    weight: float = 0.0
    """mu, the weight of the term, at least 0; 0 turns it off. Source: Jiang et al. 2020 use 1."""
    tasks: tuple[str, ...] = ()
    """Tasks that carry the term."""
    decay: float = 0.99
    """beta, how much of the teacher stays at each optimizer step, 0 <= beta < 1: teacher <- beta teacher + (1 - beta)
    model. Source: Jiang et al. 2020 use .99 first and .999 later."""
    late_decay: float | None = None
    """beta after the first `early_fraction` of a stage's steps, 0 <= beta < 1. None: `decay` to the end. Source: Jiang
    et al. 2020 use .999."""
    early_fraction: float = 0.1
    """Part of a stage's steps with `decay` before `late_decay`, if there is one, applies, above 0 and below 1; every
    stage starts with `decay` again. Source: Jiang et al. 2020, of all updates; their code counts 4,000 steps."""

    def __post_init__(self) -> None:
        check_types(self)
        require(0 <= self.decay < 1, "proximal.decay must be at least 0 and below 1", self.decay)
        late, fraction = self.late_decay, self.early_fraction
        require(late is None or 0 <= late < 1, "proximal.late_decay must be at least 0 and below 1", late)
        require(0 < fraction < 1, "proximal.early_fraction must be above 0 and below 1", fraction)
        check_penalty("proximal", self)

    @property
    def decay_changes(self) -> bool:
        """Whether beta becomes another one within a stage."""
        return self.late_decay not in (None, self.decay)


@dataclass(frozen=True, kw_only=True)
class SimcseConfig:
    """Unsupervised SimCSE (Gao et al. 2021): two dropout views of a text are each other's positives.

    Of a single text, and of both texts of a pair encoded alone (`bi`, `cross_and_bi`), each text has its views; of a
    cross-encoded pair the pair has (MP 4.1). Where nothing is dropped out, both views are the same.
    """

    weight: float = 0.0
    """Weight of the term, at least 0; 0 turns it off."""
    tasks: tuple[str, ...] = ()
    """Tasks that carry the term. Source: MP 4.1 uses STS."""
    temperature: float = 0.05
    """tau, divides the cosines, above 0. Source: Gao et al. 2021."""
    projection: Literal["mlp", "linear", "none"] = "mlp"
    """Between the pooled text and the cosine, in training only: linear and tanh (Gao et al. 2021), `linear` (MP 4.1 for
    cross-encoded pairs), or `none`."""
    dropout: float | None = None
    """Dropout probability of hidden states in both views, 0 <= p < 1; then two passes are made for them. None: the
    encoder's, and one view is the pass that the loss is taken from. Source: MP 5.3 uses .1."""

    def __post_init__(self) -> None:
        check_types(self)
        require(self.temperature > 0, "simcse.temperature must be above 0", self.temperature)
        dropout = self.dropout
        require(dropout is None or 0 <= dropout < 1, "simcse.dropout must be at least 0 and below 1", dropout)
        check_penalty("simcse", self)


@dataclass(frozen=True, kw_only=True)
class DistillationConfig:
    """Knowledge distillation (Hinton et al. 2015): predictions come near those of a teacher.

    Its logits are in columns of a data source (`data.sources.NAME.teacher_columns`), such as those of an ensemble.
    """

    weight: float = 0.0
    """Weight of the term, at least 0; 0 turns it off."""
    tasks: tuple[str, ...] = ()
    """Tasks that have a teacher."""
    temperature: float = 1.0
    """T, divides the logits of both before their probabilities are compared, above 0; the term is multiplied by T^2, so
    that its gradient keeps its size. No effect for a regression. Source: Hinton et al. 2015 try 1 to 20; Liu et al.
    2019 ("Improving Multi-Task Deep Neural Networks via Knowledge Distillation") have 1."""
    label_weight: float = 1.0
    """Factor of the loss from labels of these tasks, at least 0: with 0 they learn from the teacher alone. Where a row
    has no teacher it counts 1."""

    def __post_init__(self) -> None:
        check_types(self)
        require(self.temperature > 0, "distillation.temperature must be above 0", self.temperature)
        require(self.label_weight >= 0, "distillation.label_weight must be at least 0", self.label_weight)
        check_penalty("distillation", self)


def check_penalty(name: str, settings: Any) -> None:
    """Checks the fields that all penalties have: the weight, and the tasks where it is above 0."""
    require(settings.weight >= 0, f"{name}.weight must be at least 0", settings.weight)
    require_once(settings.tasks, f"{name}.tasks must not name a task twice")
    rule = f"{name}.tasks must name at least one task where {name}.weight is above 0"
    require(settings.weight == 0 or bool(settings.tasks), rule, list(settings.tasks))


def check_smart_precision(smart: SmartConfig, config: Any) -> None:
    """Checks that SMART's noise is not rounded to nothing; `config` is a `TrialConfig`."""
    is_lost = config.precision == "bf16" and smart.mode == "paper"
    rule = "smart.mode must not be paper under precision bf16, which rounds its noise away"
    require(not is_lost, rule, smart.mode)


def check_teachers(distillation: DistillationConfig, config: Any) -> None:
    """Checks that the data of each task of the term have a teacher; `config` is a `TrialConfig`."""
    taught = {source.task for source in config.data.sources.values() if source.teacher_columns}
    without = [task for task in distillation.tasks if task not in taught]
    rule = "distillation.tasks must each have a source in data.sources with teacher_columns"
    require(not without, rule, ", ".join(without))


PENALTIES: dict[str, Penalty] = {
    "smart": Penalty(
        title="SMART",
        function="mtlib.loss.smart:smart_penalty",
        settings=SmartConfig,
        terms=("smart_penalty", "noise_norm"),
        needs_embeddings=True,
        inert=lambda smart: ("num_steps", "step_size") if smart.mode == "random" else (),
        check=check_smart_precision,
    ),
    "proximal": Penalty(
        title="proximal point term",
        function="mtlib.loss.proximal:proximal_penalty",
        settings=ProximalConfig,
        terms=("proximal",),
        needs_teacher=True,
        inert=lambda proximal: () if proximal.decay_changes else ("late_decay", "early_fraction"),
        always_counts=("decay", "late_decay", "early_fraction"),  # the teacher follows every step
        length_counts=lambda proximal: proximal.decay_changes,
    ),
    "simcse": Penalty(
        title="SimCSE",
        function="mtlib.loss.simcse:simcse_penalty",
        settings=SimcseConfig,
        terms=("simcse",),
        needs_whole_batch=True,
        needs_encoder=True,
    ),
    "distillation": Penalty(
        title="distillation",
        function="mtlib.loss.distillation:distillation_penalty",
        settings=DistillationConfig,
        terms=("distillation",),
        check=check_teachers,
    ),
}
"""By the name of the penalty's group. A new penalty is one entry here, its group and its function."""
