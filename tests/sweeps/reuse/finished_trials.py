"""Finished trials, whole and damaged, for tests of their reuse."""

import shutil
from collections.abc import Callable

from mtlib.checkpoints.best_weights import BEST_FILE, read_best, weights_file
from mtlib.checkpoints.state import drop_states
from mtlib.runtime.storage import (
    delete_file,
    delete_folder,
    list_files,
    open_folder,
    read_bytes,
    split_location,
    write_bytes,
)
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
    drop_states(folder.states)
    assert folder.store is not None
    shared, name = split_location(str(folder.store.folder))
    delete_folder(open_folder(shared), name)
    return folder


def first_weights(folder: TrialFolder) -> str:
    """The file of the weights of the first of the best epochs."""
    return weights_file(min(read_best(folder.states).values()))


def remove_weights(first: TrialFolder) -> None:
    delete_file(first.states.root, first_weights(first))


def damage_weights(first: TrialFolder) -> None:
    root, path = first.states.root, first_weights(first)
    write_bytes(root, path, read_bytes(root, path)[:-1] + b"?")


def prune_weights_of_tasks(first: TrialFolder) -> None:
    """Deletes the weights that are best by one task's score alone, as pruning does when other trials score higher."""
    keep_weights_of(first.states, set(NAMES[1:]))


def prune_all_weights(first: TrialFolder) -> None:
    keep_weights_of(first.states, set())


def damage_best_file(first: TrialFolder) -> None:
    write_bytes(first.states.root, BEST_FILE, b"{")


def damage_epoch(first: TrialFolder, epoch: int = 2) -> None:
    path = epoch_path(first.trial_id, epoch)
    write_bytes(first.root, path, read_bytes(first.root, path)[:-9])


def remove_last_epoch(first: TrialFolder) -> None:
    delete_file(first.root, epoch_path(first.trial_id, 3))


def remove_end(first: TrialFolder) -> None:
    delete_file(first.own, "end.json")


def damage_end(first: TrialFolder) -> None:
    write_bytes(first.own, "end.json", b"{")


def remove_sweep(first: TrialFolder) -> None:
    shutil.rmtree(first.sweep_folder)


def damage_register(first: TrialFolder) -> None:
    root = open_folder(first.finished_folder)
    for info in list_files(root, ""):
        write_bytes(root, info.path, b"[]")


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
