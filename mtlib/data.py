"""Files in the CS224N layout to checked tables: what cannot be used is counted, what is wrong stops with one line.

A file is tab-separated UTF-8 text with one header line. Columns are picked by name, so an unnamed index column is no
matter. Quoting is that of standard CSV, undone once: quotation marks that were doubled upstream stay in the text.
"""

import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mtlib.schema import nearest_first, require_name
from mtlib.tasks import TASKS, Task

MOST_SHOWN = 40  # characters of a wrong value in an error message
WHOLE_CELL = re.compile(r'[^"].*|"([^"]|"")*"|', re.DOTALL)


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """The usable rows of one file, in the file's order."""

    task: str
    """Name of the task, a key of `TASKS`."""
    split: str
    """`train`, `dev` or `test`."""
    path: Path
    """The file that was read."""
    ids: list[str]
    """Example ids as text; some look like numbers."""
    texts: tuple[list[str], ...]
    """One list per text column; white space at both ends of a text is gone."""
    labels: np.ndarray | None
    """(rows,) float32, within the task's range; None for `test`."""
    skipped: tuple[str, ...]
    """One line per unusable row, e.g. `quora-dev.csv:17: is_duplicate is blank`."""


def read_folder(
    folder: Path, tasks: Iterable[str], splits: Iterable[str] = ("train", "dev")
) -> dict[tuple[str, str], Table]:
    """Reads the files of the named tasks.

    Args:
        folder: where the files are, under the names that `Task.file_name` gives.
        tasks: names of tasks.
        splits: `train`, `dev` or `test`.

    Returns:
        Tables by (task, split).

    Raises:
        ValueError: a task is unknown, the folder or a file is missing (every missing file is named), or a file cannot
            be used (see `read_table`). Files are looked for before any is read.
    """
    splits = tuple(splits)
    paths = {(name, split): find_task(name).file_name(split) for name in tasks for split in splits}
    check_folder(folder, sorted(set(paths.values())))
    return {(name, split): read_table(folder / file, TASKS[name], split) for (name, split), file in paths.items()}


def read_table(path: Path, task: Task, split: str) -> Table:
    """Reads one file. Rows with a blank id, text or label are skipped and said; a wrong value is an error.

    Args:
        path: the file.
        task: what its columns and labels must be. Its label column is not looked at in `test`.
        split: `train`, `dev` or `test`.

    Returns:
        The rows that can be used, at least one.

    Raises:
        ValueError: in one line, with file, line and column. The file is missing, empty, without rows or without usable
            rows; it is not UTF-8; a column is missing or there twice; a line has too few or too many cells; a
            quotation mark is not closed; a label is no number, not finite, out of range, or a fraction where a class
            belongs.
    """
    columns = ["id", *task.text_columns, *([] if split == "test" else [task.label_column])]
    header, records = read_records(path.name, read_text(path))
    positions = [find_column(path.name, header, column) for column in columns]
    rows, labels, skipped = [], [], []
    for line, cells in records:
        where = f"{path.name}:{line}"
        values = pick_cells(where, header, cells, positions)
        blank = [column for column, value in zip(columns, values, strict=True) if not value]
        if blank:
            skipped.append(f"{where}: {' and '.join(blank)} {'is' if len(blank) == 1 else 'are'} blank")
            continue
        rows.append(values)
        if split != "test":
            labels.append(read_label(where, values[-1], task))
    if not rows:
        raise ValueError(f"{path.name}: a header must be followed by usable rows, got {first_skipped(skipped)}")
    ids, *texts = (list(column) for column in list(zip(*rows, strict=True))[: 1 + len(task.text_columns)])
    return Table(
        task=task.name,
        split=split,
        path=path,
        ids=ids,
        texts=tuple(texts),
        labels=None if split == "test" else np.array(labels, dtype=np.float32),
        skipped=tuple(skipped),
    )


def content_fingerprint(tables: Mapping[tuple[str, str], Table]) -> str:
    """SHA-256, in hexadecimal, of what was read: tasks, splits, ids, texts, labels; not of order or paths."""
    digest = hashlib.sha256()
    for (task, split), table in sorted(tables.items()):
        digest.update(json.dumps([task, split, table.ids, table.texts, table.labels is None]).encode())
        digest.update(b"" if table.labels is None else table.labels.astype("<f4").tobytes())
    return digest.hexdigest()


def find_task(name: str) -> Task:
    require_name(name, TASKS, "task")
    return TASKS[name]


