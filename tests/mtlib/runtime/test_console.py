"""What is printed: lines as they are, commands whole, tables that fit."""

import sys

import pytest

from mtlib.runtime.console import (
    PrintedTable,
    num_columns,
    show_lines,
    table_lines,
    visible,
    visible_lines,
    wrapped,
)
from tests.nasty_text import NASTY, SHOWN

Capture = pytest.CaptureFixture[str]
WIDTHS = (20, 120)


def test_lines_are_printed_as_they_are(capsys: Capture) -> None:
    show_lines([NASTY, "two  spaces", "x" * 500])
    show_lines(["a note"], sys.stderr)
    assert capsys.readouterr() == (f"{SHOWN}\ntwo  spaces\n{'x' * 500}\n", "a note\n")


def test_what_steers_a_terminal_is_visible_and_all_else_stays() -> None:
    assert visible("a\x00b\x1b[2J\r\n\t\x85\u2028\ud800") == r"a\x00b\x1b[2J\r\n\t\x85\u2028\ud800"
    for text in ("", "Grüße, 日本語 😀", "a\\n", SHOWN):
        assert visible(text) == text
    assert visible_lines("a\x1b\nb") == "a\\x1b\nb"


@pytest.mark.parametrize("width", WIDTHS)
def test_sentences_are_wrapped_and_commands_are_whole(width: int) -> None:
    command = f"  python sweeps/run.py --resume '/a folder/{'x' * 90}' --replicates 3"
    sentence = "0.7 against 0: +0.003 overall (95 %: -0.021 to +0.027; 3 replicates). " * 4
    lines = wrapped([f"{sentence}\n{command}", "", "end"], width)
    assert command in lines
    assert lines[-2:] == ["", "end"]
    others = [line for line in lines if line != command]
    assert max(map(len, others)) <= width
    assert " ".join(others).split() == f"{sentence} end".split()
    assert not [line for line in others if line.startswith("%") or line.endswith("(95")]


TALL = PrintedTable(
    titles=["value", ["SST", "dev"], "epoch"],
    rows=[["a/very/long/name", ["0.123", "±.015"], "10"], ["日本", ["-0.5", "±.1"], "9"]],
    numbers={2},
    is_spaced=True,
)
WIDE = PrintedTable(
    titles=["value", "SST dev", "epoch"],
    rows=[["a/very/long/name", "0.123 ±.015", "10"], ["日本", "-0.5 ±.1", "9"]],
    numbers={2},
)


def test_first_table_that_fits_is_shown() -> None:
    assert table_lines(36, WIDE, TALL) == [
        "value             SST dev      epoch",
        "────────────────────────────────────",
        "a/very/long/name  0.123 ±.015     10",
        "日本              -0.5 ±.1         9",
    ]
    assert table_lines(35, WIDE, TALL) == [
        "value             SST    epoch",
        "                  dev",
        "──────────────────────────────",
        "a/very/long/name  0.123     10",
        "                  ±.015",
        "",
        "日本              -0.5       9",
        "                  ±.1",
    ]
    assert table_lines(80, PrintedTable(titles=["a", "b"], rows=[], has_rule=False)) == ["a  b"]


@pytest.mark.parametrize("width", WIDTHS)
def test_no_cell_is_cut_at_any_width(width: int) -> None:
    cells = ["0.123456789", "optimizer.learning_rate", NASTY, "日本語" * 5]
    lines = table_lines(width, PrintedTable(titles=cells, rows=[cells] * 2))
    text = "".join("".join(lines).split())
    for cell in cells:
        assert text.count("".join(visible(cell).split())) >= 3, cell
    assert not [line for line in lines if num_columns(line) > width and " " in line.strip()]
