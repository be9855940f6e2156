"""`TrialConfig`: everything that decides what one trial learns, typed, checked when built, and hashable.

Where a trial runs (folder, device, workers) is not here; two trials with equal configurations learn the same.
"""

import hashlib
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mtlib.schema import check_types, from_dict, require, require_name, set_in_tree, to_dict
from mtlib.tasks import TASKS

Encoding = Literal["single", "cross", "bi"]
Loss = Literal["cross_entropy", "binary_cross_entropy", "mean_squared_error"]
Order = Literal["batch_round_robin", "sampled_round_robin"]
Schedule = Literal["constant", "slanted_triangular"]
SmartMode = Literal["unit_norm", "paper", "random"]

LOSSES_OF_KIND: dict[str, tuple[str, ...]] = {
    "classes": ("cross_entropy",),
    "binary": ("binary_cross_entropy",),
    "regression": ("mean_squared_error",),
}


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """The pretrained text encoder that all tasks share."""

    name: str = "bert-base-uncased"
    """Any `AutoModel` text encoder: a hub name or a local folder."""
    dropout: float | None = 0.3
    """Dropout probability of hidden states and of the pooled text before a head, 0 <= p < 1. None keeps the
    encoder's own. Source: BB 4.3, TT 3, TU 5.2, MP 5.3 use .3."""
    attention_dropout: float | None = None
    """Dropout probability of attention weights, 0 <= p < 1. None keeps the encoder's own."""
    max_length: int = 128
    """Longest input in word pieces, special tokens included, at least 8; longer pairs lose their longer text's end.
    Source: MP 5.3."""

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("dropout", "attention_dropout"):
            value = getattr(self, name)
            require(value is None or 0 <= value < 1, f"encoder.{name} must be at least 0 and below 1", value)
        require(self.max_length >= 8, "encoder.max_length must be at least 8", self.max_length)
        require(bool(self.name), "encoder.name must be a hub name or a folder", repr(self.name))


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """How one task is encoded, batched and weighted."""

    batch_size: int = 16
    """Examples per batch over all workers, at least 1. Source: TT 3 and TU 5.2 use 16; BB table 5 searches it."""
    loss: Loss
    """`cross_entropy`, `binary_cross_entropy` (one logit) or `mean_squared_error`, whichever fits the task's labels."""
    encoding: Encoding
    """`single` for one text; for pairs `cross` (both in one input, real segment ids) or `bi` (each encoded alone, the
    two vectors joined before the head). Source: BB 3.2, table 1."""
    loss_weight: float = 1.0
    """Factor of this task's loss, above 0. Source: TT table 9 searches it."""
    scored_train_rows: int = 0
    """How many fixed rows of train are scored in evaluation mode beside dev each epoch; 0 for none. Source: BB table 6
    prints SST train."""

    def __post_init__(self) -> None:
        check_types(self)
        require(self.batch_size >= 1, "batch_size must be at least 1", self.batch_size)
        require(self.loss_weight > 0, "loss_weight must be above 0", self.loss_weight)
        require(self.scored_train_rows >= 0, "scored_train_rows must be at least 0", self.scored_train_rows)


@dataclass(frozen=True, kw_only=True)
class StageConfig:
    """One stage of a plan: which tasks are trained, in which order, for how long."""

    tasks: tuple[str, ...]
    """Names of the tasks trained in this stage, at least one, none twice."""
    order: Order = "batch_round_robin"
    """`batch_round_robin`: one batch of each task in turn until each task has been seen once in full (TT 3.1).
    `sampled_round_robin`: in turn until every task but the largest has been seen once; the largest gives as many
    batches as there are rounds (at most all of its own), drawn at random (BB 3.4)."""
    sum_losses: bool = False
    """False: one optimizer step per batch (BB, MP). True: the batches of a round are summed into one step (TT 3.2)."""
    epochs: int = 1
    """Number of epochs, at least 1; each ends with a dev evaluation."""
    steps_per_epoch: int | None = None
    """Optimizer steps of an epoch, at least 1. None: as many as the order needs. Otherwise an epoch is the next so many
    steps of the order, which starts anew, reshuffled, whenever it has ended. Source: TU 5.2, MP 5.3."""

    def __post_init__(self) -> None:
        check_types(self)
        require(bool(self.tasks), "a stage must name at least one task", list(self.tasks))
        require(len(set(self.tasks)) == len(self.tasks), "a stage must not name a task twice", list(self.tasks))
        require(self.epochs >= 1, "epochs must be at least 1", self.epochs)
        steps = self.steps_per_epoch
        require(steps is None or steps >= 1, "steps_per_epoch must be at least 1", steps)


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """AdamW (Loshchilov and Hutter 2019) and its schedule. The schedule runs over each stage anew."""

    learning_rate: float = 2e-5
    """Peak rate, above 0. Source: BB 4.3 and MP 5.3 use 2e-5; TT 3 and TU 5.2 use 1e-5."""
    weight_decay: float = 0.01
    """Decoupled weight decay of all trained parameters, at least 0. Source: BB 4.3."""
    beta1: float = 0.9
    """Decay of the first moment, 0 <= beta1 < 1. Source: BB 4.3."""
    beta2: float = 0.999
    """Decay of the second moment, 0 <= beta2 < 1. Source: BB 4.3."""
    epsilon: float = 1e-8
    """Added to the root of the second moment, above 0."""
    schedule: Schedule = "constant"
    """`constant`, or `slanted_triangular`: linear from 0 to the peak, then linear to 0. Source: MP 4.1."""
    warmup_fraction: float = 0.1
    """Part of a stage's steps that the slanted triangle rises, above 0 and below 1. Source: MP 4.1."""

    def __post_init__(self) -> None:
        check_types(self)
        require(self.learning_rate > 0, "optimizer.learning_rate must be above 0", self.learning_rate)
        require(self.weight_decay >= 0, "optimizer.weight_decay must be at least 0", self.weight_decay)
        require(0 <= self.beta1 < 1, "optimizer.beta1 must be at least 0 and below 1", self.beta1)
        require(0 <= self.beta2 < 1, "optimizer.beta2 must be at least 0 and below 1", self.beta2)
        require(self.epsilon > 0, "optimizer.epsilon must be above 0", self.epsilon)
        fraction = self.warmup_fraction
        require(0 < fraction < 1, "optimizer.warmup_fraction must be above 0 and below 1", fraction)


