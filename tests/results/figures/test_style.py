"""Every style has a colour, a symbol and dashes of its own, in every kind of figure."""

import pytest

from results.figures.style import (
    COLOURS,
    MATPLOTLIB_DASHES,
    MATPLOTLIB_SYMBOLS,
    NUM_STYLES,
    PLOTLY_DASHES,
    PLOTLY_SYMBOLS,
    TEXT_SYMBOLS,
    colour_of,
    columns_of,
    shape_number,
)


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb` (WCAG 2.2)."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(
    "looks", [COLOURS, PLOTLY_SYMBOLS, TEXT_SYMBOLS, MATPLOTLIB_SYMBOLS, PLOTLY_DASHES, MATPLOTLIB_DASHES]
)
def test_no_two_styles_are_alike(looks: tuple[object, ...]) -> None:
    assert len(looks) == len(set(looks)) == NUM_STYLES


@pytest.mark.parametrize("colour", COLOURS)
def test_colours_stand_out_on_white_and_on_black(colour: str) -> None:
    own = luminance(colour) + 0.05
    assert min(1.05 / own, own / 0.05) > 2.5


def test_after_the_last_style_the_first_follows() -> None:
    assert [colour_of(style) for style in (0, NUM_STYLES - 1, NUM_STYLES)] == [COLOURS[0], COLOURS[-1], COLOURS[0]]


def test_colours_come_back_with_other_shapes() -> None:
    assert [shape_number(style) for style in (0, 7, 8, 15, 16)] == [0, 7, 1, 0, 2]
    assert len({(colour_of(style), shape_number(style)) for style in range(NUM_STYLES**2)}) == NUM_STYLES**2


def test_panels_stand_in_rows_of_at_most_three() -> None:
    assert [columns_of(count) for count in (1, 2, 3, 4, 5, 9)] == [1, 2, 3, 2, 3, 3]
