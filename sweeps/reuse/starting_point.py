"""Where a trial begins: at its own last state, at a stage that another trial has left in the store, or at its end.

All of this works on files, on the first worker of a lane.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mtlib.checkpoints.state import drop_states, newest_numbers, place_state, saved_states
from mtlib.config.trial import TrialConfig
from mtlib.errors import first_line, require
from mtlib.stages.keys import Cut, Origin
from mtlib.training.run import check_origin
from results.records.epoch_transfer import copy_epochs, drop_epochs, epoch_files, keep_epochs, place_epochs
from results.records.epochs import read_trial_curves
from results.records.files import open_folder
from sweeps.reuse.finished_trials import (
    BEST_FILE,
    FINISHED_FILE,
    REUSED_WORK_FILE,
    TAKEN,
    ReusedWork,
    TrialFolder,
    best_files,
    fetch_finished,
    is_noted_as,
    read_reused_work,
    score_names,
    write_reused_work,
)
from sweeps.reuse.stage_store import fetch_stage, store_stage
from sweeps.reuse.weight_pruning import keep_weights_of

COPIES = ".copies"
"""In a trial's folder, while a stage is kept."""
STATE_FILES = ("tensors", "state.json")


@dataclass(frozen=True, kw_only=True)
class StartingPoint:
    """Where a trial begins."""

    epochs: int
    """Epochs that are done, over all stages."""
    shared: ReusedWork
    is_whole: bool = False
    """Whether nothing is left to train."""
    note: str | None = None
    """What a person should be told."""


def prepare_starting_point(
    place: TrialFolder, config: TrialConfig, origin: Origin, cuts: Sequence[Cut]
) -> StartingPoint:
    """Puts a trial's files where it can go on from, as far on as is to be had.

    Args:
        place: the trial's files, and what it may take over.
        config: the trial's configuration.
        origin: what else its result follows from.
        cuts: every cut of the trial, first to last.
    """
    if place.store is not None and is_finished(place, cuts[-1]):
        return StartingPoint(epochs=cuts[-1].total_epochs, shared=read_reused_work(place), is_whole=True)
    epochs, note = own_epochs(place, config, origin)
    shared = read_reused_work(place)
    if place.store is None:
        return StartingPoint(epochs=epochs, shared=shared, note=note)
    own_steps, own_seconds = work_reported(place, epochs, shared)
    if epochs < cuts[-1].total_epochs and (taken_from := fetch_finished(place, cuts[-1], score_names(config))):
        seconds = seconds_reported(place.path / TAKEN, place.trial_id) - own_seconds
        whole = ReusedWork(steps=cuts[-1].total_steps - own_steps, seconds=seconds, taken_from=taken_from)
        put_whole(place, whole)
        return StartingPoint(epochs=cuts[-1].total_epochs, shared=whole, is_whole=True, note=note)
    for cut in [cut for cut in reversed(cuts) if cut.total_epochs > epochs]:
        taken = take_cut(place, cut, own_steps, own_seconds)
        if taken is not None:
            return StartingPoint(epochs=cut.total_epochs, shared=taken, note=note)
    return StartingPoint(epochs=epochs, shared=shared, note=note)


def own_epochs(place: TrialFolder, config: TrialConfig, origin: Origin) -> tuple[int, str | None]:
    """Epochs that are done by the trial's own newest state; whatever does not fit is removed, and said."""
    numbers = newest_numbers(place.states)
    if numbers is None:
        forget(place)
        return 0, None
    try:
        check_origin(config, origin, numbers)
        epochs = epochs_of(config, numbers)
        found = num_reported(place)
        require(found >= epochs, f"its curves must hold {epochs} epochs", found)
    except ValueError as error:
        forget(place)
        return 0, f"{place.trial_id} begins anew: {first_line(error)}"
    return epochs, None


def epochs_of(config: TrialConfig, numbers: Mapping[str, Any]) -> int:
    """Epochs that are done, over all stages, in the state with these numbers."""
    return sum(stage.epochs for stage in config.stages[: numbers["stage"]]) + int(numbers["epoch"])


def is_finished(place: TrialFolder, cut: Cut) -> bool:
    """Whether the trial itself is noted as finished: its record was lost behind its end."""
    try:
        return is_noted_as(place, cut) and num_reported(place) == cut.total_epochs
    except ValueError:
        return False


def seconds_reported(folder: Path, trial: str) -> float:
    """Seconds of work that a trial's curves tell of."""
    return float(max(read_trial_curves(open_folder(folder), trial)["seconds"].to_pylist(), default=0.0))


def work_reported(place: TrialFolder, epochs: int, shared: ReusedWork) -> tuple[int, float]:
    """Optimizer steps and seconds of the trial's own work on its first epochs, by its curves."""
    curves = read_trial_curves(open_folder(place.folder), place.trial_id).to_pylist()
    steps, seconds = max(((row["step"], row["seconds"]) for row in curves if row["epoch"] == epochs), default=(0, 0.0))
    return (steps - shared.steps, seconds - shared.seconds) if epochs else (0, 0.0)


def num_reported(place: TrialFolder) -> int:
    """Epochs that the trial's own curves hold; ValueError if they are damaged."""
    epochs = read_trial_curves(open_folder(place.folder), place.trial_id)["epoch"].to_pylist()
    return max(epochs, default=0)


