"""Something that a reader should know about a sweep, and what to do about it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from results.sweep import Sweep

Level = Literal["problem", "warning", "note"]
WORST_FIRST: tuple[Level, ...] = ("problem", "warning", "note")
"""The worst first."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What some trials show, and what to do about it."""

    level: Level
    what: str
    """A sentence without its full stop."""
    advice: str
    """An instruction that begins with a small letter, without its full stop."""
    command: str = ""
    """What to type for it."""

    @property
    def line(self) -> str:
        """Both, below a table."""
        return f"{self.what}: {self.advice}"


Check: TypeAlias = Callable[[Sweep], Iterator[Finding]]
"""Yields the findings of one kind; ValueError says why it cannot be made."""
