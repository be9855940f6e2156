"""Starting from stored stages or an equal trial gives exactly what training gives; a trial's own states come first."""

import errno
import itertools
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from mtlib.checkpoints.best_weights import CHECKSUMS_FILE, weights_file
from mtlib.checkpoints.state import newest_numbers, saved_states
from mtlib.config.trial import TrialConfig
from mtlib.runtime.storage import PatientHandler, copy_file, delete_file, list_files, read_bytes, write_bytes
from sweeps.lanes.loaded_trial import LoadedTrial
from sweeps.reuse.finished_trials import TrialFolder
from sweeps.reuse.stage_store import find_stage, has_stage, remove_stage, stage_files
from sweeps.reuse.starting_point import StartingPoint, truncate_trial
from tests.killed import Killed
from tests.sweeps.reuse.finished_trials import begin, damage_epoch, finish, register, reused_work
from tests.sweeps.reuse.trained_trials import (
    TrialFiles,
    TrialStorage,
    assert_same,
    read_trial_files,
    threads,
    train_trial,
)

Uninterrupted = Callable[[TrialStorage, LoadedTrial], TrialFiles]


@pytest.fixture(scope="module")
def uninterrupted() -> Uninterrupted:
    """Results of trials trained from scratch without a store; each configuration is trained once."""
    results: dict[TrialConfig, TrialFiles] = {}

    def find(storage: TrialStorage, trial: LoadedTrial) -> TrialFiles:
        if trial.config not in results:
            folder = storage.trial_folder("uninterrupted/0000-r0", shares=False)
            assert begin(trial, folder).epochs == 0
            assert len(train_trial(trial, folder)) == trial.cuts[-1].total_steps
            results[trial.config] = read_trial_files(folder)
        return results[trial.config]

    return find


def is_own(found: StartingPoint, epochs: int) -> bool:
    """Whether a trial starts after this many epochs of its own, with nothing reused."""
    reused = found.start.shared_steps, found.start.shared_seconds, found.start.taken_from
    return (found.epochs, *reused, found.is_finished) == (epochs, 0, 0.0, None, False)


# Stored stages.

OTHERS: dict[str, tuple[dict[str, Any], int]] = {
    "other batches in the second stage": ({"tasks__sst__batch_size": 4}, 1),
    "a longer second stage": ({"stages__1__epochs": 3}, 3),
}


@pytest.mark.parametrize("other", OTHERS)
def test_continuing_from_a_stored_stage_is_exact(
    trained: TrialStorage, other: str, uninterrupted: Uninterrupted
) -> None:
    changes, epochs = OTHERS[other]
    trial, folder = trained.load_trial(**changes), trained.trial_folder("second/0003-r0")
    found = begin(trial, folder)
    assert (found.epochs, found.is_finished, found.is_mixed, found.notes) == (epochs, False, False, ())
    assert reused_work(folder) == (4 * epochs, 1.5, None)
    first, taken = read_trial_files(trained.trial_folder("first/0000-r0")), read_trial_files(folder)
    assert taken.curves == [row for row in first.curves if row[1] <= epochs] != []
    assert taken.weights, "its best weights are there before it trains"
    assert train_trial(trial, folder)[0] == 4 * epochs + 1
    assert_same(read_trial_files(folder), uninterrupted(trained, trial))
    assert {info.path.partition("/")[0] for info in list_files(folder.own, "")} == {
        "checkpoint",
        "epochs",
        "trial.json",
    }


def test_killed_trial_with_a_reused_stage_resumes_from_its_own_state(
    trained: TrialStorage, uninterrupted: Uninterrupted
) -> None:
    trial, folder = trained.load_trial(tasks__sst__batch_size=4), trained.trial_folder("second/0000-r0")
    begin(trial, folder)
    train_trial(trial, folder, until_epoch=2)
    assert begin(trial, folder).epochs == 2
    assert reused_work(folder) == (4, 1.5, None)
    assert train_trial(trial, folder)[0] == 9
    assert_same(read_trial_files(folder), uninterrupted(trained, trial))


