"""Whether the cells of a TSV file stand in quotation marks where they hold some: GLUE's do not, those of pandas do.

Both are TSV, and a file says by its cells alone which it is. In a file with standard quoting each cell that begins with
a mark ends with one and doubles those within, and no other cell has any.
"""

import functools
import mmap
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mtlib.data.files.opening import open_rows
from mtlib.data.files.readers import short_name

QUOTED_CELL = re.compile(rb'"([^"]*(?:""[^"]*)*)"(?=\t|\r?\n|\r?\Z)')
"""A cell in quotation marks, with what it holds."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BEFORE_CELL = (b"\t", b"\n", BYTE_ORDER_MARK[-1:])
"""What stands before the first byte of a cell."""
MANY_LINES = 10
"""Lines of a file from which on a column may be quoted without its name: the few texts of a smaller file may all begin
and end with a mark by chance."""


@dataclass(frozen=True, kw_only=True)
class Quoting:
    """How a TSV file is to be read."""

    name: Literal["", "standard", "none"]
    """Empty: there is no quotation mark."""
    is_certain: bool = True
    """Whether the file shows it; otherwise both readings fit."""
    example: str = ""
    """A cell in marks, as it lies in the file."""
    num_quoted: int = 0
    """Cells in marks."""


def find_quoting(path: Path) -> Quoting:
    """Returns how a TSV file is to be read; OSError if it cannot be read."""
    about = path.stat()
    return cached_quoting(path, about.st_size, about.st_mtime_ns)


@functools.lru_cache(maxsize=256)
def cached_quoting(path: Path, size: int, _changed: int) -> Quoting:
    """`find_quoting` of a file with this size and time of change."""
    if not size:
        return Quoting(name="")
    with open_rows(path) as stream:
        if path.suffix.lower() != ".tsv":  # compressed
            return quoting_of(stream.read())
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return quoting_of(content)


def quoting_of(content: "bytes | mmap.mmap") -> Quoting:
    """Returns how the content of a TSV file is to be read.

    Cells in marks prove standard quoting if one holds a doubled mark, a tab or a line feed, or if a whole column
    stands in marks. A line feed proves nothing where each line has as many cells as the first one: then a mark at the
    beginning of one text and a mark at the end of another one only look like a cell.
    """
    end = len(BYTE_ORDER_MARK) if content[:3] == BYTE_ORDER_MARK else 0
    num_quoted, example, is_proven, is_ragged = 0, b"", False, False
    while (start := content.find(b'"', end)) >= 0:
        cell = QUOTED_CELL.match(content, start) if start == 0 or content[start - 1 : start] in BEFORE_CELL else None
        inside = b"" if cell is None else cell[1]
        is_ragged = is_ragged or (b"\n" in inside and not has_even_lines(content))
        if cell is None or (b"\n" in inside and not is_ragged):
            return Quoting(name="none")
        if not is_proven:
            example, is_proven = cell[0], any(mark in inside for mark in (b'""', b"\t", b"\n"))
        num_quoted, end = num_quoted + 1, cell.end()
    if not num_quoted:
        return Quoting(name="")
    is_proven = is_proven or has_quoted_column(content)
    text = example.decode("utf-8", "replace")
    return Quoting(name="standard" if is_proven else "none", is_certain=is_proven, example=text, num_quoted=num_quoted)


def lines_of(content: "bytes | mmap.mmap") -> list[bytes]:
    """Returns the lines that are not blank."""
    return [line for line in bytes(content).removeprefix(BYTE_ORDER_MARK).split(b"\n") if line.strip()]


def has_even_lines(content: "bytes | mmap.mmap") -> bool:
    """Returns whether every line has as many tabs as the first one."""
    return len({line.count(b"\t") for line in lines_of(content)}) == 1


def has_quoted_column(content: "bytes | mmap.mmap") -> bool:
    """Returns whether all cells of a column stand in marks, its name aside where there are many."""
    lines = lines_of(content)
    rows = [line.split(b"\t") for line in (lines[1:] if len(lines) >= MANY_LINES else lines)]
    return len(lines) > 1 and any(all(cell.startswith(b'"') for cell in column) for column in zip(*rows, strict=False))


def describe_quoting(path: Path, key: str) -> str:
    """Returns a line about a file that fits both readings, with both and the key that decides; "" for any other."""
    found = find_quoting(path)
    if found.is_certain:
        return ""
    cells = "1 cell stands" if found.num_quoted == 1 else f"{found.num_quoted:,} cells stand"
    bare = found.example[1:-1]
    return (
        f"{short_name(path)}: {cells} in quotation marks, which are read as part of the text, such as {found.example}; "
        f'{key} = "standard" would read {bare}, "none" is what is done'
    )
