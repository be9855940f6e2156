"""A search space from keys and values as typed after `--vary`, or as given in Python, without a file."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mtlib.config.trial import TrialConfig
from mtlib.runtime.command_line import in_words
from mtlib.runtime.errors import require
from search_spaces.domain import Float, Int, Range, SearchKey, expand_tasks
from search_spaces.space import SearchSpace, value_in

NAME = "vary"
"""Name of such a space, with which the name of its sweep begins."""

VariedValues = str | tuple[Any, ...]
"""Values of a key: a list or a range as typed, `0,0.45,1` or `1e-5..1e-4:log`; or a list of values from Python."""

RANGE = re.compile(r"(?P<low>[^,]+?)\.\.(?P<high>[^,:]+)(:(?P<scale>.*))?")
LISTED_VALUE = re.compile(r' *(?:"((?:[^"]|"")*)" *,|((?:\[[^\]]*\]|[^,])*),)')
"""A value of a list as typed, and the comma behind it: in quotes, which it has twice where it has some, or without; no
comma inside brackets ends it."""
PLAIN_VALUE = re.compile(r'(\[[^\[\]"]*\]|[^,"\[\] ]([^,"\[\]]*[^,"\[\] ])?)?')
"""A value that needs no quotes in any list."""
QUOTED_VALUE = re.compile(r'^"(.*)"$')
"""A value in quotes."""


def vary(
    base: TrialConfig,
    metric: str,
    varied: Mapping[str, VariedValues],
    smaller: Sequence[Mapping[str, VariedValues]] = (),
) -> SearchSpace:
    """Returns the space over keys of the configuration with these values.

    Args:
        base: the configuration that is varied, with everything that is not searched.
        metric: the score that decides.
        varied: at least one, by dotted key.
        smaller: what `varied` was before values were added, the first one first.

    Raises:
        ValueError: one line: an unknown key (the nearest right one is named) or a value that does not fit.
    """
    grid: dict[SearchKey, tuple[Any, ...]] = {}
    ranges: dict[SearchKey, Range] = {}
    try:
        for key, given in varied.items():
            require(bool(given), f"{key} must have a value", "none")
        found = {key: varied_values(given) for key, given in varied.items()}
        # A value is read beside the first ones of the other keys, as some keys allow no value without another.
        firsts = {key: values[0] for key, values in found.items()}
        for key, given in varied.items():
            values = tuple(value_in_base(base, key, {**firsts, key: value}) for value in found[key])
            if isinstance(given, str) and is_range(given):
                ranges[key] = to_range(key, given, values)
            else:
                grid[key] = values
        return SearchSpace(
            name=NAME,
            question=question_about(tuple(varied)),
            base=base,
            metric=metric,
            grid=grid,
            smaller_grids=tuple(vary(base, metric, one).grid for one in smaller),
            ranges=ranges,
        )
    except ValueError as error:
        raise ValueError(f"--vary: {error}") from error


def is_range(given: VariedValues) -> bool:
    """Returns whether values are a range: two numbers with `..` between them."""
    found = RANGE.fullmatch(given) if isinstance(given, str) else None
    return found is not None and is_number(found["low"]) and is_number(found["high"])


def is_number(text: str) -> bool:
    """Returns whether text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def varied_values(given: VariedValues) -> tuple[Any, ...]:
    """Returns the values of a list, or both ends of a range.

    Of a list as typed, a value in brackets is a list itself. In quotes, blanks at its ends and commas count; ValueError
    where a quote is open.
    """
    if not isinstance(given, str):
        return given
    if is_range(given):
        found = RANGE.fullmatch(given)
        assert found is not None
        return found["low"].strip(), found["high"].strip()
    values = []
    for quoted, plain in (match.groups() for match in LISTED_VALUE.finditer(f"{given},")):
        if quoted is None:
            value = plain.strip()
            is_whole = not value.startswith('"') or QUOTED_VALUE.fullmatch(value) is not None
            require(is_whole, "a value that begins with a quote must end with one", value)
            values.append(unquoted(value))
        else:
            values.append(quoted.replace('""', '"'))
    return tuple(values)


def typed(given: VariedValues) -> str:
    """Returns the values of a key as they are typed after `--vary KEY=`."""
    return given if isinstance(given, str) else ",".join(map(typed_value, given))


def typed_value(value: Any) -> str:
    """Returns a value as it is typed in a list, so that it is read as it is."""
    if isinstance(value, tuple | list):
        return f"[{','.join(map(typed_value, value))}]"
    if isinstance(value, str):
        is_plain = value == value.strip() and PLAIN_VALUE.fullmatch(value) is not None and not is_range(value)
        return value if is_plain else '"' + value.replace('"', '""') + '"'
    if isinstance(value, float):
        return str(value).removesuffix(".0").replace("e-0", "e-")
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def with_further(known: VariedValues, given: VariedValues) -> VariedValues | None:
    """Returns the values of a list, followed by the further ones of the list `given`.

    None if that lacks a value, or has two that may be the same number: a key of text would have both.
    """
    old, new = ({comparable_value(value): value for value in varied_values(one)} for one in (known, given))
    if is_range(given) or not old.keys() <= new.keys() or len(new) < len(varied_values(given)):
        return None
    further = tuple(value for key, value in new.items() if key not in old)
    return ",".join([known, *map(typed_value, further)]) if isinstance(known, str) else (*known, *further)


def comparable_value(value: Any) -> float | str:
    """Returns what equal values have in common: a number may have several spellings."""
    text = value if isinstance(value, str) else typed_value(value)
    return float(text) if is_number(text) else text


def unquoted(text: str) -> str:
    """Returns a value as typed, without quotes around it."""
    return QUOTED_VALUE.sub(r"\1", text)


def value_in_base(base: TrialConfig, key: str, values: Mapping[str, Any]) -> Any:
    """Returns the value that a key has in the base configuration after changes by dotted key."""
    first_key, *_ = expand_tasks({key: None}, base.active_tasks)
    return value_in(base.override(expand_tasks(values, base.active_tasks)), first_key)


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
    return f"Which values of {in_words(keys)} are best together?"
