"""`SearchSpace`: one question as data: a base configuration, the keys that are searched, and the metric.

A search space is checked when it is built: every grid point and both ends of every range are made into a
configuration once, so a wrong key or value is found before anything starts.
"""

import hashlib
import importlib
import itertools
import json
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import search_spaces
from mtlib.config import TrialConfig
from mtlib.schema import check_types, require, require_name, to_dict

Key = str | tuple[str, ...]
"""A dotted key of `TrialConfig`, or several that vary together."""

NOT_QUESTIONS = ("space", "presets")
"""Files of this folder that hold no search space."""


@dataclass(frozen=True, kw_only=True)
class Float:
    """Any real number from `low` to `high`, both allowed; drawn on a logarithmic scale if `log`."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        check_types(self)
        require(self.low < self.high, "low must be below high", f"{self.low} and {self.high}")
        require(not self.log or self.low > 0, "low must be above 0 on a logarithmic scale", self.low)


@dataclass(frozen=True, kw_only=True)
class Int:
    """Any whole number from `low` to `high`, both allowed; drawn on a logarithmic scale if `log`."""

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        check_types(self)
        require(self.low < self.high, "low must be below high", f"{self.low} and {self.high}")
        require(not self.log or self.low > 0, "low must be above 0 on a logarithmic scale", self.low)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of `values`, which have no order; for keys that vary together each value holds one part per key."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        check_types(self)
        require(bool(self.values), "a choice must have at least one value", list(self.values))


Range = Float | Int | Choice


@dataclass(frozen=True, kw_only=True)
class SearchSpace:
    """One question: what is varied, around which configuration, and which score decides.

    Raises:
        ValueError: an unknown key, a value that does not fit the configuration, a key searched twice, or two trials
            with equal configurations; the message names the space and the trial.
    """

    name: str
    """Name on the command line, equal to the name of the file."""
    question: str
    """The question in one line, for people."""
    base: TrialConfig
    """What every trial starts from."""
    grid: Mapping[Key, tuple[Any, ...]] = field(default_factory=dict)
    """Values by key; the cross product is the grid, the last key varies fastest."""
    ranges: Mapping[Key, Range] = field(default_factory=dict)
    """What `tpe` and `random` draw from; a key of the grid that is not here is a choice among its grid values."""
    metric: str = "overall"
    """What the search maximises: `overall`, or a task's name for that task's own score."""

    def __post_init__(self) -> None:
        check_types(self)
        require(self.name.isidentifier(), "a search space's name must be a name in Python", repr(self.name))
        require(bool(self.grid or self.ranges), f"{self.name}: grid or ranges must name a key", "neither")
        require_name(self.metric, ("overall", *self.base.active_tasks), f"metric of space '{self.name}'")
        for keys in (self.grid, search_domain(self)):
            check_keys(self.name, keys)
        check_ranges(self)
        check_grid(self)

    @property
    def content_hash(self) -> str:
        """SHA-256, in hexadecimal, of all that decides the trials and their order; name and question do not."""
        parts = {"base": to_dict(self.base), **describe_space(self)}
        text = json.dumps({key: parts[key] for key in ("base", "grid", "ranges", "metric")}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def load_space(name: str) -> SearchSpace:
    """The space in `search_spaces/<name>.py`.

    Raises:
        ValueError: no such file (the nearest names are listed), or it does not define `SPACE` under its own name.
    """
    require_name(name, space_names(), "search space")
    space = getattr(importlib.import_module(f"search_spaces.{name}"), "SPACE", None)
    if not isinstance(space, SearchSpace) or space.name != name:
        raise ValueError(f"search_spaces/{name}.py must define SPACE, a SearchSpace named '{name}', got {space!r:.80}")
    return space


def space_names() -> list[str]:
    """Names of all search spaces, sorted."""
    modules = pkgutil.iter_modules(search_spaces.__path__)
    return sorted(module.name for module in modules if module.name not in NOT_QUESTIONS)


def list_spaces() -> list[SearchSpace]:
    """All search spaces, by name."""
    return [load_space(name) for name in space_names()]


def grid_trials(space: SearchSpace) -> list[dict[str, Any]]:
    """Overrides of every grid point, in order, none twice; empty if the space has ranges only.

    Returns:
        One dictionary per trial, from dotted key to value, for `TrialConfig.override`.
    """
    if not space.grid:
        return []
    points = itertools.product(*space.grid.values())
    return [trial_overrides(dict(zip(space.grid, point, strict=True))) for point in points]


def search_domain(space: SearchSpace) -> dict[Key, Range]:
    """What `tpe` and `random` draw from: the ranges, and a choice among the grid's values where there is no range."""
    choices = {key: Choice(values=tuple(values)) for key, values in space.grid.items() if key not in space.ranges}
    return {**choices, **space.ranges}


