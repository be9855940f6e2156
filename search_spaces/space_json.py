"""A search space as JSON, in which one that was built in Python is kept with its sweep."""

import json
from typing import Any

from mtlib.config.schema import to_dict
from mtlib.config.trial import TrialConfig
from mtlib.runtime.errors import require
from search_spaces.domain import JOINED_BY, Choice, Condition, Float, Int, Range, SearchKey, key_title
from search_spaces.published import read_published
from search_spaces.space import Grid, SearchSpace, describe_space

SPACE_JSON = "space.json"
"""Name of the file, in a sweep's folder."""
RANGES: dict[str, type[Range]] = {cls.__name__: cls for cls in (Float, Int, Choice)}


def space_to_json(space: SearchSpace) -> bytes:
    """Returns the content of a file that `space_from_json` reads.

    Raises:
        ValueError: a value of the space is neither plain (text, a number, true or false, None), nor a list, a mapping
            or a dataclass of such values.
    """
    smaller = [[[key_title(key), to_dict(values)] for key, values in grid.items()] for grid in space.smaller_grids]
    tree = {**describe_space(space), "smaller_grids": smaller, "base": space.base.to_tree()}
    try:
        return json.dumps(tree, indent=2, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        rule = f"space '{space.name}' must hold plain values, as it is kept with the sweep"
        raise ValueError(f"{rule}, got: {error}") from None


def space_from_json(content: bytes) -> SearchSpace:
    """Returns the space in a file that `space_to_json` made; ValueError if it is none."""
    try:
        tree = json.loads(content)
        return SearchSpace(
            name=tree["name"],
            question=tree["question"],
            metric=tree["metric"],
            base=TrialConfig.from_json(json.dumps(tree["base"])),
            grid=grid_of(tree["grid"]),
            smaller_grids=tuple(map(grid_of, tree["smaller_grids"])),
            ranges={searched_key(title): range_of(item) for title, item in tree["ranges"]},
            conditions={
                searched_key(title): Condition(key=searched_key(item["key"]), values=as_tuples(item["values"]))
                for title, item in tree["conditions"]
            },
            published=read_published({"space": tree}),
        )
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"a search space must be as it was written, got: {error!r}") from error


def grid_of(pairs: list[list[Any]]) -> Grid:
    """Returns a grid from the titles of its keys with their values."""
    return {searched_key(title): as_tuples(values) for title, values in pairs}


def searched_key(title: str) -> SearchKey:
    """Returns the searched key with a title, as `key_title` makes it."""
    parts = tuple(title.split(JOINED_BY))
    return parts if len(parts) > 1 else title


def range_of(item: dict[str, dict[str, Any]]) -> Range:
    """Returns a range from its fields by the name of its class."""
    ((name, fields),) = item.items()
    require(name in RANGES, f"a range must be one of {', '.join(RANGES)}", name)
    return RANGES[name](**{key: as_tuples(value) for key, value in fields.items()})


def as_tuples(value: Any) -> Any:
    """Returns plain data with tuples in place of lists, as values of a space are that are compared."""
    if isinstance(value, dict):
        return {key: as_tuples(item) for key, item in value.items()}
    return tuple(map(as_tuples, value)) if isinstance(value, list | tuple) else value
