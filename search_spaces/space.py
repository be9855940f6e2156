"""`SearchSpace`: one question as data: a base configuration, the keys that are searched, and the metric.

A search space is checked when it is built: every grid point, both ends of every range and every condition are made into
a configuration once, so a wrong key or value is found before anything starts.
"""

import dataclasses
import functools
import importlib
import itertools
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mtlib.config.schema import check_types, to_dict
from mtlib.config.trial import TrialConfig, used_settings
from mtlib.runtime.checksum import hash_of
from mtlib.runtime.errors import require, require_name
from search_spaces import questions
from search_spaces.domain import (
    Choice,
    Condition,
    Range,
    SearchKey,
    check_conditions,
    dotted_keys,
    expand_tasks,
    extreme_points,
    key_title,
)
from search_spaces.published import PublishedTable

NamedOverrides = Mapping[str, Mapping[str, Any]]
"""Named groups of overrides; each group is by dotted key."""
Grid = Mapping[SearchKey, tuple[Any, ...] | NamedOverrides]
"""By searched key its values, in a list or by name."""

NOT_DECIDING = ("question", "published")
"""Entries of `describe_space` that change no trial."""


@dataclass(frozen=True, kw_only=True)
class SearchSpace:
    """One question: what is varied, around which configuration, and which score decides.

    Raises:
        ValueError: an unknown key, a value that does not fit the configuration, a key searched twice, a condition that
            cannot hold, or two trials with equal configurations; the message names the space and the trial.
    """

    name: str
    """In the name of the sweep; of a built-in space the name on the command line, equal to that of the file."""
    question: str
    base: TrialConfig
    """The configuration that every trial changes."""
    grid: Grid = field(default_factory=dict)
    """Values by key; the cross product is the grid, the last key varies fastest. If the values are a mapping, the key
    is a name that the space defines, such as `order`, and each entry names a group of overrides."""
    smaller_grids: tuple[Grid, ...] = ()
    """What the grid was before values were added to it, the first one first: its points keep their numbers."""
    ranges: Mapping[SearchKey, Range] = field(default_factory=dict)
    """Ranges for `tpe`, `gp` and `random`; a grid key without a range is a choice of its grid values, sampled first."""
    conditions: Mapping[SearchKey, Condition] = field(default_factory=dict)
    """By key of `ranges` that is not in the grid: when it is sampled; otherwise it has the base's value."""
    metric: str = "overall"
    """The score that the search maximises: `overall`, or a task's name."""
    published: tuple[PublishedTable, ...] = ()
    """What papers print about configurations of the grid; it changes no trial. A table that names other keys than those
    of the grid, or a task that the base does not define, is left out: it is about the space that this one was made of
    by `dataclasses.replace`."""

    def __post_init__(self) -> None:
        check_types(self)
        require(self.name.isidentifier(), "a search space's name must be a name in Python", repr(self.name))
        require(bool(self.grid or self.ranges), f"{self.name}: grid or ranges must name a key", "neither")
        require_name(self.metric, ("overall", *self.base.active_tasks), f"metric of space '{self.name}'")
        check_entries(self)
        fitting = tuple(table for table in self.published if is_about(table, self))
        object.__setattr__(self, "published", fitting)
        domain = search_domain(self)
        check_keys(self, domain)
        check_conditions(self.name, domain, self.conditions)
        for key in self.conditions:
            rule = f"space '{self.name}': a key of the grid must have no condition, as its values are crossed with all"
            require(key not in self.grid, rule, key_title(key))
        self.configs  # noqa: B018 - built once here, as a check

    def __getstate__(self) -> dict[str, Any]:
        """Its fields; the configurations follow from them."""
        return {name: value for name, value in self.__dict__.items() if name != "configs"}

    @functools.cached_property
    def configs(self) -> tuple[TrialConfig, ...]:
        """The base, every choice or both ends of each range, and every grid point; they cover all tasks that it trains.

        Raises:
            ValueError: one cannot be built, or two grid points are the same.
        """
        return self.base, *range_configs(self), *grid_configs(self)

    @property
    def content_hash(self) -> str:
        """SHA-256, in hexadecimal, of what determines the trials and their order: no name, question or table."""
        parts = {"base": used_settings(self.base, self.configs), **describe_space(self)}
        deciding = {key: value for key, value in parts.items() if key not in ("name", *NOT_DECIDING)}
        return hash_of(deciding)


