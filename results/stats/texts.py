"""Texts of searched values and keys, of numbers and of lists of names."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from search_spaces.domain import JOINED_BY

MAX_NAMES = 5
"""Trials, or searched values, that a sentence names."""

MOST_TYPED_DIGITS = 12
"""A number with more digits was drawn or computed, not typed."""
DRAWN_DIGITS = 6
"""Digits of such a number that are shown."""
FEWEST_DIGITS = 3
"""Digits of numbers that need not be exact, such as points of a curve, as long as that tells them apart."""
SHOWN_PARTS = 2
"""Last parts of an absolute path that are shown."""
EXPONENT = re.compile(r"e([+-])0*")


def short_keys(keys: Sequence[str], *taken: str) -> dict[str, str]:
    """Returns a short name for each key: the fewest last parts that no other key has and that are not `taken`,
    else the key."""
    names = {}
    for key in keys:
        others = [other for other in keys if other != key]
        counts = range(1, key.count(".") + 1)
        shorter = ((last_parts(key, count), {last_parts(other, count) for other in others}) for count in counts)
        names[key] = next((name for name, theirs in shorter if name not in {*taken, *theirs}), key)
    return names


def last_parts(key: str, count: int = 1) -> str:
    """E.g. `learning_rate` of `optimizer.learning_rate`; of joined keys the last parts of each."""
    return JOINED_BY.join(".".join(dotted.split(".")[-count:]) for dotted in key.split(JOINED_BY))


def named(names: Sequence[str]) -> str:
    """Returns some names, and how many more there are."""
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


def capitalized(sentence: str) -> str:
    """Returns a sentence with a capital first letter; its other letters stay."""
    return sentence[:1].upper() + sentence[1:]


def value_texts(values: Sequence[Any]) -> list[str]:
    """Returns a text for each searched value; where two different values would look alike, as Python writes them."""
    texts = list(map(value_text, values))
    first = dict(zip(reversed(texts), reversed(values), strict=True))
    clashing = {text for text, value in zip(texts, values, strict=True) if value != first[text]}
    return [repr(value) if text in clashing else text for text, value in zip(texts, values, strict=True)]


def value_text(value: Any) -> str:
    """Returns a searched value as one types it: a number with all digits, or with a few if it was drawn; the end of a
    path; a text in quotes if it is empty, or begins or ends in a blank."""
    if isinstance(value, float):
        exact = repr(value).removesuffix(".0")
        num_digits = len(exact.partition("e")[0].replace(".", "").lstrip("-0"))
        return EXPONENT.sub(r"e\1", exact if num_digits <= MOST_TYPED_DIGITS else f"{value:.{DRAWN_DIGITS}g}")
    if isinstance(value, str) and Path(value).is_absolute():
        last = Path(value).parts[-SHOWN_PARTS:]
        return "/".join(["…", *last]) if len(last) < len(Path(value).parts) - 1 else value
    if isinstance(value, list | tuple):
        return "-".join(map(value_text, value))
    if isinstance(value, str) and (not value or value != value.strip()):
        return f'"{value}"'
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def searched_text(params: Mapping[str, Any]) -> str:
    """E.g. `smart.weight 0.45, smart.mode paper`; of many keys the first, and empty if nothing was searched."""
    return named([f"{key} {value_text(value)}" for key, value in params.items()])


def frame_value(value: Any) -> Any:
    """Returns a searched value as data frames have it: None as the text that one types, as pandas leaves None out of
    groups and pivot tables."""
    return value_text(value) if value is None else value


def short_numbers(values: Sequence[float]) -> list[str]:
    """Numbers with the fewest digits, at least `FEWEST_DIGITS`, that tell different ones apart."""
    for digits in range(FEWEST_DIGITS, 18):
        texts = [EXPONENT.sub(r"e\1", f"{value:.{digits}g}") for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts


def change_text(change: float) -> str:
    """E.g. `+.040`."""
    return f"{change:+.3f}".replace("+0.", "+.").replace("-0.", "-.")


def error_text(error: float) -> str:
    """E.g. `±.015`."""
    return f"±{error:.3f}".replace("±0.", "±.")
