"""The state of a sweep by its files alone: what is done, running and left, the best score, what to type next."""

import shlex
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from mtlib.runtime.program_names import typed_command
from mtlib.runtime.storage import join_location, split_location
from mtlib.tasks import Task, in_order, title_of, value_of
from results.answers.next_commands import resume_command, table_command
from results.records.driver_file import Progress, TrialProgress, clock_text, read_driver
from results.records.expected_trials import status_counts
from results.records.tables import read_with_warnings
from results.records.trials import (
    COMPLETED,
    OVERALL,
    UNFINISHED,
    TrialRecord,
    best_by_tasks,
    read_sweep,
    sweep_tasks,
    sweeps_in,
)
from results.stats.texts import named
from sweeps.cli.time_left import seconds_left


@dataclass(frozen=True, kw_only=True)
class SweepState:
    """A sweep by its files."""

    folder: str
    """Path or URI."""
    info: Mapping[str, Any]
    """The content of `sweep.json`."""
    records: tuple[TrialRecord, ...]
    """Those that ran when the sweep stopped, or whose files are lost, are `interrupted`: a resume trains them."""
    counts: Counter[str]
    """Trials by status, with those that are not on record yet."""
    tasks: Mapping[str, Task]
    is_running: bool
    stopped_at: datetime | None
    """When it stopped; None if it runs or has no heartbeat."""
    progress: Progress
    """The progress of the trials that run."""

    @property
    def name(self) -> str:
        return split_location(self.folder)[1]

    @property
    def space(self) -> Mapping[str, Any]:
        """The search space as it is recorded."""
        return self.info.get("space") or {}

    @property
    def num_done(self) -> int:
        """Trials that completed, were reused or were pruned."""
        return sum(self.counts[status] for status in (*COMPLETED, "pruned"))

    @property
    def num_left(self) -> int:
        """Trials that have not ended and do not run."""
        return self.counts["queued"] + self.counts["interrupted"]

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to run; a sweep without trials has not begun."""
        return bool(self.records) and not (self.num_left or self.counts["running"])

    @property
    def life(self) -> str:
        """Whether it runs, has ended, or since when it is stopped."""
        if self.is_running:
            return "running"
        if self.is_over:
            return "ended"
        if self.stopped_at is None:
            return "stopped"
        return f"stopped {clock_text(self.stopped_at)}"

    @property
    def best_text(self) -> str:
        """The best score and its trial, as the function of this name returns them."""
        return best_text(self.records, str(self.space.get("metric", OVERALL)), self.tasks)

    @property
    def next_command(self) -> str:
        """What to type next: to look at it, resume it, or see its ranking."""
        if self.is_running:
            return f"{typed_command('status')} {shlex.quote(str(self.folder))}"
        if not self.is_over:
            return resume_command(self.folder)
        if self.counts["failed"]:
            return f"{resume_command(self.folder)} --retry-failed"
        return table_command(self.folder)

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds until a running sweep ends, by the time of its trials; None if it is not known."""
        if not (self.is_running and self.counts["running"]):
            return None
        return seconds_left(
            {record.trial_id: record for record in self.records},
            self.progress,
            time.time(),
            num_left=self.num_left,
            num_lanes=self.counts["running"],
        )


def list_sweeps(storage: str) -> tuple[list[SweepState], list[tuple[str, Exception]]]:
    """Returns the sweeps of a storage, the newest first, and the names of those that cannot be read, with the error.

    Folders without `sweep.json` are no sweeps.
    """
    found, damaged = list[SweepState](), list[tuple[str, Exception]]()
    for name in sweeps_in(storage):
        try:
            found.append(read_sweep_state(join_location(storage, name)))
        except (ValueError, OSError, KeyError, TypeError, AttributeError) as error:  # by the kind of damage
            damaged.append((name, error))
    newest_first = sorted(found, key=lambda state: str(state.info.get("created", "")), reverse=True)
    return newest_first, sorted(damaged, key=lambda pair: pair[0])


def read_sweep_state(folder: str) -> SweepState:
    """Reads a sweep's state; ValueError if a file is missing, damaged or of another schema."""
    info, found, driver = read_sweep(folder), read_with_warnings(folder), read_driver(folder)
    lost = {own.trial_id: "its folder is gone" for own in found.records if own.trial_id not in found.with_folder}
    lost |= found.damaged
    records = tuple(
        replace(own, status="interrupted", error=lost[own.trial_id])
        if own.trial_id in lost and own.status not in UNFINISHED
        else own
        for own in found.records
    )
    stopped = driver.stop_time if driver else None
    is_running = driver is not None and stopped is None
    progress = driver.progress if driver is not None and is_running else {}
    return SweepState(
        folder=folder,
        info=info,
        records=records,
        counts=status_counts(info, records),
        tasks=sweep_tasks(info),
        is_running=is_running,
        stopped_at=stopped,
        progress=progress,
    )


def best_text(records: Iterable[TrialRecord], metric: str, tasks: Mapping[str, Task]) -> str:
    """Returns the best score and its trial, e.g. `overall 0.673 (0002-r0)`; empty if there is none.

    Where trials have different tasks, over which an overall score is a mean, it has the best of each set of tasks.
    """
    best, texts = best_by_tasks(records, metric), []
    for record in best:
        own = "+".join(title_of(name, tasks) for name in in_order(record.best.keys() & tasks.keys()))
        score = f"{title_of(metric, tasks)} {value_of(metric, record.best[metric], tasks):.3f}"
        texts.append(f"{score}{f' of {own}' * (len(best) > 1)} ({record.trial_id})")
    return named(texts)


def step_text(record: TrialRecord, progress: TrialProgress) -> str:
    """Returns the step of a trial: of a running one by its progress, where that is known,
    else at its last epoch's end."""
    return steps_done(progress) or (f"{record.steps:,}" if record.steps else "")


def progress_text(progress: TrialProgress) -> str:
    """Returns the epoch and step of a running trial."""
    steps = steps_done(progress)
    return f"epoch {progress['epoch']}, step {steps}" if steps else "starting"


def steps_done(progress: TrialProgress) -> str:
    """E.g. `300 of 1,200`; empty before a running trial's first step."""
    return f"{progress['step']:,} of {progress['num_steps']:,}" if "step" in progress else ""


def score_texts(record: TrialRecord, tasks: Mapping[str, Task]) -> list[str]:
    """Returns the newest score of each task by its title, in the tasks' order, then the overall score."""
    names = [name for name in (*in_order(tasks), OVERALL) if name in record.last]
    return [f"{title_of(name, tasks)} {value_of(name, record.last[name], tasks):.3f}" for name in names]
