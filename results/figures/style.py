"""Colours, symbols and dashes of the figures: kinds of points differ in all three, so also without colour vision.

Colours are those of Okabe and Ito (2008), "Color Universal Design", in shades that stand out on white and on black.
"""

from collections.abc import Sequence

COLOURS = ("#0f7bc0", "#d55e00", "#009e73", "#c25e9b", "#b78103", "#4fa3d9", "#7f6fd0", "#8a8a8a")
PLOTLY_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "triangle-down", "cross")
TEXT_SYMBOLS = ("●", "■", "◆", "▲", "✖", "★", "▼", "✚")
"""The same symbols in a text, for legends."""
MATPLOTLIB_SYMBOLS = ("o", "s", "D", "^", "X", "*", "v", "P")
PLOTLY_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "5px,2px", "2px,4px")
MATPLOTLIB_DASHES: Sequence[str | tuple[int, tuple[int, ...]]] = (
    "-",
    "--",
    ":",
    "-.",
    (0, (8, 3)),
    (0, (8, 3, 1, 3)),
    (0, (3, 1)),
    (0, (1, 3)),
)
NUM_STYLES = len(COLOURS)
FAINT = "#8a8a8a"
"""The colour of what is in the background."""
FAINT_OPACITY = 0.4
HEATMAP_COLOURS = ("#f4f7fb", "#0b4f80")
"""Of 0 and 1."""


def colour_of(style: int) -> str:
    """The colour of a style; after the last the first follows."""
    return COLOURS[style % NUM_STYLES]


def shape_number(style: int) -> int:
    """The number of a style's symbol, dashes and hatching; after the last colour each has those of the next one."""
    return (style + style // NUM_STYLES) % NUM_STYLES


def columns_of(num_panels: int) -> int:
    """How many panels stand side by side where the width is fixed."""
    return 2 if num_panels == 4 else min(num_panels, 3)
