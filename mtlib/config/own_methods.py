"""The classes of configurations that may name a user's own methods: the built-in ones, with further fields and names.

The configuration of a trial then has a group for each further penalty, and the settings of further gradient methods;
the groups of tasks and stages have the settings of further losses and batch orders.
"""

import dataclasses
import functools
import keyword
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from mtlib.config.methods import BUILT_IN, METHODS_KEY, Methods
from mtlib.config.network import TaskConfig
from mtlib.config.schema import fields_of
from mtlib.config.training import StageConfig
from mtlib.runtime.errors import require

RESERVED = (METHODS_KEY, "tasks", "data", "optimizer", "encoder", "evaluation", "pals")
"""Names of groups, which are no attributes of the class as their defaults are made for each configuration."""
REQUIRED = dataclasses.MISSING
"""In place of the default of a field that has none."""


@functools.cache
def extended_classes(trial: Any, methods: Methods) -> dict[Any, Any]:
    """By built-in class the one that has further fields; `trial` is `TrialConfig`."""
    check_method_names(trial, methods)
    losses = {"loss": (Annotated[str, tuple(methods.losses)], REQUIRED), **own_settings(methods, "losses")}
    heads = {"head": (Annotated[str, tuple(methods.heads)], TaskConfig.head), **own_settings(methods, "heads")}
    settings = extended(TaskConfig, trial, methods, losses | heads, losses=methods.losses, heads=methods.heads)
    orders = {"order": (Annotated[str, tuple(methods.batch_orders)], StageConfig.order)}
    orders |= own_settings(methods, "batch_orders")
    stage = extended(StageConfig, trial, methods, orders, batch_orders=methods.batch_orders)
    groups: dict[str, tuple[Any, Any]] = {
        "tasks": (Mapping[str, settings], REQUIRED),  # type: ignore[valid-type]
        "stages": (tuple[stage, ...], REQUIRED),  # type: ignore[valid-type]
        "gradients": (Annotated[str, tuple(methods.gradient_methods)], trial.gradients),
        **own_settings(methods, "gradient_methods"),
    }
    penalties = {name: methods.penalties[name].settings for table, name in methods.origins if table == "penalties"}
    groups |= {name: (cls, field(default_factory=cls)) for name, cls in penalties.items()}
    # It is pickled as `TrialConfig` is: its JSON has the files of methods.
    whole = extended(
        trial, trial, methods, groups, methods=methods, task_settings=settings, __reduce__=trial.__reduce__
    )
    return {TaskConfig: settings, StageConfig: stage, trial: whole}


def check_method_names(trial: Any, methods: Methods) -> None:
    """Raises ValueError if a user's penalty or setting is called like something else of its group."""
    groups = {"losses": TaskConfig, "heads": TaskConfig, "batch_orders": StageConfig, "gradient_methods": trial}
    known: dict[tuple[Any, str], str] = {}
    for (table, name), file in methods.origins.items():
        built_in = getattr(BUILT_IN, table).get(name)
        if table == "penalties":
            rule = f"{file.name}: the name of a penalty must not be that of another group or attribute, or a keyword"
            is_free = not (hasattr(trial, name) or name in RESERVED or keyword.iskeyword(name))
            require(built_in is not None or is_free, rule, f"'{name}'")
        settings = fields_of([getattr(getattr(methods, table)[name], "settings", None)]) if table in groups else {}
        before = fields_of([getattr(built_in, "settings", None)])
        for setting in settings:
            group = groups[table]
            is_new = not hasattr(group, setting) and setting not in group.__dataclass_fields__
            rule = f"{file.name}: a setting of '{name}' must not be called like another one"
            require(setting in before or (is_new and (group, setting) not in known), rule, f"'{setting}'")
            known[group, setting] = name


def own_settings(methods: Methods, table: str) -> dict[str, tuple[Any, Any]]:
    """Returns the fields of the settings of the entries of a table that are not built in."""
    return fields_of(getattr(methods, table)[name].settings for own, name in methods.origins if own == table)


def extended(
    base: Any, trial: Any, owner: Methods, further: Mapping[str, tuple[Any, Any]], **class_variables: Any
) -> Any:
    """Returns a class of the configuration with further fields, a type and a default by name,
    and other class variables."""
    names = {
        "__annotations__": {name: hint for name, (hint, _) in further.items()},
        "__doc__": base.__doc__,
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__hash__": base.__hash__,
        "__reduce__": lambda own: (
            rebuild,
            (base, trial, owner, {f.name: getattr(own, f.name) for f in dataclasses.fields(own)}),
        ),
        **{name: default for name, (_, default) in further.items() if default is not REQUIRED},
        **class_variables,
    }
    return dataclass(frozen=True, kw_only=True)(type(base.__name__, (base,), names))


def rebuild(base: Any, trial: Any, methods: Methods, values: Mapping[str, Any]) -> Any:
    """Returns the instance of an extended class that has been pickled as its values by field."""
    return extended_classes(trial, methods)[base](**values)
