"""Fits a search space to the tasks that the data has: its own base with their definitions, or one made for them."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from mtlib.config.methods import BUILT_IN, Methods, join_methods
from mtlib.config.schema import split_text, to_dict
from mtlib.config.trial import with_methods
from mtlib.runtime.errors import require
from mtlib.tasks import Task, in_order
from search_spaces.space import SearchSpace

MakeSpace = Callable[[Mapping[str, Task]], SearchSpace]
"""From the definitions of the data's tasks, by name, to the space for them."""

Changes = Mapping[str, Any]
"""Values by dotted key, of --set: text as typed, or values as given in Python."""
NO_CHANGES: Changes = MappingProxyType({})
STAGE_TASKS = re.compile(r"stages\.\d+\.tasks")


def fit_space(
    space: SearchSpace | None,
    make_space: MakeSpace | None,
    tasks: Mapping[str, Task],
    changes: Changes = NO_CHANGES,
    methods: Methods = BUILT_IN,
) -> SearchSpace:
    """Returns the space of a question for some tasks.

    Args:
        space: the space for the tasks that its own base has; None if there is none.
        make_space: makes one for other tasks; None if there is none. At least one of both is there.
        tasks: by name, as the data defines them.
        changes: where these set the tasks of every stage, a space is made for the tasks that they name only.
        methods: that its configurations may name.

    Raises:
        ValueError: one line: the space is about tasks that the data has not, or cannot be made for them.
    """
    if space is not None and (make_space is None or has_tasks(space, tasks)):
        return with_definitions(allowing(space, methods), tasks)
    assert make_space is not None
    chosen = chosen_tasks(tasks, changes)
    made = allowing(make_space(chosen), methods)
    is_whole = len(chosen) == len(tasks) or not isinstance(made, SearchSpace)
    stages = () if is_whole else range(len(made.base.stages))
    is_made = all(f"stages.{number}.tasks" in changes for number in stages)
    return made if is_made else allowing(make_space(tasks), methods)


def allowing(space: SearchSpace, methods: Methods) -> SearchSpace:
    """Returns the same space, whose configurations may name these methods besides those that they may name already."""
    if methods is BUILT_IN or not isinstance(space, SearchSpace):  # what a user's function returns is checked later
        return space
    return dataclasses.replace(space, base=with_methods(space.base, join_methods(space.base.methods, methods)))


def chosen_tasks(tasks: Mapping[str, Task], changes: Changes) -> Mapping[str, Task]:
    """Returns those of some tasks that changes name as tasks of a stage;
    all if they name none, or one that is not there."""
    given = [value for key, value in changes.items() if STAGE_TASKS.fullmatch(key)]
    lists = [split_text(value) if isinstance(value, str) else value for value in given]
    named = {task for own in lists if isinstance(own, list | tuple) for task in own if isinstance(task, str)}
    is_part = bool(named) and named <= set(tasks)
    return {name: task for name, task in tasks.items() if name in named} if is_part else tasks


def has_tasks(space: SearchSpace, tasks: Mapping[str, Task]) -> bool:
    """Returns whether these are exactly the tasks that the space trains, of the same shapes."""
    return set(tasks) == trained_tasks(space) and all(
        shape_of(task) == shape_of(space.base.task(name)) for name, task in tasks.items()
    )


def shape_of(task: Task) -> str:
    """Returns what the settings of a task in a space rely on: its kind, and the numbers of its classes and texts."""
    classes = f" of {task.num_classes}" if task.num_logits > 1 else ""
    return f"{task.kind}{classes}, {'two texts' if task.is_pair else 'one text'}"


def trained_tasks(space: SearchSpace) -> set[str]:
    """Returns the tasks that some configuration of a space trains."""
    return {task for config in space.configs for task in config.active_tasks}


def with_definitions(space: SearchSpace, tasks: Mapping[str, Task]) -> SearchSpace:
    """Returns a space whose configurations have these definitions of tasks;
    ValueError if one that it trains is not there."""
    needed = in_order(trained_tasks(space))
    if all(tasks.get(name) == space.base.task(name) for name in needed):
        return space
    rule = f"space '{space.name}' is about {', '.join(needed)}, which the data must have"
    require(set(needed) <= set(tasks), rule, ", ".join(in_order(tasks)))
    for name in needed:
        rule = f"space '{space.name}' is about {name} as {shape_of(space.base.task(name))}"
        require(shape_of(tasks[name]) == shape_of(space.base.task(name)), rule, shape_of(tasks[name]))
    tree: dict[str, Any] = to_dict(space.base)
    changes: dict[str, Any] = {"tasks": {name: settings for name, settings in tree["tasks"].items() if name in tasks}}
    for key in space.base.tasks_by_group:
        group, _, field = key.rpartition(".")
        changes[key] = [name for name in (tree[group] if group else tree)[field] if name in tasks]
    return dataclasses.replace(space, base=space.base.override({**changes, "data.tasks": to_dict(tasks)}))