def check_folder(folder: Path, files: list[str]) -> None:
    """Raises ValueError that names the folder, or every one of `files` that is not in it."""
    if not folder.is_dir():
        raise ValueError(f"data must be a folder, got {folder}, which is {'a file' if folder.exists() else 'missing'}")
    missing = [file for file in files if not (folder / file).is_file()]
    if missing:
        found = sorted(path.name for path in folder.glob("*.[ct]sv"))
        hint = nearest_first(missing[0], found) if found else "it holds no .csv file"
        raise ValueError(f"data folder {folder} lacks {', '.join(missing)}; {hint}")


def read_text(path: Path) -> str:
    """The file as text; a byte order mark is dropped."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} must be a readable file, got: {error.strerror}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(encoding_error(path.name, data, error.start)) from error
    if "\0" in text:  # UTF-16 of English text decodes as UTF-8 with zeros between
        raise ValueError(encoding_error(path.name, data, data.index(b"\0")))
    if not text.strip():
        raise ValueError(f"{path.name}:1: a file must start with a header line, got an empty file")
    return text


def encoding_error(name: str, data: bytes, position: int) -> str:
    """One line about the byte at `position`, which no UTF-8 text has there."""
    before = data[:position].decode("utf-8-sig", errors="replace")
    line = before.rpartition("\n")[2]
    header = before.partition("\n")[0].split("\t") if "\n" in before else []
    column = column_name(header, line.count("\t"))
    return f"{name}:{before.count(chr(10)) + 1}: column {column} must be UTF-8 text, got byte 0x{data[position]:02x}"


def read_records(name: str, text: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, and every record with the line (from 1) that it starts on. A quoted text may span lines.

    A quotation mark that is opened and never meant runs on into the records that follow; it is told from a quoted
    text of several lines by the tabs that it swallows.
    """
    lines = list(io.StringIO(text, newline=""))
    reader = csv.reader(lines, delimiter="\t", strict=True)
    records: list[tuple[int, list[str]]] = []
    start = 1
    try:
        for cells in reader:
            if reader.line_num > start and any("\n" in cell and "\t" in cell for cell in cells):
                raise csv.Error("a quoted text swallows records")
            records.append((start, cells))
            start = reader.line_num + 1
    except csv.Error as error:
        header = records[0][1] if records else []
        raise ValueError(quote_error(name, start, lines[start - 1], header)) from error
    return records[0][1], records[1:]


def quote_error(name: str, line: int, text: str, header: list[str]) -> str:
    """One line about the first cell of `text` whose quotation mark is not closed at the cell's end."""
    cells = text.rstrip("\r\n").split("\t")
    index = next((i for i, cell in enumerate(cells) if not WHOLE_CELL.fullmatch(cell)), 0)
    rule = 'must close its quotation mark where the text ends (a mark inside is written "")'
    return f"{name}:{line}: column {column_name(header, index)} {rule}, got {cells[index][:MOST_SHOWN]}"


def column_name(header: list[str], index: int) -> str:
    """Name of a column, or its number (from 1) where it has none."""
    return header[index] if index < len(header) and header[index] else str(index + 1)


def find_column(name: str, header: list[str], column: str) -> int:
    """Position of `column` in the header."""
    if len(header) < 2:
        raise ValueError(f"{name}:1: columns must be separated by tabs, got {''.join(header)[:MOST_SHOWN]!r}")
    if header.count(column) > 1:
        raise ValueError(f"{name}:1: column {column} must be there once, got {header.count(column)}")
    if column not in header:
        known = [cell[:MOST_SHOWN] for cell in header if cell]
        raise ValueError(f"{name}:1: column {column} is missing; {nearest_first(column, known)}")
    return header.index(column)


def pick_cells(where: str, header: list[str], cells: list[str], positions: list[int]) -> list[str]:
    """The cells at `positions` without white space at their ends; all blank for a blank line."""
    if not cells:
        return [""] * len(positions)
    if len(cells) != len(header):
        is_short = len(cells) < len(header)
        hint = f"no column {header[len(cells)]}" if is_short else f"column {header[-1]} must be the last"
        raise ValueError(f"{where}: a line must have {len(header)} cells, got {len(cells)}, {hint}")
    return [cells[position].strip() for position in positions]


def read_label(where: str, cell: str, task: Task) -> float:
    """The label that `cell` holds, whole and in the task's range."""
    try:
        label = float(cell)
    except ValueError:
        label = math.nan
    low, high = task.label_range
    is_real = task.kind == "regression"
    if not (low <= label <= high and (is_real or label.is_integer())):
        rule = f"must be a {'' if is_real else 'whole '}number from {low:g} to {high:g}"
        raise ValueError(f"{where}: column {task.label_column} {rule}, got {cell[:MOST_SHOWN]!r}")
    return label


def first_skipped(skipped: list[str]) -> str:
    return f"{len(skipped)} unusable, the first: {skipped[0]}" if skipped else "none"
