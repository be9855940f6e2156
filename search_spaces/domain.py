"""The domain of a search: keys, their ranges, and conditions under which a key is sampled."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mtlib.config.schema import check_types
from mtlib.runtime.errors import require, require_name

Value = TypeVar("Value")

SearchKey = str | tuple[str, ...]
"""A dotted key of `TrialConfig`, several that vary together, or a name of the space (see `SearchSpace.grid`).

`tasks.*.batch_size` is the batch size of every task that the base configuration trains."""

ALL_TASKS_PREFIX = "tasks.*."
"""Beginning of a key of every task that the base configuration trains."""
ALL_STAGES_PREFIX = "stages.*."
"""Beginning of a key of every stage."""

LEARNING_SEARCHES: Mapping[str, str] = {"tpe": "TPE", "gp": "a Gaussian process"}
"""Values of `--search` that propose configurations by the scores of earlier ones, with their titles."""
NUM_STARTUP_TRIALS = 10
"""Until so many configurations have ended, such a search draws at random."""

JOINED_BY = " + "
"""Between the parts of the title of keys that vary together."""


@dataclass(frozen=True, kw_only=True)
class Float:
    """A real number from `low` to `high`, inclusive; sampled on a logarithmic scale if `log`."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        check_bounds(self)


@dataclass(frozen=True, kw_only=True)
class Int:
    """A whole number from `low` to `high`, inclusive; sampled on a logarithmic scale if `log`."""

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        check_bounds(self)


def check_bounds(bounds: Float | Int) -> None:
    """Checks types, and that the bounds are in order, and above 0 on a logarithmic scale."""
    check_types(bounds)
    require(bounds.low < bounds.high, "low must be below high", f"{bounds.low} and {bounds.high}")
    require(not bounds.log or bounds.low > 0, "low must be above 0 on a logarithmic scale", bounds.low)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of `values`, which are unordered; for keys that vary together each value has one part per key."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        check_types(self)
        require(bool(self.values), "a choice must have at least one value", list(self.values))


Range = Float | Int | Choice


@dataclass(frozen=True, kw_only=True)
class Condition:
    """Samples a key only if another searched key has one of these values."""

    key: SearchKey
    """The other key: a choice, sampled before this one."""
    values: tuple[Any, ...]
    """Some of that choice's values, at least one."""

    def __post_init__(self) -> None:
        require(bool(self.values), "a condition must have at least one value", list(self.values))


def holds(condition: Condition | None, drawn: Mapping[SearchKey, Any]) -> bool:
    """Returns whether a key with this condition is sampled, given the values sampled before it."""
    return condition is None or (condition.key in drawn and drawn[condition.key] in condition.values)


def check_conditions(name: str, domain: Mapping[SearchKey, Range], conditions: Mapping[SearchKey, Condition]) -> None:
    """Checks that every condition can hold and fail, and depends on keys sampled earlier.

    `domain` is in the order of sampling; `name` is that of the space, for messages.

    Raises:
        ValueError: a key that is not searched; a condition on a key that is sampled later, or is no choice; a value
            that the choice lacks; all values of the choice.
    """
    order, titles = list(domain), [key_title(key) for key in domain]
    for key, condition in conditions.items():
        where = f"condition of {key_title(key)} in space '{name}'"
        for searched in (key, condition.key):
            require_name(key_title(searched), titles, f"searched key in the {where}")
        is_before = order.index(condition.key) < order.index(key)
        require(is_before, f"the {where} must be on a key that is drawn before it", key_title(condition.key))
        choice = domain[condition.key]
        if not isinstance(choice, Choice):
            raise ValueError(
                f"the {where} must be on a choice, got {key_title(condition.key)}, a {type(choice).__name__}"
            )
        wrong = [value for value in condition.values if value not in choice.values]
        require(not wrong, f"the {where} must name values of {key_title(condition.key)}", wrong)
        can_fail = any(value not in condition.values for value in choice.values)
        require(can_fail, f"the {where} must leave out some value of {key_title(condition.key)}", condition.values)


def extreme_points(
    domain: Mapping[SearchKey, Range], conditions: Mapping[SearchKey, Condition]
) -> Iterator[dict[SearchKey, Any]]:
    """Each value of each choice and both ends of each range, with only the values that its condition needs."""
    for key, item in domain.items():
        for value in ends(item):
            for given in enabling_values(key, conditions):
                yield {**given, key: value}


def ends(item: Range) -> tuple[Any, ...]:
    """The values of a choice, or both ends of a range."""
    return item.values if isinstance(item, Choice) else (item.low, item.high)


def enabling_values(key: SearchKey, conditions: Mapping[SearchKey, Condition]) -> Iterator[dict[SearchKey, Any]]:
    """Yields all values of other keys under which a key is sampled;
    one empty dictionary for a key without condition."""
    if key not in conditions:
        yield {}
        return
    condition = conditions[key]
    for value in condition.values:
        for given in enabling_values(condition.key, conditions):
            yield {**given, condition.key: value}


def expand_tasks(changes: Mapping[str, Value], tasks: Sequence[str]) -> dict[str, Value]:
    """Changes by dotted key in which `tasks.*.KEY` stands for the key of each of these tasks."""
    return expand_star(changes, ALL_TASKS_PREFIX, tasks)


def expand_stages(changes: Mapping[str, Value], num_stages: int) -> dict[str, Value]:
    """Changes by dotted key in which `stages.*.KEY` stands for the key of each stage."""
    return expand_star(changes, ALL_STAGES_PREFIX, range(num_stages))


def expand_star(changes: Mapping[str, Value], prefix: str, members: Iterable[object]) -> dict[str, Value]:
    """Changes by dotted key in which a key with this prefix, `GROUP.*.`, stands for that of each member of a group."""
    expanded: dict[str, Value] = {}
    for key, value in changes.items():
        own = [prefix.replace("*", str(member)) for member in members] if key.startswith(prefix) else [""]
        expanded.update({f"{start}{key.removeprefix(prefix)}": value for start in own})
    return expanded


def dotted_keys(key: SearchKey) -> tuple[str, ...]:
    """Returns the parts of a searched key: one, or those that vary together."""
    return (key,) if isinstance(key, str) else tuple(key)


def key_title(key: SearchKey) -> str:
    """Returns a searched key as text; keys that vary together are joined by `JOINED_BY`."""
    return JOINED_BY.join(dotted_keys(key))
