"""The epochs of trials: a Parquet file each, with the epoch's points of curves and its predictions.

`trials/<trial>/epochs/0003.parquet` is written whole once the epoch has been scored, and before its scores are
reported, so a reported score implies its predictions. A file does not name its trial: copying it copies the epoch. Its
rows are predictions, in one row group for each task and split; its metadata holds the points.
"""

import json
import posixpath
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq

from mtlib.runtime.storage import Location, full_path, list_files, open_folder
from results.records.files import check_schema, open_parquet, write_row_groups
from results.records.schemas import BARE_EPOCH, CURVES, EPOCH, PREDICTIONS

if TYPE_CHECKING:  # `results` must load without torch
    from mtlib.training.epoch_report import EpochReport

EPOCH_FILE = re.compile(r"trials/(?P<trial>[^/]+)/epochs/(?P<epoch>\d+)\.parquet")
POINT_FIELDS = ("step", "task", "split", "metric", "value", "seconds")
"""Fields of a point that its epoch's file keeps; the epoch follows from the file's name."""
CONTENT, CHECKSUM = (b"points", b"parts", b"facts"), b"crc32"
"""Keys of the file's metadata."""


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """What an epoch's file says besides predictions."""

    points: tuple[Mapping[str, Any], ...]
    """As rows of `CURVES`, without the trial."""
    parts: tuple[tuple[str, str], ...]
    """Task and split of each row group."""
    facts: Mapping[str, Any]
    """Plain JSON that the trial keeps with the epoch: `wall_seconds`, `peak_memory_bytes`."""


def epoch_path(trial: str, epoch: int) -> str:
    """Returns where an epoch is in the sweep's folder."""
    return f"trials/{trial}/epochs/{epoch:04d}.parquet"


def write_epoch(folder: Location, trial: str, report: "EpochReport", facts: Mapping[str, Any] | None = None) -> None:
    """Writes an epoch's file, and deletes later epochs first: they followed from another training of this one.

    One process at a time writes a trial. After a kill at any point its record holds whole epochs only.

    Raises:
        OSError: it cannot be written; earlier epochs stay.
    """
    root = open_folder(folder)
    delete_epochs(root, trial, after=report.epoch)
    points = [[getattr(point, name) for name in POINT_FIELDS] for point in report.points]
    parts = [(part.task, part.split) for part in report.predictions]
    content = [json.dumps(value).encode() for value in (points, parts, dict(facts or {}))]
    own = {**dict(zip(CONTENT, content, strict=True)), CHECKSUM: metadata_checksum(content)}
    tables = (epoch_rows(part.task, part.split, part.ids, part.labels, part.logits) for part in report.predictions)
    schema = EPOCH.with_metadata({**EPOCH.metadata, **own})
    write_row_groups(root, epoch_path(trial, report.epoch), schema, tables)


def metadata_checksum(content: Sequence[bytes]) -> bytes:
    """CRC-32 of what an epoch's metadata holds, which Parquet does not check."""
    return str(zlib.crc32(b"\0".join(content))).encode()


def epoch_rows(task: str, split: str, ids: Sequence[str], labels: npt.ArrayLike, logits: npt.ArrayLike) -> pa.Table:
    """Predictions as rows of an epoch's file.

    Args:
        task, split: of all rows.
        ids: (rows,).
        labels: (rows,), NaN for none; or (rows, num_logits) of several labels.
        logits: (rows, num_logits).
    """
    values, known = np.asarray(logits, dtype=np.float32), np.asarray(labels, dtype=np.float32)
    rows, width = values.shape
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * width)
    has_several = known.ndim == 2
    same = np.zeros(rows, dtype=np.int32)
    columns = [
        *(pa.DictionaryArray.from_arrays(same, pa.array([name])) for name in (task, split)),
        pa.array(ids, pa.string()),
        pa.array(np.full(rows, np.nan, np.float32) if has_several else known),
        pa.array([np.flatnonzero(row) for row in known] if has_several else [None] * rows, pa.list_(pa.int32())),
        pa.ListArray.from_arrays(offsets, pa.array(values.reshape(-1))),
    ]
    return pa.Table.from_arrays(columns, schema=EPOCH)