def test_own_newer_state_wins_over_an_older_stage_and_a_stage_over_fewer_epochs(trained: TrialStorage) -> None:
    trial, folder = trained.load_trial(tasks__sst__batch_size=4), trained.trial_folder("second/0000-r0")
    train_trial(trial, folder, until_epoch=2)
    before = saved_states(folder.states)
    assert is_own(begin(trial, folder), 2)
    assert saved_states(folder.states) == before
    other = trained.trial_folder("third/0000-r0")
    train_trial(trial, other, until_step=2)
    assert newest_numbers(other.states) is not None
    assert begin(trial, other).epochs == 1
    assert [name[:15] for name in saved_states(other.states)] == ["state-000000004"]


def test_damaged_stage_is_removed_and_the_previous_one_used(trained: TrialStorage) -> None:
    trial, folder = trained.load_trial(), trained.trial_folder("second/0000-r0")
    assert folder.store is not None
    last = trial.cuts[-1].key
    stage = find_stage(folder.store, last)
    assert stage is not None
    root = stage_files(folder.store, last, stage)
    write_bytes(root, "state/tensors", read_bytes(root, "state/tensors")[:-1])
    assert begin(trial, folder).epochs == 1
    assert not has_stage(folder.store, last)


# Its own states.


def asides(folder: TrialFolder) -> list[str]:
    """Names of the states that were set aside."""
    names = {info.path.partition("/")[0] for info in list_files(folder.states.root, "")}
    return sorted(name for name in names if name.startswith("aside-"))


def tensors_of(folder: TrialFolder, names: list[str]) -> dict[str, bytes]:
    return {name: read_bytes(folder.states.root, f"{name}/tensors") for name in names}


def test_state_of_another_environment_is_used_and_marked(storage: TrialStorage) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder()
    with threads(2):
        train_trial(storage.load_trial(), folder, until_epoch=1)
    for _ in range(2):
        found = begin(trial, folder)
        assert is_own(found, 1)
        assert found.is_mixed
        (note,) = found.notes
        assert folder.trial_id in note
        assert "\n" not in note
    train_trial(trial, folder, until_epoch=2)
    found = begin(trial, folder)
    assert (found.epochs, found.is_mixed, asides(folder)) == (2, True, []), "a part was trained elsewhere"


def other_configuration(_folder: TrialFolder) -> dict[str, Any]:
    return {"optimizer__learning_rate": 5e-4}


def damaged_states(folder: TrialFolder) -> dict[str, Any]:
    for name in saved_states(folder.states):
        write_bytes(folder.states.root, f"{name}/state.json", b"{")
    return {}


def damaged_epoch(folder: TrialFolder) -> dict[str, Any]:
    damage_epoch(folder, 1)
    return {}


def missing_epoch(folder: TrialFolder) -> dict[str, Any]:
    delete_file(folder.own, "epochs/0001.parquet")
    return {}


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize("change", [other_configuration, damaged_states, damaged_epoch, missing_epoch])
def test_unusable_state_is_set_aside_and_kept(
    storage: TrialStorage,
    change: Callable[[TrialFolder], dict[str, Any]],
    shares: bool,
    uninterrupted: Uninterrupted,
) -> None:
    folder = storage.trial_folder(shares=shares)
    train_trial(storage.load_trial(), folder, until_epoch=2)
    content = tensors_of(folder, saved_states(folder.states))
    trial = storage.load_trial(**change(folder))
    found = begin(trial, folder)
    assert is_own(found, 0)
    assert tensors_of(folder, asides(folder)) == {f"aside-{name}": own for name, own in content.items()} != {}
    assert all(any(name in note for note in found.notes) for name in asides(folder))
    assert not any("\n" in note for note in found.notes)
    assert begin(trial, folder).notes == (), "the notes are given once"
    assert train_trial(trial, folder)[0] == 1
    assert_same(read_trial_files(folder), uninterrupted(storage, trial))


