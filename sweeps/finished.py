"""Whole trials that have finished: noted, found, and taken over by equal ones; and what a trial has taken over.

All of this works on files, on the first worker of a lane. A trial's folder holds `checkpoint/` (its states and best
weights), its curves and predictions, and `shared.json`: what it has taken over instead of training it.
"""

import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mtlib.best_weights import CHECKSUMS, check_weights, weights_path
from mtlib.checkpoint import StateFolder
from mtlib.schema import require
from mtlib.stage_keys import Cut
from results.epoch_files import copy_epochs
from sweeps.cleaning import replace_json
from sweeps.stage_entry import place_files
from sweeps.stages import StageStore

BEST_FILE, SHARED_FILE, FINISHED_FILE = "best.json", "shared.json", "finished.json"
FINISHED_FOLDER = "finished"
"""Of a storage's notes of finished trials, among what its sweeps share."""
TAKEN = ".taken"
"""In a trial's folder, while something is taken over."""


@dataclass(frozen=True, kw_only=True)
class TrialPlace:
    """Where a trial's files are, and what it may take over."""

    folder: Path
    """The sweep's folder."""
    trial_id: str
    states: StateFolder
    store: StageStore | None
    """None: nothing is shared."""
    finished_folder: Path
    """Holds a file per finished trial, by the key of its end: where its records are."""

    @property
    def path(self) -> Path:
        """The trial's own folder."""
        return self.folder / "trials" / self.trial_id


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What a trial has taken over instead of training it."""

    steps: int = 0
    """Optimizer steps."""
    seconds: float = 0.0
    """Seconds of work that they took when they were trained."""
    taken_from: str | None = None
    """`sweep/trial`, where the whole trial was taken over."""


def read_shared(place: TrialPlace) -> Shared:
    """What the trial has taken over so far."""
    path = place.path / SHARED_FILE
    try:
        return Shared(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return Shared()


def write_shared(place: TrialPlace, shared: Shared) -> None:
    """Notes what the trial has taken over, whole."""
    place.path.mkdir(parents=True, exist_ok=True)
    replace_json(place.path / SHARED_FILE, asdict(shared))


def note_finished(place: TrialPlace, cut: Cut) -> None:
    """Notes where a trial that has ended well is, for equal ones to take it over; and in its folder what it is."""
    for folder in (place.path, place.finished_folder):
        folder.mkdir(parents=True, exist_ok=True)
    replace_json(place.path / FINISHED_FILE, {"key": cut.key})
    where = {"sweep": place.folder.name, "trial": place.trial_id}
    note = place.finished_folder / f"{cut.key}.json"
    replace_json(note, where, writer=f".{place.folder.name}-{place.trial_id}")


def find_finished(place: TrialPlace, cut: Cut) -> TrialPlace:
    """Where the trial that is noted as finished at a cut is; OSError or ValueError if none is.

    Its sweep may have been deleted since, and another one of its name have taken its place.
    """
    found = json.loads((place.finished_folder / f"{cut.key}.json").read_text())
    require(isinstance(found, dict) and {"sweep", "trial"} <= set(found), "a note must name sweep and trial", found)
    source = replace(place, folder=place.folder.parent / found["sweep"], trial_id=found["trial"])
    own = json.loads((source.path / FINISHED_FILE).read_text())
    require(own == {"key": cut.key}, "a finished trial must be what was noted", own)
    return source


def is_noted(place: TrialPlace, cut: Cut) -> bool:
    """Whether a finished trial that is equal up to a cut is noted, and is there."""
    try:
        find_finished(place, cut)
    except (OSError, ValueError):
        return False
    return True


def take_finished(place: TrialPlace, cut: Cut, names: Sequence[str]) -> str | None:
    """Takes an equal trial of this storage over, if there is one that is whole: `sweep/trial`.

    Args:
        place: the trial.
        cut: its end.
        names: of scores, the weights of whose best epochs must be there; a sweep deletes those that no selection needs.
    """
    try:
        source = find_finished(place, cut)
    except (OSError, ValueError):
        return None
    if source.path == place.path:
        return None
    taken = place.path / TAKEN
    try:
        link_best(source.path / "checkpoint", taken, names)
        copy_epochs(source.folder, source.trial_id, place.folder, place.trial_id, cut.total_epochs)
    except (OSError, ValueError):
        shutil.rmtree(taken, ignore_errors=True)
        return None
    shutil.rmtree(place.states.path, ignore_errors=True)
    taken.rename(place.states.path)
    return f"{source.folder.name}/{source.trial_id}"


def link_best(source: Path, target: Path, names: Sequence[str]) -> None:
    """Links the best weights of a checkpoint folder into another, those by all names, or OSError, or ValueError if one
    is damaged or no longer known."""
    shutil.rmtree(target, ignore_errors=True)
    folder, best = StateFolder(path=source), json.loads((source / BEST_FILE).read_text())
    require(set(best) == set(names), f"{source} must hold the best weights by {', '.join(names)}", ", ".join(best))
    for epoch in sorted(set(best.values())):
        check_weights(folder, epoch)
    place_files(best_files(folder, best.values()) | {BEST_FILE: source / BEST_FILE}, target)


def best_files(folder: StateFolder, epochs: Iterable[int]) -> dict[str, Path]:
    """Where the weights of best epochs are, and their checksums, by name below the checkpoint folder."""
    paths = {weights_path(folder, epoch) for epoch in epochs}
    sums = folder.path / "weights" / CHECKSUMS  # not there beside weights that were kept before there were checksums
    return {f"weights/{path.name}": path for path in (*sorted(paths), *([sums] if sums.is_file() else []))}
