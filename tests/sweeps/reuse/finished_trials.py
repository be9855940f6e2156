"""Finished trials, whole and damaged, for tests of their reuse."""

import shutil
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq

from mtlib.checkpoints.state import saved_states
from results.records.epochs import compact, curves_path
from results.records.tables import write_trials
from results.records.trials import TrialRecord
from sweeps.driver.ledger import queued_record
from sweeps.lanes.loaded_trial import LoadedTrial
from sweeps.reuse.finished_trials import TrialFolder, register_finished
from sweeps.reuse.starting_point import StartingPoint, prepare_starting_point
from sweeps.reuse.weight_pruning import keep_weights_of
from sweeps.search.trial_spec import TrialSpec
from tests.sweeps.reuse.trained_trials import TrialStorage

NAMES = ("qqp", "sst", "sts", "overall")


def begin(trial: LoadedTrial, folder: TrialFolder) -> StartingPoint:
    return prepare_starting_point(folder, trial.config, trial.origin, trial.cuts)


def finish(storage: TrialStorage, name: str = "first/0000-r0") -> TrialFolder:
    """Registers a trial as finished; deletes its states and all stored stages, so that only the trial is reused."""
    folder = storage.trial_folder(name)
    register_finished(folder, storage.load_trial().cuts[-1])
    for state in saved_states(folder.states):
        shutil.rmtree(state)
    shutil.rmtree(storage.path / ".cache" / "stages")
    return folder


def record_of(trial: LoadedTrial, folder: TrialFolder, status: str) -> TrialRecord:
    queued = queued_record(TrialSpec(number=0, replicate=0, params={}, config=trial.config))
    return replace(queued, trial_id=folder.trial_id, status=status)


def compact_as(status: str, trial: LoadedTrial, folder: TrialFolder) -> None:
    """Compacts the sweep, whose only trial has this status."""
    write_trials(folder.sweep_folder, [record_of(trial, folder, status)], ("sst", "qqp", "sts"))
    compact(folder.sweep_folder)


def damaged_curves(folder: TrialFolder) -> dict[str, Any]:
    path = folder.sweep_folder / curves_path(folder.trial_id)
    path.write_bytes(path.read_bytes()[:-9])
    return {}


def remove_weights(first: TrialFolder) -> None:
    next((first.states.path / "weights").glob("*.safetensors")).unlink()


def damage_weights(first: TrialFolder) -> None:
    path = next((first.states.path / "weights").glob("*.safetensors"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def prune_weights_of_tasks(first: TrialFolder) -> None:
    """Deletes the weights that are best by one task's score alone, as pruning does when other trials score higher."""
    keep_weights_of(first.states, set(NAMES[1:]))


def prune_all_weights(first: TrialFolder) -> None:
    keep_weights_of(first.states, set())


def damage_best_file(first: TrialFolder) -> None:
    (first.states.path / "best.json").write_text("{")


def damage_curves(first: TrialFolder) -> None:
    damaged_curves(first)


def remove_last_epoch(first: TrialFolder) -> None:
    path = first.sweep_folder / curves_path(first.trial_id)
    table = pq.read_table(path)
    pq.write_table(table.filter([epoch < 3 for epoch in table["epoch"].to_pylist()]), path)


def remove_predictions(first: TrialFolder) -> None:
    next((first.path / "predictions").glob("sst-dev-*")).unlink()


def remove_sweep(first: TrialFolder) -> None:
    shutil.rmtree(first.sweep_folder)


def damage_register(first: TrialFolder) -> None:
    next(first.finished_folder.glob("*.json")).write_text("[]")


DAMAGES = {
    damage.__name__: damage
    for damage in (
        remove_weights,
        damage_weights,
        prune_weights_of_tasks,
        prune_all_weights,
        damage_best_file,
        damage_curves,
        remove_last_epoch,
        remove_predictions,
        remove_sweep,
        damage_register,
    )
}
