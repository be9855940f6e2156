"""Deletes best weights that no selection can use: of failed trials, and of trials that others beat on every score.

Running, queued and interrupted trials keep theirs, and so does a failed trial that can still resume. The stage store's
copies of the same weights are independent.
"""

from collections.abc import Iterable, Set

from mtlib.checkpoints.best_weights import delete_weights, known_checksums, read_best, weights_file, write_best
from mtlib.checkpoints.state import StateFolder, drop_states, saved_states
from results.records.trials import TrialRecord
from sweeps.reuse.finished_trials import states_path

ENDED_WITH_SCORES = ("complete", "reused", "pruned")

KeptWeights = dict[str, Set[str]]
"""By trial, the names of the scores (tasks and `overall`) whose best epoch keeps its weights."""


def prune_weights(
    folder: str, records: Iterable[TrialRecord], keep_models: int, pruned: KeptWeights | None = None
) -> None:
    """Keeps, for each score, the best epoch's weights of the best trials, and deletes the others'.

    Of equal scores the earlier trial's ranks first.

    Args:
        folder: path or URI of the sweep.
        records: of all its trials so far.
        keep_models: trials that keep weights for each score, at least 1.
        pruned: what earlier calls have left, which is skipped; updated in place.

    Raises:
        OSError: weights of a trial cannot be deleted; a further call with `pruned` goes on from there.
    """
    done, known = {} if pruned is None else pruned, list(records)
    wanted = best_trials([record for record in known if record.status in ENDED_WITH_SCORES], keep_models)
    ended = set(wanted)
    wanted |= {record.trial_id: set() for record in known if record.status == "failed"}
    for trial_id, names in wanted.items():
        if done.get(trial_id) == names:
            continue
        states = StateFolder(path=states_path(folder, trial_id))
        if trial_id in ended:
            drop_states(states)  # a kill may have left some
        keep_weights_of(states, names)
        done[trial_id] = names


def best_trials(records: list[TrialRecord], keep_models: int) -> KeptWeights:
    """By trial, the names of the scores on which it is among the best."""
    found: KeptWeights = {record.trial_id: set() for record in records}
    for name in {name for record in records for name in record.best}:
        scored = [record for record in records if name in record.best]
        ranking = sorted(scored, key=lambda record: (-record.best[name], record.number, record.replicate))
        for record in ranking[:keep_models]:
            found[record.trial_id] = {*found[record.trial_id], name}
    return found


def keep_weights_of(states: StateFolder, names: Set[str]) -> None:
    """Keeps a trial's best epochs by these scores only, and deletes weights that none of them needs.

    Does nothing if the trial can still resume from a state, or if its `best.json` cannot be read.
    """
    try:
        best = read_best(states)
    except (FileNotFoundError, ValueError):
        return
    if saved_states(states):
        return
    left = {name: epoch for name, epoch in best.items() if name in names}
    if left != best:
        kept = set(map(weights_file, left.values()))
        write_best(states, left, {file: value for file, value in known_checksums(states).items() if file in kept})
    delete_weights(states, set(left.values()))
