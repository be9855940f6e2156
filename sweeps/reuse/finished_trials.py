"""Finished trials that equal trials reuse: registering, finding and linking them; and the record of reused work.

All of this works on files, on rank 0 of a lane. A trial's folder holds `checkpoint/` (its states and best weights), its
curves and predictions, and `shared.json`, the record of what it reused instead of training it.
"""

import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mtlib.checkpoints.best_weights import CHECKSUMS, check_weights, weights_path
from mtlib.checkpoints.state import StateFolder
from mtlib.config.trial import TrialConfig
from mtlib.runtime.errors import require
from mtlib.stages.keys import Cut
from results.records.epoch_transfer import copy_epochs
from results.records.trials import OVERALL
from sweeps.options import SweepOptions
from sweeps.reuse.stage_entry import link_files
from sweeps.reuse.stage_store import StageStore, stage_store
from sweeps.reuse.weight_pruning import replace_json

BEST_FILE, REUSED_WORK_FILE, FINISHED_FILE = "best.json", "shared.json", "finished.json"
FINISHED_FOLDER = "finished"
"""Folder of a storage's register of finished trials, below the folder that its sweeps share."""
MAX_REGISTERED = 5
"""Equal trials that the register holds."""
FETCHED = ".taken"
"""Folder in a trial's folder for files that are about to replace the trial's own."""


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


@dataclass(frozen=True, kw_only=True)
class ReusedWork:
    """What a trial has reused instead of training it."""

    steps: int = 0
    """Optimizer steps."""
    seconds: float = 0.0
    """Seconds that they took when they were trained."""
    taken_from: str | None = None
    """`sweep/trial`, if the whole trial was reused."""


def read_reused_work(folder: TrialFolder) -> ReusedWork:
    """What the trial has reused so far."""
    try:
        return ReusedWork(**json.loads((folder.path / REUSED_WORK_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return ReusedWork()


def write_reused_work(folder: TrialFolder, reused: ReusedWork) -> None:
    """Records what the trial has reused."""
    folder.path.mkdir(parents=True, exist_ok=True)
    replace_json(folder.path / REUSED_WORK_FILE, asdict(reused))


def score_names(config: TrialConfig) -> tuple[str, ...]:
    """Names of a trial's scores; the best epoch by each keeps its weights."""
    return *config.active_tasks, OVERALL


def register_finished(folder: TrialFolder, cut: Cut) -> None:
    """Registers a completed trial under the key of its end, and writes the key into its own folder.

    Trials that were registered before stay, behind it: their sweeps may outlive this one.
    """
    for parent in (folder.path, folder.finished_folder):
        parent.mkdir(parents=True, exist_ok=True)
    replace_json(folder.path / FINISHED_FILE, {"key": cut.key})
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
    """Folders of finished trials that are equal up to a cut, the newest first.

    The register may be out of date: a sweep may have been deleted and another have its name, and pruning deletes
    weights. Those of the best epochs by all scores in `names` must exist.
    """
    found = [other_folder(folder, *Path(name).parts) for name in registered_trials(folder, cut)]
    return [other for other in found if is_finished_at(other, cut) and set(names) <= best_names(other)]


def other_folder(folder: TrialFolder, sweep: str, trial_id: str) -> TrialFolder:
    """The folder of another trial of the same storage."""
    sweep_folder = folder.sweep_folder.parent / sweep
    states = replace(folder.states, path=sweep_folder / "trials" / trial_id / "checkpoint")
    return replace(folder, sweep_folder=sweep_folder, trial_id=trial_id, states=states)


def is_finished_at(folder: TrialFolder, cut: Cut) -> bool:
    """Whether the trial's own folder records that it has finished at a cut."""
    try:
        return bool(json.loads((folder.path / FINISHED_FILE).read_text()) == {"key": cut.key})
    except (OSError, ValueError):
        return False


def best_names(folder: TrialFolder) -> set[str]:
    """Names of the scores by which a trial has the weights of its best epoch."""
    try:
        return set(json.loads((folder.states.path / BEST_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return set()


def fetch_finished(folder: TrialFolder, cut: Cut, names: Sequence[str]) -> str | None:
    """Links an equal, intact trial of the storage into `FETCHED`; the trial's own files are untouched.

    `FETCHED` then holds the other trial's `checkpoint` folder, and `trials/` with its epochs under this trial's name.

    Returns `sweep/trial` of the other trial; None if there is none.
    """
    fetched = folder.path / FETCHED
    for source in find_finished(folder, cut, names):
        if source.path == folder.path:
            continue
        shutil.rmtree(fetched, ignore_errors=True)
        try:
            link_best(source.states.path, fetched / "checkpoint", names)
            copy_epochs(source.sweep_folder, source.trial_id, fetched, folder.trial_id, cut.total_epochs)
        except (OSError, ValueError):
            shutil.rmtree(fetched, ignore_errors=True)
        else:
            return f"{source.sweep_folder.name}/{source.trial_id}"
    return None


def link_best(source: Path, target: Path, names: Sequence[str]) -> None:
    """Links the best weights of a checkpoint folder, by all of `names`, into a new one.

    Raises:
        OSError: some are missing.
        ValueError: some are damaged, or were pruned.
    """
    states, best = StateFolder(path=source), json.loads((source / BEST_FILE).read_text())
    require(set(best) == set(names), f"{source} must hold the best weights by {', '.join(names)}", ", ".join(best))
    for epoch in sorted(set(best.values())):
        check_weights(states, epoch)
    link_files(best_files(states, best.values()) | {BEST_FILE: source / BEST_FILE}, target)


def best_files(states: StateFolder, epochs: Iterable[int]) -> dict[str, Path]:
    """Files with the weights of best epochs, and their checksums, by name below the checkpoint folder."""
    paths = {weights_path(states, epoch) for epoch in epochs}
    sums = states.path / "weights" / CHECKSUMS  # missing in checkpoints older than checksums
    return {f"weights/{path.name}": path for path in (*sorted(paths), *([sums] if sums.is_file() else []))}