def test_epochs_are_trained_again_from_a_damaged_one_on(storage: TrialStorage, uninterrupted: Uninterrupted) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder()
    train_trial(trial, folder, until_epoch=2)
    damage_epoch(folder, 2)
    found = begin(trial, folder)
    assert is_own(found, 1)
    assert any("0002.parquet" in note for note in found.notes)
    assert train_trial(trial, folder)[0] > 4, "from the newest state before the end of the second epoch"
    assert_same(read_trial_files(folder), uninterrupted(storage, trial))


def test_state_whose_best_weights_are_damaged_is_not_used(storage: TrialStorage, uninterrupted: Uninterrupted) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder()
    train_trial(trial, folder, until_epoch=2)
    damaged = [str(info.path) for info in list_files(folder.states.root, "") if info.path.endswith(".safetensors")]
    for path in damaged:
        write_bytes(folder.states.root, path, read_bytes(folder.states.root, path)[:-1])
    found = begin(trial, folder)
    assert found.epochs < 2
    assert any(path in note for path in damaged for note in found.notes)
    train_trial(trial, folder)
    assert_same(read_trial_files(folder), uninterrupted(storage, trial))


def test_previous_state_is_used_where_the_newest_is_damaged(
    storage: TrialStorage, uninterrupted: Uninterrupted
) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder()
    train_trial(trial, folder, until_epoch=2)
    newest, before = saved_states(folder.states)
    write_bytes(folder.states.root, f"{newest}/state.json", b"{")
    assert begin(trial, folder).epochs == 1
    assert (saved_states(folder.states), len(asides(folder))) == ([before], 1)
    train_trial(trial, folder)
    assert_same(read_trial_files(folder), uninterrupted(storage, trial))


def test_truncated_trial_keeps_the_weights_of_its_remaining_epochs(trained: TrialStorage) -> None:
    folder = trained.trial_folder("first/0000-r0")
    before = read_trial_files(folder)
    truncate_trial(folder, 1)
    after = read_trial_files(folder)
    assert after.curves == [row for row in before.curves if row[1] == 1] != []
    assert after.best == {name: epoch for name, epoch in before.best.items() if epoch == 1}
    left = {info.path for info in list_files(folder.states.root, "weights") if info.path != CHECKSUMS_FILE}
    assert left == set(map(weights_file, after.best.values()))
    assert saved_states(folder.states) == []


# Kills and full disks.


def kill_at_call(monkeypatch: pytest.MonkeyPatch, name: str, killed: int) -> None:
    """Makes call number `killed`, from 0, of a `Path` method raise."""
    real, calls = getattr(Path, name), itertools.count()

    def call(path: Path, *arguments: Any, **named: Any) -> Any:
        if next(calls) == killed:
            raise Killed
        return real(path, *arguments, **named)

    monkeypatch.setattr(Path, name, call)


def test_kill_while_reusing_a_stage_loses_nothing(
    trained: TrialStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uninterrupted: Uninterrupted
) -> None:
    """Kills at the first renaming, then at the second, until all have been killed; the last one records the start."""
    for number in itertools.count():
        storage = replace(trained, path=tmp_path / f"killed at call {number}")
        shutil.copytree(trained.path, storage.path)
        trial, folder = storage.load_trial(tasks__sst__batch_size=4), storage.trial_folder("second/0003-r0")
        with monkeypatch.context() as patch:
            kill_at_call(patch, "rename", number)
            try:
                begin(trial, folder)
            except Killed:
                is_killed = True
            else:
                is_killed = False
        if not is_killed:
            break
        assert begin(trial, folder).epochs == 1
        assert reused_work(folder) == (4, 1.5, None)
        assert train_trial(trial, folder)[0] == 5
        assert_same(read_trial_files(folder), uninterrupted(trained, trial))
    assert number > 2


