"""A search space from keys and values as typed after `--vary`, without a file."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mtlib.config.trial import TrialConfig
from mtlib.runtime.errors import require
from search_spaces.domain import Float, Int, Range, SearchKey, expand_tasks
from search_spaces.space import SearchSpace, value_in

NAME = "vary"
"""Name of such a space, with which the name of its sweep begins."""

RANGE = re.compile(r"(?P<low>[^,]+?)\.\.(?P<high>[^,:]+)(:(?P<scale>.*))?")
COMMA = re.compile(r",(?![^\[]*\])")
"""A comma between values: none inside brackets."""
QUOTED_VALUE = re.compile(r'^"(.*)"$')
"""A value in quotes."""


def vary(
    base: TrialConfig, metric: str, typed: Mapping[str, str], smaller: Sequence[Mapping[str, str]] = ()
) -> SearchSpace:
    """Returns the space over keys of the configuration with values as typed,
    a list `0,0.45,1` or a range `1e-5..1e-4:log`.

    Args:
        base: the configuration that is varied, with everything that is not searched.
        metric: the score that decides.
        typed: at least one, by dotted key.
        smaller: what `typed` was before values were added, the first one first.

    Raises:
        ValueError: one line: an unknown key (the nearest right one is named) or a value that does not fit.
    """
    texts = {key: split_range(text) if is_range(text) else split_values(text) for key, text in typed.items()}
    grid: dict[SearchKey, tuple[Any, ...]] = {}
    ranges: dict[SearchKey, Range] = {}
    firsts = {key: values[0] for key, values in texts.items()}
    try:
        for key, text in typed.items():
            require(bool(text), f"{key} must have a value", "none")
            values = tuple(read_typed(base, key, {**firsts, key: value}) for value in texts[key])
            if is_range(text):
                ranges[key] = to_range(key, text, values)
            else:
                grid[key] = values
        return SearchSpace(
            name=NAME,
            question=question_about(tuple(typed)),
            base=base,
            metric=metric,
            grid=grid,
            smaller_grids=tuple(vary(base, metric, one).grid for one in smaller),
            ranges=ranges,
        )
    except ValueError as error:
        raise ValueError(f"--vary: {error}") from error


def is_range(text: str) -> bool:
    """Returns whether values are a range: two numbers with `..` between them."""
    found = RANGE.fullmatch(text)
    return found is not None and is_number(found["low"]) and is_number(found["high"])


def is_number(text: str) -> bool:
    """Returns whether text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def split_range(text: str) -> list[str]:
    """Both ends of a range."""
    found = RANGE.fullmatch(text)
    assert found is not None
    return [found["low"].strip(), found["high"].strip()]


def split_values(text: str) -> list[str]:
    """Returns the values of a list; a value in brackets is a list itself,
    and blanks at the ends of one in quotes count."""
    return [unquoted(value.strip()) for value in COMMA.split(text)]


def with_further(text: str, given: str) -> str | None:
    """Returns a list of values as typed, followed by the further ones of the list `given`;
    None if that lacks a value."""
    known, wanted = (  # by the number that a value is, as it may have several spellings
        {float(value) if is_number(value) else unquoted(value.strip()): value for value in COMMA.split(one)}
        for one in (text, given)
    )
    if not known.keys() <= wanted.keys():
        return None
    return ",".join([text, *(value for key, value in wanted.items() if key not in known)])


def unquoted(text: str) -> str:
    """Returns a value as typed, without quotes around it."""
    return QUOTED_VALUE.sub(r"\1", text)


def read_typed(base: TrialConfig, key: str, texts: Mapping[str, str]) -> Any:
    """Returns the value that a key has in the base configuration after changes as typed."""
    first_key, *_ = expand_tasks({key: None}, base.active_tasks)
    return value_in(base.override(expand_tasks(texts, base.active_tasks)), first_key)


def to_range(key: str, text: str, ends: Sequence[Any]) -> Range:
    """Returns the range between two values of a key: of whole numbers if the key is one."""
    found = RANGE.fullmatch(text)
    assert found is not None
    require(found["scale"] in (None, "log"), f"a range of {key} must end in its upper number or in :log", text)
    (low, high), is_log = ends, found["scale"] == "log"
    require(isinstance(low, int | float), f"{key} must have a list of values, as it is no number", text)
    try:
        return Int(low=low, high=high, log=is_log) if isinstance(low, int) else Float(low=low, high=high, log=is_log)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def question_about(keys: Sequence[str]) -> str:
    """Returns the question that varying these keys asks."""
    if len(keys) == 1:
        return f"Which value of {keys[0]} is best?"
    return f"Which values of {', '.join(keys[:-1])} and {keys[-1]} are best together?"
