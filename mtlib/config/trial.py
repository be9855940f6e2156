"""`TrialConfig`: everything that decides what one trial learns, typed, checked when built, and hashable.

Where a trial runs (folder, device, workers) is not here; two trials with equal configurations learn the same.
"""

import hashlib
import json
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from mtlib.config.consistency import (
    check_carried,
    check_frozen,
    check_gradients,
    check_layer_scales,
    check_loss_weights,
    check_relational,
    check_stages,
    check_tasks,
)
from mtlib.config.data import DataConfig, EvaluationConfig, SourceConfig
from mtlib.config.gradient_methods import GRADIENT_METHODS
from mtlib.config.network import EncoderConfig, Encoding, PalsConfig, TaskConfig
from mtlib.config.penalties import PENALTIES, ProximalConfig, SimcseConfig, SmartConfig
from mtlib.config.schema import check_types, fields_of, from_dict, set_in_tree, settings_of, to_dict, with_fields
from mtlib.config.training import LossWeighting, OptimizerConfig, StageConfig
from mtlib.errors import require, require_name
from mtlib.tasks import TASKS

OPEN_GROUPS = ("data.sources",)
"""Groups in which an override may name a key that is not there yet."""


def default_task_configs() -> dict[str, TaskConfig]:
    """Every known task with the loss and encoding that fit it."""
    return {name: default_task_config(name) for name in TASKS}


def default_task_config(name: str) -> TaskConfig:
    """The task `name` with the loss and encoding that fit it."""
    task = TASKS[name]
    return TaskConfig(
        loss=task.default_loss,
        encoding=typing.cast(Encoding, task.default_encoding),
        scored_train_rows=task.scored_train_rows,
    )


