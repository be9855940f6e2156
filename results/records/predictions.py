"""Predictions of scored epochs as tables, and as arrays for scoring."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as fs

from mtlib.runtime.storage import Location, full_path, open_folder
from results.records.epochs import epoch_path, list_epochs, read_part
from results.records.schemas import PREDICTIONS

TrialEpoch = tuple[str, int]

HOW_TO_RESTORE = "restore the file from a copy, or train the trial again: --resume"


def read_predictions(
    folder: Location, task: str, split: str, *, trial: str | None = None, epoch: int | None = None
) -> pa.Table:
    """Predictions for every example of a split; of one trial or epoch if given.

    Returns:
        A table with the columns of `PREDICTIONS`, sorted by trial and epoch, examples in the order of the data.

    Raises:
        ValueError: a file is damaged or of another schema; one line names it.
    """
    root = open_folder(folder)
    reported = sorted((name, number) for name, numbers in list_epochs(root).items() for number in numbers)
    wanted = [key for key in reported if trial in (None, key[0]) and epoch in (None, key[1])]
    found = [table for _, table in iter_predictions(root, task, split, wanted)]
    return pa.concat_tables([PREDICTIONS.empty_table(), *found])


def iter_predictions(
    root: fs.SubTreeFileSystem, task: str, split: str, wanted: Sequence[TrialEpoch]
) -> Iterator[tuple[TrialEpoch, pa.Table]]:
    """Yields the predictions of each trial and epoch that is wanted and there, in the order wanted.

    Raises:
        ValueError: a file is damaged or of another schema; one line names it.
    """
    for trial, epoch in wanted:
        table = read_part(root, trial, epoch, task, split)
        if table is not None:
            yield (trial, epoch), table


def find_lost(folder: Location, wanted: Iterable[tuple[str, str, str, int]]) -> dict[str, str]:
    """Finds trials with predictions that are missing or cannot be read, each with the reason and what to do.

    Args:
        folder: of the sweep.
        wanted: task, split, trial and epoch of the predictions that must be there.
    """
    root, lost = open_folder(folder), dict[str, str]()
    for task, split, trial, epoch in wanted:
        if trial in lost:
            continue
        try:
            is_there = read_part(root, trial, epoch, task, split) is not None
            reason = None if is_there else f"the predictions of {task}-{split} at epoch {epoch} are missing"
        except ValueError as error:
            reason = str(error)
        if reason is not None:
            lost[trial] = f"{reason}; {HOW_TO_RESTORE}"
    return lost


def stack_predictions(
    root: fs.SubTreeFileSystem, task: str, split: str, wanted: Sequence[TrialEpoch]
) -> tuple[list[str], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Returns the wanted epochs of a task's split as arrays, with the same example in the same row for every trial.

    Args:
        wanted: at least one trial and epoch; each must be there.

    Returns:
        Ids, (rows,), labels as `labels_array` returns them, and logits, (wanted, rows, num_logits).

    Raises:
        ValueError: an epoch is missing, two trials were scored on other examples, or a file is damaged.
    """
    logits = []
    first = None
    for trial, epoch in wanted:
        table, name = read_part(root, trial, epoch, task, split), full_path(root, epoch_path(trial, epoch))
        if table is None:
            raise ValueError(f"{name}: predictions of trial {trial} at epoch {epoch} are missing")
        first = table if first is None else first
        if not has_same_examples(table, first):
            raise ValueError(f"{name}: trial {trial} at epoch {epoch} was not scored on the examples of {wanted[0][0]}")
        logits.append(logits_array(table))
    assert first is not None
    return first["id"].to_pylist(), labels_array(first), np.stack(logits)


def has_same_examples(table: pa.Table, other: pa.Table) -> bool:
    """Returns whether two tables hold the same examples with the same labels in the same order."""
    has_same_labels = np.array_equal(table["label"], other["label"], equal_nan=True)
    return bool(table["id"].equals(other["id"]) and has_same_labels and table["labels"].equals(other["labels"]))


def labels_array(table: pa.Table) -> npt.NDArray[np.float32]:
    """Labels, (rows,), NaN for none; or (rows, num_logits), 0 or 1, of several labels."""
    several = table["labels"].combine_chunks()
    if several.null_count == len(several):
        return np.asarray(table["label"].to_numpy())
    found = np.zeros_like(logits_array(table))
    found[several.value_parent_indices(), several.flatten()] = 1
    return found


def logits_array(table: pa.Table) -> npt.NDArray[np.float32]:
    """Logits as an array, (rows, num_logits)."""
    values: npt.NDArray[np.float32] = table["logits"].combine_chunks().flatten().to_numpy()
    return values.reshape(table.num_rows, -1)
