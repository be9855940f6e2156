"""`TrialConfig`: everything that decides what one trial learns, typed, checked when built, and hashable.

Where a trial runs (folder, device, workers) is not here; two trials with equal configurations learn the same.
"""

import dataclasses
import functools
import hashlib
import json
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from mtlib.config.data import DataConfig, EvaluationConfig, SourceConfig
from mtlib.config.gradient_methods import GRADIENT_METHODS, GradientMethod
from mtlib.config.loss_weightings import LOSS_WEIGHTINGS, LossWeighting
from mtlib.config.methods import BUILT_IN, METHODS_KEY, Methods, methods_of_tree, methods_to_tree
from mtlib.config.network import AdapterConfig, EncoderConfig, PalsConfig, TaskConfig, check_task
from mtlib.config.own_methods import extended_classes
from mtlib.config.penalties import (
    PENALTIES,
    DistillationConfig,
    ProximalConfig,
    SimcseConfig,
    SmartConfig,
)
from mtlib.config.schema import (
    check_types,
    fields_of,
    from_dict,
    read_value,
    set_in_tree,
    settings_of,
    to_dict,
    with_fields,
)
from mtlib.config.training import OptimizerConfig, StageConfig
from mtlib.runtime.errors import require, require_name, require_once
from mtlib.runtime.method_file import MethodFile
from mtlib.tasks import TASKS, Task, in_order

OPEN_GROUPS = ("data.sources",)
"""Groups in which an override may name a key that is not there yet."""


def default_task_config(task: Task, task_settings: type[TaskConfig] = TaskConfig) -> TaskConfig:
    """Returns a task's settings, of this class, with the loss and encoding that fit it."""
    return task_settings(
        loss=task.kind_entry.default_loss,
        target_scale="unit" if task.is_regression and task.files is not None else "raw",
        encoding="cross" if task.is_pair else "single",
        scored_train_rows=task.scored_train_rows,
    )


def default_task_configs(
    tasks: Mapping[str, Task], task_settings: type[TaskConfig] = TaskConfig
) -> dict[str, TaskConfig]:
    """Returns the settings of several tasks, by name, as `default_task_config`."""
    return {name: default_task_config(task, task_settings) for name, task in tasks.items()}


