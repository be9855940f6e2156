"""Parts of sentences about a sweep."""

from collections.abc import Sequence

MAX_NAMES = 5
"""Trials, or searched values, that a sentence names."""


def named(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


def capitalized(sentence: str) -> str:
    """A sentence with a capital first letter; its other letters stay."""
    return sentence[:1].upper() + sentence[1:]
