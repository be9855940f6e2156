"""Finished trials that equal trials reuse: registering, finding and linking them.

All of this works on files, on rank 0 of a lane. The register of a storage has a file for each key of a trial's end,
which names finished trials with it.
"""

import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.fs as fs

from mtlib.checkpoints.best_weights import CHECKSUMS, check_weights, weights_path
from mtlib.checkpoints.state import StateFolder
from mtlib.config.trial import TrialConfig
from mtlib.runtime.errors import require
from mtlib.stages.keys import Cut
from results.records.epochs import check_epoch, epoch_path
from results.records.files import open_folder
from results.records.trial_folder import read_end
from results.records.trials import COMPLETED, OVERALL
from sweeps.options import SweepOptions
from sweeps.reuse.stage_entry import link_files
from sweeps.reuse.stage_store import StageStore, stage_store
from sweeps.reuse.weight_pruning import replace_json

BEST_FILE = "best.json"
FINISHED_FOLDER = "finished"
"""Folder of a storage's register of finished trials, below the folder that its sweeps share."""
MAX_REGISTERED = 5
"""Equal trials that the register holds."""


@dataclass(frozen=True, kw_only=True)
class TrialFolder:
    """Where a trial's files are, and where it looks for files to reuse."""

    sweep_folder: Path
    trial_id: str
    states: StateFolder
    store: StageStore | None
    """None: nothing is reused."""
    finished_folder: Path
    """The register: a file per key of a trial's end, with the finished trials that have it."""

    @property
    def path(self) -> Path:
        """The trial's own folder."""
        return self.sweep_folder / "trials" / self.trial_id

    @property
    def root(self) -> fs.SubTreeFileSystem:
        """The sweep's folder, for its records."""
        return open_folder(self.sweep_folder)


def trial_folder(options: SweepOptions, trial_id: str) -> TrialFolder:
    """The folder of a trial of the sweep with these options."""
    path = options.folder / "trials" / trial_id / "checkpoint"
    return TrialFolder(
        sweep_folder=options.folder,
        trial_id=trial_id,
        states=StateFolder(path=path, checkpoint_steps=options.checkpoint_steps),
        store=stage_store(options),
        finished_folder=options.cache_folder / FINISHED_FOLDER,
    )


def score_names(config: TrialConfig) -> tuple[str, ...]:
    """Names of a trial's scores; the best epoch by each keeps its weights."""
    return *config.active_tasks, OVERALL


def register_finished(folder: TrialFolder, cut: Cut) -> None:
    """Registers a completed trial, whose end is on record, under the key of its end.

    Trials that were registered before stay, behind it: their sweeps may outlive this one.
    """
    folder.finished_folder.mkdir(parents=True, exist_ok=True)
    own = f"{folder.sweep_folder.name}/{folder.trial_id}"
    trials = [own, *(name for name in registered_trials(folder, cut) if name != own)]
    writer = f".{folder.sweep_folder.name}-{folder.trial_id}"
    replace_json(folder.finished_folder / f"{cut.key}.json", {"trials": trials[:MAX_REGISTERED]}, writer=writer)


def registered_trials(folder: TrialFolder, cut: Cut) -> list[str]:
    """`sweep/trial` of the trials registered as finished at a cut, the newest first."""
    try:
        found = json.loads((folder.finished_folder / f"{cut.key}.json").read_text())["trials"]
        return [name for name in found if len(Path(name).parts) == 2]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def find_finished(folder: TrialFolder, cut: Cut, names: Sequence[str] = ()) -> list[TrialFolder]:
    """Folders of other finished trials that are equal up to a cut, the newest first.

    The register may be out of date: a sweep may have been deleted and another have its name, and pruning deletes
    weights. Those of the best epochs by all scores in `names` must exist.
    """
    found = [other_folder(folder, *Path(name).parts) for name in registered_trials(folder, cut)]
    others = [other for other in found if other.path != folder.path]
    return [other for other in others if is_finished_at(other, cut) and set(names) <= best_names(other)]


def other_folder(folder: TrialFolder, sweep: str, trial_id: str) -> TrialFolder:
    """The folder of another trial of the same storage."""
    sweep_folder = folder.sweep_folder.parent / sweep
    states = replace(folder.states, path=sweep_folder / "trials" / trial_id / "checkpoint")
    return replace(folder, sweep_folder=sweep_folder, trial_id=trial_id, states=states)


def is_finished_at(folder: TrialFolder, cut: Cut) -> bool:
    """Whether the trial's own folder records that it has finished at a cut."""
    try:
        end = read_end(folder.root, folder.trial_id)
    except ValueError:
        return False
    return end is not None and end.how in COMPLETED and end.key == cut.key


def best_names(folder: TrialFolder) -> set[str]:
    """Names of the scores by which a trial has the weights of its best epoch."""
    try:
        return set(json.loads((folder.states.path / BEST_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return set()


def finished_files(source: TrialFolder, cut: Cut, names: Sequence[str]) -> dict[str, Path]:
    """The files of a finished trial that an equal one links, by path below its folder, all of them undamaged.

    Raises:
        OSError: some are missing.
        ValueError: some are damaged, or were pruned.
    """
    states, best = source.states, json.loads((source.states.path / BEST_FILE).read_text())
    require(set(best) == set(names), f"{states.path} must hold the best weights by {', '.join(names)}", ", ".join(best))
    for epoch in sorted(set(best.values())):
        check_weights(states, epoch)
    for epoch in range(1, cut.total_epochs + 1):
        check_epoch(source.root, source.trial_id, epoch)
    weights = {f"checkpoint/{name}": path for name, path in best_files(states, best.values()).items()}
    return epoch_files(source, cut.total_epochs) | weights | {f"checkpoint/{BEST_FILE}": states.path / BEST_FILE}


def epoch_files(folder: TrialFolder, epochs: int) -> dict[str, Path]:
    """The files of a trial's first epochs, by path below its folder."""
    paths = (Path(epoch_path(folder.trial_id, epoch)) for epoch in range(1, epochs + 1))
    return {f"epochs/{path.name}": folder.sweep_folder / path for path in paths}


def best_files(states: StateFolder, epochs: Iterable[int]) -> dict[str, Path]:
    """Files with the weights of best epochs, and their checksums, by name below the checkpoint folder."""
    paths = {weights_path(states, epoch) for epoch in epochs}
    return {f"weights/{path.name}": path for path in (*sorted(paths), states.path / "weights" / CHECKSUMS)}


def fetch_finished(folder: TrialFolder, cut: Cut, names: Sequence[str], into: Path) -> str | None:
    """Links the files of an equal, intact trial of the storage into a new folder.

    Returns `sweep/trial` of the other trial; None if there is none, and then the folder does not exist.
    """
    for source in find_finished(folder, cut, names):
        try:
            link_files(finished_files(source, cut, names), into)
        except (OSError, ValueError):
            shutil.rmtree(into, ignore_errors=True)
            continue
        return f"{source.sweep_folder.name}/{source.trial_id}"
    return None