def trial_overrides(drawn: Mapping[Key, Any]) -> dict[str, Any]:
    """Overrides by dotted key, from one value per searched key; keys that vary together are taken apart."""
    overrides: dict[str, Any] = {}
    for key, value in drawn.items():
        overrides.update({key: value} if isinstance(key, str) else dict(zip(key, value, strict=True)))
    return overrides


def dotted_keys(key: Key) -> tuple[str, ...]:
    """The dotted keys of a searched key: one, or those that vary together."""
    return (key,) if isinstance(key, str) else tuple(key)


def key_title(key: Key) -> str:
    """A searched key as text; keys that vary together are joined by ` + `."""
    return " + ".join(dotted_keys(key))


def describe_space(space: SearchSpace) -> dict[str, Any]:
    """The space without its base configuration as plain data, for JSON."""
    return {
        "name": space.name,
        "question": space.question,
        "metric": space.metric,
        "grid": [[key_title(key), to_dict(values)] for key, values in space.grid.items()],
        "ranges": [[key_title(key), {type(item).__name__: to_dict(item)}] for key, item in space.ranges.items()],
    }


def check_keys(name: str, keys: Mapping[Key, Any]) -> None:
    """Raises ValueError if a dotted key is searched twice."""
    seen: set[str] = set()
    for dotted in itertools.chain.from_iterable(dotted_keys(key) for key in keys):
        require(dotted not in seen, f"space '{name}': a key must be searched only once", dotted)
        seen.add(dotted)


def check_ranges(space: SearchSpace) -> None:
    """Builds the configuration of both ends of every range, and of every choice."""
    for key, item in space.ranges.items():
        for value in item.values if isinstance(item, Choice) else (item.low, item.high):
            build(space, key_title(key), {key: value})


def check_grid(space: SearchSpace) -> None:
    """Builds every grid point, and names two trials that are the same configuration."""
    numbers: dict[str, int] = {}
    points = itertools.product(*space.grid.values()) if space.grid else ()
    for number, point in enumerate(points):
        config = build(space, f"trial {number:04d}", dict(zip(space.grid, point, strict=True)))
        first = numbers.setdefault(config.content_hash, number)
        rule = f"space '{space.name}': trials must differ, {first:04d} and {number:04d} are the same configuration"
        require(first == number, rule, dict(zip(map(key_title, space.grid), point, strict=True)))


def build(space: SearchSpace, where: str, drawn: Mapping[Key, Any]) -> TrialConfig:
    """The configuration of one point; ValueError names the space, the place and the values."""
    try:
        for key, value in drawn.items():
            is_short = not isinstance(key, str) and (not isinstance(value, tuple | list) or len(value) != len(key))
            require(not is_short, f"a value of {key_title(key)} must have one part per key", value)
        return space.base.override(trial_overrides(drawn))
    except ValueError as error:
        values = ", ".join(f"{key_title(key)}={value}" for key, value in drawn.items())
        raise ValueError(f"space '{space.name}', {where} ({values}): {error}") from error
