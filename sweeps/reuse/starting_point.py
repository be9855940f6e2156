"""Where a trial starts: at its own newest state, at a stage of the store, or at the end of an equal finished trial.

All of this works on files, on rank 0 of a lane. A trial's folder changes in an order that a kill at any point leaves
usable: a state stands for the epochs before it, so it goes first and comes last.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.fs as fs

from mtlib.checkpoints.best_weights import (
    BEST_FILE,
    check_best,
    delete_weights,
    read_best,
    read_weights,
    weights_file,
)
from mtlib.checkpoints.state import (
    NUMBERS_FILE,
    TENSORS_FILE,
    StateFolder,
    drop_states,
    place_state,
    read_numbers,
    read_state,
    saved_states,
    set_aside,
)
from mtlib.config.trial import TrialConfig
from mtlib.runtime.errors import first_line
from mtlib.runtime.storage import (
    copy_file,
    delete_file,
    delete_folder,
    full_path,
    is_file,
    local_path,
    move_file,
    subfolder,
)
from mtlib.stages.keys import Cut, Origin
from mtlib.training.run import check_origin, other_environments
from results.records.epochs import check_epoch, delete_epochs, epoch_path, read_epoch, trial_epochs
from results.records.trial_folder import TrialStart, write_start
from sweeps.reuse.finished_trials import (
    CHECKPOINT,
    TrialFolder,
    find_finished,
    is_whole,
    reused_files,
    score_names,
)
from sweeps.reuse.stage_store import Stage, StageStore, find_stage, remove_stage, stage_files, store_stage
from sweeps.reuse.weight_pruning import keep_weights_of

STATE_FOLDER = "state"
"""Folder of the state among the files of a stage."""
FETCHED = "fetched"
"""Folder in the trial's, of copied files that are not in their places yet."""


@dataclass(frozen=True, kw_only=True)
class StartingPoint:
    """Where a trial starts."""

    epochs: int
    """Epochs that are done, over all stages."""
    start: TrialStart
    """The content of `trial.json`, with what is reused and what happened to the trial's own work."""
    is_finished: bool = False
    """Whether nothing is left to train."""
    is_mixed: bool = False
    """Whether a part was trained in another environment: then no other trial may reuse it."""
    notes: tuple[str, ...] = ()
    """Messages for the user."""


def prepare_starting_point(
    folder: TrialFolder, start: TrialStart, config: TrialConfig, origin: Origin, cuts: Sequence[Cut]
) -> StartingPoint:
    """Finds the furthest point from which a trial can continue, and puts its files there.

    `start` is what the trial's `trial.json` says so far; `cuts` are first to last.
    """
    delete_folder(folder.own, FETCHED)  # a kill may have left it
    own = own_starting_point(folder, start, config, origin)
    last = cuts[-1]
    if folder.store is None or own.epochs >= last.total_epochs:
        return own
    own_steps, own_seconds = own_work(folder, own)
    try:
        for source in find_finished(folder, last):
            if is_whole(source, last, score_names(config)):
                files = reused_files(source, last.total_epochs, read_best(source.states).values())
                install(folder, source.own, files, own.start)
                end = read_epoch(folder.root, folder.trial_id, last.total_epochs).points[0]
                steps, seconds = end["step"] - own_steps, end["seconds"] - own_seconds
                reused = replace(own.start, shared_steps=steps, shared_seconds=seconds, taken_from=source.name)
                return StartingPoint(epochs=last.total_epochs, start=reused, is_finished=True, notes=own.notes)
        for cut in [cut for cut in reversed(cuts) if cut.total_epochs > own.epochs]:
            for key in filter(None, (cut.key, cut.key_with_best)):
                stage = whole_stage(folder.store, key)
                if stage is not None:
                    steps, seconds = stage.facts["steps"] - own_steps, stage.facts["seconds"] - own_seconds
                    reused = replace(own.start, shared_steps=steps, shared_seconds=seconds)
                    found = stage_files(folder.store, key, stage)
                    files = [name for name in stage.files if not name.startswith(f"{STATE_FOLDER}/")]
                    install(folder, found, files, reused, stage.facts["steps"])
                    return StartingPoint(epochs=cut.total_epochs, start=reused, notes=own.notes)
    except FileNotFoundError:  # it was deleted meanwhile
        return own
    return own


def own_starting_point(folder: TrialFolder, start: TrialStart, config: TrialConfig, origin: Origin) -> StartingPoint:
    """Returns the trial's own newest state that can be used; newer ones are set aside, and notes say why."""
    notes: list[str] = []
    whole = num_whole_epochs(folder, notes)
    for name in saved_states(folder.states):
        found = read_numbers(folder.states, name)
        why = None
        if found is None or read_state(folder.states, name) is None:
            why = f"{full_path(folder.states.root, name)} is truncated or damaged"
        else:
            try:
                check_origin(config, origin, found[1])
                epochs = epochs_of(config, found[1])
                others = other_environments(config, origin, found[1])
                if epochs <= whole:
                    check_best_of(folder.states, found[1])
                    if others:
                        changed = "code, libraries, device or threads have changed since its last state"
                        notes.append(f"{folder.trial_id} continues, though {changed}: others do not reuse it")
                    return StartingPoint(epochs=epochs, start=start, is_mixed=bool(others), notes=tuple(notes))
                why = f"only {whole} of its {epochs} epochs are on record"
            except ValueError as error:
                why = first_line(error)
        aside = set_aside(folder.states, name)
        notes.append(f"{folder.trial_id}: a state cannot be used: {why}; it is kept as {aside}")
    if notes:
        notes.append(f"{folder.trial_id} starts over")
    clean = replace(start, shared_steps=0, shared_seconds=0.0, taken_from=None)
    return StartingPoint(epochs=0, start=clean, notes=tuple(notes))


