"""A progress bar of predicted rows and rows per second, on a terminal."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from mtlib.runtime.console import visible


@contextlib.contextmanager
def show_rows(stream: IO[bytes], name: str) -> Iterator[Callable[[int], None]]:
    """Shows a progress bar on standard error, if that is a terminal.

    Yields:
        A function to call with the number of rows predicted so far. The share that is done is that of the stream's
        bytes; a pipe shows the number of rows only.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    total, start = stream_bytes(stream), time.monotonic()
    texts = [TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[rows]}")]
    columns = (texts[0], BarColumn(), TaskProgressColumn(), texts[1], TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(visible(name), total=total, rows="")

        def on_rows(num_rows: int) -> None:
            position = None if total is None else stream.tell()
            progress.update(bar, completed=position, rows=throughput_text(num_rows, time.monotonic() - start))

        yield on_rows


def stream_bytes(stream: IO[bytes]) -> int | None:
    """Bytes of a stream; None for a pipe."""
    try:
        return os.fstat(stream.fileno()).st_size if stream.seekable() else None
    except OSError:  # it is no file
        return None


def throughput_text(num_rows: int, seconds: float) -> str:
    """`4,096 rows, 512 rows/s`."""
    return f"{num_rows:,} rows, {num_rows / max(seconds, 1e-9):,.0f} rows/s"
