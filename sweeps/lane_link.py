"""A trial's line from its lane to the mailbox: progress, reports and verdicts, the same answer on every worker."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ray
from ray.actor import ActorHandle

from mtlib.reports import EpochReport, Progress
from mtlib.tasks import TASKS
from mtlib.workers import gather_from_workers, worker_rank
from results.epochs import write_epoch
from sweeps.messages import End

PROGRESS_SECONDS = 0.5
"""Least time between two messages about progress: also how long an interruption may go unseen."""


class LaneLink:
    """What one trial says to the mailbox and hears from it. Only the first worker talks."""

    def __init__(self, mailbox: ActorHandle[Any], folder: Path, trial_id: str, metric: str) -> None:
        """Makes the line.

        Args:
            mailbox: the sweep's mailbox.
            folder: the sweep's folder.
            trial_id: the trial.
            metric: `overall` or a task: what the search maximises.
        """
        self.is_stopped = False
        """Whether the scheduler has stopped the trial."""
        self._mailbox = mailbox
        self._folder = folder
        self._trial_id = trial_id
        self._metric = metric
        self._asked: ray.ObjectRef[bool] | None = None
        self._next_time = 0.0

    def on_step(self, progress: Progress) -> bool:
        """Says where the trial is, now and then; False once the mailbox wants it to stop. Does not wait."""
        if worker_rank() > 0:
            return True
        if self._asked is not None and ray.wait([self._asked], timeout=0)[0]:
            asked, self._asked = self._asked, None
            if ray.get(asked):
                return False
        if self._asked is None and time.monotonic() >= self._next_time:
            self._asked = self._mailbox.progress.remote(self._trial_id, asdict(progress))
            self._next_time = time.monotonic() + PROGRESS_SECONDS
        return True

    def on_epoch(self, report: EpochReport) -> bool:
        """Records an epoch, reports it, and waits for the verdict; False if the trial must stop here."""
        must_stop = False
        if worker_rank() == 0:
            write_epoch(self._folder, self._trial_id, report)
            must_stop = ray.get(self._mailbox.report.remote(self._trial_id, self._message(report)))
        self.is_stopped = bool(gather_from_workers(must_stop)[0]) and not report.is_last
        return not self.is_stopped

    def suspect(self, why: str) -> None:
        """Says, from any worker, why it is about to die."""
        ray.get(self._mailbox.suspect.remote(self._trial_id, why))

    def ended(self, how: End, error: str | None, facts: Mapping[str, Any]) -> None:
        """Says how the trial ended."""
        ray.get(self._mailbox.ended.remote(self._trial_id, how, error, facts))

    def _message(self, report: EpochReport) -> dict[str, Any]:
        """What the mailbox passes on of an epoch; everything else is in the records."""
        scores = dev_scores(report)
        return {
            "epoch": report.epoch,
            "scored_epoch": report.scored_epoch,
            "step": report.step,
            "seconds": report.seconds,
            "is_last": report.is_last,
            "scores": scores,
            "score": scores.get(self._metric),
        }


def dev_scores(report: EpochReport) -> dict[str, float]:
    """The main dev score of each task that has been active, and the overall score if there is one."""
    names = {task.name: task.metric for task in TASKS.values()} | {"overall": "overall"}
    return {
        point.task: point.value for point in report.points if point.split == "dev" and point.metric == names[point.task]
    }
