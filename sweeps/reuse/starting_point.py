"""Where a trial starts: at its own newest state, at a stage of the store, or at the end of an equal finished trial.

All of this works on files, on rank 0 of a lane. A trial's folder changes in an order that a kill at any point leaves
usable: a state stands for the epochs before it, so it goes first and comes last.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mtlib.checkpoints.state import drop_states, place_state, read_numbers, read_state, saved_states, set_aside
from mtlib.config.trial import TrialConfig
from mtlib.runtime.errors import first_line
from mtlib.stages.keys import Cut, Origin
from mtlib.training.run import check_origin, other_environments
from results.records.epochs import check_epoch, delete_epochs, read_epoch, trial_epochs
from results.records.trial_folder import TrialStart, write_start
from sweeps.reuse.finished_trials import (
    BEST_FILE,
    TrialFolder,
    best_files,
    epoch_files,
    fetch_finished,
    score_names,
)
from sweeps.reuse.stage_store import fetch_stage, store_stage
from sweeps.reuse.weight_pruning import keep_weights_of

FETCHED = ".fetched"
"""Folder in a trial's folder for files that are about to replace the trial's own."""


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

    Args:
        folder: of the trial.
        start: what its `trial.json` says so far.
        config, origin: of the trial.
        cuts: all of its.
    """
    shutil.rmtree(folder.path / FETCHED, ignore_errors=True)  # which a kill has left
    own = own_starting_point(folder, start, config, origin)
    last = cuts[-1]
    if folder.store is None or own.epochs >= last.total_epochs:
        return own
    own_steps, own_seconds = own_work(folder, own)
    fetched = folder.path / FETCHED
    try:
        source = fetch_finished(folder, last, score_names(config), fetched)
        if source is not None:
            install(folder, fetched, own.start)
            seconds = read_epoch(folder.root, folder.trial_id, last.total_epochs).points[0]["seconds"] - own_seconds
            steps = last.total_steps - own_steps
            reused = replace(own.start, shared_steps=steps, shared_seconds=seconds, taken_from=source)
            return StartingPoint(epochs=last.total_epochs, start=reused, is_finished=True, notes=own.notes)
        for cut in [cut for cut in reversed(cuts) if cut.total_epochs > own.epochs]:
            for key in filter(None, (cut.key, cut.key_with_best)):
                facts = fetch_stage(folder.store, key, fetched)
                if facts is not None:
                    steps, seconds = cut.total_steps - own_steps, facts["seconds"] - own_seconds
                    reused = replace(own.start, shared_steps=steps, shared_seconds=seconds)
                    install(folder, fetched, reused, cut)
                    return StartingPoint(epochs=cut.total_epochs, start=reused, notes=own.notes)
    finally:
        shutil.rmtree(fetched, ignore_errors=True)
    return own


def own_starting_point(folder: TrialFolder, start: TrialStart, config: TrialConfig, origin: Origin) -> StartingPoint:
    """The trial's own newest state that can be used; newer ones are set aside, and notes say why."""
    notes: list[str] = []
    whole = num_whole_epochs(folder, notes)
    for path in saved_states(folder.states):
        found = read_numbers(path) if read_state(path) is not None else None
        why = None if found is not None else f"{path} is truncated or damaged"
        if found is not None:
            try:
                check_origin(config, origin, found[1])
                epochs = epochs_of(config, found[1])
                others = other_environments(config, origin, found[1])
                if epochs <= whole:
                    if others:
                        changed = "code, libraries, device or threads have changed since its last state"
                        notes.append(f"{folder.trial_id} continues, though {changed}: others do not reuse it")
                    return StartingPoint(epochs=epochs, start=start, is_mixed=bool(others), notes=tuple(notes))
                why = f"only {whole} of its {epochs} epochs are on record"
            except ValueError as error:
                why = first_line(error)
        aside = set_aside(path)
        notes.append(f"{folder.trial_id}: a state cannot be used: {why}; it is kept as {aside.name}")
    if notes:
        notes.append(f"{folder.trial_id} starts over")
    clean = replace(start, shared_steps=0, shared_seconds=0.0, taken_from=None)
    return StartingPoint(epochs=0, start=clean, notes=tuple(notes))


def num_whole_epochs(folder: TrialFolder, notes: list[str]) -> int:
    """Undamaged epochs on record, from the first on; those from a damaged one on are deleted, and a note says so."""
    for number in trial_epochs(folder.root, folder.trial_id):
        try:
            check_epoch(folder.root, folder.trial_id, number)
        except (ValueError, OSError) as error:
            notes.append(f"{first_line(error)}; epochs from {number} on are trained again")
            delete_epochs(folder.root, folder.trial_id, after=number - 1)
            return number - 1
    return len(trial_epochs(folder.root, folder.trial_id))


def epochs_of(config: TrialConfig, numbers: Mapping[str, Any]) -> int:
    """Epochs that are done, over all stages, in the state with these numbers."""
    return sum(stage.epochs for stage in config.stages[: numbers["stage"]]) + int(numbers["epoch"])


def own_work(folder: TrialFolder, own: StartingPoint) -> tuple[int, float]:
    """Optimizer steps and seconds of the trial's own work on its first epochs."""
    if own.epochs == 0:
        return 0, 0.0
    point = read_epoch(folder.root, folder.trial_id, own.epochs).points[0]
    return point["step"] - own.start.shared_steps, point["seconds"] - own.start.shared_seconds


def install(folder: TrialFolder, fetched: Path, start: TrialStart, cut: Cut | None = None) -> None:
    """Replaces the trial's files by fetched ones; `cut` is where their state was saved, None without a state.

    What is reused is on record before the state, from which a killed trial resumes.
    """
    drop_states(folder.states)
    delete_epochs(folder.root, folder.trial_id, after=0)
    shutil.rmtree(folder.states.path, ignore_errors=True)
    folder.states.path.mkdir(parents=True)
    (folder.path / "epochs").mkdir(exist_ok=True)
    for path in sorted((fetched / "epochs").iterdir()):
        path.rename(folder.path / "epochs" / path.name)
    kept = fetched / "checkpoint"
    for name in ("weights", BEST_FILE):
        (kept / name).rename(folder.states.path / name)
    write_start(folder.root, start)
    if cut is not None:
        place_state(folder.states, cut.total_steps, fetched / "state")


def truncate_trial(folder: TrialFolder, epochs: int) -> None:
    """Removes a pruned trial's epochs after its first `epochs`; best weights stay only if their epoch does."""
    delete_epochs(folder.root, folder.trial_id, after=epochs)
    best = json.loads((folder.states.path / BEST_FILE).read_text())
    drop_states(folder.states)
    keep_weights_of(folder.states, {name for name, epoch in best.items() if epoch <= epochs})


def store_cut(folder: TrialFolder, cut: Cut, seconds: float, is_spare: bool) -> str | None:
    """Stores the newest state, which was saved at a cut after `seconds` of work; returns why not, None if it was."""
    assert folder.store is not None
    state, best = saved_states(folder.states)[0], folder.states.path / BEST_FILE
    try:
        weights = best_files(folder.states, json.loads(best.read_text()).values()) | {BEST_FILE: best}
        files = {f"state/{name}": state / name for name in ("tensors", "state.json")}
        files |= {f"checkpoint/{name}": path for name, path in weights.items()}
        files |= epoch_files(folder, cut.total_epochs)
        facts = {"seconds": seconds, "epochs": cut.total_epochs, "steps": cut.total_steps}
        return store_stage(folder.store, cut.key, files, facts, is_spare=is_spare)
    except (OSError, ValueError) as error:
        return first_line(error)
