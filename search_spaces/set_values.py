"""Values that are set in every configuration of a space, in searched whole plans of stages too."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from search_spaces.domain import ALL_STAGES_PREFIX, expand_stages, expand_tasks, key_title
from search_spaces.space import Grid, SearchSpace


def expand_keys(changes: Mapping[str, Any], base: TrialConfig) -> dict[str, Any]:
    """Changes by dotted key, in which a star stands for every task or stage of a configuration."""
    return expand_stages(expand_tasks(changes, base.active_tasks), len(base.stages))


def set_stages(space: SearchSpace, changes: Mapping[str, Any]) -> SearchSpace:
    """Returns the space with what `changes`, those of --set, set in every stage, in its searched whole stages too.

    Raises:
        ValueError: a value does not suit a searched plan.
    """
    own = {key: value for key, value in changes.items() if key.startswith(ALL_STAGES_PREFIX)}
    if not own:
        return space
    try:
        return dataclasses.replace(
            space, grid=change_plans(space, lambda config: config.override(expand_keys(own, config)).stages)
        )
    except ValueError as error:
        raise ValueError(f"--set: {error}") from error


def change_plans(space: SearchSpace, change: Callable[[TrialConfig], tuple[StageConfig, ...]]) -> Grid:
    """Returns the space's grid, in which whole stages that a name stands for are those that `change` makes of a
    configuration with the name's overrides; ValueError names it."""
    grid, tasks = dict(space.grid), space.base.active_tasks
    for key, named in space.grid.items():
        plans = {}
        for name, changes in named.items() if isinstance(named, Mapping) else ():
            plans[name] = changes
            if "stages" in changes:
                try:
                    config = space.base.override(expand_tasks(changes, tasks))
                    plans[name] = {**changes, "stages": change(config)}
                except ValueError as error:
                    raise ValueError(f"{key_title(key)}={name}: {error}") from error
        grid[key] = plans or grid[key]
    return grid
