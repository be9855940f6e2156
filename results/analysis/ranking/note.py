"""A note on some trials of a sweep: what the curves show, and what to set."""

from collections.abc import Sequence
from dataclasses import dataclass

MAX_NAMES = 5
"""Trials, or searched values, that a sentence names."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """What some trials' curves show, and what to do about it."""

    what: str
    """A sentence without its full stop."""
    advice: str
    """An instruction that begins with a small letter, without its full stop."""

    @property
    def line(self) -> str:
        """Both, below a table."""
        return f"{self.what}: {self.advice}"


def named(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


def capitalized(sentence: str) -> str:
    """A sentence with a capital first letter; its other letters stay."""
    return sentence[:1].upper() + sentence[1:]
