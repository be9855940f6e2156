"""Epochs on record whose stored predictions are changed or lost, while their scores stay."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from mtlib.runtime.storage import open_folder
from results.records.epochs import list_epochs, read_epoch, read_part, write_epoch
from results.records.predictions import logits_array

Change = Callable[[pa.Table], pa.Table | None]


def lose(_table: pa.Table) -> None:
    """Loses predictions."""


def change_predictions(folder: Path, task: str, change: Change, *wanted: tuple[str, int]) -> None:
    """Writes all epochs, or the wanted ones by trial and epoch, again with other dev predictions of a task."""
    root = open_folder(folder)
    for trial, epochs in list_epochs(root).items():
        changed = [(trial, epoch) in wanted or not wanted for epoch in epochs]
        reports = [
            report_again(root, trial, epoch, task, change if is_changed else None)
            for epoch, is_changed in zip(epochs, changed, strict=True)
        ]
        for report in reports if any(changed) else []:
            write_epoch(folder, trial, report)


def report_again(root: Any, trial: str, epoch: int, task: str, change: Change | None) -> Any:
    """An epoch as it was reported, or as if it had been."""
    found, parts = read_epoch(root, trial, epoch), []
    for name, split in found.parts:
        table = read_part(root, trial, epoch, name, split)
        if change is not None and (name, split) == (task, "dev"):
            table = change(table)
        if table is not None:
            ids, labels = table["id"].to_pylist(), table["label"].to_numpy()
            parts.append(SimpleNamespace(task=name, split=split, ids=ids, labels=labels, logits=logits_array(table)))
    return SimpleNamespace(epoch=epoch, points=[SimpleNamespace(**point) for point in found.points], predictions=parts)
