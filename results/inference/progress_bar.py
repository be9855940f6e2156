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
    total, start = None, time.monotonic()
    if stream.seekable():
        position = stream.tell()
        total = stream.seek(0, os.SEEK_END)
        stream.seek(position)
    texts = [TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[rows]}")]
    columns = (texts[0], BarColumn(), TaskProgressColumn(), texts[1], TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(visible(name), total=total, rows="")

        def on_rows(num_rows: int) -> None:
            rate = num_rows / max(time.monotonic() - start, 1e-9)
            position = None if total is None else stream.tell()
            progress.update(bar, completed=position, rows=f"{num_rows:,} rows, {rate:,.0f} rows/s")

        yield on_rows
