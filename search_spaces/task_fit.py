"""Fits a search space to the tasks that the data has: its own base with their definitions, or one made for them."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from mtlib.config.schema import to_dict
from mtlib.runtime.errors import require
from mtlib.tasks import Task, in_order
from search_spaces.space import SearchSpace, all_configs

MakeSpace = Callable[[Mapping[str, Task]], SearchSpace]
"""From the definitions of the data's tasks, by name, to the space for them."""


def fit_space(space: SearchSpace | None, make_space: MakeSpace | None, tasks: Mapping[str, Task]) -> SearchSpace:
    """The space of a question for some tasks.

    Args:
        space: the space for the tasks that its own base has; None if there is none.
        make_space: makes one for other tasks; None if there is none. At least one of both is there.
        tasks: by name, as the data defines them.

    Raises:
        ValueError: one line: the space is about tasks that the data has not, or cannot be made for them.
    """
    if space is not None and (make_space is None or set(tasks) == trained_tasks(space)):
        return with_definitions(space, tasks)
    assert make_space is not None
    return make_space(tasks)


def trained_tasks(space: SearchSpace) -> set[str]:
    """The tasks that some configuration of a space trains."""
    return {task for config in all_configs(space) for task in config.active_tasks}


def with_definitions(space: SearchSpace, tasks: Mapping[str, Task]) -> SearchSpace:
    """A space whose configurations have these definitions of tasks; ValueError if one that it trains is not there."""
    needed = in_order(trained_tasks(space))
    if all(tasks.get(name) == space.base.task(name) for name in needed):
        return space
    rule = f"space '{space.name}' is about {', '.join(needed)}, which the data must have"
    require(set(needed) <= set(tasks), rule, ", ".join(in_order(tasks)))
    tree: dict[str, Any] = to_dict(space.base)
    changes: dict[str, Any] = {"tasks": {name: settings for name, settings in tree["tasks"].items() if name in tasks}}
    for key in space.base.tasks_by_group:
        group, _, field = key.rpartition(".")
        changes[key] = [name for name in (tree[group] if group else tree)[field] if name in tasks]
    return dataclasses.replace(space, base=space.base.override({**changes, "data.tasks": to_dict(tasks)}))
