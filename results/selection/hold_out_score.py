"""Scores a selection on the train rows that its sweeps held out, and records every such evaluation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.fs as fs

from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_held_out
from mtlib.data.tables import Table
from mtlib.runtime.errors import require
from mtlib.runtime.storage import join_location, open_folder, split_location
from results.ensembles.outputs import values_of
from results.inference.dev_texts import data_folder
from results.inference.models import ModelSource, find_trials
from results.inference.predictor import Predictor, load_predictor, predict_rows
from results.records.examples import HoldOutRecord, check_held_out_rows, read_hold_out, write_hold_out
from results.records.selection import HeldOutScores, Selection, SliceScore
from results.stats.groups import score_interval, text_groups_of
from results.stats.resampling import Floats, score_examples
from results.stats.slices import SlicedRows


def score_held_out(selection: Selection, source: ModelSource, data: Path | None = None) -> HeldOutScores:
    """Scores a selection's ensembles on the held-out rows, and records the time in each sweep's `hold_out.json`.

    `data` is the data folder, None for the one that each sweep names. Intervals, of 95 %, are over examples, by
    groups of connected texts.

    Raises:
        ValueError: in one line: a sweep held nothing out, or other rows than another one; the rows cannot be read, or
            are not those that were held out; a model cannot be loaded.
    """
    tables = read_held_out_tables(selection, source, data)
    scores, intervals = dict[str, float](), dict[str, tuple[float, ...]]()
    slices = dict[str, tuple[SliceScore, ...]]()
    for task, table in tables.items():
        labels, definition = table.labels.astype(np.float64), selection.definitions[task]
        values = values_of(definition, predict_table(load_predictor(selection, task, source), table), labels)[None]
        scores[task] = float(score_examples(definition, values, labels)[0])
        groups = text_groups_of(table)
        intervals[task] = score_interval(definition, values, labels, groups, seed=selection.seed)
        sliced = SlicedRows(task=definition, values=values, labels=labels, groups=groups, columns=table.slices)
        slices[task] = tuple(own.score for own in sliced.scores_of(np.arange(1)))
    time = record_evaluation(places_of(selection, list(selection.tasks), source))
    num_examples = {task: len(table.ids) for task, table in tables.items()}
    return HeldOutScores(time=time, scores=scores, intervals=intervals, num_examples=num_examples, slices=slices)


def read_held_out_tables(selection: Selection, source: ModelSource, data: Path | None = None) -> dict[str, Table]:
    """Returns the held-out rows of each task of a selection; arguments and errors as of `score_held_out`."""
    read = cache(read_held_out)  # it reads the rows of all tasks
    return {task: read_held_out_rows(selection, task, source, data, read) for task in selection.tasks}


def record_evaluation(places: Sequence[str]) -> str:
    """Records in sweeps that their held-out rows have been scored now; the time, ISO 8601."""
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    for place in places:
        record = read_hold_out(place)
        write_hold_out(place, replace(record, evaluations=(*record.evaluations, time)))
    return time


def places_of(selection: Selection, tasks: Sequence[str], source: ModelSource) -> list[str]:
    """Folders of the sweeps of some tasks' members, each once."""
    sweeps = {member.sweep: None for task in tasks for member in selection.tasks[task].members}
    return [str(source.places[sweep]) for sweep in sweeps]


def read_held_out_rows(
    selection: Selection,
    task: str,
    source: ModelSource,
    data: Path | None,
    read: Callable[[TrialConfig, Path], Mapping[str, Table]],
) -> Table:
    """Returns the rows of a task that all sweeps of its members held out."""
    places = places_of(selection, [task], source)
    records = [read_hold_out(place) for place in places]
    rule = f"sweeps must have held out the same rows of {task} to be scored together"
    require(all(record.tasks.get(task) == records[0].tasks.get(task) for record in records), rule, ", ".join(places))
    ((_, config),) = find_trials(selection.tasks[task].members[:1], task, source)
    table = read(config, data_folder(places[0], data))[task]
    check_held_out_rows(records[0], {task: table})
    return table


def predict_table(predictor: Predictor, table: Table) -> Floats:
    """Returns the outputs of an ensemble for every row of a table, (rows, width)."""
    return predict_rows(predictor, zip(*table.texts, strict=True))


def count_evaluations(places: Sequence[str]) -> int:
    """Returns how often the held-out rows of sweeps have been scored, by them or by other sweeps of their storage.

    Equal data and shares hold out the same rows, so an evaluation in one sweep counts for all of them.
    """
    own = [record for place in places if (record := record_at(place)) is not None]
    rows = [item for record in own for item in record.tasks.items()]
    storages = {split_location(place)[0] for place in places}
    beside = []
    for storage in storages:
        infos = open_folder(storage).get_file_info(fs.FileSelector("", allow_not_found=True))
        folders = [info.base_name for info in infos if info.type == fs.FileType.Directory]
        beside += [record_at(join_location(storage, name)) for name in folders]
    shared = [record for record in beside if record and any(item in rows for item in record.tasks.items())]
    return len({time for record in (*own, *shared) for time in record.evaluations})


def record_at(place: str) -> HoldOutRecord | None:
    """Returns the record of a sweep's held-out rows; None if there is none that can be read."""
    try:
        return read_hold_out(place)
    except ValueError:
        return None
