"""Folders of trials as lanes leave them, without training anything."""

from collections.abc import Sequence
from typing import Any

from mtlib.runtime.storage import Location, open_folder
from mtlib.training.epoch_report import EpochReport, Point
from results.records.epochs import write_epoch
from results.records.trial_folder import TrialEnd, TrialStart, write_end, write_start
from results.records.trials import UNFINISHED, TrialRecord
from sweeps.driver.trials.table import TrialRow

STARTED = "2026-01-01T12:00:00.000+00:00"


def write_trial(
    folder: Location,
    trial: TrialRecord,
    status: str = "interrupted",
    scores: Sequence[float | None] = (),
    num_counted: int | None = None,
    **start: Any,
) -> None:
    """Writes a trial's folder.

    Args:
        folder: the sweep's.
        trial: as it was planned.
        status: how it ended; an unfinished one has no end.
        scores: overall scores of its epochs, which have 4 steps each; None: the epoch has none.
        num_counted: epochs that its end counts; None for all.
        start: further fields of `trial.json`.
    """
    root = open_folder(folder)
    planned = TrialRow(record=trial).description
    write_start(root, TrialStart(**{**planned, "started": STARTED, "host": "here", **start}))
    for epoch, score in enumerate(scores, 1):
        write_epoch(folder, trial.trial_id, report_of(epoch, score), {"wall_seconds": 2.0 * epoch})
    if status not in UNFINISHED:
        error = "it broke" if status == "failed" else None
        epochs = len(scores) if num_counted is None else num_counted
        write_end(root, trial.trial_id, TrialEnd(how=status, error=error, epochs=epochs))


def report_of(epoch: int, score: float | None) -> EpochReport:
    """An epoch with this overall score, and half of it on SST; without one, of QQP alone."""

    def point(task: str, metric: str, value: float, split: str = "dev") -> Point:
        seconds = float(epoch)
        return Point(step=4 * epoch, epoch=epoch, task=task, split=split, metric=metric, value=value, seconds=seconds)

    points = [point("qqp", "accuracy", 0.99)]
    if score is not None:
        points += [point("sst", "accuracy", score / 2), point("sst", "accuracy", 1.0, "train")]
        points += [point("sst", "loss", 9.0), point("overall", "overall", score)]
    return EpochReport(
        epoch=epoch,
        stage=0,
        step=4 * epoch,
        seconds=float(epoch),
        points=tuple(points),
        predictions=(),
        overall=score,
        is_last=False,
    )