def load_space(name: str) -> SearchSpace:
    """Returns the space in `search_spaces/questions/<name>.py`.

    Raises:
        ValueError: no such file (the nearest names are listed), or it does not define `SPACE` under its own name.
    """
    require_name(name, space_names(), "search space")
    space = getattr(importlib.import_module(f"search_spaces.questions.{name}"), "SPACE", None)
    if not isinstance(space, SearchSpace) or space.name != name:
        file = f"search_spaces/questions/{name}.py"
        raise ValueError(f"{file} must define SPACE, a SearchSpace named '{name}', got {space!r:.80}")
    return space


def space_names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(questions.__path__))


def list_spaces() -> list[SearchSpace]:
    return [load_space(name) for name in space_names()]


def grid_trials(space: SearchSpace) -> list[dict[str, Any]]:
    """Per grid point, in order, the parameters for `trial_config`; empty if the space has ranges only."""
    return [trial_params(point) for point in grid_points(space)]


def grid_points(space: SearchSpace) -> list[dict[SearchKey, Any]]:
    """As `grid_trials`, with keys that vary together under their common key."""
    if not space.grid:
        return []
    found: list[dict[SearchKey, Any]] = []
    for grid in (*space.smaller_grids, space.grid):
        points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
        found += [point for point in points if point not in found] if found else points
    return found


def search_domain(space: SearchSpace) -> dict[SearchKey, Range]:
    """Returns what `tpe`, `gp` and `random` draw from: the ranges, and of keys without one the grid's values."""
    choices = {key: Choice(values=tuple(values)) for key, values in space.grid.items() if key not in space.ranges}
    return {**choices, **space.ranges}


def trial_params(drawn: Mapping[SearchKey, Any]) -> dict[str, Any]:
    """Returns a trial's searched values by single key; keys that vary together are separated."""
    params: dict[str, Any] = {}
    for key, value in drawn.items():
        params.update({key: value} if isinstance(key, str) else dict(zip(key, value, strict=True)))
    return params


def trial_config(space: SearchSpace, params: Mapping[str, Any]) -> TrialConfig:
    """Returns the configuration of a trial: the base with searched values,
    by dotted key or name that the space defines.

    Raises:
        ValueError: an unknown key, or a value that does not fit.
    """
    overrides: dict[str, Any] = {}
    for key, value in params.items():
        named = space.grid.get(key)
        if isinstance(named, Mapping):
            require_name(value, named, f"value of {key}")
            overrides.update(named[value])
        else:
            overrides[key] = value
    return space.base.override(expand_tasks(overrides, space.base.active_tasks))


def grid_configs(space: SearchSpace) -> list[TrialConfig]:
    """Returns the configuration of every grid point, in order;
    ValueError if one cannot be built, or two are the same."""
    numbers: dict[str, int] = {}
    configs = []
    for number, point in enumerate(grid_points(space)):
        config = build(space, f"trial {number:04d}", point)
        first = numbers.setdefault(config.content_hash, number)
        rule = f"space '{space.name}': trials must differ, {first:04d} and {number:04d} are the same configuration"
        require(first == number, rule, {key_title(key): value for key, value in point.items()})
        configs.append(config)
    return configs


def range_configs(space: SearchSpace) -> Iterator[TrialConfig]:
    """Yields the configurations of `extreme_points` whose last key has a range."""
    for point in extreme_points(search_domain(space), space.conditions):
        *_, last = point
        if last in space.ranges:
            yield build(space, key_title(last), point)


def build(space: SearchSpace, where: str, drawn: Mapping[SearchKey, Any]) -> TrialConfig:
    """Returns the configuration of one point; ValueError names the space, the trial or key, and the values."""
    try:
        for key, value in drawn.items():
            is_short = not isinstance(key, str) and (not isinstance(value, tuple | list) or len(value) != len(key))
            require(not is_short, f"a value of {key_title(key)} must have one part per key", value)
        return trial_config(space, trial_params(drawn))
    except ValueError as error:
        values = ", ".join(f"{key_title(key)}={value}" for key, value in drawn.items())
        raise ValueError(f"space '{space.name}', {where} ({values}): {error}") from error


def value_in(config: TrialConfig, key: str) -> Any:
    """Returns the value of a dotted key in a configuration that has it."""
    node: Any = config
    for part in key.split("."):
        if isinstance(node, Mapping):
            node = node[part]
        else:
            node = node[int(part)] if isinstance(node, tuple) else getattr(node, part)
    return node