@pytest.mark.parametrize("is_whole", [True, False])
def test_what_a_full_disk_prevented_is_reused_once_there_is_room(
    trained: TrialStorage, is_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {} if is_whole else {"stages__1__epochs": 4}
    trial, folder = trained.load_trial(**changes), trained.trial_folder("second/0003-r0")
    train_trial(trial, folder, until_epoch=2)
    before = saved_states(folder.states)
    if is_whole:
        finish(trained)
    full_disk = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", full_disk)
        patch.setattr(shutil, "copyfile", full_disk)
        with pytest.raises(OSError, match="No space left on device"):
            begin(trial, folder)
    assert saved_states(folder.states) == before != []
    found = begin(trial, folder)
    assert (found.epochs, found.is_finished) == (3, is_whole)


@pytest.mark.parametrize(("done", "num_steps"), [({}, 0), ({"until_step": 2}, 2), ({"until_epoch": 1}, 4)])
def test_stage_that_is_evicted_while_it_is_copied_leaves_the_trial_its_own_work(
    trained: TrialStorage,
    done: dict[str, Any],
    num_steps: int,
    monkeypatch: pytest.MonkeyPatch,
    uninterrupted: Uninterrupted,
) -> None:
    """An epoch has four steps."""
    trial, folder = trained.load_trial(), trained.trial_folder("second/0003-r0")
    store = folder.store
    assert store is not None
    if done:
        train_trial(trial, folder, **done)
    before = saved_states(folder.states)

    def copy_and_evict(*arguments: Any) -> None:
        copy_file(*arguments)
        remove_stage(store, trial.cuts[-1].key)

    monkeypatch.setattr("sweeps.reuse.starting_point.copy_file", copy_and_evict)
    assert is_own(begin(trial, folder), num_steps // 4)
    assert saved_states(folder.states) == before
    assert not any(info.path.startswith("fetched/") for info in list_files(folder.own, ""))
    assert train_trial(trial, folder)[0] == num_steps + 1
    assert_same(read_trial_files(folder), uninterrupted(trained, trial))


# In a bucket.


def test_epochs_that_cannot_be_fetched_stay(
    storage: TrialStorage, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = replace(storage, uri=bucket)
    trial, folder = there.load_trial(), there.trial_folder()
    train_trial(trial, folder, until_epoch=2)

    def failing(read: Callable[..., Any]) -> Callable[..., Any]:
        def fail_for_epochs(handler: PatientHandler, path: str) -> Any:
            if "/epochs/" in path:
                raise OSError("AWS Error NETWORK_CONNECTION during GetObject operation")
            return read(handler, path)

        return fail_for_epochs

    with monkeypatch.context() as patch:
        for name in ("open_input_file", "open_input_stream"):
            patch.setattr(PatientHandler, name, failing(getattr(PatientHandler, name)))
        with pytest.raises(OSError, match="NETWORK_CONNECTION"):
            begin(trial, folder)
    assert is_own(begin(trial, folder), 2)


def test_trials_in_a_bucket_are_reused_and_resumed_as_on_a_disk(
    storage: TrialStorage, bucket: str, uninterrupted: Uninterrupted
) -> None:
    there = replace(storage, uri=bucket)
    trial, first = there.load_trial(), there.trial_folder("first/0000-r0")
    train_trial(trial, first, stores=True)
    register(first, trial.cuts[-1])
    again = there.trial_folder("second/0000-r0")
    assert (begin(trial, again).is_finished, reused_work(again)[2]) == (True, "first/0000-r0")
    other, folder = there.load_trial(tasks__sst__batch_size=4), there.trial_folder("second/0001-r0")
    assert (begin(other, folder).epochs, reused_work(folder)) == (1, (4, 1.5, None))
    train_trial(other, folder, until_epoch=2)
    assert begin(other, folder).epochs == 2
    assert train_trial(other, folder)[0] == 9
    for config, own in ((trial, first), (trial, again), (other, folder)):
        assert_same(read_trial_files(own), uninterrupted(storage, config))
    damage_epoch(first)
    damage_epoch(again)
    last = there.trial_folder("third/0000-r0")
    assert (begin(trial, last).epochs, reused_work(last)[2]) == (3, None), "a stage of the store"
    assert_same(read_trial_files(last), uninterrupted(storage, trial))
