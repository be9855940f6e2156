"""Predictions of every scored epoch: the parts that trials write, the tables these become, and arrays for scoring.

A part, `trials/<trial>/predictions/<task>-<split>-<epoch>.parquet`, holds one trial's epoch. A table,
`predictions/<task>-<split>.parquet`, holds one row group per trial and epoch. Where both hold an epoch, the part is
the newer one.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq

from results.records.files import (
    Location,
    full_path,
    list_files,
    open_checked_parquet,
    open_folder,
    read_parquet_if_exists,
    report_damage,
)
from results.records.trials import PREDICTIONS

PART = re.compile(r"trials/(?P<trial>[^/]+)/predictions/(?P<task>.+)-(?P<split>[^-]+)-(?P<epoch>\d+)\.parquet")

TrialEpoch = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class PredictionPart:
    """A file that a trial wrote at an epoch's end."""

    trial: str
    epoch: int
    task: str
    split: str

    @property
    def path(self) -> str:
        """Where it is in the sweep's folder."""
        return f"trials/{self.trial}/predictions/{self.task}-{self.split}-{self.epoch:04d}.parquet"


def compacted_path(task: str, split: str) -> str:
    """Where the predictions of a task's split are in the sweep's folder, once compacted."""
    return f"predictions/{task}-{split}.parquet"


def list_parts(root: fs.SubTreeFileSystem) -> list[PredictionPart]:
    """Every part that has not been compacted, sorted by path."""
    matches = (PART.fullmatch(info.path) for info in list_files(root, "trials"))
    return [
        PredictionPart(trial=match["trial"], task=match["task"], split=match["split"], epoch=int(match["epoch"]))
        for match in matches
        if match
    ]


def prediction_table(
    trial: str, epoch: int, ids: Sequence[str], labels: npt.ArrayLike, logits: npt.ArrayLike
) -> pa.Table:
    """One epoch of a trial as a table, from ids and labels (NaN: none), (rows,), and logits, (rows, num_logits)."""
    values = np.asarray(logits, dtype=np.float32)
    rows, width = values.shape
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * width)
    columns = [
        pa.array(ids, pa.string()),
        pa.repeat(pa.scalar(trial, pa.string()), rows),
        pa.repeat(pa.scalar(epoch, pa.int64()), rows),
        pa.array(np.asarray(labels, dtype=np.float32)),
        pa.ListArray.from_arrays(offsets, pa.array(values.reshape(-1))),
    ]
    return pa.Table.from_arrays(columns, schema=PREDICTIONS)


def open_groups(root: fs.SubTreeFileSystem, task: str, split: str) -> tuple[pq.ParquetFile, dict[TrialEpoch, int]]:
    """The compacted table of a task's split, or None, and the number of each trial's epoch's row group."""
    try:
        file = open_checked_parquet(root, compacted_path(task, split), PREDICTIONS)
    except FileNotFoundError:
        return None, {}
    columns = [PREDICTIONS.get_field_index("trial"), PREDICTIONS.get_field_index("epoch")]
    groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
    keys = ([group.column(column).statistics.min for column in columns] for group in groups)
    return file, {(trial, epoch): number for number, (trial, epoch) in enumerate(keys)}


class PredictionReader:
    """Reads single epochs of a task's split, each by its trial and epoch.

    Reading raises ValueError where a file is damaged or of another schema; one line names it.
    """

    def __init__(self, root: fs.SubTreeFileSystem, task: str, split: str) -> None:
        self.root, self.task, self.split = root, task, split
        parts = (part for part in list_parts(root) if (part.task, part.split) == (task, split))
        self.parts = {(part.trial, part.epoch): part for part in parts}
        self.damage: ValueError | None = None
        """Why the compacted table cannot be opened, where it cannot: parts can be read."""
        self.open_table()

    def open_table(self) -> None:
        """Opens the compacted table as it is now."""
        self.damage = None
        self.file: pq.ParquetFile | None = None
        self.groups: dict[TrialEpoch, int] = {}
        try:
            self.file, self.groups = open_groups(self.root, self.task, self.split)
        except ValueError as error:
            self.damage = error

    def read(self, key: TrialEpoch) -> pa.Table | None:
        """The newest predictions of a trial's epoch; None if there are none."""
        if key in self.parts:
            table = read_parquet_if_exists(self.root, self.parts[key].path, PREDICTIONS)
            if table is not None:
                return table
            del self.parts[key]  # compacted since it was listed
            self.open_table()
        if self.damage is not None:
            raise self.damage
        if self.file is None or key not in self.groups:
            return None
        with report_damage(full_path(self.root, compacted_path(self.task, self.split))):
            return self.file.read_row_group(self.groups[key])


