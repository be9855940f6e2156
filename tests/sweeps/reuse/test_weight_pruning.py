"""Weights that no selection can use are deleted, all others stay, and a trial's weights are whole at any moment."""

import random
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from mtlib.checkpoints.best_weights import BEST_FILE, keep_best, read_best, read_weights
from mtlib.checkpoints.state import State, StateFolder, save_state
from mtlib.runtime.storage import delete_file, is_file, join_location, list_files, write_bytes
from results.records.trials import TrialRecord
from sweeps.driver.trials.trial import queued_record
from sweeps.reuse.weight_pruning import KeptWeights, prune_weights
from tests.config_cases import BASE

NAMES = ("overall", "sst", "qqp")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path)


QUEUED = queued_record(0, 0, {}, BASE)


def record(number: int, best: dict[str, float], status: str = "complete") -> TrialRecord:
    return replace(QUEUED, trial_id=f"{number:04d}-r0", number=number, status=status, best=best, epochs=3)


def states_of(folder: str, trial: TrialRecord) -> StateFolder:
    return StateFolder(path=join_location(folder, "trials", trial.trial_id, "checkpoint"))


def write_weights(folder: str, trial: TrialRecord) -> None:
    """Writes what training leaves: QQP is best in epoch 1, SST and overall in epoch 2."""
    for epoch, best in ((1, {"qqp": 1}), (2, {"qqp": 1, "sst": 2, "overall": 2})):
        keep_best(states_of(folder, trial), epoch, best, {"w": torch.full((3,), float(epoch))})


def kept_epochs(states: StateFolder) -> list[int]:
    """Epochs with weights."""
    names = [info.base_name for info in list_files(states.root, "weights")]
    return [int(name[6:10]) for name in names if name.startswith("epoch-")]


def remaining_weights(folder: str, trial: TrialRecord) -> tuple[dict[str, int] | None, list[int]]:
    """Epochs in `best.json`, and epochs with weights, each of them whole."""
    states = states_of(folder, trial)
    best = read_best(states) if is_file(states.root, BEST_FILE) else None
    epochs = kept_epochs(states)
    for epoch in epochs:
        read_weights(states, epoch)
    assert best is None or set(best.values()) <= set(epochs)
    return best, epochs


WHOLE = ({"overall": 2, "qqp": 1, "sst": 2}, [1, 2])


def test_best_trials_of_each_task_keep_its_best_epoch(location: str) -> None:
    trials = [
        record(0, {"overall": 0.5, "sst": 0.1, "qqp": 0.9}),
        record(1, {"overall": 0.7, "sst": 0.8, "qqp": 0.2}, "pruned"),
        record(2, {"overall": 0.6, "sst": 0.7, "qqp": 0.3}, "reused"),
    ]
    for trial in trials:
        write_weights(location, trial)
    prune_weights(location, trials, 3)
    assert [remaining_weights(location, trial) for trial in trials] == [WHOLE] * 3
    prune_weights(location, trials, 2)
    assert [remaining_weights(location, trial) for trial in trials] == [
        ({"qqp": 1}, [1]),
        ({"overall": 2, "sst": 2}, [2]),
        WHOLE,
    ]
    prune_weights(location, trials, 1)
    assert [remaining_weights(location, trial) for trial in trials] == [
        ({"qqp": 1}, [1]),
        ({"overall": 2, "sst": 2}, [2]),
        ({}, []),
    ]


@pytest.mark.parametrize("status", ["running", "queued", "interrupted"])
def test_unfinished_trials_are_not_pruned_and_not_ranked(status: str, folder: str) -> None:
    trials = [record(0, {"overall": 0.9}, status), record(1, {"overall": 0.5})]
    for trial in trials:
        write_weights(folder, trial)
    prune_weights(folder, trials, 1)
    assert remaining_weights(folder, trials[0]) == WHOLE
    assert remaining_weights(folder, trials[1]) == ({"overall": 2}, [2])


def test_failed_trial_keeps_nothing_unless_it_can_continue(folder: str) -> None:
    trials = [record(0, {"overall": 0.9}, "failed"), record(1, {"overall": 0.8}, "failed"), record(2, {"overall": 0.1})]
    for trial in trials:
        write_weights(folder, trial)
    save_state(states_of(folder, trials[1]), 1, State(tensors={}, numbers={}))
    prune_weights(folder, trials, 1)
    assert [remaining_weights(folder, trial) for trial in trials] == [({}, []), WHOLE, ({"overall": 2}, [2])]


@pytest.mark.parametrize("seed", range(3))
def test_pruning_after_every_trial_equals_pruning_at_the_end(seed: int, folder: str) -> None:
    draw = random.Random(seed)
    trials = [record(number, {name: draw.randrange(5) / 5 for name in NAMES}) for number in range(12)]
    draw.shuffle(trials)
    pruned: KeptWeights = {}
    often, once = f"{folder}/often", f"{folder}/once"
    for number, trial in enumerate(trials):
        for place in (often, once):
            write_weights(place, trial)
        waiting = [replace(other, status="queued") for other in trials[number + 1 :]]
        prune_weights(often, [*trials[: number + 1], *waiting], 2, pruned)
    prune_weights(once, trials, 2)
    found = [remaining_weights(often, trial) for trial in trials]
    assert found == [remaining_weights(once, trial) for trial in trials]
    assert [sum(name in (best or {}) for best, _ in found) for name in NAMES] == [2, 2, 2]


def test_kill_between_list_and_weights_is_repaired_by_the_next_pruning(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, better = record(0, {"overall": 0.1, "qqp": 0.9}), record(1, {"overall": 0.9})
    write_weights(folder, trial)
    pruned: KeptWeights = {}
    with monkeypatch.context() as patch:
        patch.setattr("sweeps.reuse.weight_pruning.delete_weights", Mock(side_effect=PermissionError))
        with pytest.raises(PermissionError):
            prune_weights(folder, [trial, better], 1, pruned)
    assert remaining_weights(folder, trial) == ({"qqp": 1}, [1, 2])
    prune_weights(folder, [trial, better], 1, pruned)
    assert remaining_weights(folder, trial) == ({"qqp": 1}, [1])


@pytest.mark.parametrize("text", ["", "[", None])
def test_trial_with_a_damaged_or_missing_list_is_not_pruned(text: str | None, folder: str) -> None:
    trial = record(0, {}, "failed")
    write_weights(folder, trial)
    states = states_of(folder, trial)
    delete_file(states.root, BEST_FILE) if text is None else write_bytes(states.root, BEST_FILE, text.encode())
    prune_weights(folder, [trial, record(1, {"overall": 0.5})], 1)
    assert kept_epochs(states) == [1, 2]
