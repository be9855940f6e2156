"""Writes the files that the leaderboard of CS224N's default project takes: predictions of dev and test of each task."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from mtlib.data.file_readers import read_file
from mtlib.data.tables import check_folder
from mtlib.runtime.errors import first_line, require
from mtlib.runtime.storage import open_folder
from mtlib.tasks import TASKS, Task
from results.ensembles.outputs import predictions_of
from results.inference.predictor import Predictor, iter_chunks, predict_texts
from results.inference.readers import ID_COLUMN, TextRow
from results.records.files import check_output, open_atomic
from results.records.selection import Selection

LEADERBOARD_SPLITS = ("dev", "test")


def write_leaderboard(
    selection: Selection,
    data: Path,
    folder: Path,
    load: Callable[[str], Predictor],
    on_file: Callable[[str], None],
    *,
    overwrite: bool = False,
) -> None:
    """Predicts dev and test of every task that the leaderboard has, and writes a file of each, whole.

    Args:
        data: folder with the course's files; their labels are not used.
        folder: where to write; made if missing.
        load: loads the ensemble of a task.
        on_file: is given a line about each file.
        overwrite: whether files that are there are replaced.

    Raises:
        ValueError: in one line, before anything is predicted: the selection lacks a task, or the folder a file, or a
            file must not be overwritten (see `check_output`); later: a file cannot be used or written, or a model
            cannot be loaded.
    """
    tasks = [task for task in TASKS.values() if task.leaderboard is not None]
    lacking = ", ".join(task.name for task in tasks if task.name not in selection.tasks)
    require(not lacking, "for the leaderboard a selection must have all its tasks", f"none for {lacking}")
    inputs = [task.file_name(split) for task in tasks for split in LEADERBOARD_SPLITS]
    check_folder(data, inputs)
    for task, split in itertools.product(tasks, LEADERBOARD_SPLITS):
        assert task.leaderboard is not None
        output = folder / task.leaderboard.file_name(split)
        check_output("--output", output, [data / name for name in inputs], overwrite=overwrite)
    for task in tasks:
        predictor = load(task.name)
        for split in LEADERBOARD_SPLITS:
            on_file(write_leaderboard_file(predictor, data, split, folder))


def write_leaderboard_file(predictor: Predictor, data: Path, split: str, folder: Path) -> str:
    """Writes the file of a task and split; returns a line about its content."""
    task = predictor.task
    assert task.leaderboard is not None
    name = task.leaderboard.file_name(split)
    num_rows, left_out = 0, list[str]()
    try:
        with open_atomic(open_folder(folder), name) as stream:
            stream.write(f"id \t {task.leaderboard.column} \n".encode())
            for chunk in iter_chunks(read_leaderboard_rows(data / task.file_name(split), task, split, left_out)):
                outputs = predict_texts(predictor, [row.texts for row in chunk])
                numbers = number_texts(task, predictions_of(task, outputs))
                lines = (f"{row.id} , {number} \n" for row, number in zip(chunk, numbers, strict=True))
                stream.write("".join(lines).encode())
                num_rows += len(chunk)
    except OSError as error:
        raise ValueError(f"--output must be a folder that can be written, got {folder}: {first_line(error)}") from error
    rest = f" ({len(left_out):,} left out: {'; '.join(left_out[:3])})" if left_out else ""
    return f"{folder / name}: {num_rows:,} rows{rest}"


def read_leaderboard_rows(path: Path, task: Task, split: str, left_out: list[str]) -> Iterator[TextRow]:
    """Rows of one of the course's files.

    As in the course's own code, a row of dev without a label is left out (`left_out` gets a line for it), a blank text
    is predicted like any other, and ids are in lower case. `test` has no labels.
    """
    needed = (ID_COLUMN, task.label_column) if split == "dev" else (ID_COLUMN,)
    for where, cells in read_file(path, "csv", (*needed, *task.text_columns), delimiters="\t"):
        blank = [name for name, cell in zip(needed, cells, strict=False) if not cell]
        if blank:
            left_out.append(f"{where}: {' and '.join(blank)} {'is' if len(blank) == 1 else 'are'} blank")
        else:
            yield TextRow(where=where, id=cells[0].lower(), texts=tuple(cells[len(needed) :]))


def number_texts(task: Task, predictions: np.ndarray) -> list[str]:
    """Predictions as the course's code prints them: classes as whole numbers, all else in single precision."""
    if task.kind == "classes":
        return [str(int(value)) for value in predictions]
    return [str(np.float32(value)) for value in predictions]