def find_lost(folder: Location, wanted: Iterable[tuple[str, str, str, int]]) -> dict[str, str]:
    """The trials of which some predictions are missing or cannot be read, each with the reason and what to do.

    Args:
        folder: of the sweep.
        wanted: task, split, trial and epoch of the predictions that must be there.
    """
    root, lost = open_folder(folder), dict[str, str]()
    keys: dict[tuple[str, str], list[TrialEpoch]] = {}
    for task, split, trial, epoch in wanted:
        keys.setdefault((task, split), []).append((trial, epoch))
    for (task, split), own in keys.items():
        reader = PredictionReader(root, task, split)
        for key in own:
            reason = why_lost(reader, key) if key[0] not in lost else None
            if reason is not None:
                lost[key[0]] = advise_restoring(reason)
    return lost


def why_lost(reader: PredictionReader, key: TrialEpoch) -> str | None:
    """Why the predictions of a trial's epoch cannot be read; None if they can."""
    try:
        found = reader.read(key)
    except ValueError as error:
        return str(error)
    what = f"{reader.task}-{reader.split} at epoch {key[1]}"
    return f"the predictions of {what} are missing" if found is None else None


def advise_restoring(reason: str) -> str:
    """Why a trial's predictions cannot be read, and what to do about it."""
    return f"{reason}; restore the file from a copy, or train the trial again: --resume with --retry-failed"


def iter_predictions(
    root: fs.SubTreeFileSystem, task: str, split: str, wanted: Sequence[TrialEpoch]
) -> Iterator[tuple[TrialEpoch, pa.Table]]:
    """The newest predictions of each trial and epoch that is wanted and there, in the order wanted.

    Raises:
        ValueError: as `PredictionReader`.
    """
    reader = PredictionReader(root, task, split)
    for key in wanted:
        table = reader.read(key)
        if table is not None:
            yield key, table


def stack_predictions(
    root: fs.SubTreeFileSystem, task: str, split: str, wanted: Sequence[TrialEpoch]
) -> tuple[list[str], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """The wanted epochs of a task's split as arrays, with the same example in the same row for every trial.

    Args:
        wanted: at least one trial and epoch; each must be there.

    Returns:
        Ids and labels, (rows,), and logits, (wanted, rows, num_logits).

    Raises:
        ValueError: an epoch is missing, two trials were scored on other examples, or a file is damaged.
    """
    name = full_path(root, compacted_path(task, split))
    logits: dict[TrialEpoch, npt.NDArray[np.float32]] = {}
    first = None
    for (trial, epoch), table in iter_predictions(root, task, split, wanted):
        first = table if first is None else first
        if not has_same_examples(table, first):
            raise ValueError(f"{name}: trial {trial} at epoch {epoch} was not scored on the examples of {wanted[0][0]}")
        logits[trial, epoch] = logits_array(table)
    for trial, epoch in wanted:
        if (trial, epoch) not in logits:
            raise ValueError(f"{name}: predictions of trial {trial} at epoch {epoch} are missing")
    assert first is not None
    return first["id"].to_pylist(), first["label"].to_numpy(), np.stack([logits[key] for key in wanted])


def has_same_examples(table: pa.Table, other: pa.Table) -> bool:
    """Whether two tables hold the same examples with the same labels in the same order."""
    return bool(table["id"].equals(other["id"]) and np.array_equal(table["label"], other["label"], equal_nan=True))


def logits_array(table: pa.Table) -> npt.NDArray[np.float32]:
    """Logits as an array, (rows, num_logits)."""
    values: npt.NDArray[np.float32] = table["logits"].combine_chunks().flatten().to_numpy()
    return values.reshape(table.num_rows, -1)
