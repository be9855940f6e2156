"""The one place that prints: lines in which nothing from outside is interpreted, tables that fit their width, data."""

import contextlib
import io
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:  # loaded where something is drawn, so that commands start fast
    from rich.console import Console

PLAIN_WIDTH = 100
"""Columns where there is neither a terminal nor the variable COLUMNS."""
COMMAND_INDENT = "  "
"""Before a command on a line of its own, which is not wrapped, so that it can be copied."""
COLUMN_GAP = "  "
STEERING = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that steer a terminal, order text from right to left, end lines, or cannot be written."""
FORMULA_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r")
SPREADSHEET_SAFE = "put ' before text in CSV that a spreadsheet would take for a formula (begins with =, +, -, @)"
"""Help of the flag --spreadsheet-safe."""
PLAIN_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
SPACES_AND_WORD = re.compile(r" *[^ ]+(?:(?<=\d) %[^ ]*)?")
"""A word with the spaces before it; a number and its per cent sign are one."""

TableCell = str | Sequence[str]
"""A text, or several below each other."""
ShowLines = Callable[[Iterable[str]], None]


def show_lines(lines: Iterable[str], stream: IO[str] | None = None) -> None:
    """Prints lines at once, also through a pipe, on standard output or another stream.

    Each line is printed whole and as it is: characters that would steer the terminal are `visible`, and nothing is
    read as markup, emoji or colour.
    """
    for line in lines:
        print(visible(line), file=sys.stdout if stream is None else stream, flush=True)


def show_note(line: str) -> None:
    """Prints a line about what is done on standard error, apart from the output."""
    show_lines([line], sys.stderr)


def write_data(text: str) -> None:
    """Writes data to standard output at once, with every character as it is, in UTF-8 whatever the locale."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # half of a surrogate pair has no UTF-8
    sys.stdout.write(text)
    sys.stdout.flush()


def spreadsheet_safe(cell: Any) -> Any:
    """Returns a cell of CSV, a text with ' before it if a spreadsheet would run it as a formula; numbers stay.

    Source: OWASP, "CSV Injection".
    """
    is_formula = isinstance(cell, str) and cell.startswith(FORMULA_BEGINNINGS) and not PLAIN_NUMBER.fullmatch(cell)
    return f"'{cell}" if is_formula else cell


def visible(text: str) -> str:
    """Returns a text whose steering characters are shown as Python writes them: `\\x1b`, `\\n`."""
    return STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def visible_lines(text: str) -> str:
    """A text with each of its lines as `visible` returns it, and the same line ends."""
    return "\n".join(map(visible, text.split("\n")))


def output_width() -> int:
    """Columns of standard output: the variable COLUMNS, else the terminal's, else `PLAIN_WIDTH`."""
    return shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns


def wrapped(paragraphs: Iterable[str], width: int) -> list[str]:
    """Paragraphs as lines of at most so many columns, where words fit; an indented line, such as a command, stays.

    Lines end between words, and not between a number and its per cent sign.
    """
    lines = [line for paragraph in paragraphs for line in paragraph.split("\n")]
    return [part for line in lines for part in ([line] if line.startswith(COMMAND_INDENT) else fold(line, width))]


def fold(line: str, width: int, indent: str = "") -> list[str]:
    """Breaks a line between words into lines of at most `width` columns, and indents all but the first.

    A word that is wider has a line of its own.
    """
    lines = [""]
    for word in SPACES_AND_WORD.findall(visible(line)):
        if lines[-1] and num_columns(lines[-1] + word) > width:
            lines.append(indent + word.lstrip())
        else:
            lines[-1] += word
    return lines


@dataclass(frozen=True, kw_only=True)
class PrintedTable:
    """Titles and rows of cells, for `table_lines`."""

    titles: Sequence[TableCell]
    rows: Sequence[Sequence[TableCell]]
    numbers: Collection[int] = ()
    """Positions of the columns that are aligned to the right."""
    names: Sequence[str] = ()
    """Titles where each value has a line; empty: the parts of `titles` with spaces between them."""
    has_rule: bool = True
    """Whether a line stands below the titles."""
    is_spaced: bool = False
    """Whether a blank line stands between two rows."""


def table_lines(width: int, *tables: PrintedTable) -> list[str]:
    """Returns the lines of the first table that is at most `width` columns wide; if none is, `value_lines` of the last.

    Args:
        width: in columns.
        tables: the same rows, at least once, the widest first.
    """
    for table in tables:
        lines = row_grid(table)
        if max(map(num_columns, lines)) <= width:
            return lines
    return value_lines(tables[-1], width)


def row_grid(table: PrintedTable) -> list[str]:
    """Returns a table with a line, or several, for each row."""
    rows = [[cell_parts(cell) for cell in row] for row in (table.titles, *table.rows)]
    widths = [
        max((num_columns(part) for cell in column for part in cell), default=0) for column in zip(*rows, strict=True)
    ]
    blocks = [row_lines(row, widths, table.numbers) for row in rows]
    total = sum(widths) + len(COLUMN_GAP) * (len(widths) - 1)
    rule = ["─" * total] if table.has_rule else []
    body = [line for block in blocks[1:] for line in (*block, *([""] if table.is_spaced else []))]
    return [*blocks[0], *rule, *(body[:-1] if table.is_spaced else body)]


def row_lines(row: Sequence[Sequence[str]], widths: Sequence[int], numbers: Collection[int]) -> list[str]:
    """Returns the lines of one row, padded to the columns' widths."""
    lines = []
    for parts in zip_longest(*row, fillvalue=""):
        padded = []
        for at, (part, width) in enumerate(zip(parts, widths, strict=True)):
            gap = " " * (width - num_columns(part))
            padded.append(gap + part if at in numbers else part + gap)
        lines.append(COLUMN_GAP.join(padded).rstrip())
    return lines


def value_lines(table: PrintedTable, width: int) -> list[str]:
    """Returns a table with a line for each value, after its title, and a blank line between two rows."""
    titles = table.names or [" ".join(cell_parts(title)) for title in table.titles]
    lines: list[str] = []
    for row in table.rows:
        values = [" ".join(filter(None, cell_parts(cell))) for cell in row]
        named = [f"{title}: {value}" if title else value for title, value in zip(titles, values, strict=True) if value]
        lines += [*([""] if lines else []), *(part for line in named for part in fold(line, width, COMMAND_INDENT))]
    return lines


def cell_parts(cell: TableCell) -> list[str]:
    """Returns the lines of a cell."""
    return [visible(part) for part in ([cell] if isinstance(cell, str) else cell)] or [""]


def num_columns(text: str) -> int:
    """Columns that a text takes: letters of some scripts take two."""
    from rich.cells import cell_len

    return cell_len(text)


def new_console() -> "Console":
    """Returns a console for `redrawn_lines` that reads no markup, emoji or numbers in what it is given."""
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False)


@contextlib.contextmanager
def redrawn_lines(console: "Console", draw: Callable[[int], Iterable[str]]) -> Iterator[ShowLines]:
    """Shows lines at the lower end of a terminal, and draws them again several times a second.

    Args:
        console: on a terminal.
        draw: returns the lines for a width in columns.

    Yields:
        A function that prints lines above, where they stay.
    """
    from rich.live import Live
    from rich.text import Text

    def drawn() -> Text:
        return Text("\n".join(map(visible, draw(console.width))))

    def show_above(lines: Iterable[str]) -> None:
        for line in lines:
            console.print(Text(visible(line)), soft_wrap=True)

    with Live(get_renderable=drawn, console=console, refresh_per_second=4):
        yield show_above