@dataclass(frozen=True, kw_only=True)
class SmartConfig:
    """SMART smoothness penalty (Jiang et al. 2020, equation 2) on chosen tasks."""

    weight: float = 0.0
    """lambda_s, the weight of the penalty, at least 0; 0 turns it off. Source: BB table 6 searches it."""
    tasks: tuple[str, ...] = ()
    """Tasks that carry the penalty. Source: BB 3.5 uses SST and QQP, not STS."""
    mode: SmartMode = "unit_norm"
    """How noise becomes a perturbation. `unit_norm`: noise plus a gradient step, scaled to inf-norm 1 per token (what
    BB ran). `paper`: a step of `step_size` along the gradient over its inf-norm, projected on the ball of radius
    `epsilon` (Jiang et al. 2020, algorithm 1). `random`: scaled as `unit_norm`, no gradient step, for a lower cost."""
    noise_std: float = 1e-5
    """sigma, standard deviation of the first noise, in units of the embedding output, at least 0. Source: BB 4.3. At 0
    an ascent step starts from rounding errors alone."""
    step_size: float = 1e-3
    """eta, size of an ascent step, above 0. Source: BB 4.3."""
    epsilon: float = 1e-6
    """`paper`: radius of the ball. Otherwise: guard of the division by the norm. Above 0. Source: BB 4.3."""
    num_steps: int = 1
    """T, number of ascent steps, at least 1; `random` takes none. Source: BB 4.3."""
    reduction: Literal["mean", "sum"] = "mean"
    """Over the batch: `mean` makes the weight independent of the batch size, `sum` reproduces BB."""

    def __post_init__(self) -> None:
        check_types(self)
        require(self.weight >= 0, "smart.weight must be at least 0", self.weight)
        require(self.noise_std >= 0, "smart.noise_std must be at least 0", self.noise_std)
        require(self.step_size > 0, "smart.step_size must be above 0", self.step_size)
        require(self.epsilon > 0, "smart.epsilon must be above 0", self.epsilon)
        require(self.num_steps >= 1, "smart.num_steps must be at least 1", self.num_steps)


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """How rows become batches."""

    bucket_by_length: bool = True
    """True: rows of similar length share a batch, so that little is padding; every row is still seen once per pass."""
    bucket_batches: int = 50
    """How many batches' rows are shuffled into one pool and sorted there, at least 1, but no more than an eighth of a
    pass, so that a small task's batches differ from pass to pass; ignored without buckets."""

    def __post_init__(self) -> None:
        check_types(self)
        require(self.bucket_batches >= 1, "data.bucket_batches must be at least 1", self.bucket_batches)


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """How dev is scored. Scores do not depend on it."""

    batch_size: int = 64
    """Examples per evaluation batch and worker, at least 1."""

    def __post_init__(self) -> None:
        check_types(self)
        require(self.batch_size >= 1, "evaluation.batch_size must be at least 1", self.batch_size)


def default_task_configs() -> dict[str, TaskConfig]:
    """Every known task with the loss and encoding that fit it."""
    return {name: default_task_config(name) for name in TASKS}


