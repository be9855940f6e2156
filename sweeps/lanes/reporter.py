"""A trial's connection from its lane to the mailbox: progress, reports, and decisions that all workers share."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ray
from ray.actor import ActorHandle

from mtlib.config.trial import TrialConfig
from mtlib.runtime.workers import gather_from_workers, worker_rank
from mtlib.stages.plan import num_epochs, scored_epoch
from mtlib.tasks import Task, score_of
from mtlib.training.epoch_report import EpochReport, StepProgress
from mtlib.training.step import Interrupted
from results.records.epochs import read_trial_curves, write_epoch
from results.records.files import open_folder
from results.records.recovery import is_main_score
from sweeps.lanes.messages import FinalStatus
from sweeps.reuse.finished_trials import ReusedWork
from sweeps.reuse.starting_point import StartingPoint

PROGRESS_SECONDS = 1.0
"""Least time between two progress messages, and so the longest time until an interruption is noticed."""


class TrialReporter:
    """Sends one trial's messages to the mailbox and receives its answers. Only rank 0 communicates."""

    def __init__(
        self, mailbox: ActorHandle[Any], folder: Path, trial_id: str, metric: str, tasks: Mapping[str, Task]
    ) -> None:
        """Creates the reporter.

        Args:
            mailbox: of the sweep.
            folder: the sweep's.
            trial_id: the trial's.
            metric: `overall` or a task, what the search maximises.
            tasks: the definitions of the sweep's tasks.
        """
        self.is_stopped = False
        """Whether the scheduler has stopped the trial."""
        self.reused = ReusedWork()
        """What the trial has reused."""
        self._mailbox = mailbox
        self._folder = folder
        self._trial_id = trial_id
        self._metric = metric
        self._tasks = tasks
        self._waiting_for: str | None = None
        self._continues = True
        """Whether the trial goes on after the epoch that it has just reported."""
        self._must_stop: ray.ObjectRef[bool] | None = None
        """Answer to the last progress message."""
        self._next_progress = 0.0

    @property
    def facts(self) -> dict[str, Any]:
        """What the trial has reused, for its record."""
        reused = self.reused
        return {"shared_steps": reused.steps, "shared_seconds": reused.seconds, "taken_from": reused.taken_from}

    def report_starting_point(self, start: StartingPoint) -> None:
        """Reports where the trial starts; called on rank 0."""
        self.reused = start.reused
        self._next_progress = 0.0  # its first step shows where it goes on from
        facts = {**self.facts, "epochs": start.epochs, "note": start.note}
        ray.get(self._mailbox.report_event.remote("starting_point", self._trial_id, facts))

    def report_stage_finished(self, stage: int, why_not: str | None) -> None:
        """Reports that a stage is finished, and why it was not stored if it was not; called on rank 0."""
        facts = {"stage": stage, "why_not": why_not}
        ray.get(self._mailbox.report_event.remote("stage_finished", self._trial_id, facts))

    def report_waiting(self, what: str) -> None:
        """Reports what the trial waits for, once for each such thing; called on rank 0."""
        if what != self._waiting_for:
            ray.get(self._mailbox.report_event.remote("waiting", self._trial_id, {"what": what}))
        self._waiting_for = what

    def is_wanted(self) -> bool:
        """Whether the trial should keep waiting, or go on after an epoch; called on rank 0."""
        wanted: bool = ray.get(self._mailbox.is_wanted.remote(self._trial_id))
        return wanted

    def replay(self, epochs: int, config: TrialConfig) -> int | None:
        """Reports the trial's first epochs from its records, as if they had just been trained.

        Returns:
            The epoch after which the trial must stop, on every worker; None if it continues.

        Raises:
            Interrupted: on every worker, the sweep ended before the last decision.
        """
        stopped = broadcast_decision(self._replay(epochs, config) if worker_rank() == 0 else None)
        self.is_stopped = stopped > 0
        return stopped or None

    def _replay(self, epochs: int, config: TrialConfig) -> int | None:
        """`replay` on rank 0: the epoch after which the trial must stop, 0 if it continues, None without a decision."""
        curves = read_trial_curves(open_folder(self._folder), self._trial_id).to_pylist()
        last = num_epochs(config)
        for epoch in range(1, epochs + 1):
            rows = [row for row in curves if row["epoch"] == epoch]
            place = {"epoch": epoch, "scored_epoch": scored_epoch(config, epoch), "is_last": epoch == last}
            scored = self._scored(rows[0]["seconds"], scores_in(rows, self._tasks))
            message = {**place, "step": rows[0]["step"], "is_replayed": True, **scored}
            must_stop: bool | None = ray.get(self._mailbox.report_epoch.remote(self._trial_id, message))
            if must_stop is None:
                return None
            if must_stop and epoch < last:
                return epoch
        return 0

    def on_step(self, progress: StepProgress) -> bool:
        """Reports progress from time to time, without waiting; False once the mailbox has asked the trial to stop.

        Where the sweep ends at the epoch that was just reported, that is at the first step after it.
        """
        if worker_rank() > 0:
            return True
        if not self._continues:
            return False
        if self._must_stop is not None and ray.wait([self._must_stop], timeout=0)[0]:
            answer, self._must_stop = self._must_stop, None
            if ray.get(answer):
                return False
        if self._must_stop is None and time.monotonic() >= self._next_progress:
            self._must_stop = self._mailbox.report_progress.remote(self._trial_id, asdict(progress))
            self._next_progress = time.monotonic() + PROGRESS_SECONDS
        return True

    def on_epoch(self, report: EpochReport) -> bool:
        """Records an epoch, reports it, and waits for the scheduler's decision; False if the trial must stop.

        Raises:
            Interrupted: on every worker, the sweep ended before the decision. No state after this epoch may be saved:
                the resumed trial would skip the decision.
        """
        must_stop: bool | None = None
        if worker_rank() == 0:
            write_epoch(self._folder, self._trial_id, report)
            must_stop = ray.get(self._mailbox.report_epoch.remote(self._trial_id, self._message(report)))
            if must_stop is False:
                self._continues = self.is_wanted()
        self.is_stopped = bool(broadcast_decision(must_stop)) and not report.is_last
        return not self.is_stopped

    def report_worker_error(self, why: str) -> None:
        """Reports, from any rank, the error that is about to end this worker."""
        ray.get(self._mailbox.report_worker_error.remote(self._trial_id, why))

    def report_end(self, status: FinalStatus, error: str | None, facts: Mapping[str, Any]) -> None:
        """Reports how the trial ended."""
        ray.get(self._mailbox.report_end.remote(self._trial_id, status, error, facts))

    def _message(self, report: EpochReport) -> dict[str, Any]:
        """What the mailbox passes on of an epoch; the records hold everything else."""
        place = {name: getattr(report, name) for name in ("epoch", "scored_epoch", "step", "is_last")}
        return {**place, **self._scored(report.seconds, scores_in(map(asdict, report.points), self._tasks))}

    def _scored(self, seconds: float, scores: Mapping[str, float]) -> dict[str, Any]:
        """Scores, and seconds of this trial's own work."""
        own = max(0.0, seconds - self.reused.seconds)
        return {"seconds": own, "scores": scores, "score": scores.get(self._metric)}


def broadcast_decision(own: int | None) -> int:
    """The value of rank 0 on all workers; raises Interrupted if it is None: the sweep ended before the decision."""
    decision: int | None = gather_from_workers(own)[0]
    if decision is None:
        raise Interrupted("ended before the scheduler's decision")
    return decision


def scores_in(points: Iterable[Mapping[str, Any]], tasks: Mapping[str, Task]) -> dict[str, float]:
    """The main dev score of each task that has been active, and the overall score if there is one."""
    return {
        point["task"]: score_of(point["task"], point["value"], tasks) for point in points if is_main_score(point, tasks)
    }
