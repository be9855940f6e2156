"""Starting from stored stages or an equal trial gives exactly what training gives; damaged ones are ignored."""

import errno
import itertools
import os
import shutil
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import results.records.epoch_transfer

import results.records.files
from mtlib.checkpoints.best_weights import known_checksums
from mtlib.checkpoints.state import newest_numbers, saved_states
from mtlib.config.trial import TrialConfig
from results.records.epochs import curves_path
from sweeps.lanes.loaded_trial import LoadedTrial
from sweeps.reuse import starting_point as take_over
from sweeps.reuse.finished_trials import ReusedWork, TrialFolder, read_reused_work, register_finished, write_reused_work
from sweeps.reuse.stage_store import entry_folder, has_stage
from sweeps.reuse.starting_point import StartingPoint, store_cut
from tests.killed import Killed
from tests.sweeps.reuse.finished_trials import DAMAGES, begin, compact_as, damaged_curves, finish, remove_last_epoch
from tests.sweeps.reuse.trained_trials import TrialFiles, TrialStorage, assert_same, read_trial_files, train_trial

Uninterrupted = Callable[[TrialStorage, LoadedTrial], TrialFiles]


@pytest.fixture(scope="module")
def uninterrupted() -> Uninterrupted:
    """Results of trials trained from scratch without a store; each configuration is trained once."""
    results: dict[TrialConfig, TrialFiles] = {}

    def find(storage: TrialStorage, trial: LoadedTrial) -> TrialFiles:
        if trial.config not in results:
            folder = storage.trial_folder("uninterrupted/0000-r0", shares=False)
            assert begin(trial, folder) == StartingPoint(epochs=0, reused=ReusedWork())
            assert len(train_trial(trial, folder)) == trial.cuts[-1].total_steps
            results[trial.config] = read_trial_files(folder)
        return results[trial.config]

    return find


# Cuts.

OTHERS: dict[str, tuple[dict[str, Any], int]] = {
    "other batches in the second stage": ({"tasks__sst__batch_size": 4}, 1),
    "another loss in the second stage": ({"tasks__sst__loss": "ordinal_log_loss"}, 1),
    "a longer second stage": ({"stages__1__epochs": 3}, 3),
}


@pytest.mark.parametrize("other", OTHERS)
def test_continuing_from_a_stored_stage_is_exact(
    trained: TrialStorage, other: str, uninterrupted: Uninterrupted
) -> None:
    changes, epochs = OTHERS[other]
    trial, folder = trained.load_trial(**changes), trained.trial_folder("second/0003-r1")
    found = begin(trial, folder)
    shared = ReusedWork(steps=4 * epochs, seconds=1.5)
    assert found == StartingPoint(epochs=epochs, reused=shared)
    assert read_reused_work(folder) == shared
    first = read_trial_files(trained.trial_folder("first/0000-r0"))
    taken = read_trial_files(folder)
    assert taken.curves == [row for row in first.curves if row[1] <= epochs] != []
    assert taken.weights, "its best weights are there before it trains"
    steps = train_trial(trial, folder)
    assert steps[0] == 4 * epochs + 1
    assert_same(read_trial_files(folder), uninterrupted(trained, trial))
    assert not (folder.path / ".taken").exists()


def test_shorter_trial_reuses_only_stage_ends_of_a_longer_one(storage: TrialStorage) -> None:
    long = storage.load_trial(stages__1__epochs=3)
    train_trial(long, storage.trial_folder("long/0000-r0"), stores=True)
    assert begin(storage.load_trial(), storage.trial_folder()).epochs == 1


def test_stored_best_weights_may_be_unused(storage: TrialStorage, uninterrupted: Uninterrupted) -> None:
    """A state that holds its stage's best weights also serves a trial whose next stage does not start from them."""
    asking = storage.load_trial(stages__1__start_from="best")
    train_trial(asking, storage.trial_folder("asking/0000-r0"), stores=True)
    trial, folder = storage.load_trial(), storage.trial_folder()
    assert begin(trial, folder).epochs == 1
    train_trial(trial, folder)
    assert_same(read_trial_files(folder), uninterrupted(storage, trial))


