"""Searched keys that change nothing: a sweep would train the same for each of their values."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mtlib.config.trial import TrialConfig, used_settings
from mtlib.runtime.checksum import hash_of
from mtlib.runtime.errors import require
from mtlib.stages.effective_settings import PLACES_OF_WEIGHTS, effective_settings, pick
from results.stats.texts import value_texts
from search_spaces.domain import SearchKey, enabling_values, ends, extreme_points, key_title
from search_spaces.space import SearchSpace, grid_points, search_domain, trial_config, trial_params

KeyValues = Mapping[SearchKey, Any]


def check_keys_matter(space: SearchSpace) -> None:
    """Raises ValueError if all values of a searched key train the same, whatever the other keys are.

    On a grid it compares the grid's own points. For ranges it compares the values of choices and the ends of ranges,
    with the base configuration and with each value of one other key.
    """
    for key, item in search_domain(space).items():
        values = ends(item)
        is_inert = len(values) > 1 and all(train_the_same(space, points) for points in points_by_context(space, key))
        rule = f"space '{space.name}': {key_title(key)} must change what is trained (see --list-keys)"
        texts = ", ".join(value_texts(values))
        require(not is_inert, rule, f"{texts}, which all train the same with the other settings")


def points_by_context(space: SearchSpace, key: SearchKey) -> Iterator[list[KeyValues]]:
    """Points that differ in one key alone, together; each list with other values of the other keys."""
    if not space.ranges:
        contexts: dict[str, list[KeyValues]] = {}
        for point in grid_points(space):
            contexts.setdefault(repr({**point, key: None}), []).append(point)
        yield from contexts.values()
        return
    domain = search_domain(space)
    others: list[KeyValues] = [
        {},
        *extreme_points({name: item for name, item in domain.items() if name != key}, space.conditions),
    ]
    for enabling, other in itertools.product(enabling_values(key, space.conditions), others):
        yield [{**enabling, **other, key: value} for value in ends(domain[key])]


def train_the_same(space: SearchSpace, points: Sequence[KeyValues]) -> bool:
    """Returns whether all points that give a configuration train the same."""
    found = set()
    for point in points:
        try:
            found.add(trained_settings(trial_config(space, trial_params(point))))
        except ValueError:  # these values do not go together: a search leaves them out
            continue
    return len(found) <= 1


def trained_settings(config: TrialConfig) -> str:
    """Returns a digest of everything that can affect a trial's result, apart from the content of files."""
    plain = config if config.precision != "auto" else replace(config, precision="fp32")
    last = len(config.stages) - 1
    settings = effective_settings(plain, last, config.stages[last].epochs)
    files = {"data": used_settings(config, (config,))["data"], "weights": pick(config.encoder, PLACES_OF_WEIGHTS)}
    return hash_of([settings, files, config.precision])
