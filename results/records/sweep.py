"""A sweep's records as pandas data frames."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pandas as pd

from mtlib.errors import require_name
from mtlib.tasks import TASKS
from results.records.epochs import read_curves, read_predictions
from results.records.files import Location
from results.records.heartbeat import find_stop_time
from results.records.trials import UNFINISHED, TrialRecord, read_sweep, read_trials_table, record_from_row

SCORED_SPLITS = ("dev", "train")


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The records of a sweep, which may still be running."""

    path: Location
    """Its folder, or the URI of a copy."""
    info: Mapping[str, Any]
    """The content of `sweep.json`."""
    records: tuple[TrialRecord, ...]
    """The trials; those that ran when the sweep was killed are `interrupted`."""
    trials: pd.DataFrame
    """A row per trial: the columns of `trials.parquet`, with a column per searched key instead of `params`."""
    curves: pd.DataFrame
    """A row per point: trial, step, epoch, task, split, metric, value, seconds."""
    stopped_at: datetime | None = None
    """When it stopped with trials unfinished; None if it runs, has finished, or has no heartbeat."""

    def predictions(self, task: str, split: str, *, trial: str | None = None, epoch: int | None = None) -> pd.DataFrame:
        """Predictions for every example: id, trial, epoch, label, logits; of one trial or epoch if given.

        Args:
            task: one of `mtlib.tasks.TASKS`.
            split: `dev`, or `train` for the rows of it that are scored.

        Raises:
            ValueError: there is no such task or split.
        """
        require_name(task, TASKS, "task")
        require_name(split, SCORED_SPLITS, "split")
        frame: pd.DataFrame = read_predictions(self.path, task, split, trial=trial, epoch=epoch).to_pandas()
        return frame


def load_sweep(path: Location) -> Sweep:
    """Reads a sweep, ended or still running, from its folder or the URI of a copy; needs neither Ray nor torch.

    Raises:
        ValueError: there is no sweep, or a file is damaged or of another schema; one line names it.
    """
    info = read_sweep(path)
    stopped = find_stop_time(path)
    table, tasks = read_trials_table(path)
    records, trials = [record_from_row(row, tasks) for row in table.to_pylist()], trials_frame(table.to_pandas())
    if stopped is not None:
        records = [replace(record, status=stopped_status(record.status)) for record in records]
        trials["status"] = trials["status"].map(stopped_status)
    return Sweep(
        path=path,
        info=info,
        records=tuple(records),
        trials=trials,
        curves=read_curves(path).to_pandas(),
        stopped_at=stopped if any(record.status in UNFINISHED for record in records) else None,
    )


def stopped_status(status: str) -> str:
    """A trial's status in a sweep that is not running."""
    return "interrupted" if status == "running" else status


def trials_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """`trials.parquet` with the searched values in columns of their own; a key that is a column already stays one."""
    params = [json.loads(text) for text in frame["params"]]
    names = list(dict.fromkeys(name for values in params for name in values if name not in frame))
    searched = pd.DataFrame({name: [values.get(name) for values in params] for name in names}, index=frame.index)
    known = list(frame)
    at = known.index("params")
    return pd.concat([frame, searched], axis=1)[[*known[:at], *names, *known[at + 1 :]]]