def test_killed_trial_with_a_reused_stage_resumes_from_its_own_state(
    trained: TrialStorage, uninterrupted: Uninterrupted
) -> None:
    trial, folder = trained.load_trial(tasks__sst__batch_size=4), trained.trial_folder("second/0000-r0")
    begin(trial, folder)
    train_trial(trial, folder, until_epoch=2)
    assert begin(trial, folder) == StartingPoint(epochs=2, reused=ReusedWork(steps=4, seconds=1.5))
    assert train_trial(trial, folder)[0] == 9
    assert_same(read_trial_files(folder), uninterrupted(trained, trial))


def test_own_newer_state_wins_over_an_older_stage(trained: TrialStorage) -> None:
    trial, folder = trained.load_trial(tasks__sst__batch_size=4), trained.trial_folder("second/0000-r0")
    train_trial(trial, replace(folder, store=None), until_epoch=2)
    before = saved_states(folder.states)
    assert begin(trial, folder) == StartingPoint(epochs=2, reused=ReusedWork())
    assert saved_states(folder.states) == before


def test_stage_wins_over_a_state_with_fewer_epochs(trained: TrialStorage) -> None:
    trial, folder = trained.load_trial(tasks__sst__batch_size=4), trained.trial_folder("second/0000-r0")
    train_trial(trial, folder, until_step=2)
    assert newest_numbers(folder.states) is not None
    assert begin(trial, folder) == StartingPoint(epochs=1, reused=ReusedWork(steps=4, seconds=1.5))
    (state,) = saved_states(folder.states)
    assert state.name.startswith("state-000000004")


def test_own_training_is_not_counted_as_reused(trained: TrialStorage) -> None:
    """It has trained its first stage before it reuses the second."""
    trial, folder = trained.load_trial(), trained.trial_folder("second/0000-r0")
    train_trial(trial, folder, until_epoch=1)
    seconds = max(pq.read_table(folder.sweep_folder / curves_path(folder.trial_id))["seconds"].to_pylist())
    found = begin(trial, folder)
    assert (found.epochs, found.is_finished, found.reused.steps) == (3, False, 8)
    assert found.reused.seconds == pytest.approx(1.5 - seconds)
    register_finished(trained.trial_folder("first/0000-r0"), trial.cuts[-1])
    other = trained.trial_folder("third/0000-r0")
    train_trial(trial, other, until_epoch=1)
    assert (begin(trial, other).is_finished, read_reused_work(other).steps) == (True, 8)


def test_damaged_stage_is_removed_and_the_previous_one_used(trained: TrialStorage) -> None:
    trial, folder = trained.load_trial(), trained.trial_folder("second/0000-r0")
    assert folder.store is not None
    last = trial.cuts[-1].key
    path = entry_folder(folder.store, last) / "state" / "tensors"
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:-1])
    assert begin(trial, folder).epochs == 1
    assert not has_stage(folder.store, last)


def test_stage_is_stored_once(trained: TrialStorage) -> None:
    folder, trial = trained.trial_folder("first/0000-r0"), trained.load_trial()
    assert store_cut(folder, trial.cuts[-1], 99.0, is_spare=True) is None
    assert begin(trial, trained.trial_folder("second/0000-r0")).reused.seconds == 1.5, "the first entry stays"