def default_task_config(name: str) -> TaskConfig:
    """The task `name` with the loss and encoding that fit it."""
    task = TASKS[name]
    return TaskConfig(
        loss=typing.cast(Loss, task.default_loss),
        encoding=typing.cast(Encoding, task.default_encoding),
        scored_train_rows=task.scored_train_rows,
    )


@dataclass(frozen=True, kw_only=True)
class TrialConfig:
    """One trial: encoder, tasks, plan, optimizer, penalties, precision and seed.

    Raises:
        ValueError: a value is out of range or does not fit its task; the message holds the rule, then the value.
    """

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    tasks: Mapping[str, TaskConfig] = field(default_factory=default_task_configs)
    """Settings by task name. Tasks that no stage trains are neither loaded nor scored."""
    stages: tuple[StageConfig, ...]
    """The plan: stages in the order in which they are trained."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    smart: SmartConfig = field(default_factory=SmartConfig)
    data: DataConfig = field(default_factory=DataConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    precision: Literal["fp32", "bf16"] = "fp32"
    """`bf16` runs matrix products in bfloat16 under autocast; weights, noise and losses stay fp32."""
    seed: int = 0
    """Seed of the sweep, at least 0."""
    replicate: int = 0
    """Which repetition of the configuration this is, from 0. Random streams follow from seed and replicate."""

    def __post_init__(self) -> None:
        check_types(self)
        object.__setattr__(self, "tasks", types.MappingProxyType(dict(sorted(self.tasks.items()))))
        require(bool(self.stages), "stages must hold at least one stage", list(self.stages))
        require(self.seed >= 0, "seed must be at least 0", self.seed)
        require(self.replicate >= 0, "replicate must be at least 0", self.replicate)
        for name, task_config in self.tasks.items():
            check_task(name, task_config)
        for name in (*self.active_tasks, *self.smart.tasks):
            require_name(name, self.tasks, "task")
        rule = "smart.tasks must name at least one task where smart.weight is above 0"
        require(self.smart.weight == 0 or bool(self.smart.tasks), rule, list(self.smart.tasks))

    def __hash__(self) -> int:
        return hash(self.content_hash)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles and copies as its JSON."""
        return TrialConfig.from_json, (self.to_json(),)

    @property
    def active_tasks(self) -> tuple[str, ...]:
        """Tasks that some stage trains, each once, in the order of `TASKS`."""
        named = {task for stage in self.stages for task in stage.tasks}
        return tuple(name for name in TASKS if name in named) + tuple(sorted(named - set(TASKS)))

    @property
    def content_hash(self) -> str:
        """SHA-256 of the canonical JSON, in hexadecimal: equal exactly when the configurations are equal."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, no spaces, every field present."""
        return json.dumps(to_dict(self), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "TrialConfig":
        """Reads what `to_json` wrote; fields that are missing take their defaults.

        Raises:
            ValueError: an unknown key (the nearest right one is named) or a value that is not allowed.
        """
        return config_from_tree(json.loads(text))

    def override(self, changes: Mapping[str, Any]) -> "TrialConfig":
        """A copy with dotted keys changed, e.g. `{"tasks.sst.batch_size": 8, "stages.1.epochs": 3}`.

        Values may be text, as typed on a command line; text is read as the field's type.

        Raises:
            ValueError: an unknown key (the nearest right one is named) or a value that is not allowed.
        """
        tree = to_dict(self)
        for key, value in changes.items():
            set_in_tree(tree, key, value)
        return config_from_tree(tree)


def config_from_tree(tree: Any) -> TrialConfig:
    """A configuration from plain dictionaries; what a task's group leaves out takes that task's own default."""
    require(isinstance(tree, Mapping), "a configuration must be a group of keys", repr(tree))
    tasks = tree.get("tasks", {})
    require(isinstance(tasks, Mapping), "tasks must be a group of keys", repr(tasks))
    for name, group in tasks.items():
        require_name(name, TASKS, "task")
        require(isinstance(group, Mapping), f"tasks.{name} must be a group of keys", repr(group))
    complete = {name: {**to_dict(default_task_config(name)), **group} for name, group in tasks.items()}
    config: TrialConfig = from_dict(TrialConfig, {**tree, **({"tasks": complete} if tasks else {})}, "")
    return config


def check_task(name: str, config: TaskConfig) -> None:
    """Checks that loss and encoding fit the task called `name`."""
    require_name(name, TASKS, "task")
    task = TASKS[name]
    losses = LOSSES_OF_KIND[task.kind]
    require(config.loss in losses, f"tasks.{name}.loss must be one of {', '.join(losses)}", config.loss)
    encodings = ("cross", "bi") if task.is_pair else ("single",)
    rule = f"tasks.{name}.encoding must be one of {', '.join(encodings)}"
    require(config.encoding in encodings, rule, config.encoding)
