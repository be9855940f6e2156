"""Finished trials that equal trials reuse: registering and finding them.

All of this works on files, on rank 0 of a lane. The register of a storage has a file for each key of a trial's end,
which names finished trials with it.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow.fs as fs

from mtlib.checkpoints.best_weights import BEST_FILE, CHECKSUMS_FILE, check_best, read_best, weights_file
from mtlib.checkpoints.state import StateFolder
from mtlib.config.trial import TrialConfig
from mtlib.runtime.storage import (
    join_location,
    local_path,
    open_folder,
    read_bytes,
    split_location,
    subfolder,
    write_bytes,
)
from mtlib.stages.keys import Cut
from results.records.epochs import check_epoch, epoch_path
from results.records.trial_folder import read_end
from results.records.trials import COMPLETED, OVERALL
from sweeps.options import SweepOptions
from sweeps.reuse.stage_store import StageStore, stage_store

FINISHED_FOLDER = "finished"
"""Folder of a storage's register of finished trials, below the folder that its sweeps share."""
CHECKPOINT = "checkpoint"
"""Folder of states and best weights in a trial's folder."""
MAX_REGISTERED = 5
"""Equal trials that the register holds."""
STATE_SECONDS = 60.0
"""Least time between two states that are written in the background: on a GPU, where steps are short beside the writing
of a state, and in a bucket, where each request costs time and money."""


@dataclass(frozen=True, kw_only=True)
class TrialFolder:
    """Where a trial's files are, and where it looks for files to reuse."""

    sweep_folder: str
    """Path or URI."""
    trial_id: str
    states: StateFolder
    store: StageStore | None
    """None: nothing is reused."""
    finished_folder: str
    """The register: a file per key of a trial's end, with the finished trials that have it."""

    @property
    def root(self) -> fs.SubTreeFileSystem:
        """The sweep's folder, for its records."""
        return open_folder(self.sweep_folder)

    @property
    def own(self) -> fs.SubTreeFileSystem:
        """The trial's own folder."""
        return subfolder(self.root, f"trials/{self.trial_id}")

    @property
    def name(self) -> str:
        """`sweep/trial`."""
        return f"{split_location(self.sweep_folder)[1]}/{self.trial_id}"


def trial_folder(options: SweepOptions, trial_id: str) -> TrialFolder:
    """Returns the folder of a trial of the sweep with these options."""
    in_background = options.gpus_per_worker > 0 or local_path(options.folder) is None
    states = StateFolder(
        path=states_path(options.folder, trial_id),
        checkpoint_steps=options.checkpoint_steps,
        least_seconds=STATE_SECONDS if in_background else 0.0,
        in_background=in_background,
    )
    return TrialFolder(
        sweep_folder=options.folder,
        trial_id=trial_id,
        states=states,
        store=stage_store(options),
        finished_folder=join_location(options.shared_folder, FINISHED_FOLDER),
    )


def states_path(sweep_folder: str, trial_id: str) -> fs.SubTreeFileSystem:
    """Returns the folder of a trial's states, opened with the client of its sweep:
    a URI of its own would get another one."""
    return subfolder(open_folder(sweep_folder), f"trials/{trial_id}/{CHECKPOINT}")


def score_names(config: TrialConfig) -> tuple[str, ...]:
    """Names of a trial's scores; the best epoch by each keeps its weights."""
    return *config.active_tasks, OVERALL


def register_finished(folder: TrialFolder, cut: Cut) -> None:
    """Registers a completed trial, whose end is on record, under the key of its end.

    Trials that were registered before stay, behind it: their sweeps may outlive this one.
    """
    trials = [folder.name, *(name for name in registered_trials(folder, cut) if name != folder.name)]
    content = json.dumps({"trials": trials[:MAX_REGISTERED]}).encode()
    write_bytes(open_folder(folder.finished_folder), f"{cut.key}.json", content)


def registered_trials(folder: TrialFolder, cut: Cut) -> list[str]:
    """`sweep/trial` of the trials registered as finished at a cut, the newest first."""
    try:
        found = json.loads(read_bytes(open_folder(folder.finished_folder), f"{cut.key}.json"))["trials"]
        return [name for name in found if name.count("/") == 1]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def find_finished(folder: TrialFolder, cut: Cut) -> Iterator[TrialFolder]:
    """Folders of other finished trials that are equal up to a cut, the newest first.

    The register may be out of date: a sweep may have been deleted and another have its name.
    """
    storage = split_location(folder.sweep_folder)[0]
    for sweep, trial_id in (name.split("/") for name in registered_trials(folder, cut) if name != folder.name):
        sweep_folder = join_location(storage, sweep)
        states = replace(folder.states, path=states_path(sweep_folder, trial_id))
        other = replace(folder, sweep_folder=sweep_folder, trial_id=trial_id, states=states)
        if is_finished_at(other, cut):
            yield other


def is_finished_at(folder: TrialFolder, cut: Cut) -> bool:
    """Returns whether the trial's own folder records that it has finished at a cut."""
    try:
        end = read_end(folder.root, folder.trial_id)
    except ValueError:
        return False
    return end is not None and end.how in COMPLETED and end.key == cut.key


def is_whole(folder: TrialFolder, cut: Cut, names: Sequence[str]) -> bool:
    """Returns whether a finished trial has all its epochs up to a cut, and its best weights by all scores in `names`,
    which pruning may have deleted, undamaged."""
    try:
        if set(read_best(folder.states)) != set(names):  # before all weights are read
            return False
        check_best(folder.states)
        for epoch in range(1, cut.total_epochs + 1):
            check_epoch(folder.root, epoch_path(folder.trial_id, epoch))
    except (FileNotFoundError, ValueError):
        return False
    return True


def reused_files(folder: TrialFolder, epochs: int, best: Iterable[int]) -> list[str]:
    """Files of a trial's first epochs and of its best ones, by path below its folder."""
    first = len(f"trials/{folder.trial_id}/")
    weights = [*map(weights_file, sorted(set(best))), CHECKSUMS_FILE, BEST_FILE]
    paths = [epoch_path(folder.trial_id, epoch)[first:] for epoch in range(1, epochs + 1)]
    return [*paths, *(f"{CHECKPOINT}/{name}" for name in weights)]
