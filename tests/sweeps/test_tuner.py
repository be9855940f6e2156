"""Whole sweeps on a real Ray: what ends how, what Optuna and the records say of it, and that nothing is left behind."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
import ray
import torch
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from mtlib.config import TrialConfig
from mtlib.data import read_folder
from mtlib.encoder import load_encoder
from mtlib.reports import EpochReport
from mtlib.tokens import tokenize
from mtlib.train import train
from results.epochs import read_curves, read_predictions
from results.records import TrialRecord, read_trials
from search_spaces.space import SearchSpace
from sweeps.ledger import Ledger
from sweeps.messages import Event
from sweeps.options import SweepPlan
from sweeps.study import JOURNAL_NAME
from sweeps.tuner import SweepOutcome, run_sweep
from tests.sweeps.conftest import MakePlan

pytestmark = pytest.mark.ray

GOOD, KILLED, DEADLY, DIVERGING, SLOW = (f"{number:04d}-r0" for number in range(5))
RATES = (1e-3, 1e-3 + 1e-9, 1e-3 + 2e-9, 1e30, 1e-12)
"""By trial: the first three learn alike; then one that diverges, and one that learns nothing and is stopped."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """A sweep that has been run, and what it said."""

    plan: SweepPlan
    outcome: SweepOutcome
    events: list[Event]
    records: dict[str, TrialRecord]

    def of(self, kind: str, trial_id: str) -> list[Event]:
        return [event for event in self.events if (event.kind, event.trial_id) == (kind, trial_id)]


class Killer:
    """Kills the lane's worker when a trial that it was given has reported its second epoch, or is resumed."""

    def __init__(self, times: dict[str, int]) -> None:
        self.times = times
        self.events: list[Event] = []

    def __call__(self, event: Event, _ledger: Ledger) -> None:
        self.events.append(event)
        trial_id = str(event.trial_id)
        is_time = event.kind == "resumed" or (event.kind == "report" and event.facts["epoch"] == 2)
        if is_time and self.times.get(trial_id, 0) > 0:
            self.times[trial_id] -= 1
            started = [old for old in self.events if old.trial_id == trial_id and "pid" in old.facts]
            os.kill(started[-1].facts["pid"], signal.SIGKILL)


@pytest.fixture(scope="module")
def told(
    private_ray: None, tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path, tiny_encoder_folder: Path
) -> Told:
    """One sweep with one lane in which everything happens: most of the time goes into starting workers."""
    folder = tmp_path_factory.mktemp("sweep")
    base = small_config(tiny_encoder_folder)
    plan = SweepPlan(
        name="everything",
        folder=folder,
        space=SearchSpace(name="rates", question="?", base=base, grid={"optimizer.learning_rate": RATES}),
        base=base,
        search="grid",
        num_trials=None,
        replicates=1,
        scheduler="asha",
        seed=0,
        num_workers=1,
        cpus_per_worker=1,
        gpus_per_worker=0.0,
        concurrent=1,
        address=None,
        data_folder=tiny_folder,
        cache_folder=tmp_path_factory.mktemp("cache"),
        state_steps=5,
    )
    killer = Killer({KILLED: 1, DEADLY: 2})
    outcome = run_sweep(plan, killer)
    records = {record.trial_id: record for record in read_trials(folder)}
    return Told(plan=plan, outcome=outcome, events=killer.events, records=records)


def small_config(encoder: Path) -> TrialConfig:
    """One stage with all tasks, so that scores begin at once; dropout on; steps enough to learn something."""
    stages = [{"tasks": ["sst", "qqp", "sts"], "epochs": 3, "steps_per_epoch": 12}]
    return TrialConfig.from_json(
        TrialConfig(stages=()).to_json() if False else '{"stages": [{"tasks": ["sst", "qqp", "sts"]}]}'
    ).override({"stages": stages, "encoder.name": str(encoder), "encoder.max_length": 32, "encoder.dropout": 0.1})


def test_placeholder(told: Told) -> None:
    print(told.outcome, [(e.kind, e.trial_id) for e in told.events if e.kind != "progress"])
    print(told.records)
