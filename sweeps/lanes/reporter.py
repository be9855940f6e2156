"""A trial's line from its lane to the mailbox: progress, reports and verdicts, the same answer on every worker."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import ray
from ray.actor import ActorHandle

from mtlib.config.trial import TrialConfig
from mtlib.runtime.workers import gather_from_workers, worker_rank
from mtlib.stages.plan import first_scored_epoch, num_epochs
from mtlib.training.epoch_report import EpochReport, Progress
from mtlib.training.step import Interrupted
from results.records.epochs import read_trial_curves, write_epoch
from results.records.files import open_folder
from results.records.recovery import MAIN_METRICS
from sweeps.lanes.messages import FinalStatus
from sweeps.reuse.finished_trials import ReusedWork
from sweeps.reuse.starting_point import StartingPoint

Unjudged = Literal["unjudged"]
UNJUDGED: Unjudged = "unjudged"
"""Among the workers: the sweep was interrupted before the scheduler's verdict."""
PROGRESS_SECONDS = 0.5
"""Least time between two messages about progress: also how long an interruption may go unseen."""


class TrialReporter:
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
        self._shared = ReusedWork()
        self._awaited: str | None = None
        self._asked: ray.ObjectRef[bool] | None = None
        self._next_time = 0.0

    @property
    def facts(self) -> dict[str, Any]:
        """What the trial has taken over, for its record."""
        shared = self._shared
        return {"shared_steps": shared.steps, "shared_seconds": shared.seconds, "taken_from": shared.taken_from}

    def report_starting_point(self, beginning: StartingPoint) -> None:
        """Says, from the first worker, where the trial begins."""
        self._shared = beginning.shared
        facts = {**self.facts, "epochs": beginning.epochs, "note": beginning.note}
        ray.get(self._mailbox.report_starting_point.remote(self._trial_id, facts))

    def report_stage_finished(self, stage: int, why_not: str | None) -> None:
        """Says, from the first worker, that a stage is finished, and why it was not kept if it was not."""
        ray.get(self._mailbox.report_stage_finished.remote(self._trial_id, {"stage": stage, "why_not": why_not}))

    def report_waiting(self, what: str) -> None:
        """Says, from the first worker, what the trial waits for; once for each such thing."""
        if what != self._awaited:
            ray.get(self._mailbox.report_waiting.remote(self._trial_id, what))
        self._awaited = what

    def is_wanted(self) -> bool:
        """Whether the trial should wait on, asked by the first worker."""
        wanted: bool = ray.get(self._mailbox.is_wanted.remote(self._trial_id))
        return wanted

    def shares(self, shared: ReusedWork) -> None:
        """Corrects what the trial has taken over."""
        self._shared = shared

    def replay(self, epochs: int, config: TrialConfig) -> int | None:
        """Reports the trial's first epochs, which are in its records, as if they had just been trained.

        Returns:
            The epoch behind which the trial must stop, on every worker; None if it goes on.

        Raises:
            Interrupted: the sweep ended before all of them were judged, on every worker.
        """
        stopped = agreed(self._replay(epochs, config) if worker_rank() == 0 else None)
        self.is_stopped = stopped is not None
        return stopped

    def _replay(self, epochs: int, config: TrialConfig) -> int | Unjudged | None:
        """As `replay`, on the first worker."""
        curves = read_trial_curves(open_folder(self._folder), self._trial_id).to_pylist()
        first, last = first_scored_epoch(config), num_epochs(config)
        for epoch in range(1, epochs + 1):
            rows = [row for row in curves if row["epoch"] == epoch]
            place = {"epoch": epoch, "scored_epoch": max(epoch - first + 1, 0), "is_last": epoch == last}
            scored = self._scored(rows[0]["seconds"], scores_in(rows))
            message = {**place, "step": rows[0]["step"], "is_replayed": True, **scored}
            must_stop: bool | None = ray.get(self._mailbox.report_epoch.remote(self._trial_id, message))
            if must_stop is None:
                return UNJUDGED
            if must_stop and epoch < last:
                return epoch
        return None

    def on_step(self, progress: Progress) -> bool:
        """Says where the trial is, now and then; False once the mailbox wants it to stop. Does not wait."""
        if worker_rank() > 0:
            return True
        if self._asked is not None and ray.wait([self._asked], timeout=0)[0]:
            asked, self._asked = self._asked, None
            if ray.get(asked):
                return False
        if self._asked is None and time.monotonic() >= self._next_time:
            self._asked = self._mailbox.report_progress.remote(self._trial_id, asdict(progress))
            self._next_time = time.monotonic() + PROGRESS_SECONDS
        return True

    def on_epoch(self, report: EpochReport) -> bool:
        """Records an epoch, reports it, and waits for the verdict; False if the trial must stop here.

        Raises:
            Interrupted: the sweep ended before the verdict, on every worker. No state behind this epoch may be saved:
                the trial would pass for judged when it goes on.
        """
        must_stop: bool | Unjudged = False
        if worker_rank() == 0:
            write_epoch(self._folder, self._trial_id, report)
            verdict: bool | None = ray.get(self._mailbox.report_epoch.remote(self._trial_id, self._message(report)))
            must_stop = UNJUDGED if verdict is None else verdict
        self.is_stopped = bool(agreed(must_stop)) and not report.is_last
        return not self.is_stopped

    def report_worker_error(self, why: str) -> None:
        """Says, from any worker, why it is about to die."""
        ray.get(self._mailbox.report_worker_error.remote(self._trial_id, why))

    def report_end(self, how: FinalStatus, error: str | None, facts: Mapping[str, Any]) -> None:
        """Says how the trial ended."""
        ray.get(self._mailbox.report_end.remote(self._trial_id, how, error, facts))

    def _message(self, report: EpochReport) -> dict[str, Any]:
        """What the mailbox passes on of an epoch; everything else is in the records."""
        names = ("epoch", "scored_epoch", "step", "is_last")
        place = {name: getattr(report, name) for name in names}
        return {**place, **self._scored(report.seconds, scores_in([asdict(point) for point in report.points]))}

    def _scored(self, seconds: float, scores: Mapping[str, float]) -> dict[str, Any]:
        """Scores, and seconds of this trial's own work."""
        own = max(0.0, seconds - self._shared.seconds)
        return {"seconds": own, "scores": scores, "score": scores.get(self._metric)}


def agreed(own: int | Unjudged | None) -> int | None:
    """What the first worker was answered, on all of them; raises Interrupted if nobody has judged any more."""
    answer: int | Unjudged | None = gather_from_workers(own)[0]
    if isinstance(answer, str):
        raise Interrupted("ended before the scheduler's verdict")
    return answer


def scores_in(points: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The main dev score of each task that has been active, and the overall score if there is one."""
    return {
        point["task"]: point["value"]
        for point in points
        if point["split"] == "dev" and point["metric"] == MAIN_METRICS[point["task"]]
    }