@dataclass(frozen=True, kw_only=True)
@with_fields({name: (penalty.settings, field(default_factory=penalty.settings)) for name, penalty in PENALTIES.items()})
@with_fields(fields_of(method.settings for method in GRADIENT_METHODS.values()))
class TrialConfig:
    """One trial: encoder, tasks, plan, optimizer, penalties, precision and seed.

    The groups of all penalties in `PENALTIES` and the settings of all methods in `GRADIENT_METHODS` are fields too.

    Raises:
        ValueError: a value is out of range or does not fit its task; the message holds the rule, then the value.
    """

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    pals: PalsConfig = field(default_factory=PalsConfig)
    tasks: Mapping[str, TaskConfig] = field(default_factory=default_task_configs)
    """Settings by task name. Tasks that no stage trains are neither loaded nor scored."""
    stages: tuple[StageConfig, ...]
    """The plan: stages in the order in which they are trained."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    if TYPE_CHECKING:  # groups of penalties, which `PENALTIES` declares
        smart: SmartConfig = field(default_factory=SmartConfig)
        proximal: ProximalConfig = field(default_factory=ProximalConfig)
        simcse: SimcseConfig = field(default_factory=SimcseConfig)
    data: DataConfig = field(default_factory=DataConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    relational_tasks: tuple[str, ...] = ()
    """Tasks whose texts' vectors pass through one linear layer, shared among them, before their linear heads.
    Source: My PAL BERT 4.1, for QQP and STS."""
    loss_weighting: LossWeighting = "fixed"
    """`fixed`: the tasks' `loss_weight`. `uncertainty`: weights learned with the model (Kendall et al. 2018): the loss
    of a task counts exp(-s), half that for a squared error, and s / 2 is added, for a learned s per task that starts at
    0. Either weight scales the task's SMART, proximal and SimCSE terms as it does its loss: under `uncertainty` what
    they count changes as s is learned, and s is learned from their sum with the loss."""
    gradients: Annotated[str, tuple(GRADIENT_METHODS)] = "sum"
    """How the tasks' gradients in a summed step become one: their sum, or a method against conflicts between them
    (`pcgrad`: Yu et al. 2020; `mgda`, `upgrad`, `dualproj`, `imtl_g`, `aligned_mtl`: as in the library torchjd) on the
    parameters that several tasks share; the others take their sum. Source: Tuning Up BERT 7 names PCGrad."""
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
        for method in GRADIENT_METHODS.values():
            settings_of(method.settings, self)  # checks them
        check_groups(self)

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
    def penalties(self) -> dict[str, Any]:
        """The group of settings of every penalty by its name."""
        return {name: getattr(self, name) for name in PENALTIES}

    @property
    def tasks_by_group(self) -> dict[str, tuple[str, ...]]:
        """The tasks of each group that names tasks; none where the group is turned off."""
        return {
            **{f"{name}.tasks": group.tasks if group.weight > 0 else () for name, group in self.penalties.items()},
            "pals.tasks": self.pals.tasks if self.pals.size > 0 else (),
            "relational_tasks": self.relational_tasks,
        }

    @property
    def train_sets(self) -> tuple[str, ...]:
        """Sets that some stage draws batches from: active tasks, then extra data, each once."""
        extra = {name for stage in self.stages for name in stage.extra_data}
        return (*self.active_tasks, *sorted(extra))

    def task_of(self, train_set: str) -> str:
        """The task that a set trains: itself, or that of extra data."""
        return train_set if train_set in self.tasks else self.data.sources[train_set].task

    def settings_of(self, train_set: str) -> TaskConfig | SourceConfig:
        """How a set is batched and drawn: its task's settings, or those of extra data."""
        return self.tasks[train_set] if train_set in self.tasks else self.data.sources[train_set]

    def batch_size_of(self, train_set: str) -> int:
        """Examples per batch of a set, over all workers."""
        return self.settings_of(train_set).batch_size

    @property
    def content_hash(self) -> str:
        """SHA-256, in hexadecimal, of the canonical JSON of what is used: the tasks that stages train, and their data.

        Equal where the configurations are equal or differ only in settings of tasks and data sets that no stage uses,
        so that a task or a data set that the project adds changes no hash but those of configurations that use it.
        """
        return hashlib.sha256(canonical_json(used_settings(self, (self,))).encode()).hexdigest()

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, no spaces, every field present."""
        return canonical_json(to_dict(self))

    @classmethod
    def from_json(cls, text: str) -> "TrialConfig":
        """Reads what `to_json` wrote; fields that are missing take their defaults.

        Raises:
            ValueError: an unknown key (the nearest right one is named) or a value that is not allowed.
        """
        return config_from_tree(json.loads(text))

    def override(self, changes: Mapping[str, Any]) -> "TrialConfig":
        """A copy with dotted keys changed, e.g. `{"tasks.sst.batch_size": 8, "stages.1.epochs": 3}`.

        Values may be text, as typed on a command line; text is read as the field's type. They may also be groups, such
        as `StageConfig`, and lists of them.

        Raises:
            ValueError: an unknown key (the nearest right one is named) or a value that is not allowed.
        """
        tree = to_dict(self)
        for key, value in changes.items():
            set_in_tree(tree, key, to_dict(value), OPEN_GROUPS)
        return config_from_tree(tree)


def used_settings(config: TrialConfig, users: Iterable[TrialConfig]) -> dict[str, Any]:
    """A configuration as plain data, without the settings of tasks and of data sets that no user's stages use.

    Args:
        config: any configuration.
        users: those whose stages count: itself, or the configurations that a search space makes of it.
    """
    users = tuple(users)
    tasks = {task for user in users for task in user.active_tasks}
    extra = {name for user in users for stage in user.stages for name in stage.extra_data}
    tree: dict[str, Any] = to_dict(config)
    tree["tasks"] = {name: settings for name, settings in tree["tasks"].items() if name in tasks}
    tree["data"]["sources"] = {
        name: source
        for name, source in tree["data"]["sources"].items()
        if (name in extra if source["role"] == "extra" else source["task"] in tasks)
    }
    return tree


def canonical_json(tree: Any) -> str:
    """JSON with sorted keys and no spaces."""
    return json.dumps(tree, sort_keys=True, separators=(",", ":"), allow_nan=False)


def check_groups(config: TrialConfig) -> None:
    """Checks a configuration whose groups are right by themselves; ValueError names the first rule that is broken."""
    named = [task for group in (*config.penalties.values(), config.pals) for task in group.tasks]
    check_tasks(config.tasks, (*config.active_tasks, *named, *config.relational_tasks))
    require_name(config.encoder.start_epoch, ("overall", *TASKS), "encoder.start_epoch")
    check_stages(config.stages, config.data.sources)
    active = {task: config.tasks[task] for task in config.active_tasks}
    carried = config.tasks_by_group
    check_carried(carried, active)
    check_relational(config.tasks, config.relational_tasks)
    check_layer_scales(config.optimizer, config.stages, active)
    check_gradients(config.gradients, config.stages)
    check_loss_weights(config.loss_weighting, active)
    if config.encoder.trained_layers == ():
        check_frozen(active, carried["pals.tasks"], config.relational_tasks)
        for name in (name for name, penalty in PENALTIES.items() if penalty.needs_encoder):
            named = [task for task in carried[f"{name}.tasks"] if task in active]
            without = [task for task in named if task not in carried["pals.tasks"]]
            rule = f"{name}.tasks must have PALs where encoder.trained_layers is empty, or the term changes nothing"
            require(not without, rule, without)
        rule = "gradients must be sum where encoder.trained_layers is empty and no relational layer is shared"
        shared = [task for task in config.relational_tasks if task in active]
        require(config.gradients == "sum" or len(shared) > 1, rule, config.gradients)
        decay = config.optimizer.layer_decay
        require(decay == 1, "optimizer.layer_decay must be 1 where encoder.trained_layers is empty", decay)
    is_lost = config.precision == "bf16" and bool(carried["smart.tasks"]) and config.smart.mode == "paper"
    rule = "smart.mode must not be paper under precision bf16, which rounds its noise away"
    require(not is_lost, rule, config.smart.mode)


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
