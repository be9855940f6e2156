"""Where a trial starts: at its own newest state, at a stage of the store, or at the end of an equal finished trial.

All of this works on files, on rank 0 of a lane.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mtlib.checkpoints.state import drop_states, newest_numbers, place_state, saved_states
from mtlib.config.trial import TrialConfig
from mtlib.runtime.errors import first_line, require
from mtlib.stages.keys import Cut, Origin
from mtlib.training.run import check_origin
from results.records.epoch_transfer import copy_epochs, delete_epochs, import_epochs, list_epoch_files, truncate_epochs
from results.records.epochs import read_trial_curves
from results.records.files import open_folder
from sweeps.reuse.finished_trials import (
    BEST_FILE,
    FETCHED,
    FINISHED_FILE,
    REUSED_WORK_FILE,
    ReusedWork,
    TrialFolder,
    best_files,
    fetch_finished,
    is_finished_at,
    read_reused_work,
    score_names,
    write_reused_work,
)
from sweeps.reuse.stage_store import fetch_stage, store_stage
from sweeps.reuse.weight_pruning import keep_weights_of

COPIES = ".copies"
"""Folder in a trial's folder while a stage is stored."""


@dataclass(frozen=True, kw_only=True)
class StartingPoint:
    """Where a trial starts."""

    epochs: int
    """Epochs that are done, over all stages."""
    reused: ReusedWork
    is_finished: bool = False
    """Whether nothing is left to train."""
    note: str | None = None
    """A message for the user."""


def prepare_starting_point(
    folder: TrialFolder, config: TrialConfig, origin: Origin, cuts: Sequence[Cut]
) -> StartingPoint:
    """Finds the furthest point from which a trial can continue, and puts its files there; `cuts` are all of its."""
    last = cuts[-1]
    if folder.store is not None and is_finished(folder, last):
        return StartingPoint(epochs=last.total_epochs, reused=read_reused_work(folder), is_finished=True)
    epochs, note = own_epochs(folder, config, origin)
    reused = read_reused_work(folder)
    if folder.store is None:
        return StartingPoint(epochs=epochs, reused=reused, note=note)
    own_steps, own_seconds = own_work(folder, epochs, reused)
    if epochs < last.total_epochs and (source := fetch_finished(folder, last, score_names(config))):
        fetched = read_trial_curves(open_folder(folder.path / FETCHED), folder.trial_id)
        seconds = max(fetched["seconds"].to_pylist(), default=0.0) - own_seconds
        whole = ReusedWork(steps=last.total_steps - own_steps, seconds=seconds, taken_from=source)
        install_finished(folder, whole)
        return StartingPoint(epochs=last.total_epochs, reused=whole, is_finished=True, note=note)
    for cut in [cut for cut in reversed(cuts) if cut.total_epochs > epochs]:
        found = fetch_cut(folder, cut, own_steps, own_seconds)
        if found is not None:
            return StartingPoint(epochs=cut.total_epochs, reused=found, note=note)
    return StartingPoint(epochs=epochs, reused=reused, note=note)


def own_epochs(folder: TrialFolder, config: TrialConfig, origin: Origin) -> tuple[int, str | None]:
    """Epochs done by the trial's own newest state; if that does not fit, all is removed and a note says why."""
    numbers = newest_numbers(folder.states)
    if numbers is None:
        reset_trial(folder)
        return 0, None
    try:
        check_origin(config, origin, numbers)
        epochs = epochs_of(config, numbers)
        found = num_reported_epochs(folder)
        require(found >= epochs, f"its curves must hold {epochs} epochs", found)
    except ValueError as error:
        reset_trial(folder)
        return 0, f"{folder.trial_id} starts over: {first_line(error)}"
    return epochs, None


def epochs_of(config: TrialConfig, numbers: Mapping[str, Any]) -> int:
    """Epochs that are done, over all stages, in the state with these numbers."""
    return sum(stage.epochs for stage in config.stages[: numbers["stage"]]) + int(numbers["epoch"])


def is_finished(folder: TrialFolder, cut: Cut) -> bool:
    """Whether the trial itself has finished; a kill after its end lost the record."""
    try:
        return is_finished_at(folder, cut) and num_reported_epochs(folder) == cut.total_epochs
    except ValueError:
        return False


def own_work(folder: TrialFolder, epochs: int, reused: ReusedWork) -> tuple[int, float]:
    """Optimizer steps and seconds of the trial's own work on its first epochs, by its curves."""
    ends = [(row["step"], row["seconds"]) for row in own_curve_rows(folder) if row["epoch"] == epochs]
    steps, seconds = max(ends, default=(0, 0.0))
    return (steps - reused.steps, seconds - reused.seconds) if epochs else (0, 0.0)


def num_reported_epochs(folder: TrialFolder) -> int:
    """Epochs in the trial's own curves; ValueError if they are damaged."""
    return max((row["epoch"] for row in own_curve_rows(folder)), default=0)


def own_curve_rows(folder: TrialFolder) -> list[dict[str, Any]]:
    """Rows of the trial's own curves; ValueError if they are damaged."""
    rows: list[dict[str, Any]] = read_trial_curves(open_folder(folder.sweep_folder), folder.trial_id).to_pylist()
    return rows


