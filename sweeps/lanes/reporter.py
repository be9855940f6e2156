"""A trial's connection from its lane to the table of trials: progress, epochs, and verdicts that all workers share.

Only rank 0 communicates and writes; it broadcasts what it hears.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

import pyarrow.fs as fs
import ray
import torch
from ray.actor import ActorHandle

from mtlib.config.trial import TrialConfig
from mtlib.runtime.workers import from_rank_0, gather_from_workers, worker_rank
from mtlib.stages.plan import num_epochs
from mtlib.tasks import Task, value_of
from mtlib.training.epoch_report import EpochReport, StepProgress
from mtlib.training.step import Interrupted
from results.records.epochs import read_epoch, write_epoch
from results.records.trial_folder import scores_in
from sweeps.driver.trials.messages import Assignment, ErrorCause, Message, MessageKind, TrialStatus, Verdict
from sweeps.lanes.peak_memory import peak_memory
from sweeps.lanes.trial_log import TrialLog

PROGRESS_SECONDS = 1.0
"""Least time between two progress messages, and so the longest time until a stop is noticed."""


class Reporter:
    """Sends one trial's messages, receives the answers, and writes the trial's epochs."""

    def __init__(
        self,
        channel: ActorHandle[Any],
        root: fs.SubTreeFileSystem,
        assignment: Assignment,
        metric: str,
        tasks: Mapping[str, Task],
        device: torch.device,
    ) -> None:
        """Creates the reporter.

        Args:
            channel: of the sweep.
            root: the sweep's folder.
            assignment: the trial, and the attempt at it.
            metric: `overall` or a task, what the search maximises.
            tasks: the definitions of the sweep's tasks.
            device: whose peak memory epochs record.
        """
        self.is_stopped = False
        """Whether the scheduler has stopped the trial."""
        self.shared_seconds = 0.0
        """Seconds of work that the trial has reused."""
        self.log = TrialLog(root, assignment.trial_id)
        self._channel, self._root, self._tasks, self._metric = channel, root, tasks, metric
        self._trial_id, self._attempt, self._device = assignment.trial_id, assignment.attempt, device
        self._is_ending = False
        """Whether the sweep ends after the epoch that was just reported."""
        self._must_stop: ray.ObjectRef[bool] | None = None
        """Answer to the last progress message."""
        self._next_progress = 0.0
        self._began, self._wall_before = time.monotonic(), 0.0

    @property
    def wall_seconds(self) -> float:
        """Seconds that the trial has had a lane, in all its attempts, up to now."""
        return self._wall_before + time.monotonic() - self._began

    def tell(self, kind: MessageKind, facts: Mapping[str, Any]) -> None:
        """Tells what has happened to the trial, and logs it; called on rank 0."""
        self.log.add(f"{kind.replace('_', ' ')}: {json.dumps(facts)}")
        ray.get(self._channel.tell.remote(self._message(kind, facts)))
        self._next_progress = 0.0  # its next step shows where it goes on from

    def replay(self, epochs: int, config: TrialConfig) -> int | None:
        """Sends the trial's first epochs from its folder; the scheduler decides on them as if they were just trained.

        Returns:
            The epoch after which the trial must stop, on every worker; None if it continues.

        Raises:
            Interrupted: on every worker, the sweep ended before the last verdict.
        """
        stopped = from_rank_0(lambda: self._replay(epochs, config))
        self.is_stopped = stopped is not None
        return stopped

    def _replay(self, epochs: int, config: TrialConfig) -> int | None:
        """`replay` on rank 0."""
        last, reports = num_epochs(config), list[Mapping[str, Any]]()
        for number in range(1, epochs + 1):
            epoch = read_epoch(self._root, self._trial_id, number)
            self._wall_before = float(epoch.facts.get("wall_seconds", 0.0))
            found = {"step": epoch.points[0]["step"], **self._scored(epoch.points), **epoch.facts}
            reports.append({"epoch": number, "is_last": number == last, **found})
        stopped: int | Literal["end"] | None = None
        if reports:
            stopped = ray.get(self._channel.ask.remote(self._message("past_epochs", {"epochs": reports})))
        if stopped == "end":
            raise Interrupted("ended before the scheduler's verdict")
        self._began = time.monotonic()
        return stopped

    def on_step(self, progress: StepProgress) -> bool:
        """Reports progress from time to time, without waiting; False once the answer was that the trial must stop.

        Where the sweep ends at the epoch that was just reported, that is at the first step after it.
        """
        if worker_rank() > 0:
            return True
        if self._is_ending:
            return False
        if self._must_stop is not None and ray.wait([self._must_stop], timeout=0)[0]:
            answer, self._must_stop = self._must_stop, None
            if ray.get(answer):
                return False
        if self._must_stop is None and time.monotonic() >= self._next_progress:
            facts = {**asdict(progress), "peak_memory_bytes": peak_memory(self._device)}
            self._must_stop = self._channel.ask.remote(self._message("progress", facts))
            self._next_progress = time.monotonic() + PROGRESS_SECONDS
        return True

    def on_epoch(self, report: EpochReport) -> bool:
        """Writes an epoch, reports it, and waits for the verdict; False if the trial must stop.

        Raises:
            Interrupted: on every worker, the sweep ended before the verdict. No state after this epoch may be saved:
                the resumed trial would skip the verdict.
        """
        verdict: Verdict | None = None
        if worker_rank() == 0:
            facts: dict[str, Any] = {"wall_seconds": self.wall_seconds, "peak_memory_bytes": peak_memory(self._device)}
            facts["constant"] = {
                part.task: self._tasks[part.task].has_one_prediction(part.logits, part.labels)
                for part in report.predictions
                if part.split == "dev"
            }
            write_epoch(self._root, self._trial_id, report, facts)
            described = {
                **{name: getattr(report, name) for name in ("epoch", "step", "is_last")},
                **self._scored([asdict(point) for point in report.points]),
                **facts,
            }
            shown = {name: value_of(name, score, self._tasks) for name, score in described["scores"].items()}
            scores = ", ".join(f"{name} {value:.4f}" for name, value in shown.items())
            self.log.add(f"epoch {report.epoch}, step {report.step}: {scores or 'not scored'}")
            self.log.write()
            verdict = ray.get(self._channel.ask.remote(self._message("epoch", described)))
            self._is_ending = verdict == "leave"
        verdict = gather_from_workers(verdict)[0]
        if verdict == "end":
            raise Interrupted("ended before the scheduler's verdict")
        self.is_stopped = verdict == "stop"
        return not self.is_stopped

    def report_error(self, why: str, cause: ErrorCause) -> None:
        """Reports, from any rank, the error that is about to end this worker, and what it comes from."""
        ray.get(self._channel.tell.remote(self._message("worker_error", {"why": why, "cause": cause})))

    def report_end(self, status: TrialStatus, error: str | None, spent: Mapping[str, Any]) -> None:
        """Reports how the trial ended; `spent` are the seconds and, where it is known, the memory that it took."""
        self.log.add(status if error is None else f"{status}: {error}")
        facts = {"status": status, "error": error, "spent": dict(spent)}
        ray.get(self._channel.tell.remote(self._message("left", facts)))
        self.log.write()  # last: in a bucket that is away it takes minutes to fail

    def _message(self, kind: MessageKind, facts: Mapping[str, Any]) -> Message:
        return Message(kind=kind, trial_id=self._trial_id, attempt=self._attempt, facts=facts)

    def _scored(self, points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Returns the points of an epoch's curves, its scores, and seconds of this trial's own work."""
        scores = dict(scores_in(points, self._tasks))
        own = max(0.0, points[0]["seconds"] - self.shared_seconds)
        return {"seconds": own, "scores": scores, "score": scores.get(self._metric), "points": list(points)}