@contextmanager
def open_epoch(root: fs.SubTreeFileSystem, path: str) -> Iterator[tuple[pq.ParquetFile, Epoch]]:
    """An epoch's file, `.../epochs/0003.parquet`, open, and its metadata.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is of another schema, or damaged, also where this is found while it is open; one line names it.
    """
    name, epoch = full_path(root, path), int(posixpath.basename(path).split(".")[0])
    with open_parquet(root, path) as file:
        found = file.schema_arrow
        check_schema(found, EPOCH if "task" in found.names else BARE_EPOCH, name)
        metadata = found.metadata
        content = [metadata.get(key, b"") for key in CONTENT]
        if metadata_checksum(content) != metadata.get(CHECKSUM):
            raise ValueError(f"{name}: truncated or damaged: its checksum is wrong")
        points, parts, facts = map(json.loads, content)
        if len(parts) != file.metadata.num_row_groups:
            raise ValueError(f"{name}: truncated or damaged: it must have {len(parts)} tables of predictions")
        rows = tuple({"epoch": epoch, **dict(zip(POINT_FIELDS, point, strict=True))} for point in points)
        yield file, Epoch(points=rows, parts=tuple((task, split) for task, split in parts), facts=facts)


def read_epoch(root: fs.SubTreeFileSystem, trial: str, epoch: int) -> Epoch:
    """Returns an epoch without its predictions; raises as `open_epoch`."""
    with open_epoch(root, epoch_path(trial, epoch)) as (_, found):
        return found


def check_epoch(root: fs.SubTreeFileSystem, path: str) -> None:
    """Reads an epoch's file whole; raises as `open_epoch`, for a damaged page too."""
    with open_epoch(root, path) as (file, _):
        file.read()


def read_part(root: fs.SubTreeFileSystem, trial: str, epoch: int, task: str, split: str) -> pa.Table | None:
    """Predictions of a task's split, with the columns of `PREDICTIONS`; None if the epoch has none or does not exist.

    Raises:
        ValueError: the file is damaged or of another schema; one line names it.
    """
    try:
        with open_epoch(root, epoch_path(trial, epoch)) as (file, found):
            if (task, split) not in found.parts:
                return None
            return with_place(file.read_row_group(found.parts.index((task, split))), trial, epoch)
    except FileNotFoundError:
        return None


def with_place(table: pa.Table, trial: str, epoch: int) -> pa.Table:
    """Rows of an epoch's file with their trial and epoch, which its place says."""
    names = pa.repeat(pa.scalar(trial, pa.string()), table.num_rows)
    epochs = pa.repeat(pa.scalar(epoch, pa.int64()), table.num_rows)
    columns = {name: table[name] for name in BARE_EPOCH.names} | {"trial": names, "epoch": epochs}
    return pa.table(columns, schema=PREDICTIONS)


def list_epochs(root: fs.SubTreeFileSystem, folder: str = "trials") -> dict[str, list[int]]:
    """Returns the epochs of each trial that has any, ascending; of all trials, or below one's folder."""
    found: dict[str, list[int]] = {}
    for match in (EPOCH_FILE.fullmatch(info.path) for info in list_files(root, folder)):
        if match:
            found.setdefault(match["trial"], []).append(int(match["epoch"]))
    return {trial: sorted(epochs) for trial, epochs in found.items()}


def trial_epochs(root: fs.SubTreeFileSystem, trial: str) -> list[int]:
    """Returns the epochs of a trial, ascending from 1 without a gap: what follows on a missing one does not count."""
    numbers = list_epochs(root, f"trials/{trial}/epochs").get(trial, [])
    return [number for place, number in enumerate(numbers, 1) if number == place]


def delete_epochs(root: fs.SubTreeFileSystem, trial: str, *, after: int) -> None:
    """Deletes a trial's epochs after one, damaged ones too; the last goes first, so that a kill leaves no gap."""
    for number in reversed(list_epochs(root, f"trials/{trial}/epochs").get(trial, [])):
        if number > after:
            root.delete_file(epoch_path(trial, number))


def read_epochs(root: fs.SubTreeFileSystem, trial: str) -> tuple[list[Epoch], list[str]]:
    """Returns a trial's epochs up to a missing or damaged one, and a line for each damaged file."""
    found: list[Epoch] = []
    try:
        for number in trial_epochs(root, trial):
            found.append(read_epoch(root, trial, number))
    except (ValueError, FileNotFoundError) as error:
        return found, [str(error)]
    return found, []


def read_trial_curves(root: fs.SubTreeFileSystem, trial: str) -> pa.Table:
    """Returns the points of a trial's curves, epochs ascending; raises as `open_epoch`."""
    return curve_rows(trial, (read_epoch(root, trial, epoch) for epoch in trial_epochs(root, trial)))


def curve_rows(trial: str, epochs: Iterable[Epoch]) -> pa.Table:
    """Points of epochs as rows of `CURVES`."""
    rows = [{"trial": trial, **point} for epoch in epochs for point in epoch.points]
    return pa.Table.from_pylist(rows, schema=CURVES)
