"""The content of a page: sections with paragraphs, tables, figures and findings; `render` writes them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import plotly.graph_objects as go

from results.health.finding import Finding


@dataclass(frozen=True, kw_only=True)
class Text:
    """Paragraphs."""

    paragraphs: Sequence[str]
    is_lead: bool = False
    """Whether it is what a reader should read first."""


@dataclass(frozen=True, kw_only=True)
class TextTable:
    """A table of texts."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    marked: frozenset[int] = frozenset()
    """Rows that stand out."""
    num_shown: int | None = None
    """Rows that are shown at first; None for all."""
    num_text_columns: int = 1
    """The first columns, which are aligned to the left; numbers follow."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """A list of findings, the worst first; it may be empty."""

    found: Sequence[Finding]


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A text whose lines and spaces stay, such as a command."""

    text: str
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Fold:
    """Blocks that are folded: only a title is shown at first."""

    title: str
    blocks: Sequence["Block"]


Block: TypeAlias = Text | TextTable | Findings | Listing | go.Figure | Fold
"""A figure is one of `results.figures.draw.figure_of`, with a name and a caption."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a page with a heading."""

    name: str
    """Its anchor."""
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, kw_only=True)
class Page:
    """A whole page."""

    title: str
    subtitle: str
    sections: Sequence[Section] = field(default_factory=tuple)

    @property
    def figures(self) -> list[go.Figure]:
        """All figures, in order."""
        blocks = (block for section in self.sections for block in unfolded(section.blocks))
        return [block for block in blocks if isinstance(block, go.Figure)]


def unfolded(blocks: Iterable[Block]) -> Iterator[Block]:
    """Puts the blocks of folds in the folds' places."""
    for block in blocks:
        if isinstance(block, Fold):
            yield from unfolded(block.blocks)
        else:
            yield block
