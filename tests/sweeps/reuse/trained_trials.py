"""Small trials that are really trained into a temporary storage, and the files that they write."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load

from mtlib.checkpoints.best_weights import read_best, read_weights
from mtlib.checkpoints.state import StateFolder
from mtlib.config.trial import TrialConfig
from mtlib.runtime.environment import describe_environment
from mtlib.runtime.storage import join_location, make_folder
from mtlib.train import train
from mtlib.training.epoch_report import EpochReport, StepProgress
from mtlib.training.step import Interrupted
from results.records.epochs import read_trial_curves, write_epoch
from results.records.predictions import read_predictions
from sweeps.lanes.loaded_trial import LoadedTrial
from sweeps.reuse.finished_trials import FINISHED_FOLDER, TrialFolder, states_path
from sweeps.reuse.stage_store import STORE_FOLDER, StageStore
from sweeps.reuse.starting_point import store_cut
from tests.killed import Killed
from tests.training_inputs import load_from_files

CPU = torch.device("cpu")
FAST = {
    "smart.weight": 0.0,
    "stages.1.steps_per_epoch": 4,
    "optimizer.schedule": "constant",
    "tasks.sst.scored_train_rows": 5,
}
"""Two stages of 1 and 2 epochs, 4 steps each, with a constant learning rate and dropout."""


@dataclass(frozen=True)
class TrialStorage:
    """A storage for trials, with the base configuration and data that they train from."""

    base: TrialConfig
    data: Path
    path: Path
    """On this machine; holds tokens and, without a URI, the trials."""
    uri: str | None = None

    def load_trial(self, **changes: Any) -> LoadedTrial:
        """Loads a trial with some dotted keys changed, in which `__` stands for a dot."""
        dotted = {key.replace("__", "."): value for key, value in changes.items()}
        return load_from_files(self.base.override(dotted), self.data, self.path / ".cache", describe_environment(CPU))

    def trial_folder(
        self, name: str = "sweep/0000-r0", *, shares: bool = True, keep_bytes: int = 10**12
    ) -> TrialFolder:
        """Folder of the trial `sweep/trial`; creates the sweep's folder."""
        sweep, trial = name.split("/")
        place = self.uri or str(self.path)
        folder, shared = join_location(place, sweep), join_location(place, ".cache")
        make_folder(folder)
        store = StageStore(folder=join_location(shared, STORE_FOLDER), keep_bytes=keep_bytes)
        return TrialFolder(
            sweep_folder=folder,
            trial_id=trial,
            states=StateFolder(path=states_path(folder, trial), checkpoint_steps=2),
            store=store if shares else None,
            finished_folder=join_location(shared, FINISHED_FOLDER),
        )


def train_trial(
    trial: LoadedTrial,
    folder: TrialFolder,
    *,
    until_epoch: int | None = None,
    until_step: int | None = None,
    stores: bool = False,
) -> list[int]:
    """Trains from the newest state in a trial's folder; returns the numbers of its optimizer steps in order.

    Args:
        trial: the trial.
        folder: its folder.
        until_epoch: killed after the state of this epoch.
        until_step: killed after this step.
        stores: whether ends of stages are stored for other trials.
    """
    steps: list[int] = []

    def on_step(progress: StepProgress) -> bool:
        if until_epoch is not None and progress.epoch > until_epoch:
            raise Killed
        steps.append(progress.step)
        return progress.step != until_step

    def on_epoch(report: EpochReport) -> bool:
        write_epoch(folder.sweep_folder, folder.trial_id, report)
        return True

    def on_stage(stage: int) -> bool:
        if stores:
            assert store_cut(folder, trial.end_of(stage), 1.5, is_spare=False) is None
        return True

    states = StateFolder(path=folder.states.path, checkpoint_steps=2, keeps_end=stores)
    arguments: dict[str, Any] = {"on_step": on_step, "on_epoch": on_epoch, "on_stage": on_stage, "states": states}
    arguments["start"] = trial.start
    try:
        train(trial.config, trial.corpus, trial.encoder, **arguments)
    except (Killed, Interrupted):
        assert until_epoch is not None or until_step is not None
    return steps


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Another environment: trials are trained with this many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass
class TrialFiles:
    """What a trial has written, without its name and times."""

    curves: list[tuple[Any, ...]]
    predictions: list[dict[str, Any]]
    best: dict[str, int]
    weights: dict[int, dict[str, torch.Tensor]]
    """Of the best epochs."""


def read_trial_files(folder: TrialFolder) -> TrialFiles:
    """Reads a trial's record and its best weights."""
    curves = read_trial_curves(folder.root, folder.trial_id).to_pylist()
    names = ("step", "epoch", "task", "split", "metric", "value")
    own = [tuple(row[name] for name in names) for row in curves]
    pairs = sorted({(task, split) for _, _, task, split, _, _ in own if task != "overall"})
    tables = [
        read_predictions(folder.sweep_folder, *pair, trial=folder.trial_id).drop_columns(["trial"]) for pair in pairs
    ]
    best = read_best(folder.states)
    return TrialFiles(
        curves=own,
        predictions=[row for table in tables for row in table.to_pylist()],
        best=best,
        weights={epoch: load(read_weights(folder.states, epoch)) for epoch in sorted(set(best.values()))},
    )


def assert_same(first: TrialFiles, second: TrialFiles) -> None:
    """Two trials have written the same, bit for bit."""
    assert first.curves == second.curves != []
    assert first.predictions == second.predictions != []
    assert first.best == second.best != {}
    assert first.weights.keys() == second.weights.keys() != set()
    for name, tensors in first.weights.items():
        assert tensors.keys() == second.weights[name].keys()
        assert all(torch.equal(tensor, second.weights[name][key]) for key, tensor in tensors.items())
