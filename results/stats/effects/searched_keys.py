"""The keys that a sweep searched: their values in order, the base value, or the range."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from mtlib.runtime.errors import nearest_first, require, require_name
from results.records.trials import TrialRecord
from results.stats.texts import value_text
from search_spaces.domain import JOINED_BY, Float, Int, expand_tasks
from search_spaces.space_json import as_tuples

RECORDED = ("space", "base", "search")
"""Parts of `sweep.json` that say what was searched."""


NO_VALUE = object()
"""Stands for the value of a key that a trial did not sample, that the base configuration does not have, or in which the
base's tasks differ; None is a value."""


@dataclass(frozen=True, kw_only=True)
class SearchedKey:
    """One key of the search; keys that vary together are one."""

    name: str
    """Dotted key, several joined by ` + `, or a name that the space defines."""
    values: tuple[Any, ...]
    """Its values that were trained, in the order of the space; empty if it has a range."""
    own_base: Any = NO_VALUE
    """The base configuration's value, trained or not; `NO_VALUE` where the base has none of its own."""
    base: Any = NO_VALUE
    """The value that others are compared with: the base configuration's, or another one that is asked for. `NO_VALUE`
    where the base configuration's was not trained: then the value with the best mean takes its place."""
    is_picked: bool = False
    """Whether the base is the value with the best mean, which was picked by the scores that are compared."""
    range: Float | Int | None = None
    """Where it was sampled from a range."""

    @property
    def base_title(self) -> str:
        """What the value is called that others are compared with, everywhere."""
        if self.is_picked or self.base is NO_VALUE:
            return "value with the best mean"
        return "base value" if self.base == self.own_base else "given value"

    @property
    def task(self) -> str:
        """The task that the key belongs to: `sst` of `tasks.sst.loss`; empty if it belongs to none, or to several."""
        parts = [part.split(".") for part in self.name.split(JOINED_BY)]
        tasks = {part[1] if part[0] == "tasks" else "" for part in parts}
        return tasks.pop() if len(tasks) == 1 else ""

    @property
    def coded_base(self) -> Any:
        """The value against which a fit codes the others: the base, or the first in order where there is none."""
        return in_value_order(self.values)[0] if self.base is NO_VALUE else self.base

    def value_of(self, params: Mapping[str, Any]) -> Any:
        """Returns a trial's value; `NO_VALUE` where the key was not sampled."""
        parts = self.name.split(JOINED_BY)
        if any(part not in params for part in parts):
            return NO_VALUE
        return as_tuples(params[self.name]) if len(parts) == 1 else tuple(as_tuples(params[part]) for part in parts)


def other_params(params: Mapping[str, Any], *keys: SearchedKey) -> tuple[tuple[str, str], ...]:
    """Returns what a trial was trained with besides these keys; equal where all else is equal."""
    names = {part for key in keys for part in key.name.split(JOINED_BY)}
    return tuple(sorted((name, repr(value)) for name, value in params.items() if name not in names))


def searched_keys(info: Mapping[str, Any], records: Sequence[TrialRecord]) -> list[SearchedKey]:
    """Returns the searched keys of a sweep, in the order of its space.

    Args:
        info: the content of `sweep.json`.
        records: its trials; values of a choice that no trial has are left out.

    Raises:
        ValueError: `sweep.json` does not record what was searched.
    """
    missing = [name for name in RECORDED if not info.get(name)]
    require(not missing, f"sweep.json must record {', '.join(RECORDED)}", f"no {', '.join(missing)}")
    space, is_grid = info["space"], info["search"] == "grid"
    grid = dict(space["grid"])
    ranges = {} if is_grid else dict(space["ranges"])
    keys = [ranged_key(name, domain, info["base"], records) for name, domain in ranges.items()]
    listed = [listed_key(name, values, info["base"], records) for name, values in grid.items() if name not in ranges]
    order = [*grid, *(name for name in ranges if name not in grid)]
    return sorted([*keys, *listed], key=lambda key: order.index(key.name))


def with_bases(keys: Sequence[SearchedKey], bases: Mapping[str, Any]) -> list[SearchedKey]:
    """Returns the keys, some of them with another base value; a key that no finished trial has a value of stays.

    Args:
        keys: of a sweep.
        bases: by the key's name, the value, or its text: as the effects show it, or any other of the same number.

    Raises:
        ValueError: a key is not searched or has a range, or no finished trial has the value.
    """
    for name in bases:
        require_name(name, [key.name for key in keys], "searched key")
    return [with_base(key, bases[key.name]) if key.name in bases else key for key in keys]