def test_reasons_for_not_storing_a_stage_are_returned(trained: TrialStorage) -> None:
    trial, folder = trained.load_trial(), trained.trial_folder("first/0000-r0")
    shutil.rmtree(trained.path / ".cache" / "stages")
    small = replace(folder, store=trained.trial_folder(keep_bytes=10).store)
    why = store_cut(small, trial.cuts[-1], 1.0, is_spare=False)
    assert why is not None
    assert "all stored stages together may have 10" in why
    next((folder.path / "predictions").glob("qqp-dev-*")).unlink()
    why = store_cut(folder, trial.cuts[-1], 1.0, is_spare=False)
    assert why is not None
    assert "qqp-dev" in why
    (folder.states.path / "best.json").unlink()
    assert store_cut(folder, trial.cuts[-1], 1.0, is_spare=False) is not None
    assert not [path for path in folder.path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    "status",
    [*(pytest.param(status, marks=pytest.mark.slow) for status in ("queued", "running")), "interrupted", "failed"],
)
def test_retried_trial_with_compacted_epochs_stores_its_next_stage(
    storage: TrialStorage, status: str, uninterrupted: Uninterrupted
) -> None:
    """Trials that may continue are not compacted, but failed ones are, and those can be retried from their states."""
    trial, folder = storage.load_trial(), storage.trial_folder("first/0000-r0")
    train_trial(trial, folder, until_epoch=1)
    compact_as(status, trial, folder)
    assert (folder.sweep_folder / curves_path(folder.trial_id)).exists() == (status != "failed")
    assert begin(trial, folder) == StartingPoint(epochs=1, reused=ReusedWork())
    assert train_trial(trial, folder, stores=True)[0] == 5
    assert {path.name for path in folder.path.iterdir()} == {"checkpoint", "curves.parquet", "predictions"}
    other, twin = storage.load_trial(stages__1__epochs=3), storage.trial_folder("second/0000-r0")
    assert begin(other, twin).epochs == 3
    train_trial(other, twin)
    assert_same(read_trial_files(twin), uninterrupted(storage, other))


# Its own states.


def other_configuration(_place: TrialFolder) -> dict[str, Any]:
    return {"optimizer__learning_rate": 5e-4}


def too_few_curves(folder: TrialFolder) -> dict[str, Any]:
    (folder.sweep_folder / curves_path(folder.trial_id)).unlink()
    return {}


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (other_configuration, "a saved state must be of the same configuration"),
        (too_few_curves, "its curves must hold 1 epochs, got 0"),
        (damaged_curves, "curves.parquet"),
    ],
)
def test_unusable_state_is_dropped_with_a_note(
    storage: TrialStorage,
    damage: Callable[[TrialFolder], dict[str, Any]],
    why: str,
    shares: bool,
    uninterrupted: Uninterrupted,
) -> None:
    folder = storage.trial_folder(shares=shares)
    train_trial(storage.load_trial(), folder, until_epoch=1)
    write_reused_work(folder, ReusedWork(steps=4))
    trial = storage.load_trial(**damage(folder))
    found = begin(trial, folder)
    assert (found.epochs, found.reused, found.is_finished) == (0, ReusedWork(), False)
    assert found.note is not None
    assert found.note.startswith("0000-r0 starts over: ")
    assert why in found.note
    assert "\n" not in found.note
    assert not folder.states.path.exists()
    assert begin(trial, folder) == StartingPoint(epochs=0, reused=ReusedWork()), "the note is given once"
    train_trial(trial, folder)
    assert_same(read_trial_files(folder), uninterrupted(storage, trial))


def test_previous_state_is_used_where_the_newest_is_damaged(
    storage: TrialStorage, uninterrupted: Uninterrupted
) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder()
    train_trial(trial, folder, until_epoch=2)
    newest, before = saved_states(folder.states)
    assert before.name > "state-000000004", "between the epochs"
    (newest / "state.json").write_text("{")
    assert begin(trial, folder).epochs == 1
    train_trial(trial, folder)
    assert_same(read_trial_files(folder), uninterrupted(storage, trial))


def test_without_a_store_only_own_states_are_used(trained: TrialStorage) -> None:
    trial, folder = trained.load_trial(), trained.trial_folder("second/0000-r0", shares=False)
    register_finished(trained.trial_folder("first/0000-r0"), trial.cuts[-1])
    assert begin(trial, folder) == StartingPoint(epochs=0, reused=ReusedWork())
    train_trial(trial, folder, until_epoch=1)
    assert begin(trial, folder) == StartingPoint(epochs=1, reused=ReusedWork())


# Whole trials.


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_equal_trial_is_ignored(trained: TrialStorage, damage: str, uninterrupted: Uninterrupted) -> None:
    trial, folder = trained.load_trial(), trained.trial_folder("second/0000-r0")
    train_trial(trial, folder, until_epoch=1)
    DAMAGES[damage](finish(trained))
    assert begin(trial, folder) == StartingPoint(epochs=1, reused=ReusedWork())
    assert train_trial(trial, folder)[0] == 5
    assert_same(read_trial_files(folder), uninterrupted(trained, trial))


