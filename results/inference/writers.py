"""Formats predictions as CSV or JSON lines."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from mtlib.runtime.console import spreadsheet_safe
from mtlib.runtime.errors import require
from mtlib.runtime.storage import split_location
from mtlib.tasks import Task
from results.ensembles.outputs import probabilities_of
from results.inference.readers import TextRow
from results.stats.resampling import Floats

OutputFormat = Literal["csv", "safe_csv", "jsonl"]
OUTPUT_SUFFIXES: dict[str, OutputFormat] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
"""The format of a file by the end of its name."""
DIGITS = 6
"""Behind the decimal point, of scores and probabilities."""

Cell = str | int | float | None | list[str | int]
"""In CSV a list, of several labels, is JSON."""


def find_output_format(place: str) -> OutputFormat:
    """Returns the format by a file's suffix; ValueError for an unknown one."""
    suffix = Path(split_location(place)[1]).suffix.lower()
    require(suffix in OUTPUT_SUFFIXES, f"--output must end in {', '.join(OUTPUT_SUFFIXES)}", place)
    return OUTPUT_SUFFIXES[suffix]


def column_names(task: Task, carried: Iterable[str] = ()) -> list[str]:
    """Columns of CSV, and keys of JSON: `probability_<label>` for every class or label, or label 1 of a binary task;
    `carried` names those of `TextRow.carried`."""
    return ["id", *carried, "prediction", *(f"probability_{label_name(task, label)}" for label in shown_labels(task))]


def columns_to_carry(task: Task) -> list[str]:
    """Returns the columns of groups and slices of a task, as far as no column of predictions is called so."""
    further = () if task.files is None else (*task.files.group_columns, *task.files.slice_columns)
    return [name for name in dict.fromkeys(further) if name not in column_names(task)]


def label_name(task: Task, label: int) -> str | int:
    """Returns a label as the task's files have it: its name, or its number where labels have no names."""
    return task.labels[label] if task.labels else label


def shown_labels(task: Task) -> Sequence[int]:
    """Returns the labels whose probabilities are written; the others follow from them."""
    if task.is_regression:
        return ()
    return range(task.num_classes) if task.num_logits > 1 else (1,)


def format_header(task: Task, form: OutputFormat, carried: Iterable[str] = ()) -> str:
    """Returns the header line of CSV; empty for JSON lines."""
    return "" if form == "jsonl" else csv_text([column_names(task, carried)], form)


def format_rows(task: Task, form: OutputFormat, rows: Sequence[TextRow], outputs: Floats) -> str:
    """Rows with their predictions, a line each, from outputs, (rows, width): a row of NaN gets no prediction."""
    values = row_values(task, rows, outputs)
    if form != "jsonl":
        return csv_text(values, form)
    names = column_names(task, rows[0].carried)
    lines = (json.dumps(dict(zip(names, line, strict=True)), ensure_ascii=False) for line in values)
    return "".join(f"{line}\n" for line in lines)


def row_values(task: Task, rows: Sequence[TextRow], outputs: Floats) -> list[list[Cell]]:
    """Id, carried cells, prediction and probabilities of each row; None if there is none."""
    labels = list(shown_labels(task))
    predictions = task.kind_entry.predict(outputs)
    probabilities = probabilities_of(task, outputs)[:, labels] if labels else np.empty((len(rows), 0))
    cells: list[list[Cell]] = []
    for row, output, prediction, own in zip(rows, outputs, predictions, probabilities, strict=True):
        if np.isnan(output).any():
            cells.append([row.id, *row.carried.values(), None, *[None] * len(labels)])
            continue
        shown = (round(float(probability), DIGITS) for probability in own)
        cells.append([row.id, *row.carried.values(), predicted_cell(task, prediction), *shown])
    return cells


def predicted_cell(task: Task, prediction: Floats) -> Cell:
    """Returns a row's prediction: a number, the name of a class, or the names of all labels that it has."""
    if task.is_regression:
        return round(float(prediction), DIGITS)
    if task.kind_entry.has_several_labels:
        return [label_name(task, label) for label in np.flatnonzero(prediction).tolist()]
    return label_name(task, int(prediction))


def csv_text(lines: Iterable[Sequence[Cell]], form: OutputFormat) -> str:
    """Lines of CSV; None is blank. Safe cells are `spreadsheet_safe`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for line in lines:  # a list is JSON, as files of training data may have it
        cells = [json.dumps(cell, ensure_ascii=False) if isinstance(cell, list) else cell for cell in line]
        writer.writerow(map(spreadsheet_safe, cells) if form == "safe_csv" else cells)
    return text.getvalue()