@dataclass(frozen=True, kw_only=True)
@with_fields({name: (penalty.settings, field(default_factory=penalty.settings)) for name, penalty in PENALTIES.items()})
@with_fields(fields_of(method.settings for method in GRADIENT_METHODS.values()))
@with_fields(fields_of(weighting.settings for weighting in LOSS_WEIGHTINGS.values()))
class TrialConfig:
    """One trial: encoder, tasks, plan, optimizer, penalties, precision and seed.

    The groups of all penalties and the settings of all gradient methods and loss weightings are fields too.

    Raises:
        ValueError: a value is out of range or does not fit its task; the message holds the rule, then the value.
    """

    methods: ClassVar[Methods] = BUILT_IN
    """The tables that it names entries of."""
    task_settings: ClassVar[type[TaskConfig]] = TaskConfig
    """The class of the settings of its tasks."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    adapter: AdapterConfig = field(default_factory=AdapterConfig)
    pals: PalsConfig = field(default_factory=PalsConfig)
    tasks: Mapping[str, TaskConfig] = field(default_factory=lambda: default_task_configs(TASKS))
    """Settings by task name. Tasks that no stage trains are neither loaded nor scored."""
    stages: tuple[StageConfig, ...]
    """The plan: stages in the order in which they are trained."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    if TYPE_CHECKING:  # groups of penalties, which `with_fields` declares
        smart: SmartConfig = field(default_factory=SmartConfig)
        proximal: ProximalConfig = field(default_factory=ProximalConfig)
        simcse: SimcseConfig = field(default_factory=SimcseConfig)
        distillation: DistillationConfig = field(default_factory=DistillationConfig)
    data: DataConfig = field(default_factory=DataConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    relational_tasks: tuple[str, ...] = ()
    """Tasks whose texts' vectors pass through one linear layer, shared among them, before their linear heads.
    Source: My PAL BERT 4.1, for QQP and STS."""
    loss_weighting: Annotated[str, tuple(LOSS_WEIGHTINGS)] = "fixed"
    """How the losses of the tasks are weighted. Any weight scales the task's SMART, proximal and SimCSE terms as it
    does its loss: where it is learned with the model, from their sum with the loss, what they count changes. The
    weights that each step sets follow from the losses alone. They act in steps that sum the losses of several tasks,
    and need a stage with such steps. What the method keeps from step to step is saved with the trial; a stage begins
    with that of the stage before it, unless it resets the optimizer or starts from the best weights."""
    gradients: Annotated[str, tuple(GRADIENT_METHODS)] = "sum"
    """How a step that sums the losses of several tasks combines their gradients."""
    precision: Literal["auto", "fp32", "bf16"] = "fp32"
    """`bf16` runs matrix products in bfloat16 under autocast; weights, noise and losses stay fp32. `auto`: bf16
    where the hardware that trains has instructions for it (AMX, AVX512_BF16, CUDA capability 8.0) and neither a setting
    nor the encoder refuses it, otherwise fp32. A sweep resolves it once, for all its trials, before the first; a trial
    by itself when its training begins."""
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
        for method in self.methods.gradient_methods.values():
            settings_of(method.settings, self)  # checks their ranges
        for weighting in LOSS_WEIGHTINGS.values():
            settings_of(weighting.settings, self)
        check_groups(self)

    def __hash__(self) -> int:
        return hash(self.content_hash)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles and copies as its JSON, with the files of methods, which may be run where it is unpickled."""
        return config_with_files, (self.to_json(), self.methods.files)

    @property
    def active_tasks(self) -> tuple[str, ...]:
        """Tasks that some stage trains, each once: in the order of `TASKS`, then of their names."""
        return in_order({task for stage in self.stages for task in stage.tasks})

    def task(self, name: str) -> Task:
        """Returns the definition of a task."""
        return self.data.tasks[name]

    @property
    def has_frozen_encoder(self) -> bool:
        """Whether the encoder's own weights stay the pretrained ones, so that no state or checkpoint holds them."""
        return self.adapter.method != "none" and self.encoder.start_from is None

    @property
    def penalties(self) -> dict[str, Any]:
        """The group of settings of every penalty by its name."""
        return {name: getattr(self, name) for name in self.methods.penalties}

    @property
    def gradient_entry(self) -> GradientMethod:
        """The entry of the method that combines gradients."""
        return self.methods.gradient_methods[self.gradients]

    @property
    def weighting_entry(self) -> LossWeighting:
        """The entry of the method that weighs losses."""
        return LOSS_WEIGHTINGS[self.loss_weighting]

    def needs_whole_batches(self, stage: StageConfig) -> bool:
        """Returns whether a penalty compares the rows of a batch of a stage,
        or their losses set the weights of a step."""
        whole = [name for name in self.active_penalties if self.methods.penalties[name].needs_whole_batch]
        is_weighted = stage.sums_tasks and self.weighting_entry.function is not None
        return is_weighted or any(set(self.penalties[name].tasks) & set(stage.tasks) for name in whole)

    @property
    def active_penalties(self) -> dict[str, Any]:
        """Those of `penalties` whose weight is above 0."""
        return {name: group for name, group in self.penalties.items() if group.weight > 0}

    @property
    def needs_embeddings(self) -> bool:
        """Whether some penalty moves the embedded text."""
        return any(self.methods.penalties[name].needs_embeddings for name in self.active_penalties)

    @property
    def needs_teacher(self) -> bool:
        """Whether some penalty compares the model with a mean teacher."""
        return any(self.methods.penalties[name].needs_teacher for name in self.active_penalties)

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
        """Returns the task that a train set belongs to."""
        return train_set if train_set in self.tasks else self.data.sources[train_set].task

    def set_settings(self, train_set: str) -> TaskConfig | SourceConfig:
        """Returns the settings by which a train set is batched and drawn: its task's, or its source's."""
        return self.tasks[train_set] if train_set in self.tasks else self.data.sources[train_set]

    def batch_size_of(self, train_set: str) -> int:
        """Examples per batch of a set, over all workers."""
        return self.set_settings(train_set).batch_size

    @functools.cached_property
    def content_hash(self) -> str:
        """SHA-256, in hexadecimal, of the canonical JSON of what is used: the tasks that stages train, and their data.

        Settings of tasks and data sets that no stage uses do not count, so a task or data set that the project adds
        changes only the hashes of configurations that use it.
        """
        return hashlib.sha256(canonical_json(used_settings(self, (self,))).encode()).hexdigest()

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, no spaces, every field present, but the definitions of the built-in tasks."""
        tree = self.to_tree()
        if self.data.tasks == TASKS:
            del tree["data"]["tasks"]
        return canonical_json(tree)

    def to_tree(self) -> dict[str, Any]:
        """Returns every field as plain data, with the files of further methods that it may name."""
        files = methods_to_tree(self.methods)
        return {**to_dict(self), **({METHODS_KEY: files} if files else {})}

    @staticmethod
    def from_json(text: str) -> "TrialConfig":
        """Reads what `to_json` wrote, with files of methods; fields that are missing take their defaults.

        Raises:
            ValueError: an unknown key (the nearest right one is named) or a value that is not allowed.
        """
        tree = json.loads(text)
        require(isinstance(tree, dict), "a configuration must be a group of keys", repr(tree))
        own = trial_class(methods_of_tree(tree))
        return config_from_tree({key: value for key, value in tree.items() if key != METHODS_KEY}, own)

    def override(self, changes: Mapping[str, Any]) -> "TrialConfig":
        """Returns a copy with dotted keys changed, e.g. `{"tasks.sst.batch_size": 8, "stages.1.epochs": 3}`.

        Values may be text, as typed on a command line; text is read as the field's type. They may also be groups, such
        as `StageConfig`, and lists of them.

        Raises:
            ValueError: an unknown key (the nearest right one is named) or a value that is not allowed.
        """
        tree = self.opened(changes)
        for key, value in changes.items():
            set_in_tree(tree, key, to_dict(value), OPEN_GROUPS)
        return config_from_tree(tree, type(self))

    def opened(self, keys: Iterable[str]) -> dict[str, Any]:
        """Its groups by name, as plain data where a dotted key leads into them;
        the others, which are checked, as they are."""
        groups = {key.split(".")[0] for key in keys}
        tasks = {key.split(".")[1] for key in keys if key.startswith("tasks.")}
        tree = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        tree |= {name: to_dict(tree[name]) for name in groups & tree.keys() - {"tasks"}}
        is_whole = "data" in groups  # all settings are read by the tasks' definitions
        tree["tasks"] = {name: to_dict(own) if is_whole or name in tasks else own for name, own in self.tasks.items()}
        return tree


def config_with_files(text: str, _files: tuple[MethodFile, ...]) -> TrialConfig:
    """Returns a configuration that has been pickled."""
    return TrialConfig.from_json(text)


def with_methods(config: TrialConfig, methods: Methods) -> TrialConfig:
    """Returns the same configuration, which may name these methods; ValueError if it names one that is none of them."""
    if config.methods is methods:
        return config
    return TrialConfig.from_json(json.dumps({**config.to_tree(), METHODS_KEY: methods_to_tree(methods)}))


def trial_class(methods: Methods) -> type[TrialConfig]:
    """Returns the class of configurations that may name these methods; of the built-in ones `TrialConfig` itself."""
    if methods is BUILT_IN:
        return TrialConfig
    found: type[TrialConfig] = extended_classes(TrialConfig, methods)[TrialConfig]
    return found


def used_settings(config: TrialConfig, users: Iterable[TrialConfig]) -> dict[str, Any]:
    """Returns a configuration as plain data, without the settings of tasks and of data sets that no user's stages use.

    Groups that name tasks, such as `smart.tasks`, name those alone that are trained.

    Args:
        config: any configuration.
        users: those whose stages count: itself, or the configurations that a search space makes of it.
    """
    users = tuple(users)
    trained = {name for user in users for name in user.train_sets}
    tree: dict[str, Any] = to_dict(config)
    tree["tasks"] = {name: settings for name, settings in tree["tasks"].items() if name in trained}
    drop_unused_methods(tree, config, frozenset().union(*(named_entries(user) for user in users)))
    for group in (*(tree[name] for name in config.penalties if name in tree), tree["pals"]):
        group["tasks"] = [name for name in group["tasks"] if name in trained]
    tree["relational_tasks"] = [name for name in tree["relational_tasks"] if name in trained]
    own = {name: task for name, task in config.data.tasks.items() if name in trained and task != TASKS.get(name)}
    tree["data"]["tasks"] = to_dict(own)
    for definition in tree["data"]["tasks"].values():
        del definition["metric_file"], definition["lower_is_better"]  # the file's code counts, above
    tree["data"]["sources"] = {
        name: source
        for name, source in tree["data"]["sources"].items()
        if (name if source["role"] == "extra" else source["task"]) in trained
    }
    return tree


def named_entries(
    config: TrialConfig, stages: Sequence[StageConfig] | None = None, tasks: Sequence[str] | None = None
) -> frozenset[tuple[str, str]]:
    """Returns the methods that a configuration uses, by the table of `Methods` and the name.

    Args:
        config: any configuration.
        stages: those that count; None for all.
        tasks: those that have been active; None for all that some stage trains.
    """
    plan, active = stages or config.stages, config.active_tasks if tasks is None else tasks
    carried = [name for name, group in config.active_penalties.items() if set(group.tasks) & set(active)]
    is_combined = any(stage.sums_tasks for stage in plan)
    return frozenset(
        {
            *(("losses", config.tasks[task].loss) for task in active),
            *(("heads", config.tasks[task].head) for task in active),
            *(("batch_orders", stage.order) for stage in plan if len(stage.tasks) + len(stage.extra_data) > 1),
            *(("penalties", name) for name in carried),
            *((("gradient_methods", config.gradients),) if is_combined else ()),
        }
    )


def digests_of_used_files(config: TrialConfig, used: frozenset[tuple[str, str]], tasks: Iterable[str]) -> list[str]:
    """Returns the digests of the user's files that have some of these methods, or the metric of one of these tasks."""
    origins = config.methods.origins
    files = {origins[entry] for entry in used if entry in origins} | {config.task(task).metric_file for task in tasks}
    return sorted({file.digest for file in files if file is not None})


def drop_unused_methods(tree: dict[str, Any], config: TrialConfig, used: frozenset[tuple[str, str]]) -> None:
    """Leaves the settings of a user's methods out of a configuration's tree where they are not used, and are defaults.

    So files of methods change nothing in configurations that use none of them. Of those that are used the digests are
    added.
    """
    methods = config.methods
    for table, name in methods.origins.keys() - used:
        settings = fields_of([getattr(getattr(methods, table)[name], "settings", None)])
        of_tasks = [*tree["tasks"].values()]
        groups = {"losses": of_tasks, "heads": of_tasks, "batch_orders": tree["stages"], "gradient_methods": [tree]}
        if table == "penalties" and tree[name] == to_dict(methods.penalties[name].settings()):
            del tree[name]
        for group in groups.get(table, ()):
            for own, (_, default) in settings.items():
                if group[own] == to_dict(default):
                    del group[own]
    if digests := digests_of_used_files(config, used, tree["tasks"]):
        tree[METHODS_KEY] = digests


def canonical_json(tree: Any) -> str:
    """JSON with sorted keys and no spaces."""
    return json.dumps(tree, sort_keys=True, separators=(",", ":"), allow_nan=False)


def check_groups(config: TrialConfig) -> None:
    """Checks combinations of groups that are right by themselves; ValueError names the first rule that is broken."""
    for name, settings in config.tasks.items():
        require_name(name, config.data.tasks, "task")
        check_task(config.task(name), settings)
    named = [task for group in (*config.penalties.values(), config.pals) for task in group.tasks]
    for name in (*config.active_tasks, *named, *config.relational_tasks):
        require_name(name, config.tasks, "task")
    require_name(config.encoder.start_epoch, ("overall", *config.data.tasks), "encoder.start_epoch")
    check_stages(config.stages, config.data.sources)
    taught = config.distillation.tasks if config.distillation.weight > 0 else ()
    for name, source in config.data.sources.items():
        needs_teacher = source.role == "augment" and source.teacher_columns and source.task in config.active_tasks
        rule = f"distillation.tasks must hold {source.task}, with distillation.weight above 0, for data.sources.{name}"
        require(not needs_teacher or source.task in taught, rule, list(taught))
    for index, stage in enumerate(config.stages):
        is_whole = stage.micro_batch_size is None or not config.needs_whole_batches(stage)
        where = f"loss_weighting is {config.loss_weighting} or a penalty compares the rows of a batch, as SimCSE does"
        rule = f"stages.{index}.micro_batch_size must be none where {where}"
        require(is_whole, rule, stage.micro_batch_size)
    active = {task: config.tasks[task] for task in config.active_tasks}
    for name, tasks in config.tasks_by_group.items():
        is_carried = not tasks or bool(set(tasks) & set(active))
        require(is_carried, f"{name} must name a task that some stage trains ({', '.join(active)})", list(tasks))
    check_relational(config.tasks, config.relational_tasks)
    sums_tasks = any(stage.sums_tasks for stage in config.stages)
    check_layer_scales(config.optimizer, sums_tasks, active)
    rule = "gradients must be sum unless a stage of several tasks has sum_losses true (stages.*.sum_losses=true)"
    require(config.gradients == "sum" or sums_tasks, rule, config.gradients)
    weighting, weights = config.loss_weighting, {task: settings.loss_weight for task, settings in active.items()}
    rule = f"tasks.<name>.loss_weight must be 1 where loss_weighting is {weighting}, which sets the weights"
    require(weighting == "fixed" or set(weights.values()) == {1.0}, rule, weights)
    if config.weighting_entry.function is not None:
        others = ", ".join(name for name, entry in LOSS_WEIGHTINGS.items() if entry.function is None)
        rule = f"loss_weighting must be one of {others} unless a stage of several tasks has sum_losses true"
        require(sums_tasks, rule, weighting)
        rule = f"gradients must be sum where loss_weighting is {weighting}, which weighs the losses of a step together"
        require(config.gradients == "sum", rule, config.gradients)
    rule = "encoder.trained_layers must be none where adapter.method is not none: the encoder's own weights are frozen"
    has_layers = config.adapter.method == "none" or config.encoder.trained_layers is None
    require(has_layers, rule, config.encoder.trained_layers)
    check_kernels(config)
    if config.encoder.trained_layers == ():
        check_frozen(config, active)
    for name, group in config.active_penalties.items():
        config.methods.penalties[name].check(group, config)


def check_stages(stages: Sequence[StageConfig], sources: Mapping[str, SourceConfig]) -> None:
    """Checks that extra data is known and trains a task of its stage, and that `best` has a stage before it."""
    extra = [name for name, source in sources.items() if source.role == "extra"]
    for index, stage in enumerate(stages):
        for name in stage.extra_data:
            require_name(name, extra, f"extra data in stages.{index}.extra_data")
            task = sources[name].task
            rule = f"stages.{index}.tasks must hold {task}, which {name} is for"
            require(task in stage.tasks, rule, list(stage.tasks))
        rule = f"stages.{index}.start_from must be last in the first stage, which has none before it"
        require(index > 0 or stage.start_from == "last", rule, stage.start_from)


def check_relational(tasks: Mapping[str, TaskConfig], shared: Sequence[str]) -> None:
    """Checks the tasks that share a layer: one layer has one width, and only linear heads read it."""
    require_once(shared, "relational_tasks must not name a task twice")
    heads = {task: tasks[task].head for task in shared}
    are_linear = all(tasks[task].head_entry.is_linear for task in shared)
    require(are_linear, "relational_tasks must have head linear", heads)
    encodings = {task: tasks[task].encoding for task in shared}
    rule = "relational_tasks must all have encoding bi, or none of them: one layer has one width"
    require(len({encoding == "bi" for encoding in encodings.values()}) <= 1, rule, encodings)
    rule = "relational_tasks must not have encoding cross_and_bi, whose head reads a comparison of the texts"
    require("cross_and_bi" not in encodings.values(), rule, encodings)


def check_layer_scales(optimizer: OptimizerConfig, sums_tasks: bool, active: Mapping[str, TaskConfig]) -> None:
    """Checks that layers' rates follow the step's task only where a step has one task and tasks have chosen layers."""
    scales = (optimizer.other_scale, optimizer.chosen_scale)
    if scales == (1.0, 1.0):
        return
    rule = "optimizer.other_scale and chosen_scale must be 1 where a stage sums the losses of several tasks"
    require(not sums_tasks, rule, scales)
    rule = "tasks.<name>.chosen_layers must name layers where optimizer.other_scale or chosen_scale is not 1"
    require(any(settings.chosen_layers for settings in active.values()), rule, "none for any task")


def check_kernels(config: TrialConfig) -> None:
    """Checks that everything in a step can do with the attention and the checkpointing of the encoder's layers."""
    encoder, has_pals = config.encoder, config.pals.size > 0
    rule = "encoder.gradient_checkpointing must be false with PALs, which hooks add in the forward pass alone"
    require(not (encoder.gradient_checkpointing and has_pals), rule, encoder.gradient_checkpointing)
    own_dropout = config.simcse.dropout if config.simcse.weight > 0 else None
    rule = "encoder.gradient_checkpointing must be false with simcse.dropout, which acts in the forward pass alone"
    require(not encoder.gradient_checkpointing or own_dropout is None, rule, encoder.gradient_checkpointing)
    has_flash = encoder.attention == "flash_attention_2"
    rule = "precision must be bf16 or auto with encoder.attention flash_attention_2"
    require(not has_flash or config.precision != "fp32", rule, config.precision)
    rule = "encoder.attention must not be flash_attention_2 with SMART, which needs passes in fp32"
    require(not (has_flash and config.needs_embeddings), rule, encoder.attention)


def check_frozen(config: TrialConfig, active: Mapping[str, TaskConfig]) -> None:
    """Checks that with a frozen encoder every task, penalty and gradient method has something to train."""
    groups = config.tasks_by_group
    for task, settings in active.items():
        has_weights = settings.head_entry.has_weights(settings)
        rule = f"encoder.trained_layers must not be empty where a task has nothing else to train, as {task} has"
        has_layers = task in groups["pals.tasks"] or task in config.relational_tasks
        require(has_weights or has_layers, rule, "a cosine without projection")
    for name in (name for name, penalty in config.methods.penalties.items() if penalty.needs_encoder):
        without = [task for task in groups[f"{name}.tasks"] if task in active and task not in groups["pals.tasks"]]
        rule = f"{name}.tasks must have PALs where encoder.trained_layers is empty, or the term changes nothing"
        require(not without, rule, without)
    rule = "gradients must be sum where encoder.trained_layers is empty and no relational layer is shared"
    shared = [task for task in config.relational_tasks if task in active]
    require(config.gradients == "sum" or len(shared) > 1, rule, config.gradients)
    decay = config.optimizer.layer_decay
    require(decay == 1, "optimizer.layer_decay must be 1 where encoder.trained_layers is empty", decay)


def config_from_tree(tree: Mapping[str, Any], cls: type[TrialConfig]) -> TrialConfig:
    """Returns a configuration from plain dictionaries; what a task's group leaves out takes that task's own default."""
    tasks, definitions = tree.get("tasks", {}), task_definitions(tree.get("data", {}))
    require(isinstance(tasks, Mapping), "tasks must be a group of keys", repr(tasks))
    for name, group in tasks.items():
        require_name(name, definitions, "task")
        require(isinstance(group, Mapping | TaskConfig), f"tasks.{name} must be a group of keys", repr(group))
    own = cls.task_settings
    given = {
        name: group
        if isinstance(group, TaskConfig)
        else {**to_dict(default_task_config(definitions[name], own)), **group}
        for name, group in tasks.items()
    }
    complete = {**tree, "tasks": given or default_task_configs(definitions, own)}
    config: TrialConfig = from_dict(cls, complete, "")
    return config


def task_definitions(data: Any) -> Mapping[str, Task]:
    """Returns the definitions of tasks in the group `data`, plain or built; the built-in tasks where it has none."""
    if isinstance(data, DataConfig):
        return data.tasks
    given = data.get("tasks") if isinstance(data, Mapping) else None
    return TASKS if given is None else read_value(Mapping[str, Task], given, "data.tasks")