def with_base(key: SearchedKey, wanted: Any) -> SearchedKey:
    """Returns the key with another base value; arguments and errors as of `with_bases`."""
    require(key.range is None, "a base value must be of a key with listed values", f"{key.name}, which has a range")
    if not key.values:
        return key
    found = [value for value in key.values if is_same(value, wanted)]
    if not found:
        shown = [value_text(value) for value in key.values]
        rule = f"the base value of {key.name} must be one that a finished trial has, got '{wanted}'"
        raise ValueError(f"{rule}; {nearest_first(str(wanted), shown)}")
    return replace(key, base=found[0])


def is_same(value: Any, wanted: Any) -> bool:
    """Returns whether a searched value is the one that is given, or the one that a text stands for."""
    if not isinstance(wanted, str):
        return bool(value == as_tuples(wanted))
    if isinstance(value, str):
        return wanted in (value, value_text(value))
    if is_numeric(value):
        try:
            return float(wanted) == value
        except ValueError:
            return False
    return wanted.lower() == value_text(value).lower()


def in_value_order(values: Iterable[Any]) -> list[Any]:
    """Returns searched values in an order that does not depend on how they were typed: numbers, then texts."""
    return sorted(values, key=lambda value: (not is_numeric(value), value if is_numeric(value) else 0, repr(value)))


def is_numeric(value: Any) -> TypeGuard[float]:
    """Returns whether a searched value is a number; a boolean is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def ranged_key(
    name: str, domain: Mapping[str, Mapping[str, Any]], base: Mapping[str, Any], records: Sequence[TrialRecord]
) -> SearchedKey:
    """Returns a key with a domain of the space: `Float`, `Int` or `Choice`."""
    ((kind, item),) = domain.items()
    if kind == "Choice":
        return listed_key(name, item["values"], base, records)
    own = base_value(base, name)
    found = Float(**item) if kind == "Float" else Int(**item)
    return SearchedKey(name=name, values=(), own_base=own, base=own, range=found)


def listed_key(
    name: str, values: Sequence[Any] | Mapping[str, Any], base: Mapping[str, Any], records: Sequence[TrialRecord]
) -> SearchedKey:
    """Returns a key with listed values, or with names that stand for overrides."""
    own = own_value(base, name, values)
    listed = tuple(map(as_tuples, values))
    key = SearchedKey(name=name, values=listed)
    drawn = {key.value_of(record.params) for record in records}
    tried = tuple(value for value in listed if value in drawn)
    return replace(key, values=tried, own_base=own, base=own if own in tried else NO_VALUE)


def base_number(keys: Sequence[SearchedKey], records: Sequence[TrialRecord]) -> int | None:
    """Returns the number of the first configuration that has the base configuration's value of every searched key that
    it sampled, if any."""
    numbers = [
        record.number
        for record in records
        if all(key.value_of(record.params) in (NO_VALUE, key.own_base) for key in keys)
    ]
    return min(numbers, default=None)


def own_value(base: Mapping[str, Any], name: str, values: Sequence[Any] | Mapping[str, Any]) -> Any:
    """Returns the base configuration's value of a key, or the name that stands for it; `NO_VALUE` if there is none."""
    return base_name(base, values) if isinstance(values, Mapping) else base_value(base, name)


def base_name(base: Mapping[str, Any], named: Mapping[str, Mapping[str, Any]]) -> Any:
    """Returns the first name whose overrides change nothing in the base configuration; `NO_VALUE` if there is none."""
    return next(
        (
            name
            for name, overrides in named.items()
            if all(base_value(base, dotted) == as_tuples(value) for dotted, value in overrides.items())
        ),
        NO_VALUE,
    )


def base_value(base: Mapping[str, Any], name: str) -> Any:
    """Returns the base configuration's value of a dotted key, or of several;
    `NO_VALUE` if one has none, or tasks differ."""
    found = [base_part_of_tasks(base, part) for part in name.split(JOINED_BY)]
    if NO_VALUE in found:
        return NO_VALUE
    return found[0] if len(found) == 1 else tuple(found)


def base_part_of_tasks(base: Mapping[str, Any], dotted: str) -> Any:
    """Returns the value at a dotted key; of `tasks.*.KEY` the value that all trained tasks have,
    `NO_VALUE` if they differ."""
    tasks = {task for stage in base.get("stages", ()) for task in stage.get("tasks", ())}
    values = [base_part(base, key) for key in expand_tasks({dotted: None}, sorted(tasks))]
    return values[0] if values and all(value == values[0] for value in values) else NO_VALUE


def base_part(tree: Any, dotted: str) -> Any:
    """Returns the value at a dotted key, e.g. `stages.0.epochs`; `NO_VALUE` if there is none."""
    for part in dotted.split("."):
        if isinstance(tree, Mapping) and part in tree:
            tree = tree[part]
        elif isinstance(tree, list) and part.isdigit() and int(part) < len(tree):
            tree = tree[int(part)]
        else:
            return NO_VALUE
    return as_tuples(tree)