def forget(place: TrialFolder) -> None:
    """Removes what a trial has left behind, which it cannot go on from."""
    drop_states(place.states)
    shutil.rmtree(place.states.path, ignore_errors=True)
    drop_epochs(place.folder, place.trial_id)
    for name in (REUSED_WORK_FILE, FINISHED_FILE):
        (place.path / name).unlink(missing_ok=True)


def take_cut(place: TrialFolder, cut: Cut, own_steps: int, own_seconds: float) -> ReusedWork | None:
    """Takes a cut from the store, if it is there: its epochs, its best weights, and last its state.

    Args:
        place: the trial.
        cut: where it could go on from.
        own_steps, own_seconds: work of its own that the cut takes the place of.

    Returns:
        What the trial has then taken over; None if the cut could not be had, and all is as it was.
    """
    assert place.store is not None
    taken = place.path / TAKEN
    for key in filter(None, (cut.key, cut.other_key)):
        shutil.rmtree(taken, ignore_errors=True)
        facts = fetch_stage(place.store, key, taken)
        if facts is None:
            continue
        try:
            place_epochs(taken / "epochs", taken, place.trial_id)
        except (OSError, ValueError):
            continue
        shared = ReusedWork(steps=cut.total_steps - own_steps, seconds=facts["seconds"] - own_seconds)
        put_taken(place, cut, taken, shared)
        return shared
    shutil.rmtree(taken, ignore_errors=True)
    return None


def put_taken(place: TrialFolder, cut: Cut, taken: Path, shared: ReusedWork) -> None:
    """Puts what lies ready in the place of what the trial had; the state last, which all else is there for."""
    put_epochs(place, taken, shared)
    place.states.path.mkdir(parents=True, exist_ok=True)
    for name in ("weights", BEST_FILE):
        (taken / name).rename(place.states.path / name)
    place_state(place.states, cut.total_steps, taken / "state")
    shutil.rmtree(taken, ignore_errors=True)


def put_whole(place: TrialFolder, shared: ReusedWork) -> None:
    """Puts a finished trial that lies ready in the place of what the trial had."""
    taken = place.path / TAKEN
    put_epochs(place, taken, shared)
    (taken / "checkpoint").rename(place.states.path)
    shutil.rmtree(taken, ignore_errors=True)


def put_epochs(place: TrialFolder, taken: Path, shared: ReusedWork) -> None:
    """Puts epochs that lie ready under the trial's name in the place of all that it had, its states among it."""
    forget(place)
    write_reused_work(place, shared)
    shutil.rmtree(place.path / "predictions", ignore_errors=True)
    for name in ("predictions", "curves.parquet"):
        (taken / "trials" / place.trial_id / name).rename(place.path / name)


def truncate_trial(place: TrialFolder, epochs: int) -> ReusedWork:
    """Takes from a trial that ends behind its first `epochs` epochs what it has of later ones; what it then shares.

    Weights of a name's best epoch stay only if that epoch does.
    """
    rows = read_trial_curves(open_folder(place.folder), place.trial_id).to_pylist()
    last = next(row for row in reversed(rows) if row["epoch"] == epochs)
    keep_epochs(place.folder, place.trial_id, epochs)
    best = json.loads((place.states.path / BEST_FILE).read_text())
    drop_states(place.states)
    keep_weights_of(place.states, {name for name, epoch in best.items() if epoch <= epochs})
    shared = read_reused_work(place)
    left = replace(shared, steps=min(shared.steps, last["step"]), seconds=min(shared.seconds, last["seconds"]))
    write_reused_work(place, left)
    return left


def store_cut(place: TrialFolder, cut: Cut, seconds: float, is_spare: bool) -> str | None:
    """Keeps the newest state, which was taken at a cut, for other trials.

    Args:
        place: the trial that has reached the cut.
        cut: where it is.
        seconds: of work up to here.
        is_spare: whether it is the first to go when room is short.

    Returns:
        Why it was not kept; None if it was.
    """
    assert place.store is not None
    state, best = saved_states(place.states)[0], place.states.path / BEST_FILE
    try:
        epochs = files_of_epochs(place, cut.total_epochs)
        weights = best_files(place.states, json.loads(best.read_text()).values())
        files = {f"state/{name}": state / name for name in STATE_FILES} | weights
        files |= {f"epochs/{name}": path for name, path in epochs.items()} | {BEST_FILE: best}
        facts = {"seconds": seconds, "epochs": cut.total_epochs, "steps": cut.total_steps}
        return store_stage(place.store, cut.key, files, facts, is_spare=is_spare)
    except (OSError, ValueError) as error:
        return first_line(error)
    finally:
        shutil.rmtree(place.path / COPIES, ignore_errors=True)


def files_of_epochs(place: TrialFolder, epochs: int) -> dict[str, Path]:
    """Where a trial's first epochs are, each in files of its own.

    Those that were compacted are copied: a trial that was taken for failed, and is tried again, goes on behind them.
    """
    try:
        return epoch_files(place.folder, place.trial_id, epochs)
    except ValueError:
        copies = place.path / COPIES
        copy_epochs(place.folder, place.trial_id, copies, place.trial_id, epochs)
        return epoch_files(copies, place.trial_id, epochs)
