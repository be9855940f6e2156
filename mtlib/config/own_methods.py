"""Configurations that may name a user's own methods: the classes of the configuration, with further fields and names.

For each `Methods` there is one class of configurations. It is a `TrialConfig` whose fields are those of the built-in
one, the groups of further penalties, and the settings of further losses, batch orders and gradient methods.
"""

import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from mtlib.config.data import DataConfig
from mtlib.config.methods import BUILT_IN, METHODS_KEY, Methods, methods_to_tree
from mtlib.config.network import TaskConfig
from mtlib.config.schema import fields_of
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.tasks import TASKS, Task

REQUIRED = dataclasses.MISSING
"""In place of the default of a field that has none."""


def with_methods(config: TrialConfig, methods: Methods) -> TrialConfig:
    """The same configuration, which may name further methods; ValueError if it names one that is none of these."""
    if config.methods is methods:
        return config
    return TrialConfig.from_json(json.dumps({**config.to_tree(), METHODS_KEY: methods_to_tree(methods)}))


def trial_class(methods: Methods) -> type[TrialConfig]:
    """The class of configurations that may name these methods; of the built-in ones `TrialConfig` itself."""
    return TrialConfig if methods is BUILT_IN else extended_classes(methods)[TrialConfig]


def task_class(methods: Methods) -> type[Task]:
    """The class of tasks that may have these metrics; `Task` itself where all of them are built in."""
    return Task if methods is BUILT_IN else extended_classes(methods)[Task]


@functools.cache
def extended_classes(methods: Methods) -> dict[Any, Any]:
    """By class of the configuration the one that has the further fields, and may name the further methods."""
    task = extended(Task, methods, {}, metrics=methods.metrics)
    data = extended(DataConfig, methods, {"tasks": (Mapping[str, task], field(default_factory=lambda: TASKS))})  # type: ignore[valid-type]
    losses = {"loss": (Annotated[str, tuple(methods.losses)], REQUIRED)}
    losses |= fields_of(entry.settings for entry in own_entries(methods, "losses"))
    settings = extended(TaskConfig, methods, losses, losses=methods.losses)
    orders = {"order": (Annotated[str, tuple(methods.batch_orders)], StageConfig.order)}
    orders |= fields_of(entry.settings for entry in own_entries(methods, "batch_orders"))
    stage = extended(StageConfig, methods, orders, batch_orders=methods.batch_orders)
    groups: dict[str, tuple[Any, Any]] = {
        "data": (data, field(default_factory=data)),
        "tasks": (Mapping[str, settings], REQUIRED),  # type: ignore[valid-type]
        "stages": (tuple[stage, ...], REQUIRED),  # type: ignore[valid-type]
        "gradients": (Annotated[str, tuple(methods.gradient_methods)], TrialConfig.gradients),
    }
    groups |= fields_of(entry.settings for entry in own_entries(methods, "gradient_methods"))
    penalties = {name: methods.penalties[name].settings for table, name in methods.origins if table == "penalties"}
    groups |= {name: (cls, field(default_factory=cls)) for name, cls in penalties.items()}
    trial = extended(TrialConfig, methods, groups, methods=methods, task_settings=settings)
    return {Task: task, DataConfig: data, TaskConfig: settings, StageConfig: stage, TrialConfig: trial}


def own_entries(methods: Methods, table: str) -> Iterable[Any]:
    """The entries of a table that are not built in."""
    return [getattr(methods, table)[name] for own, name in methods.origins if own == table]


def extended(base: Any, owner: Methods, further: Mapping[str, tuple[Any, Any]], **class_variables: Any) -> Any:
    """A class of the configuration with further fields, a type and a default by name, and other class variables."""
    names = {
        "__annotations__": {name: hint for name, (hint, _) in further.items()},
        "__doc__": base.__doc__,
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__hash__": base.__hash__,
        "__reduce__": lambda own: (rebuild, (base, owner, pickled_form(own))),
        **{name: default for name, (_, default) in further.items() if default is not REQUIRED},
        **class_variables,
    }
    made = type(base.__name__, (base,), names)
    return dataclass(frozen=True, kw_only=True, eq=base is not Task)(made)  # tasks with other metrics may be equal


def pickled_form(own: Any) -> Any:
    """What pickles an instance of an extended class: a configuration's JSON, the values of another by field."""
    if isinstance(own, TrialConfig):
        return own.to_json()
    return {f.name: getattr(own, f.name) for f in dataclasses.fields(own)}


def rebuild(base: Any, methods: Methods, values: Any) -> Any:
    """The instance of an extended class that `pickled_form` gave these values."""
    cls = extended_classes(methods)[base]
    return TrialConfig.from_json(values) if base is TrialConfig else cls(**values)