def reset_trial(folder: TrialFolder) -> None:
    """Removes the trial's states, epochs and records, from which it cannot continue."""
    drop_states(folder.states)
    shutil.rmtree(folder.states.path, ignore_errors=True)
    delete_epochs(folder.sweep_folder, folder.trial_id)
    for name in (REUSED_WORK_FILE, FINISHED_FILE):
        (folder.path / name).unlink(missing_ok=True)


def fetch_cut(folder: TrialFolder, cut: Cut, own_steps: int, own_seconds: float) -> ReusedWork | None:
    """Fetches a cut from the store in place of the trial's own work, of so many steps and seconds.

    Returns:
        What the trial then reuses; None if the cut is not available, and nothing has changed.
    """
    assert folder.store is not None
    fetched = folder.path / FETCHED
    for key in filter(None, (cut.key, cut.key_with_best)):
        shutil.rmtree(fetched, ignore_errors=True)
        facts = fetch_stage(folder.store, key, fetched)
        if facts is None:
            continue
        try:
            import_epochs(fetched / "epochs", fetched, folder.trial_id)
        except (OSError, ValueError):
            continue
        reused = ReusedWork(steps=cut.total_steps - own_steps, seconds=facts["seconds"] - own_seconds)
        install_cut(folder, cut, reused)
        return reused
    shutil.rmtree(fetched, ignore_errors=True)
    return None


def install_cut(folder: TrialFolder, cut: Cut, reused: ReusedWork) -> None:
    """Replaces the trial's files by the fetched stage's; the state comes last, as it implies all others."""
    fetched = folder.path / FETCHED
    install_epochs(folder, reused)
    folder.states.path.mkdir(parents=True, exist_ok=True)
    for name in ("weights", BEST_FILE):
        (fetched / name).rename(folder.states.path / name)
    place_state(folder.states, cut.total_steps, fetched / "state")
    shutil.rmtree(fetched, ignore_errors=True)


def install_finished(folder: TrialFolder, reused: ReusedWork) -> None:
    """Replaces the trial's files by the fetched finished trial's."""
    install_epochs(folder, reused)
    (folder.path / FETCHED / "checkpoint").rename(folder.states.path)
    shutil.rmtree(folder.path / FETCHED, ignore_errors=True)


def install_epochs(folder: TrialFolder, reused: ReusedWork) -> None:
    """Replaces the trial's epochs by the fetched ones, and removes its states."""
    reset_trial(folder)
    write_reused_work(folder, reused)
    shutil.rmtree(folder.path / "predictions", ignore_errors=True)
    for name in ("predictions", "curves.parquet"):
        (folder.path / FETCHED / "trials" / folder.trial_id / name).rename(folder.path / name)


def truncate_trial(folder: TrialFolder, epochs: int) -> ReusedWork:
    """Removes what a pruned trial has of epochs after its first `epochs`; returns what it then reuses.

    A score's best weights stay only if their epoch does.
    """
    last = next(row for row in reversed(own_curve_rows(folder)) if row["epoch"] == epochs)
    truncate_epochs(folder.sweep_folder, folder.trial_id, epochs)
    best = json.loads((folder.states.path / BEST_FILE).read_text())
    drop_states(folder.states)
    keep_weights_of(folder.states, {name for name, epoch in best.items() if epoch <= epochs})
    reused = read_reused_work(folder)
    left = replace(reused, steps=min(reused.steps, last["step"]), seconds=min(reused.seconds, last["seconds"]))
    write_reused_work(folder, left)
    return left


def store_cut(folder: TrialFolder, cut: Cut, seconds: float, is_spare: bool) -> str | None:
    """Stores the newest state, which was saved at a cut after `seconds` of work; returns why not, None if it was."""
    assert folder.store is not None
    state, best = saved_states(folder.states)[0], folder.states.path / BEST_FILE
    try:
        epochs = separate_epoch_files(folder, cut.total_epochs)
        weights = best_files(folder.states, json.loads(best.read_text()).values())
        files = {f"state/{name}": state / name for name in ("tensors", "state.json")} | weights
        files |= {f"epochs/{name}": path for name, path in epochs.items()} | {BEST_FILE: best}
        facts = {"seconds": seconds, "epochs": cut.total_epochs, "steps": cut.total_steps}
        return store_stage(folder.store, cut.key, files, facts, is_spare=is_spare)
    except (OSError, ValueError) as error:
        return first_line(error)
    finally:
        shutil.rmtree(folder.path / COPIES, ignore_errors=True)


def separate_epoch_files(folder: TrialFolder, epochs: int) -> dict[str, Path]:
    """The files of a trial's first epochs, one set per epoch.

    Compacted epochs are copied out: a failed trial that is retried continues after them.
    """
    try:
        return list_epoch_files(folder.sweep_folder, folder.trial_id, epochs)
    except ValueError:
        copies = folder.path / COPIES
        copy_epochs(folder.sweep_folder, folder.trial_id, copies, folder.trial_id, epochs)
        return list_epoch_files(copies, folder.trial_id, epochs)