def changed_keys(space: SearchSpace, key: SearchKey) -> tuple[str, ...]:
    """Returns the dotted keys of the configuration that a searched key changes, each once."""
    named = space.grid.get(key)
    groups = named.values() if isinstance(named, Mapping) else [dict.fromkeys(dotted_keys(key))]
    return tuple(expand_tasks({dotted: None for keys in groups for dotted in keys}, space.base.active_tasks))


def choice_values(space: SearchSpace, key: str) -> tuple[Any, ...]:
    """Returns the values of a dotted key that the choices of a space may give it, each once;
    empty where it is not searched."""
    found = []
    for searched, item in search_domain(space).items():
        named = space.grid.get(searched)
        for value in item.values if isinstance(item, Choice) and key in changed_keys(space, searched) else ():
            changes = named[value] if isinstance(named, Mapping) else trial_params({searched: value})
            found.append(changes[key] if key in changes else value_in(space.base, key))
    return tuple(dict.fromkeys(found))


def encoder_names(space: SearchSpace) -> tuple[str, ...]:
    """Returns the encoders of a space's points, the base's first."""
    return tuple(dict.fromkeys(config.encoder.name for config in space.configs))


def check_entries(space: SearchSpace) -> None:
    """Raises ValueError if a key, a grid's values, a range or a condition is of another type than its field says."""
    where = f"of space '{space.name}'"
    for key in (*space.grid, *space.ranges, *space.conditions):
        is_key = isinstance(key, str) or (isinstance(key, tuple) and all(isinstance(part, str) for part in key))
        require(is_key, f"a searched key {where} must be text, or a tuple of texts that vary together", repr(key))
    for key, values in space.grid.items():
        is_listed = isinstance(values, tuple | list | Mapping) and len(values) > 0
        require(is_listed, f"grid {where} must list the values of {key_title(key)}", repr(values))
        wrong = [one for one in values.values() if not isinstance(one, Mapping)] if isinstance(values, Mapping) else []
        require(not wrong, f"each name of {key_title(key)} {where} must stand for overrides by dotted key", wrong)
    for key, item in space.ranges.items():
        rule = f"the range of {key_title(key)} {where} must be a Float, Int or Choice"
        require(isinstance(item, Range), rule, repr(item))
    for key, condition in space.conditions.items():
        rule = f"the condition of {key_title(key)} {where} must be a Condition"
        require(isinstance(condition, Condition), rule, repr(condition))


def check_keys(space: SearchSpace, keys: Mapping[SearchKey, Any]) -> None:
    """Raises ValueError if two searched keys change the same key, or a name is that of a configuration key."""
    seen: list[str] = []
    fields = [f.name for f in dataclasses.fields(TrialConfig)]
    for key in keys:
        if isinstance(space.grid.get(key), Mapping):
            rule = f"space '{space.name}': a name of its own must be one word, and no key of the configuration"
            require(isinstance(key, str) and key.isidentifier() and key not in fields, rule, key_title(key))
        for dotted in (changed := changed_keys(space, key)):
            rule = f"space '{space.name}': the definition of a task must be left to its tasks.toml"
            require(not f"{dotted}.".startswith("data.tasks."), rule, key_title(key))
            rule = f"space '{space.name}': whole stages must be searched under a name of the space's own"
            require(dotted != "stages" or isinstance(space.grid.get(key), Mapping), rule, key_title(key))
            overlap = [old for old in seen if f"{old}.".startswith(f"{dotted}.") or f"{dotted}.".startswith(f"{old}.")]
            require(not overlap, f"space '{space.name}': a key must be searched only once", dotted)
        seen.extend(changed)


def is_about(table: PublishedTable, space: SearchSpace) -> bool:
    """Returns whether every row of a table names exactly the keys of the space's grid, and tasks of its base only."""
    keys = {dotted for key in space.grid for dotted in dotted_keys(key)}
    tasks = set(space.base.data.tasks)
    return all(set(row.params) == keys and {*row.scores, *row.train_scores} <= tasks for row in table.rows)


def describe_space(space: SearchSpace) -> dict[str, Any]:
    """Returns the space without its base configuration as plain data, for JSON."""
    return {
        "name": space.name,
        "question": space.question,
        "metric": space.metric,
        "grid": [[key_title(key), to_dict(values)] for key, values in space.grid.items()],
        "ranges": [[key_title(key), {type(item).__name__: to_dict(item)}] for key, item in space.ranges.items()],
        "conditions": [
            [key_title(key), {"key": key_title(condition.key), "values": to_dict(condition.values)}]
            for key, condition in space.conditions.items()
        ],
        "published": to_dict(space.published),
    }
