"""Deletes best weights that no selection could use: those of trials that failed, or that others outdo by every score.

What a running, queued or interrupted trial has is left alone, and so is what a failed one can still go on from. What
the stage store holds of the same weights is its own.
"""

import contextlib
import json
import shutil
from collections.abc import Iterable, Set
from pathlib import Path

from mtlib.checkpoints.best_weights import CHECKSUMS, known_checksums, weights_path
from mtlib.checkpoints.state import StateFolder, drop_states, saved_states
from results.records.trials import TrialRecord

ENDED_WITH_SCORES = ("complete", "reused", "pruned")

Names = dict[str, Set[str]]
"""By trial, the names of scores, tasks and `overall`, whose best epoch's weights it keeps."""


def clean(folder: Path, records: Iterable[TrialRecord], num_models: int, cleaned: Names | None = None) -> None:
    """Keeps, for each name of a score, the best epoch's weights of the best trials, and deletes the others'.

    Of equal scores the earlier trial's counts as better. What cannot be deleted now is tried again the next time.

    Args:
        folder: the sweep's folder.
        records: of all its trials so far.
        num_models: how many trials keep weights for each name, at least 1.
        cleaned: what earlier calls have left, which is not looked at again; it is brought up to date.
    """
    done, known = {} if cleaned is None else cleaned, list(records)
    wanted = best_trials([record for record in known if record.status in ENDED_WITH_SCORES], num_models)
    ended = set(wanted)
    wanted |= {record.trial_id: set() for record in known if record.status == "failed"}
    for trial_id, names in wanted.items():
        if done.get(trial_id) == names:
            continue
        with contextlib.suppress(OSError):
            if trial_id in ended:
                drop_states(StateFolder(path=folder / "trials" / trial_id / "checkpoint"))  # a kill may have left some
            keep_weights_of(StateFolder(path=folder / "trials" / trial_id / "checkpoint"), names)
            done[trial_id] = names


def best_trials(records: list[TrialRecord], num_models: int) -> Names:
    """By trial, the names of scores by which it is among the best."""
    found: Names = {record.trial_id: set() for record in records}
    for name in {name for record in records for name in record.best}:
        scored = [record for record in records if name in record.best]
        ranking = sorted(scored, key=lambda record: (-record.best[name], record.number, record.replicate))
        for record in ranking[:num_models]:
            found[record.trial_id] = {*found[record.trial_id], name}
    return found


def keep_weights_of(states: StateFolder, names: Set[str]) -> None:
    """Forgets a trial's best epochs but for some names, then deletes the weights that no name is left for.

    A trial that can still go on from a state keeps all; so does one whose `best.json` cannot be read.
    """
    path = states.path / "best.json"
    try:
        best = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return
    if saved_states(states):
        return
    left = {name: epoch for name, epoch in best.items() if name in names}
    kept = {weights_path(states, epoch) for epoch in left.values()}
    if left != best:
        sums = {file.name: value for file, value in known_checksums(states).items() if file in kept}
        replace_json(path, left)
        replace_json(states.path / "weights" / CHECKSUMS, sums)
    for file in (states.path / "weights").glob("epoch-*.safetensors"):
        if file not in kept:
            file.unlink()
    if not left:
        shutil.rmtree(states.path / "weights", ignore_errors=True)


def replace_json(path: Path, value: object, writer: str = "") -> None:
    """Writes plain data, whole; `writer` tells those apart who may write the same file at the same time."""
    partial = path.with_name(f".{path.name}{writer}.partial")
    partial.write_text(json.dumps(value, sort_keys=True))
    partial.rename(path)
