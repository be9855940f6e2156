"""Finished trials, whole and damaged, for tests of their reuse."""

import shutil
from collections.abc import Callable

from mtlib.checkpoints.state import saved_states
from mtlib.stages.keys import Cut
from results.records.epochs import epoch_path
from results.records.trial_folder import TrialEnd, read_start, write_end, write_start
from sweeps.lanes.loaded_trial import LoadedTrial
from sweeps.lanes.trial_run import start_of
from sweeps.reuse.finished_trials import TrialFolder, register_finished
from sweeps.reuse.starting_point import StartingPoint, prepare_starting_point
from sweeps.reuse.weight_pruning import keep_weights_of
from tests.sweeps.lanes.plain_sweep import assignment_of
from tests.sweeps.reuse.trained_trials import TrialStorage

NAMES = ("qqp", "sst", "sts", "overall")


def begin(trial: LoadedTrial, folder: TrialFolder) -> StartingPoint:
    """Puts a trial at its starting point and records it, as a lane does."""
    start = start_of(assignment_of(folder, trial.config), folder, "here")
    found = prepare_starting_point(folder, start, trial.config, trial.origin, trial.cuts)
    write_start(folder.root, found.start)
    return found


def reused_work(folder: TrialFolder) -> tuple[int, float, str | None]:
    """Steps and seconds that a trial has reused, and the equal trial that it has taken, on record."""
    start = read_start(folder.root, folder.trial_id)
    assert start is not None
    return start.shared_steps, start.shared_seconds, start.taken_from


def register(folder: TrialFolder, cut: Cut) -> None:
    """Records that a trial has finished at a cut, and registers it."""
    write_end(folder.root, folder.trial_id, TrialEnd(how="complete", key=cut.key))
    register_finished(folder, cut)


def finish(storage: TrialStorage, name: str = "first/0000-r0") -> TrialFolder:
    """Registers a trial as finished; deletes its states and all stored stages, so that only the trial is reused."""
    folder = storage.trial_folder(name)
    register(folder, storage.load_trial().cuts[-1])
    for state in saved_states(folder.states):
        shutil.rmtree(state)
    shutil.rmtree(storage.path / ".cache" / "stages")
    return folder


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


def damage_epoch(first: TrialFolder, epoch: int = 2) -> None:
    path = first.sweep_folder / epoch_path(first.trial_id, epoch)
    content = path.read_bytes()
    path.unlink()  # hard links share the damage
    path.write_bytes(content[:-9])


def remove_last_epoch(first: TrialFolder) -> None:
    (first.sweep_folder / epoch_path(first.trial_id, 3)).unlink()


def remove_end(first: TrialFolder) -> None:
    (first.path / "end.json").unlink()


def damage_end(first: TrialFolder) -> None:
    (first.path / "end.json").write_text("{")


def remove_sweep(first: TrialFolder) -> None:
    shutil.rmtree(first.sweep_folder)


def damage_register(first: TrialFolder) -> None:
    next(first.finished_folder.glob("*.json")).write_text("[]")


DAMAGES: dict[str, Callable[[TrialFolder], None]] = {
    damage.__name__: damage
    for damage in (
        remove_weights,
        damage_weights,
        prune_weights_of_tasks,
        prune_all_weights,
        damage_best_file,
        damage_epoch,
        remove_last_epoch,
        remove_end,
        damage_end,
        remove_sweep,
        damage_register,
    )
}
