"""Whole trials that have finished: noted, found, and taken over by equal ones; and what a trial has taken over.

All of this works on files, on the first worker of a lane. A trial's folder holds `checkpoint/` (its states and best
weights), its curves and predictions, and `shared.json`: what it has taken over instead of training it.
"""

import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mtlib.checkpoints.best_weights import CHECKSUMS, check_weights, weights_path
from mtlib.checkpoints.state import StateFolder
from mtlib.config.trial import TrialConfig
from mtlib.errors import require
from mtlib.stages.keys import Cut
from results.records.epoch_transfer import copy_epochs
from results.records.trials import OVERALL
from sweeps.reuse.stage_entry import place_files
from sweeps.reuse.stage_store import StageStore
from sweeps.reuse.weight_pruning import replace_json

BEST_FILE, REUSED_WORK_FILE, FINISHED_FILE = "best.json", "shared.json", "finished.json"
FINISHED_FOLDER = "finished"
"""Of a storage's notes of finished trials, among what its sweeps share."""
MOST_NOTED = 5
"""Equal trials that are noted, of any number."""
TAKEN = ".taken"
"""In a trial's folder, while something is taken over."""


@dataclass(frozen=True, kw_only=True)
class TrialFolder:
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
class ReusedWork:
    """What a trial has taken over instead of training it."""

    steps: int = 0
    """Optimizer steps."""
    seconds: float = 0.0
    """Seconds of work that they took when they were trained."""
    taken_from: str | None = None
    """`sweep/trial`, where the whole trial was taken over."""


def read_reused_work(place: TrialFolder) -> ReusedWork:
    """What the trial has taken over so far."""
    path = place.path / REUSED_WORK_FILE
    try:
        return ReusedWork(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return ReusedWork()


def write_reused_work(place: TrialFolder, shared: ReusedWork) -> None:
    """Notes what the trial has taken over, whole."""
    place.path.mkdir(parents=True, exist_ok=True)
    replace_json(place.path / REUSED_WORK_FILE, asdict(shared))


def score_names(config: TrialConfig) -> tuple[str, ...]:
    """The names of a trial's scores, the best epoch by each of which has its weights kept."""
    return *config.active_tasks, OVERALL


def note_finished(place: TrialFolder, cut: Cut) -> None:
    """Notes where a trial that has ended well is, for equal ones to take it over; and in its folder what it is.

    Those that were noted before stay behind it: its sweep may be deleted before theirs.
    """
    for folder in (place.path, place.finished_folder):
        folder.mkdir(parents=True, exist_ok=True)
    replace_json(place.path / FINISHED_FILE, {"key": cut.key})
    own = f"{place.folder.name}/{place.trial_id}"
    trials = [own, *(name for name in noted_trials(place, cut) if name != own)]
    writer = f".{place.folder.name}-{place.trial_id}"
    replace_json(place.finished_folder / f"{cut.key}.json", {"trials": trials[:MOST_NOTED]}, writer=writer)


def noted_trials(place: TrialFolder, cut: Cut) -> list[str]:
    """`sweep/trial` of those noted as finished at a cut, the newest first."""
    try:
        found = json.loads((place.finished_folder / f"{cut.key}.json").read_text())["trials"]
        return [name for name in found if len(Path(name).parts) == 2]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def find_finished(place: TrialFolder, cut: Cut, names: Sequence[str] = ()) -> list[TrialFolder]:
    """Where finished trials that are equal up to a cut are, the newest first.

    A note may be out of date: its sweep may have been deleted, and another one of its name have taken its place; and a
    sweep deletes weights that no selection needs.

    Args:
        place: of any trial of the storage.
        cut: the end of the finished trials.
        names: of scores, by which weights of the best epoch must be there.
    """
    places = [place_beside(place, *Path(name).parts) for name in noted_trials(place, cut)]
    return [found for found in places if is_noted_as(found, cut) and set(names) <= best_names(found)]


def place_beside(place: TrialFolder, sweep: str, trial_id: str) -> TrialFolder:
    """The place of another trial of the same storage."""
    folder = place.folder.parent / sweep
    states = replace(place.states, path=folder / "trials" / trial_id / "checkpoint")
    return replace(place, folder=folder, trial_id=trial_id, states=states)


def is_noted_as(place: TrialFolder, cut: Cut) -> bool:
    """Whether a trial's own folder says that it has finished at a cut."""
    try:
        return bool(json.loads((place.path / FINISHED_FILE).read_text()) == {"key": cut.key})
    except (OSError, ValueError):
        return False


def best_names(place: TrialFolder) -> set[str]:
    """The names of scores by which a trial has the weights of its best epoch."""
    try:
        return set(json.loads((place.states.path / BEST_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return set()


def fetch_finished(place: TrialFolder, cut: Cut, names: Sequence[str]) -> str | None:
    """Lays an equal trial of this storage ready in `TAKEN`, if there is one that is whole: `sweep/trial`.

    `TAKEN` then holds its `checkpoint` folder, and `trials/` with its epochs under this trial's name. What this trial
    has itself is as it was.

    Args:
        place: the trial.
        cut: its end.
        names: of scores, the weights of whose best epochs must be there.
    """
    taken = place.path / TAKEN
    for source in find_finished(place, cut, names):
        if source.path == place.path:
            continue
        shutil.rmtree(taken, ignore_errors=True)
        try:
            link_best(source.states.path, taken / "checkpoint", names)
            copy_epochs(source.folder, source.trial_id, taken, place.trial_id, cut.total_epochs)
        except (OSError, ValueError):
            shutil.rmtree(taken, ignore_errors=True)
        else:
            return f"{source.folder.name}/{source.trial_id}"
    return None


def link_best(source: Path, target: Path, names: Sequence[str]) -> None:
    """Links the best weights of a checkpoint folder into a new one, those by all names, or OSError, or ValueError if
    one is damaged or no longer known."""
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
