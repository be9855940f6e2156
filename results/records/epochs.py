"""Writes, reads and compacts curves and predictions: each trial writes files of its own, `compact` merges them.

An epoch counts once it is in the trial's curves. Predictions are written first, so a row of a curve implies its
predictions; predictions of an epoch that is in no curve (after a kill) are ignored.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as fs

from mtlib.tasks import Task
from results.records.files import (
    Location,
    is_temporary,
    list_files,
    open_atomic,
    open_folder,
    parquet_writer,
    read_parquet_if_exists,
    write_group,
    write_parquet,
)
from results.records.predictions import (
    PredictionPart,
    PredictionReader,
    TrialEpoch,
    advise_restoring,
    compacted_path,
    iter_predictions,
    list_parts,
    prediction_table,
)
from results.records.trials import CURVES, CURVES_BACKUP_FILE, CURVES_FILE, PREDICTIONS, UNFINISHED, read_trials

if TYPE_CHECKING:  # `results` must load without torch
    from mtlib.training.epoch_report import EpochReport, Point


def write_epoch(folder: Location, trial: str, report: "EpochReport") -> None:
    """Writes an epoch's predictions, then the trial's curves.

    Writing an epoch again, after a resume, replaces it and deletes the rows of later epochs. After a kill at any
    point the trial's record holds whole epochs only. One process at a time writes a trial.
    """
    root = open_folder(folder)
    known = read_trial_curves(root, trial)
    earlier = known.filter(pc.less(known["epoch"], report.epoch))
    if earlier.num_rows < known.num_rows:  # these rows must not point at predictions that are about to change
        write_parquet(root, curves_path(trial), earlier)
    for part in report.predictions:
        table = prediction_table(trial, report.epoch, part.ids, part.labels, part.logits)
        path = PredictionPart(trial=trial, epoch=report.epoch, task=part.task, split=part.split).path
        write_parquet(root, path, table)
    write_parquet(root, curves_path(trial), pa.concat_tables([earlier, curve_rows(trial, report.points)]))


def curves_path(trial: str) -> str:
    """Path of a trial's own curves in the sweep's folder."""
    return f"trials/{trial}/curves.parquet"


def end_path(trial: str) -> str:
    """Path of the file with a trial's end; see `results.records.recovery`."""
    return f"trials/{trial}/end.json"


def curve_rows(trial: str, points: Iterable["Point"]) -> pa.Table:
    """Points as rows of `curves.parquet`."""
    names = [name for name in CURVES.names if name != "trial"]
    rows = [{"trial": trial, **{name: getattr(point, name) for name in names}} for point in points]
    return pa.Table.from_pylist(rows, schema=CURVES)


def read_trial_curves(root: fs.SubTreeFileSystem, trial: str, compacted: pa.Table | None = None) -> pa.Table:
    """A trial's curves: its own file, or its rows of the compacted table (`compacted` if given)."""
    own = read_parquet_if_exists(root, curves_path(trial), CURVES)
    if own is not None:
        return own
    table = read_compacted_curves(root) if compacted is None else compacted
    return table.filter(pc.equal(table["trial"], trial))


def read_compacted_curves(root: fs.SubTreeFileSystem) -> pa.Table:
    """`curves.parquet`; empty if nothing has been compacted."""
    table = read_parquet_if_exists(root, CURVES_FILE, CURVES)
    return CURVES.empty_table() if table is None else table


def read_curves(folder: Location) -> pa.Table:
    """Every point of every curve of a sweep, compacted or not; ValueError if a file is damaged or of another schema.

    Returns:
        A table with the columns of `CURVES`, sorted by trial, in each trial as written: epochs ascend.
    """
    return merge_curves(open_folder(folder))[0]


def merge_curves(root: fs.SubTreeFileSystem) -> tuple[pa.Table, list[str]]:
    """The curves of a sweep, and the trials that still have files of their own."""
    trials = [info.path.split("/")[1] for info in list_files(root, "trials") if info.path.endswith("/curves.parquet")]
    found = {trial: read_parquet_if_exists(root, curves_path(trial), CURVES) for trial in trials}
    own = {trial: table for trial, table in found.items() if table is not None}  # None: compacted since it was listed
    table = read_compacted_curves(root)  # after them: it holds what has just been compacted
    is_newer = pc.is_in(table["trial"], pa.array(list(own), pa.string()))
    merged = pa.concat_tables([table.filter(pc.invert(is_newer)), *own.values()])
    return merged.sort_by("trial"), list(own)


