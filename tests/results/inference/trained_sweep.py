"""A sweep of small trials that are really trained, and selections of them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mtlib.checkpoints.state import StateFolder
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_held_out
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.tasks import TASKS
from mtlib.train import train
from mtlib.training.epoch_report import EpochReport
from results.inference.models import ModelSource
from results.records.epochs import write_epoch
from results.records.examples import HoldOutRecord, held_out_rows, write_hold_out
from results.records.predictions import read_predictions
from results.records.selection import Member, Selection, write_selection
from results.records.tables import read_trials, write_trials
from results.records.trials import TrialRecord, write_sweep
from results.stats.resampling import Floats
from tests.results.conftest import build_record
from tests.results.records.test_selection import build_score, build_selection, build_task

FIRST, SECOND, THIRD = "0000-r0", "0001-r0", "0002-r0"
"""Trials: the second reads pairs as two inputs and truncates them earlier; the third has no weights."""
CHANGES: dict[str, dict[str, Any]] = {
    FIRST: {},
    SECOND: {
        "seed": 1,
        "encoder.max_length": 9,
        "tasks.qqp.encoding": "bi",
        "tasks.sts.encoding": "bi",
        "tasks.sts.pooling": "mean",
    },
}


def train_sweep(folder: Path, corpus: Corpus, encoder: PretrainedEncoder) -> Path:
    """Trains the trials into a folder and writes the sweep's files."""
    base = small_config(encoder, steps_per_epoch=12)
    records = train_trials(folder, corpus, encoder, base, CHANGES)
    records.append(build_record(len(records), status="pruned", config=base.to_json(), checkpoint=None))
    write_sweep(folder, {"name": folder.name})
    write_trials(folder, records, tuple(TASKS))
    return folder


def small_config(encoder: PretrainedEncoder, *, steps_per_epoch: int) -> TrialConfig:
    """Two short epochs of all tasks."""
    stage = StageConfig(tasks=tuple(TASKS), order="sampled_round_robin", epochs=2, steps_per_epoch=steps_per_epoch)
    return TrialConfig(stages=(stage,)).override(
        {
            "encoder.name": encoder.name,
            "encoder.max_length": 32,
            "optimizer.learning_rate": 5e-3,
            "evaluation.batch_size": 4,
            **{f"tasks.{task}.batch_size": 4 for task in TASKS},
            **{f"tasks.{task}.scored_train_rows": 0 for task in TASKS},
        }
    )


def train_trials(
    folder: Path,
    corpus: Corpus,
    encoder: PretrainedEncoder,
    base: TrialConfig,
    trials: Mapping[str, Mapping[str, Any]],
) -> list[TrialRecord]:
    """Trains trials into a sweep's folder, each with some changes of the base."""
    records = []
    for number, (trial, changes) in enumerate(trials.items()):

        def keep(report: EpochReport, trial: str = trial) -> bool:
            write_epoch(folder, trial, report)
            return True

        config = base.override(changes)
        train(config, corpus, encoder, states=StateFolder(path=folder / f"trials/{trial}/checkpoint"), on_epoch=keep)
        records.append(build_record(number, config=config.to_json()))
    return records


def hold_out_rows(folder: Path, data: Path, share: float = 0.4) -> None:
    """Adds a record of held-out rows of its data to a trained sweep."""
    records = read_trials(folder)
    configs = [TrialConfig.from_json(record.config).override({"data.hold_out": share}) for record in records]
    pairs = zip(records, configs, strict=True)
    write_trials(folder, [replace(record, config=config.to_json()) for record, config in pairs], tuple(TASKS))
    write_sweep(folder, {"name": folder.name, "data": {"folder": str(data), "fingerprint": "abc"}})
    write_hold_out(folder, HoldOutRecord(share=share, tasks=held_out_rows(read_held_out(configs[0], data))))


def source_of(*folders: Path, **changes: Any) -> ModelSource:
    """Models of sweeps' folders, on the CPU."""
    return ModelSource(**{"places": {str(folder): folder for folder in folders}, "device": "cpu", **changes})


def kept_epoch(folder: Path, trial: str, best: str) -> int:
    """The best epoch for a task, whose weights a trial has stored."""
    return int(json.loads((folder / "trials" / trial / "checkpoint" / "best.json").read_text())[best])


def recorded_logits(folder: Path, trial: str, task: str) -> Floats:
    """A trial's recorded dev logits at its best epoch for the task, (rows, num_logits)."""
    table = read_predictions(folder, task, "dev", trial=trial, epoch=kept_epoch(folder, trial, task))
    return np.array(table["logits"].to_pylist(), dtype=np.float64)


def member_of(folder: Path, trial: str, task: str, weight: float = 1.0, **changes: Any) -> Member:
    """A trial at its best epoch for a task."""
    values = {"sweep": str(folder), "trial": trial, "epoch": kept_epoch(folder, trial, task), "weight": weight}
    return Member(**{**values, **changes})


def selection_of(folder: Path, members: Mapping[str, tuple[Member, ...]]) -> Selection:
    """A selection of these members by task."""
    counts = {"num_examples": 13, "num_candidates": 4, "num_trials": 2}
    methods = (build_score("single", num_models=1),)
    tasks = {task: build_task(method="single", members=own, methods=methods, **counts) for task, own in members.items()}
    return build_selection(sweeps={str(folder): "fingerprint"}, tasks=tasks, evaluations=())


def select_pairs(folder: Path) -> Selection:
    """Selects both trials for every task and writes the selection into the sweep's folder."""
    members = {task: (member_of(folder, FIRST, task, 0.75), member_of(folder, SECOND, task, 0.25)) for task in TASKS}
    selection = selection_of(folder, members)
    write_selection(folder, selection)
    return selection
