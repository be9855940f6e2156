"""The base configuration of a search space as a point of its domain."""

from collections.abc import Sequence
from typing import Any

from search_spaces.domain import Choice, Range, SearchKey, holds
from search_spaces.space import SearchSpace, changed_keys, search_domain, trial_config, trial_params, value_in


def base_point(space: SearchSpace) -> dict[str, Any] | None:
    """Returns the searched values of a space's base configuration, for `trial_config`;
    None where the domain has it not."""
    drawn: dict[SearchKey, Any] = {}
    for key, item in search_domain(space).items():
        if not holds(space.conditions.get(key), drawn):
            continue
        possible = base_values(space, key, item)
        found = [one for one in possible if trial_config(space, trial_params({key: one})) == space.base]
        if not found:
            return None
        drawn[key] = found[0]
    return trial_params(drawn)


def base_values(space: SearchSpace, key: SearchKey, item: Range) -> Sequence[Any]:
    """Returns the values of a range that the base may have:
    all of a choice, or its own number if that is within bounds."""
    if isinstance(item, Choice):
        return item.values
    value = value_in(space.base, changed_keys(space, key)[0])
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return [value] if is_number and item.low <= value <= item.high else []
