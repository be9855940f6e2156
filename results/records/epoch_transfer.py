"""Copies epochs from one trial to another, between sweeps or through the stage store.

The copies bear the receiving trial's id. Predictions are written before the curves that point at them, so after a
kill at any point a trial has all of the epochs or none.
"""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as fs

from mtlib.runtime.errors import require
from results.records.epochs import curves_path, read_trial_curves
from results.records.files import (
    Location,
    full_path,
    list_files,
    open_folder,
    read_parquet,
    read_parquet_if_exists,
    write_parquet,
)
from results.records.predictions import PART, PredictionPart, iter_predictions
from results.records.trials import CURVES, CURVES_FILE, OVERALL, PREDICTIONS

PartKey = tuple[str, str, int]
"""Task, split and epoch of predictions."""


def copy_epochs(source: Location, source_trial: str, target: Location, trial: str, epochs: int) -> None:
    """Replaces a trial's epochs by copies of another trial's first epochs.

    Args:
        source, source_trial: the sweep's folder to copy from, compacted or not, and the trial there.
        target, trial: the sweep's folder to copy to, maybe the same, and another trial.
        epochs: how many, at least 1.

    Raises:
        ValueError: the source has fewer epochs, lacks predictions or is damaged. The trial has no epochs then.
    """
    origin = open_folder(source)
    name = f"trial {source_trial} of {source}"
    curves = truncate_curves(read_trial_curves(origin, source_trial), epochs, name)
    wanted = [(source_trial, epoch) for epoch in range(1, epochs + 1)]
    parts = (
        ((task, split, epoch), table)
        for task, split in sorted(set(zip(curves["task"].to_pylist(), curves["split"].to_pylist(), strict=True)))
        for (_, epoch), table in iter_predictions(origin, task, split, wanted)
    )
    replace_epochs(target, trial, curves, parts, name)


def list_epoch_files(folder: Location, trial: str, epochs: int) -> dict[str, Path]:
    """The files of the first `epochs` of a trial that has not been compacted, for `import_epochs`.

    Returns:
        Paths by path below the trial's folder: `curves.parquet`, `predictions/<task>-<split>-<epoch>.parquet`. The
        curves may hold further epochs.

    Raises:
        ValueError: the trial has fewer epochs in files of its own, or its curves are damaged.
    """
    name = f"trial {trial} of {folder}"
    own = open_trial_folder(folder, trial)
    curves = read_parquet_if_exists(own, CURVES_FILE, CURVES)
    first = truncate_curves(CURVES.empty_table() if curves is None else curves, epochs, name)
    paths = {key: path for key, path in list_prediction_files(own).items() if key[2] <= epochs}
    check_predictions(first, paths, name)
    return {path: Path(full_path(own, path)) for path in (CURVES_FILE, *paths.values())}


def import_epochs(source: Path, folder: Location, trial: str) -> None:
    """Replaces a trial's epochs by those of a folder with files that `list_epoch_files` names, of any trial.

    Points of the curves after the last epoch that has predictions are left out: the trial that the files are from may
    have gone on before they were copied.

    Raises:
        FileNotFoundError: there are no curves.
        ValueError: predictions are missing, or a file is damaged. The trial has no epochs then.
    """
    origin = open_folder(source)
    paths = list_prediction_files(origin)
    epochs = max((epoch for _, _, epoch in paths), default=0)
    curves = truncate_curves(read_parquet(origin, CURVES_FILE, CURVES), epochs, str(source))
    parts = ((key, read_parquet(origin, path, PREDICTIONS)) for key, path in paths.items())
    replace_epochs(folder, trial, curves, parts, str(source))


def truncate_epochs(folder: Location, trial: str, epochs: int) -> None:
    """Deletes a trial's epochs after the first `epochs`, at least 1; ValueError if it has fewer."""
    own = open_trial_folder(folder, trial)
    first = truncate_curves(read_trial_curves(open_folder(folder), trial), epochs, f"trial {trial} of {folder}")
    write_parquet(own, CURVES_FILE, first)
    for (_, _, epoch), path in list_prediction_files(own).items():
        if epoch > epochs:
            own.delete_file(path)


def delete_epochs(folder: Location, trial: str) -> None:
    """Deletes all epochs of a trial, damaged ones too."""
    own = open_trial_folder(folder, trial)
    paths = list_prediction_files(own).values()
    try:
        is_there = bool(paths) or read_trial_curves(open_folder(folder), trial).num_rows > 0
    except ValueError:
        is_there = True
    if is_there:
        write_parquet(own, CURVES_FILE, CURVES.empty_table())  # not deleted: it hides epochs that were compacted
    for path in paths:
        own.delete_file(path)


def truncate_curves(curves: pa.Table, epochs: int, name: str) -> pa.Table:
    """The rows of a trial's first epochs; ValueError if one is missing."""
    require(epochs >= 1, f"epochs of {name} must be at least 1", epochs)
    first = curves.filter(pc.less_equal(curves["epoch"], epochs))
    found = len(set(first["epoch"].to_pylist()))
    require(found == epochs, f"{name} must have {epochs} epochs of its own", found)
    return first


def open_trial_folder(folder: Location, trial: str) -> fs.SubTreeFileSystem:
    """The file system whose root is a trial's own folder, with `curves.parquet` and `predictions/`."""
    root = open_folder(folder)
    return fs.SubTreeFileSystem(full_path(root, f"trials/{trial}"), root.base_fs)


def list_prediction_files(own: fs.SubTreeFileSystem) -> dict[PartKey, str]:
    """Paths of the predictions in a folder that is laid out like a trial's."""
    matches = {info.path: PART.fullmatch(f"trials/any/{info.path}") for info in list_files(own, "predictions")}
    return {(match["task"], match["split"], int(match["epoch"])): path for path, match in matches.items() if match}


def check_predictions(curves: pa.Table, found: Iterable[PartKey], name: str) -> None:
    """Raises ValueError unless every dev score in the curves has its predictions."""
    dev = curves.filter(pc.and_(pc.equal(curves["split"], "dev"), pc.not_equal(curves["task"], OVERALL)))
    missing = set(zip(dev["task"].to_pylist(), dev["epoch"].to_pylist(), strict=True))
    missing -= {(task, epoch) for task, split, epoch in found if split == "dev"}
    for task, epoch in sorted(missing)[:1]:
        raise ValueError(f"{name} has no predictions of {task}-dev at epoch {epoch}")


def replace_epochs(
    folder: Location, trial: str, curves: pa.Table, parts: Iterable[tuple[PartKey, pa.Table]], name: str
) -> None:
    """Replaces a trial's epochs by those of another trial, called `name` in errors."""
    delete_epochs(folder, trial)
    root, found = open_folder(folder), []
    for (task, split, epoch), table in parts:
        path = PredictionPart(trial=trial, epoch=epoch, task=task, split=split).path
        write_parquet(root, path, with_trial_id(table, trial))
        found.append((task, split, epoch))
    check_predictions(curves, found, name)
    write_parquet(root, curves_path(trial), with_trial_id(curves, trial))


def with_trial_id(table: pa.Table, trial: str) -> pa.Table:
    """The table with another trial id in every row."""
    at = table.schema.get_field_index("trial")
    names = pa.repeat(pa.scalar(trial, pa.string()), table.num_rows)
    return table.set_column(at, table.schema.field(at), names)
