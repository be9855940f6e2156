"""A sweep's trials trained one after another in this process, on files alone: no Ray, no Tune, no channel."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from mtlib.config.trial import TrialConfig
from mtlib.runtime.environment import describe_environment
from mtlib.runtime.storage import Location, is_file, open_folder
from mtlib.training.epoch_report import EpochReport, StepProgress
from results.records.epochs import write_epoch
from results.records.tables import read_trials
from results.records.trials import SWEEP_FILE, TrialRecord, write_sweep
from sweeps.driver.trials.messages import Assignment, TrialStatus
from sweeps.driver.trials.stage_order import choose_startable, find_stage_keys
from sweeps.driver.trials.table import TrialRow
from sweeps.driver.trials.trial import queued_record
from sweeps.lanes.loaded_trial import LoadedTrial
from sweeps.lanes.trial_log import TrialLog
from sweeps.lanes.trial_run import TrialRun, end_trial, run_trial
from sweeps.options import SweepPlan
from sweeps.reuse.finished_trials import TrialFolder, trial_folder
from tests.training_inputs import load_from_files

CPU = torch.device("cpu")


class PlainReporter:
    """Stands in for a trial's reporter: writes epochs, and records what is reported."""

    def __init__(self, folder: Location, trial_id: str, until_step: int | None = None, stop_after: int | None = None):
        """`until_step`: interrupted after it. `stop_after`: the epoch after which the scheduler stops the trial."""
        self.is_stopped = False
        self.shared_seconds = 0.0
        self.wall_seconds = 1.5
        self.steps: list[int] = []
        """Optimizer steps that were trained, by their number in the trial."""
        self.events: list[tuple[str, Mapping[str, Any]]] = []
        self.errors: list[str] = []
        self.log = TrialLog(open_folder(folder), trial_id)
        self.end: tuple[TrialStatus, str | None] | None = None
        self._folder, self._trial_id, self._until_step, self._stop_after = folder, trial_id, until_step, stop_after

    def tell(self, kind: str, facts: Mapping[str, Any]) -> None:
        self.events.append((kind, facts))

    def replay(self, epochs: int, _config: TrialConfig) -> int | None:
        self.is_stopped = self._stop_after is not None and self._stop_after <= epochs
        return self._stop_after if self.is_stopped else None

    def on_step(self, progress: StepProgress) -> bool:
        self.steps.append(progress.step)
        return progress.step != self._until_step

    def on_epoch(self, report: EpochReport) -> bool:
        write_epoch(self._folder, self._trial_id, report)
        self.is_stopped = report.epoch == self._stop_after
        return not self.is_stopped

    def report_error(self, why: str, cause: str) -> None:
        self.errors.append(f"{why}, by {cause}")

    def report_end(self, status: TrialStatus, error: str | None, _facts: Mapping[str, Any]) -> None:
        self.end = (status, error)


def assignment_of(folder: TrialFolder, config: TrialConfig) -> Assignment:
    """A trial as the channel hands it to a lane."""
    record = replace(queued_record(int(folder.trial_id[:4]), 0, {}, config), trial_id=folder.trial_id)
    return Assignment(trial=TrialRow(record=record).description, attempt=1)


def run_with(reporter: Any, trial: LoadedTrial, folder: TrialFolder) -> None:
    """Runs a trial as a lane does, and ends it."""
    assignment = assignment_of(folder, trial.config)
    own = TrialRun(assignment=assignment, loaded=trial, folder=folder, reporter=reporter, device=CPU)
    end_trial(own, *run_trial(own))


def train_one(plan: SweepPlan, trial_id: str, config: TrialConfig) -> PlainReporter:
    """Trains a trial to its end; its reporter."""
    folder, reporter = trial_folder(plan.options, trial_id), PlainReporter(plan.options.folder, trial_id)
    loaded = load_from_files(config, plan.data_folder, plan.options.cache_folder, describe_environment(CPU))
    run_with(reporter, loaded, folder)
    return reporter


def train_sweep(plan: SweepPlan, configs: Sequence[TrialConfig]) -> list[TrialRecord]:
    """Trains the first trial of each configuration, in the searcher's order; returns the sweep's records."""
    if not is_file(open_folder(plan.options.folder), SWEEP_FILE):
        write_sweep(plan.options.folder, {"name": plan.options.name})
    keys = [find_stage_keys(config, plan.data_folder, plan.options.workers) for config in configs]
    done, left = set[str](), list(range(len(configs)))
    while left:
        chosen = choose_startable([keys[number] for number in left], done=done)
        assert chosen is not None, "no trial runs that another would have to wait for"
        number = left.pop(chosen)
        train_one(plan, f"{number:04d}-r0", configs[number])
        done.update(keys[number].ends)
    return read_trials(plan.options.folder)
