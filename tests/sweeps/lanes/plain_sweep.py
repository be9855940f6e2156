"""A sweep's trials trained one after another in this process, on files alone: no Ray, no Tune, no mailbox."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from results.records.recovery import record_with_curves

from mtlib.checkpoints.state import drop_states
from mtlib.config.trial import TrialConfig
from mtlib.runtime.environment import describe_environment
from mtlib.tasks import TASKS
from mtlib.training.epoch_report import EpochReport, StepProgress
from results.records.epochs import read_trial_curves, write_epoch
from results.records.files import open_folder
from results.records.trials import TrialRecord
from sweeps.driver.ledger import open_ledger
from sweeps.lanes.loaded_trial import load_trial
from sweeps.lanes.messages import FinalStatus
from sweeps.lanes.worker_trial import TrialRun, run_trial
from sweeps.options import SweepPlan
from sweeps.reuse.finished_trials import ReusedWork, trial_folder
from sweeps.reuse.starting_point import StartingPoint
from sweeps.search.stage_order import find_stage_keys
from sweeps.setup.stage_tree import training_order


class PlainReporter:
    """Stands in for a trial's reporter: records epochs and steps, never stops a trial."""

    def __init__(self, folder: Path, trial_id: str) -> None:
        self.is_stopped = False
        self.reused = ReusedWork()
        self.steps: list[int] = []
        """Optimizer steps that were trained, by their number in the trial."""
        self.end: tuple[FinalStatus, str | None] | None = None
        self._folder, self._trial_id = folder, trial_id

    @property
    def facts(self) -> dict[str, Any]:
        return {"shared_steps": self.reused.steps}

    def report_end(self, how: FinalStatus, error: str | None, _facts: dict[str, Any]) -> None:
        self.end = (how, error)

    def report_starting_point(self, beginning: StartingPoint) -> None:
        self.reused = beginning.reused

    def report_stage_finished(self, _stage: int, why_not: str | None) -> None:
        assert why_not is None

    def is_wanted(self) -> bool:
        return True

    def replay(self, _epochs: int, _config: TrialConfig) -> None:
        """The scheduler stops no trial."""

    def on_step(self, progress: StepProgress) -> bool:
        self.steps.append(progress.step)
        return True

    def on_epoch(self, report: EpochReport) -> bool:
        write_epoch(self._folder, self._trial_id, report)
        return True


def train_one(plan: SweepPlan, trial_id: str, config: TrialConfig) -> tuple[FinalStatus, PlainReporter]:
    """Trains a trial to its end; its status and its reporter."""
    cpu, link = torch.device("cpu"), PlainReporter(plan.options.folder, trial_id)
    place, course = (
        trial_folder(plan.options, trial_id),
        load_trial(config, plan.data_folder, plan.options.cache_folder, describe_environment(cpu)),
    )
    line: Any = link
    how, error = run_trial(TrialRun(loaded=course, folder=place, reporter=line, device=cpu))
    assert error is None
    drop_states(place.states)
    return how, link


def train_sweep(plan: SweepPlan, configs: Sequence[TrialConfig]) -> list[TrialRecord]:
    """Trains the first trial of each configuration, in the searcher's order; returns the sweep's records."""
    plan.options.folder.mkdir(parents=True, exist_ok=True)
    ledger = open_ledger(plan)
    ids = list(ledger.records)
    keys = [find_stage_keys(config, plan.data_folder, plan.options.workers) for config in configs]
    for number in training_order(keys):
        how, link = train_one(plan, ids[number], configs[number])
        curves = read_trial_curves(open_folder(plan.options.folder), ids[number])
        record = record_with_curves(ledger.records[ids[number]], curves, plan.options.workers, TASKS)
        ledger.records[ids[number]] = replace(record, status=how, shared_steps=link.reused.steps)
    return list(ledger.records.values())
