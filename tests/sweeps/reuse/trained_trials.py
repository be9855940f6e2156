"""Small trials that are really trained, each into its own place in a storage, and all that they leave there."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from mtlib.checkpoints.state import StateFolder
from mtlib.config.trial import TrialConfig
from mtlib.runtime.environment import describe_environment
from mtlib.train import train
from mtlib.training.epoch_report import EpochReport, StepProgress
from mtlib.training.step import Interrupted
from results.records.epochs import read_curves, read_predictions, write_epoch
from sweeps.lanes.loaded_trial import LoadedTrial, load_trial
from sweeps.reuse.finished_trials import BEST_FILE, TrialFolder
from sweeps.reuse.stage_store import StageStore
from sweeps.reuse.starting_point import store_cut
from tests.killed import Killed

CPU = torch.device("cpu")
FAST = {
    "smart.weight": 0.0,
    "stages.1.steps_per_epoch": 4,
    "optimizer.schedule": "constant",
    "tasks.sst.scored_train_rows": 5,
}
"""Two stages of 1 and 2 epochs, 4 steps each, whose rates do not depend on their length; dropout on."""


@dataclass(frozen=True)
class Ground:
    """What trials are trained from, and the storage they are in."""

    base: TrialConfig
    data: Path
    storage: Path

    def course(self, **changes: Any) -> LoadedTrial:
        """A trial with some dotted keys changed, in which `__` stands for a dot."""
        dotted = {key.replace("__", "."): value for key, value in changes.items()}
        return load_trial(self.base.override(dotted), self.data, self.storage / ".cache", describe_environment(CPU))

    def place(self, name: str = "sweep/0000-r0", *, shares: bool = True, keep_bytes: int = 10**12) -> TrialFolder:
        """Where the trial `sweep/trial` is; its sweep's folder is there."""
        sweep, trial = name.split("/")
        folder = self.storage / sweep
        folder.mkdir(parents=True, exist_ok=True)
        cache = self.storage / ".cache"
        store = StageStore(folder=cache / "stages", keep_bytes=keep_bytes)
        return TrialFolder(
            sweep_folder=folder,
            trial_id=trial,
            states=StateFolder(path=folder / "trials" / trial / "checkpoint", checkpoint_steps=2),
            store=store if shares else None,
            finished_folder=cache / "finished",
        )


def train_trial(
    course: LoadedTrial,
    place: TrialFolder,
    *,
    until_epoch: int | None = None,
    until_step: int | None = None,
    keeps: bool = False,
) -> list[int]:
    """Trains from the newest state in a trial's place; its numbers of optimizer steps, as they were taken.

    Args:
        course: the trial.
        place: its place.
        until_epoch: killed behind the state of this epoch.
        until_step: killed behind this step.
        keeps: whether ends of stages are kept for others.
    """
    steps: list[int] = []

    def on_step(progress: StepProgress) -> bool:
        if until_epoch is not None and progress.epoch > until_epoch:
            raise Killed
        steps.append(progress.step)
        return progress.step != until_step

    def on_epoch(report: EpochReport) -> bool:
        write_epoch(place.sweep_folder, place.trial_id, report)
        return True

    def on_stage(stage: int) -> bool:
        if keeps:
            assert store_cut(place, course.end_of(stage), 1.5, is_spare=False) is None
        return True

    states = StateFolder(path=place.states.path, checkpoint_steps=2, keeps_end=keeps)
    arguments: dict[str, Any] = {"on_step": on_step, "on_epoch": on_epoch, "on_stage": on_stage, "states": states}
    try:
        train(course.config, course.corpus, course.encoder, **arguments)
    except (Killed, Interrupted):
        assert until_epoch is not None or until_step is not None
    return steps


@dataclass
class Left:
    """What a trial has left behind, under whatever name: all but times."""

    curves: list[tuple[Any, ...]]
    predictions: list[dict[str, Any]]
    best: dict[str, int]
    weights: dict[str, dict[str, torch.Tensor]]


def left_by(place: TrialFolder) -> Left:
    """Reads a trial's record and its best weights."""
    curves = read_curves(place.sweep_folder).to_pylist()
    names = ("step", "epoch", "task", "split", "metric", "value")
    own = [tuple(row[name] for name in names) for row in curves if row["trial"] == place.trial_id]
    pairs = sorted({(task, split) for _, _, task, split, _, _ in own if task != "overall"})
    tables = [
        read_predictions(place.sweep_folder, *pair, trial=place.trial_id).drop_columns(["trial"]) for pair in pairs
    ]
    best = json.loads((place.states.path / BEST_FILE).read_text())
    files = sorted((place.states.path / "weights").glob("*.safetensors"))
    weights = {path.name: load_file(path) for path in files}
    return Left(
        curves=own, predictions=[row for table in tables for row in table.to_pylist()], best=best, weights=weights
    )


def assert_same(first: Left, second: Left) -> None:
    """Two trials have left the same, bit for bit."""
    assert first.curves == second.curves != []
    assert first.predictions == second.predictions != []
    assert first.best == second.best != {}
    assert first.weights.keys() == second.weights.keys() != set()
    for name, tensors in first.weights.items():
        assert tensors.keys() == second.weights[name].keys()
        assert all(torch.equal(tensor, second.weights[name][key]) for key, tensor in tensors.items())