def check_best_of(states: StateFolder, numbers: Mapping[str, Any]) -> None:
    """Checks the weights that a state on a disk calls the best: they cannot be made again from it.

    Those that are missing were deleted after a better epoch, which is trained again. A bucket checks what it holds.

    Raises:
        ValueError: one of them is damaged.
    """
    if local_path(states.root) is None:
        return
    for epoch in sorted({epoch for _, epoch in numbers["best"].values()}):
        if is_file(states.root, weights_file(epoch)):
            read_weights(states, epoch)


def num_whole_epochs(folder: TrialFolder, notes: list[str]) -> int:
    """Undamaged epochs on record, from the first on; those from a damaged one on are deleted, and a note says so."""
    numbers = trial_epochs(folder.root, folder.trial_id)
    for number in numbers:
        try:
            check_epoch(folder.root, epoch_path(folder.trial_id, number))
        except ValueError as error:
            notes.append(f"{first_line(error)}; epochs from {number} on are trained again")
            delete_epochs(folder.root, folder.trial_id, after=number - 1)
            return number - 1
    return len(numbers)


def epochs_of(config: TrialConfig, numbers: Mapping[str, Any]) -> int:
    """Epochs that are done, over all stages, in the state with these numbers."""
    return sum(stage.epochs for stage in config.stages[: numbers["stage"]]) + int(numbers["epoch"])


def own_work(folder: TrialFolder, own: StartingPoint) -> tuple[int, float]:
    """Optimizer steps and seconds of the trial's own work on its first epochs."""
    if own.epochs == 0:
        return 0, 0.0
    point = read_epoch(folder.root, folder.trial_id, own.epochs).points[0]
    return point["step"] - own.start.shared_steps, point["seconds"] - own.start.shared_seconds


def whole_stage(store: StageStore, key: str) -> Stage | None:
    """Returns a stage of the store if all its files are there and undamaged; otherwise it is removed."""
    stage = find_stage(store, key)
    if stage is None:
        return None
    root = stage_files(store, key, stage)
    try:
        is_intact = read_state(StateFolder(path=root), STATE_FOLDER) is not None
        check_best(StateFolder(path=subfolder(root, CHECKPOINT)))
        for name in stage.files:
            if name.startswith("epochs/"):
                check_epoch(root, name)
    except (FileNotFoundError, ValueError):
        is_intact = False
    if not is_intact:
        remove_stage(store, key)
    return stage if is_intact else None


def install(
    folder: TrialFolder,
    source: fs.SubTreeFileSystem,
    files: Iterable[str],
    start: TrialStart,
    steps: int | None = None,
) -> None:
    """Replaces the trial's files by those of another folder; their state was saved after `steps`, None without one.

    The trial's own files are deleted once the others are in its folder. What is reused is on record before the state,
    from which a killed trial resumes.

    Raises:
        FileNotFoundError: one of them is gone; the trial's own are as before.
        OSError: they cannot be copied, say to a full disk; likewise.
    """
    names, own, fetched = sorted(files), folder.own, subfolder(folder.own, FETCHED)
    state = [] if steps is None else [f"{STATE_FOLDER}/{name}" for name in (TENSORS_FILE, NUMBERS_FILE)]
    try:
        for name in (*names, *state):
            copy_file(source, name, fetched, name)
        drop_states(folder.states)
        delete_epochs(folder.root, folder.trial_id, after=0)
        delete_file(folder.states.root, BEST_FILE)
        delete_weights(folder.states, set())
        for name in names:
            move_file(own, f"{FETCHED}/{name}", name)
        write_start(folder.root, start)
        if steps is not None:
            place_state(folder.states, steps, subfolder(fetched, STATE_FOLDER))
    finally:
        delete_folder(own, FETCHED)


def truncate_trial(folder: TrialFolder, epochs: int) -> None:
    """Removes a pruned trial's epochs after its first `epochs`; best weights stay only if their epoch does."""
    delete_epochs(folder.root, folder.trial_id, after=epochs)
    best = read_best(folder.states)
    drop_states(folder.states)
    keep_weights_of(folder.states, {name for name, epoch in best.items() if epoch <= epochs})


def store_cut(folder: TrialFolder, cut: Cut, seconds: float, is_spare: bool) -> str | None:
    """Stores the newest state, which was saved at a cut after `seconds` of work; returns why not, None if it was."""
    assert folder.store is not None
    try:
        state = saved_states(folder.states)[0]
        kept = reused_files(folder, cut.total_epochs, read_best(folder.states).values())
        files = {f"{STATE_FOLDER}/{name}": f"{CHECKPOINT}/{state}/{name}" for name in (TENSORS_FILE, NUMBERS_FILE)}
        steps = read_epoch(folder.root, folder.trial_id, cut.total_epochs).points[0]["step"]
        facts = {"seconds": seconds, "epochs": cut.total_epochs, "steps": steps}
        return store_stage(
            folder.store, cut.key, folder.own, files | {name: name for name in kept}, facts, is_spare=is_spare
        )
    except (OSError, ValueError) as error:
        return first_line(error)
