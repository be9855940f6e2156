"""Whether the cells of a TSV file stand in quotation marks where they hold some: GLUE's do not, those of pandas do.

Both are TSV, and a file says by its cells alone which it is. In a file with standard quoting each cell that begins with
a mark ends with one and doubles those within, and no other cell has any.
"""

import codecs
import functools
import mmap
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mtlib.config.data import COMPRESSIONS
from mtlib.data.files.opening import open_decompressed
from mtlib.data.files.readers import WIDE_ENCODINGS, short_name
from mtlib.tasks import FileFormat

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MANY_LINES = 10
"""Lines of a file from which on a column may be quoted without its name: the few texts of a smaller file may all begin
and end with a mark by chance."""


@dataclass(frozen=True, kw_only=True)
class Quoting:
    """How a TSV file is to be read."""

    name: Literal["", "standard", "none", "unclear"]
    """Empty: there is no quotation mark. `unclear`: both readings fit, so it is read as `none`."""
    example: str = ""
    """A cell in marks, as it lies in the file."""
    num_quoted: int = 0
    """Cells in marks."""


def find_quoting(path: Path, given: FileFormat) -> Quoting:
    """Returns how a TSV file with this encoding and separator is to be read; OSError if it cannot be read."""
    about = path.stat()
    if not path.is_file() or not about.st_size:  # what comes through a pipe is read once
        return Quoting(name="")
    return cached_quoting(path, given.encoding, given.separator, about.st_size, about.st_mtime_ns)


@functools.lru_cache(maxsize=256)
def cached_quoting(path: Path, encoding: str, separator: str, _size: int, _changed: int) -> Quoting:
    """`find_quoting` of a file with this size and time of change."""
    mark = (separator or "\t").encode()
    with open_decompressed(path) as stream:
        if codecs.lookup(encoding or "utf-8").name.startswith(WIDE_ENCODINGS) or not mark.isascii():
            return quoting_of(stream.read().decode(encoding or "utf-8", "replace").encode(), mark)
        if path.suffix.lower() in COMPRESSIONS:
            return quoting_of(stream.read(), mark)
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:  # it may be larger than memory
            return quoting_of(content, mark)


def quoting_of(content: "bytes | mmap.mmap", separator: bytes = b"\t") -> Quoting:
    """Returns how the content of a TSV file is to be read.

    Cells in marks prove standard quoting if one holds a doubled mark, or if a whole column stands in marks. Where one
    holds a separator or a line feed, fewer lines must then differ from the first one in their number of cells:
    otherwise a mark at the beginning of one text and a mark at the end of another one only look like a cell.
    """
    quoted = re.compile(rb'"([^"]*+(?:""[^"]*+)*+)"(?=%b|\r?\n|\r?\Z)' % re.escape(separator))
    first = end = len(BYTE_ORDER_MARK) if content[:3] == BYTE_ORDER_MARK else 0
    num_quoted, example, is_doubled, has_wide_cell = 0, b"", False, False
    while (start := content.find(b'"', end)) >= 0:
        before = content[max(first, start - len(separator)) : start]
        cell = quoted.match(content, start) if not before or before.endswith((b"\n", separator)) else None
        if cell is None:
            return Quoting(name="none")
        if separator in cell[1] or b"\n" in cell[1]:
            has_wide_cell = True
        else:
            is_doubled, example = is_doubled or b'""' in cell[1], example or cell[0]
        num_quoted, end = num_quoted + 1, cell.end()
    if not num_quoted:
        return Quoting(name="")
    if has_wide_cell:
        bare = quoted.sub(b"", bytes(content))
        is_better = count_uneven_lines(bare, separator) < count_uneven_lines(content, separator)
        return Quoting(name="standard" if is_better else "none", num_quoted=num_quoted)
    is_proven = is_doubled or has_quoted_column(content, separator)
    text = example.decode("utf-8", "replace")
    return Quoting(name="standard" if is_proven else "unclear", example=text, num_quoted=num_quoted)


def filled_lines(content: "bytes | mmap.mmap") -> list[bytes]:
    """Returns the lines that are not blank."""
    return [line for line in bytes(content).removeprefix(BYTE_ORDER_MARK).split(b"\n") if line.strip(b"\r\n")]


def count_uneven_lines(content: "bytes | mmap.mmap", separator: bytes) -> int:
    """Returns how many lines have more or fewer cells than the first one."""
    counts = [line.count(separator) for line in filled_lines(content)]
    return sum(count != counts[0] for count in counts)


def has_quoted_column(content: "bytes | mmap.mmap", separator: bytes) -> bool:
    """Returns whether all cells of a column stand in marks, its name aside where there are many."""
    lines = filled_lines(content)
    rows = [line.split(separator) for line in (lines[1:] if len(lines) >= MANY_LINES else lines)]
    return len(lines) > 1 and any(all(cell.startswith(b'"') for cell in column) for column in zip(*rows, strict=False))


def describe_quoting(path: Path, given: FileFormat, key: str) -> str:
    """Returns a line about a file that fits both readings, with both and the key that decides; "" for any other."""
    found = find_quoting(path, given)
    if found.name != "unclear":
        return ""
    cells = "1 cell stands" if found.num_quoted == 1 else f"{found.num_quoted:,} cells stand"
    bare = found.example[1:-1]
    return (
        f"{short_name(path)}: {cells} in quotation marks, which are read as part of the text, such as {found.example}; "
        f'{key} = "standard" would read {bare}, "none" is what is done'
    )