def reported_epochs(curves: pa.Table) -> list[TrialEpoch]:
    """Every reported trial and epoch, sorted."""
    pairs = curves.group_by(["trial", "epoch"]).aggregate([])
    return sorted(zip(pairs["trial"].to_pylist(), pairs["epoch"].to_pylist(), strict=True))


def read_predictions(
    folder: Location, task: str, split: str, *, trial: str | None = None, epoch: int | None = None
) -> pa.Table:
    """Predictions for every example of a split, compacted or not; of one trial or epoch if given.

    Returns:
        A table with the columns of `PREDICTIONS`, sorted by trial and epoch, examples in the order of the data.

    Raises:
        ValueError: a file is damaged or of another schema; one line names it.
    """
    root = open_folder(folder)
    reported = reported_epochs(read_curves(folder) if trial is None else read_trial_curves(root, trial))
    wanted = [key for key in reported if epoch in (None, key[1])]
    found = [table for _, table in iter_predictions(root, task, split, wanted)]
    return pa.concat_tables([PREDICTIONS.empty_table(), *found])


def predicted_epochs(
    points: Iterable[Mapping[str, Any]], tasks: Mapping[str, Task]
) -> Iterator[tuple[str, str, str, int]]:
    """Task, split, trial and epoch of each point that is a score by the task's own metric: it has predictions."""
    for point in points:
        name = point["task"]
        if name in tasks and point["metric"] == tasks[name].metric:
            yield name, point["split"], point["trial"], int(point["epoch"])


def compact(folder: Location) -> dict[str, str]:
    """Merges the trials' own files into `curves.parquet` and the tables of predictions.

    Predictions are written before the curves that point at them; then the files of ended trials (by `trials.parquet`)
    are deleted. A kill at any point loses nothing, and readers see no difference, in mid-sweep too. The cost grows with
    all predictions of the sweep: about 1 ms per 2,000 examples. One process at a time may run it.

    Returns:
        By trial, why predictions of it could not be read. Its files of predictions stay as they are.

    Raises:
        ValueError: another file, or a whole table, is damaged or of another schema; one line names it. Nothing has been
            deleted then.
    """
    root = open_folder(folder)
    ended = {record.trial_id for record in read_trials(folder) if record.status not in UNFINISHED}
    curves, own_curves = merge_curves(root)
    parts, lost = list_parts(root), dict[str, str]()
    for task, split in sorted({(part.task, part.split) for part in parts}):
        lost |= merge_predictions(root, task, split, reported_epochs(curves))
    if own_curves:
        write_parquet(root, CURVES_BACKUP_FILE, curves)
        write_parquet(root, CURVES_FILE, curves)
    for path in [part.path for part in parts if part.trial in ended and part.trial not in lost]:
        root.delete_file(path)
    for trial in ended.intersection(own_curves):
        root.delete_file(curves_path(trial))
    ends = {end_path(trial) for trial in ended}
    stale = datetime.now(UTC) - timedelta(hours=1)  # temporary files that a kill has left
    for info in list_files(root, ""):
        if info.path in ends or (is_temporary(info.path) and info.mtime < stale):
            root.delete_file(info.path)
    return lost


def merge_predictions(root: fs.SubTreeFileSystem, task: str, split: str, reported: list[TrialEpoch]) -> dict[str, str]:
    """Rewrites the table of a task's split: one row group per reported trial and epoch that can be read.

    Returns:
        By trial, why others could not.
    """
    reader, lost = PredictionReader(root, task, split), dict[str, str]()
    if reader.damage is not None and any(key not in reader.parts for key in reported):
        raise reader.damage  # it is not replaced while it holds what no part does
    with open_atomic(root, compacted_path(task, split)) as stream, parquet_writer(stream, PREDICTIONS) as writer:
        for key in reported:
            try:
                table = reader.read(key)
            except ValueError as error:
                if key not in reader.parts:
                    raise  # a passing error must not drop what only the table holds
                lost[key[0]] = advise_restoring(str(error))
                continue
            if table is not None:
                write_group(writer, table)
    return lost
