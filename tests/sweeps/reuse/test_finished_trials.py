"""An equal trial reuses a finished one exactly, unless a part of it is missing or damaged."""

import shutil
from typing import Any

import pytest

from mtlib.checkpoints.state import saved_states
from mtlib.runtime.storage import list_files
from results.records.epochs import read_epoch
from sweeps.reuse.finished_trials import (
    MAX_REGISTERED,
    register_finished,
    registered_trials,
)
from tests.sweeps.reuse.finished_trials import (
    DAMAGES,
    begin,
    finish,
    prune_weights_of_tasks,
    register,
    reused_work,
)
from tests.sweeps.reuse.trained_trials import TrialStorage, assert_same, read_trial_files, train_trial


def test_finished_equal_trial_is_reused_whole(trained: TrialStorage) -> None:
    trial, first = trained.load_trial(), finish(trained)
    before, folder = read_trial_files(first), trained.trial_folder("second/0007-r0")
    found = begin(trial, folder)
    assert (found.epochs, found.is_finished, found.notes) == (3, True, ())
    seconds = read_epoch(folder.root, folder.trial_id, 3).points[0]["seconds"]
    assert reused_work(folder) == (12, seconds, "first/0000-r0")
    assert_same(read_trial_files(folder), before)
    assert saved_states(folder.states) == []
    again = trained.trial_folder("third/0000-r0")
    register(folder, trial.cuts[-1])
    assert begin(trial, again).start.taken_from == "second/0007-r0"


@pytest.mark.parametrize(
    "changes", [{"replicate": 1}, {"seed": 1}, {"stages__1__epochs": 3}, {"tasks__sts__batch_size": 4}]
)
def test_different_trial_is_not_reused(trained: TrialStorage, changes: dict[str, Any]) -> None:
    finish(trained)
    found = begin(trained.load_trial(**changes), trained.trial_folder("second/0000-r0"))
    assert (found.epochs, found.start.taken_from) == (0, None)


@pytest.mark.parametrize("damage", DAMAGES)
def test_incomplete_finished_trial_is_not_reused(trained: TrialStorage, damage: str) -> None:
    DAMAGES[damage](finish(trained))
    folder = trained.trial_folder("second/0000-r0")
    found = begin(trained.load_trial(), folder)
    assert (found.epochs, found.start.taken_from) == (0, None)
    assert [info.path for info in list_files(folder.own, "")] == ["trial.json"]
    assert saved_states(folder.states) == []


def test_trial_of_a_deleted_sweep_is_reused_from_its_copies(trained: TrialStorage) -> None:
    first, second, trial = finish(trained), trained.trial_folder("second/0003-r0"), trained.load_trial()
    before = read_trial_files(first)
    assert begin(trial, second).is_finished
    register(second, trial.cuts[-1])
    shutil.rmtree(first.sweep_folder)
    third = trained.trial_folder("third/0000-r0")
    assert begin(trial, third).start.taken_from == "second/0003-r0"
    assert_same(read_trial_files(third), before)
    register(third, trial.cuts[-1])
    prune_weights_of_tasks(third)
    assert begin(trial, trained.trial_folder("fourth/0000-r0")).start.taken_from == "second/0003-r0", (
        "the third lacks weights"
    )


def test_register_holds_the_newest_equal_trials(trained: TrialStorage) -> None:
    cut = trained.load_trial().cuts[-1]
    names = [f"sweep{number}/0000-r0" for number in range(MAX_REGISTERED + 2)]
    for name in (*names, names[3]):
        register_finished(trained.trial_folder(name), cut)
    newest = [names[3], *(name for name in reversed(names) if name != names[3])]
    assert registered_trials(trained.trial_folder(), cut) == newest[:MAX_REGISTERED]


def test_register_entry_is_ignored_when_the_trial_was_replaced(trained: TrialStorage) -> None:
    """Another sweep has the same name, and another configuration the same trial number."""
    first = finish(trained)
    shutil.rmtree(first.sweep_folder)
    other = trained.load_trial(optimizer__learning_rate=1e-2)
    again = trained.trial_folder("first/0000-r0")
    train_trial(other, again)
    register(again, other.cuts[-1])
    assert begin(trained.load_trial(), trained.trial_folder("second/0000-r0")).start.taken_from is None
    assert begin(other, trained.trial_folder("third/0000-r0")).start.taken_from == "first/0000-r0"