def test_trial_with_a_lost_end_is_finished_and_reuses_nothing(trained: TrialStorage) -> None:
    first = finish(trained)
    assert begin(trained.load_trial(), first) == StartingPoint(epochs=3, reused=ReusedWork(), is_finished=True)
    remove_last_epoch(first)
    assert begin(trained.load_trial(), first) == StartingPoint(epochs=0, reused=ReusedWork())


def test_checksums_of_best_weights_are_copied(trained: TrialStorage) -> None:
    folders = [trained.trial_folder("second/0000-r0"), trained.trial_folder("third/0000-r0")]
    assert not begin(trained.load_trial(stages__1__epochs=3), folders[0]).is_finished
    finish(trained)
    assert begin(trained.load_trial(), folders[1]).is_finished
    for folder in folders:
        sums = known_checksums(folder.states)
        assert sums.keys() == set((folder.states.path / "weights").glob("*.safetensors")) != set()
        assert sums == {path: zlib.crc32(path.read_bytes()) for path in sums}


# Kills and full disks, at every point.


def kill_at_call(monkeypatch: pytest.MonkeyPatch, name: str, killed: int) -> None:
    """Makes call number `killed`, from 0, of a `Path` method raise."""
    real, calls = getattr(Path, name), itertools.count()

    def call(path: Path, *arguments: Any, **named: Any) -> Any:
        if next(calls) == killed:
            raise Killed
        return real(path, *arguments, **named)

    monkeypatch.setattr(Path, name, call)


@pytest.mark.parametrize("name", ["rename", "write_text"])
def test_kill_while_reusing_a_stage_loses_nothing(
    trained: TrialStorage, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uninterrupted: Uninterrupted
) -> None:
    """Kills at the first call, then at the second, until all calls have been killed."""
    for number in itertools.count():
        storage = replace(trained, path=tmp_path / f"killed at call {number}")
        shutil.copytree(trained.path, storage.path)
        trial, folder = storage.load_trial(tasks__sst__batch_size=4), storage.trial_folder("second/0003-r0")
        with monkeypatch.context() as patch:
            kill_at_call(patch, name, number)
            try:
                begin(trial, folder)
            except Killed:
                is_killed = True
            else:
                is_killed = False
        if not is_killed:
            break
        assert begin(trial, folder).epochs == 1
        assert read_reused_work(folder) == ReusedWork(steps=4, seconds=1.5)
        assert train_trial(trial, folder)[0] == 5
        assert_same(read_trial_files(folder), uninterrupted(trained, trial))
    assert number > 0


@pytest.mark.parametrize(
    "number", [pytest.param(number, marks=[pytest.mark.slow] * (number % 2 > 0)) for number in range(6)]
)
def test_full_disk_while_reusing_a_whole_trial_keeps_own_state(
    trained: TrialStorage, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, folder = trained.load_trial(), trained.trial_folder("second/0003-r0")
    train_trial(trial, replace(folder, store=None), until_epoch=2)
    before, first = read_trial_files(folder), finish(trained)
    real, calls = results.records.files.write_parquet, itertools.count()

    def write(*arguments: Any) -> None:
        if next(calls) == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(results.records.epoch_transfer, "write_parquet", write)
        assert begin(trial, folder) == StartingPoint(epochs=2, reused=ReusedWork())
    assert_same(read_trial_files(folder), before)
    assert begin(trial, folder).is_finished
    assert_same(read_trial_files(folder), read_trial_files(first))


def test_full_disk_while_reusing_a_stage_keeps_own_state(
    trained: TrialStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, folder = trained.load_trial(stages__1__epochs=4), trained.trial_folder("second/0003-r0")
    train_trial(trial, folder, until_epoch=2)
    before = read_trial_files(folder)

    def fail(*_arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(take_over, "import_epochs", fail)
    assert begin(trial, folder).epochs == 2
    assert_same(read_trial_files(folder), before)
    assert saved_states(folder.states)
