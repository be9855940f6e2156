"""Where a trial begins: what it reuses gives exactly what it would have trained, and what does not fit is left."""

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
from tests.sweeps.reuse.finished_trials import SPOILT, begin, compact_as, damaged_curves, finish, without_its_last_epoch
from tests.sweeps.reuse.trained_trials import Ground, Left, assert_same, left_by, train_trial

Uninterrupted = Callable[[Ground, LoadedTrial], Left]


@pytest.fixture(scope="module")
def uninterrupted() -> Uninterrupted:
    """Results of trials that are trained from their start, without a store; each configuration is trained once."""
    results: dict[TrialConfig, Left] = {}

    def find(ground: Ground, course: LoadedTrial) -> Left:
        if course.config not in results:
            place = ground.place("uninterrupted/0000-r0", shares=False)
            assert begin(course, place) == StartingPoint(epochs=0, reused=ReusedWork())
            assert len(train_trial(course, place)) == course.cuts[-1].total_steps
            results[course.config] = left_by(place)
        return results[course.config]

    return find


# Cuts.

OTHERS: dict[str, tuple[dict[str, Any], int]] = {
    "other batches in the second stage": ({"tasks__sst__batch_size": 4}, 1),
    "another loss in the second stage": ({"tasks__sst__loss": "ordinal_log_loss"}, 1),
    "a longer second stage": ({"stages__1__epochs": 3}, 3),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_trial_goes_on_from_anothers_stage_to_exactly_what_it_would_have_come_to(
    trained: Ground, other: str, uninterrupted: Uninterrupted
) -> None:
    changes, epochs = OTHERS[other]
    course, place = trained.course(**changes), trained.place("second/0003-r1")
    found = begin(course, place)
    shared = ReusedWork(steps=4 * epochs, seconds=1.5)
    assert found == StartingPoint(epochs=epochs, reused=shared)
    assert read_reused_work(place) == shared
    first = left_by(trained.place("first/0000-r0"))
    taken = left_by(place)
    assert taken.curves == [row for row in first.curves if row[1] <= epochs] != []
    assert taken.weights, "its best weights are there before it trains"
    steps = train_trial(course, place)
    assert steps[0] == 4 * epochs + 1
    assert_same(left_by(place), uninterrupted(trained, course))
    assert not (place.path / ".taken").exists()


def test_a_shorter_trial_finds_only_the_ends_of_a_longer_ones_stages(ground: Ground) -> None:
    long = ground.course(stages__1__epochs=3)
    train_trial(long, ground.place("long/0000-r0"), keeps=True)
    assert begin(ground.course(), ground.place()).epochs == 1


def test_the_best_weights_of_a_stage_can_go_unused(ground: Ground, uninterrupted: Uninterrupted) -> None:
    """A state that holds the best weights of its stage serves a trial whose next stage does not ask for them."""
    asking = ground.course(stages__1__start_from="best")
    train_trial(asking, ground.place("asking/0000-r0"), keeps=True)
    course, place = ground.course(), ground.place()
    assert begin(course, place).epochs == 1
    train_trial(course, place)
    assert_same(left_by(place), uninterrupted(ground, course))


def test_what_has_taken_over_and_is_killed_goes_on_from_its_own_state(
    trained: Ground, uninterrupted: Uninterrupted
) -> None:
    course, place = trained.course(tasks__sst__batch_size=4), trained.place("second/0000-r0")
    begin(course, place)
    train_trial(course, place, until_epoch=2)
    assert begin(course, place) == StartingPoint(epochs=2, reused=ReusedWork(steps=4, seconds=1.5))
    assert train_trial(course, place)[0] == 9
    assert_same(left_by(place), uninterrupted(trained, course))


def test_the_trials_own_newer_state_wins_over_an_older_cut(trained: Ground) -> None:
    course, place = trained.course(tasks__sst__batch_size=4), trained.place("second/0000-r0")
    train_trial(course, replace(place, store=None), until_epoch=2)
    before = saved_states(place.states)
    assert begin(course, place) == StartingPoint(epochs=2, reused=ReusedWork())
    assert saved_states(place.states) == before


def test_a_cut_wins_over_a_state_behind_fewer_epochs(trained: Ground) -> None:
    course, place = trained.course(tasks__sst__batch_size=4), trained.place("second/0000-r0")
    train_trial(course, place, until_step=2)
    assert newest_numbers(place.states) is not None
    assert begin(course, place) == StartingPoint(epochs=1, reused=ReusedWork(steps=4, seconds=1.5))
    (state,) = saved_states(place.states)
    assert state.name.startswith("state-000000004")


def test_what_a_trial_has_trained_itself_is_not_called_shared(trained: Ground) -> None:
    """It had trained its first stage before it took over the second."""
    course, place = trained.course(), trained.place("second/0000-r0")
    train_trial(course, place, until_epoch=1)
    seconds = max(pq.read_table(place.sweep_folder / curves_path(place.trial_id))["seconds"].to_pylist())
    found = begin(course, place)
    assert (found.epochs, found.is_finished, found.reused.steps) == (3, False, 8)
    assert found.reused.seconds == pytest.approx(1.5 - seconds)
    register_finished(trained.place("first/0000-r0"), course.cuts[-1])
    other = trained.place("third/0000-r0")
    train_trial(course, other, until_epoch=1)
    assert (begin(course, other).is_finished, read_reused_work(other).steps) == (True, 8)


def test_a_damaged_cut_is_left_and_the_one_before_it_is_taken(trained: Ground) -> None:
    course, place = trained.course(), trained.place("second/0000-r0")
    assert place.store is not None
    last = course.cuts[-1].key
    path = entry_folder(place.store, last) / "state" / "tensors"
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:-1])
    assert begin(course, place).epochs == 1
    assert not has_stage(place.store, last)


def test_a_stage_is_kept_once(trained: Ground) -> None:
    place, course = trained.place("first/0000-r0"), trained.course()
    assert store_cut(place, course.cuts[-1], 99.0, is_spare=True) is None
    assert begin(course, trained.place("second/0000-r0")).reused.seconds == 1.5, "what was there stays"


def test_why_a_stage_is_not_kept_is_said(trained: Ground) -> None:
    course, place = trained.course(), trained.place("first/0000-r0")
    shutil.rmtree(trained.storage / ".cache" / "stages")
    small = replace(place, store=trained.place(keep_bytes=10).store)
    why = store_cut(small, course.cuts[-1], 1.0, is_spare=False)
    assert why is not None
    assert "all stored stages together may have 10" in why
    next((place.path / "predictions").glob("qqp-dev-*")).unlink()
    why = store_cut(place, course.cuts[-1], 1.0, is_spare=False)
    assert why is not None
    assert "qqp-dev" in why
    (place.states.path / "best.json").unlink()
    assert store_cut(place, course.cuts[-1], 1.0, is_spare=False) is not None
    assert not [path for path in place.path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    "status",
    [*(pytest.param(status, marks=pytest.mark.slow) for status in ("queued", "running")), "interrupted", "failed"],
)
def test_a_trial_that_is_tried_again_keeps_its_next_stage_though_its_first_epochs_are_compacted(
    ground: Ground, status: str, uninterrupted: Uninterrupted
) -> None:
    """What may go on is not compacted; but what was taken for failed is, and can be tried again with its state."""
    course, place = ground.course(), ground.place("first/0000-r0")
    train_trial(course, place, until_epoch=1)
    compact_as(status, course, place)
    assert (place.sweep_folder / curves_path(place.trial_id)).exists() == (status != "failed")
    assert begin(course, place) == StartingPoint(epochs=1, reused=ReusedWork())
    assert train_trial(course, place, keeps=True)[0] == 5
    assert {path.name for path in place.path.iterdir()} == {"checkpoint", "curves.parquet", "predictions"}
    other, twin = ground.course(stages__1__epochs=3), ground.place("second/0000-r0")
    assert begin(other, twin).epochs == 3
    train_trial(other, twin)
    assert_same(left_by(twin), uninterrupted(ground, other))


# Its own states.


def other_configuration(_place: TrialFolder) -> dict[str, Any]:
    return {"optimizer__learning_rate": 5e-4}


def too_few_curves(place: TrialFolder) -> dict[str, Any]:
    (place.sweep_folder / curves_path(place.trial_id)).unlink()
    return {}


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (other_configuration, "a saved state must be of the same configuration"),
        (too_few_curves, "its curves must hold 1 epochs, got 0"),
        (damaged_curves, "curves.parquet"),
    ],
)
def test_a_state_that_cannot_be_gone_on_from_is_forgotten_and_that_is_said(
    ground: Ground, spoil: Callable[[TrialFolder], dict[str, Any]], why: str, shares: bool, uninterrupted: Uninterrupted
) -> None:
    place = ground.place(shares=shares)
    train_trial(ground.course(), place, until_epoch=1)
    write_reused_work(place, ReusedWork(steps=4))
    course = ground.course(**spoil(place))
    found = begin(course, place)
    assert (found.epochs, found.reused, found.is_finished) == (0, ReusedWork(), False)
    assert found.note is not None
    assert found.note.startswith("0000-r0 starts over: ")
    assert why in found.note
    assert "\n" not in found.note
    assert not place.states.path.exists()
    assert begin(course, place) == StartingPoint(epochs=0, reused=ReusedWork()), "it is said once"
    train_trial(course, place)
    assert_same(left_by(place), uninterrupted(ground, course))


def test_where_the_newest_state_is_damaged_the_one_before_it_counts(
    ground: Ground, uninterrupted: Uninterrupted
) -> None:
    course, place = ground.course(), ground.place()
    train_trial(course, place, until_epoch=2)
    newest, before = saved_states(place.states)
    assert before.name > "state-000000004", "between the epochs"
    (newest / "state.json").write_text("{")
    assert begin(course, place).epochs == 1
    train_trial(course, place)
    assert_same(left_by(place), uninterrupted(ground, course))


def test_without_a_store_nothing_is_shared_and_the_trials_own_state_counts(trained: Ground) -> None:
    course, place = trained.course(), trained.place("second/0000-r0", shares=False)
    register_finished(trained.place("first/0000-r0"), course.cuts[-1])
    assert begin(course, place) == StartingPoint(epochs=0, reused=ReusedWork())
    train_trial(course, place, until_epoch=1)
    assert begin(course, place) == StartingPoint(epochs=1, reused=ReusedWork())


# Whole trials.


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_damaged_twin_costs_a_trial_nothing(trained: Ground, spoil: str, uninterrupted: Uninterrupted) -> None:
    course, place = trained.course(), trained.place("second/0000-r0")
    train_trial(course, place, until_epoch=1)
    SPOILT[spoil](finish(trained))
    assert begin(course, place) == StartingPoint(epochs=1, reused=ReusedWork())
    assert train_trial(course, place)[0] == 5
    assert_same(left_by(place), uninterrupted(trained, course))


def test_a_trial_whose_end_was_lost_is_whole_and_not_taken_from_anybody(trained: Ground) -> None:
    first = finish(trained)
    assert begin(trained.course(), first) == StartingPoint(epochs=3, reused=ReusedWork(), is_finished=True)
    without_its_last_epoch(first)
    assert begin(trained.course(), first) == StartingPoint(epochs=0, reused=ReusedWork())


def test_the_checksums_of_best_weights_go_along(trained: Ground) -> None:
    places = [trained.place("second/0000-r0"), trained.place("third/0000-r0")]
    assert not begin(trained.course(stages__1__epochs=3), places[0]).is_finished
    finish(trained)
    assert begin(trained.course(), places[1]).is_finished
    for place in places:
        sums = known_checksums(place.states)
        assert sums.keys() == set((place.states.path / "weights").glob("*.safetensors")) != set()
        assert sums == {path: zlib.crc32(path.read_bytes()) for path in sums}


# Kills and full disks, at every point.


def kill_at_call(monkeypatch: pytest.MonkeyPatch, name: str, killed: int) -> None:
    """Makes call number `killed`, from 0, of a method of paths raise."""
    real, calls = getattr(Path, name), itertools.count()

    def call(path: Path, *arguments: Any, **named: Any) -> Any:
        if next(calls) == killed:
            raise Killed
        return real(path, *arguments, **named)

    monkeypatch.setattr(Path, name, call)


@pytest.mark.parametrize("name", ["rename", "write_text"])
def test_a_kill_while_a_stage_is_taken_over_costs_nothing(
    trained: Ground, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uninterrupted: Uninterrupted
) -> None:
    """Killed at the first call, at the second one, and so on, until all have been killed."""
    for number in itertools.count():
        ground = replace(trained, storage=tmp_path / f"killed at call {number}")
        shutil.copytree(trained.storage, ground.storage)
        course, place = ground.course(tasks__sst__batch_size=4), ground.place("second/0003-r0")
        with monkeypatch.context() as patch:
            kill_at_call(patch, name, number)
            try:
                begin(course, place)
            except Killed:
                is_killed = True
            else:
                is_killed = False
        if not is_killed:
            break
        assert begin(course, place).epochs == 1
        assert read_reused_work(place) == ReusedWork(steps=4, seconds=1.5)
        assert train_trial(course, place)[0] == 5
        assert_same(left_by(place), uninterrupted(trained, course))
    assert number > 0


@pytest.mark.parametrize(
    "number", [pytest.param(number, marks=[pytest.mark.slow] * (number % 2 > 0)) for number in range(6)]
)
def test_where_the_disk_is_full_a_trial_keeps_what_it_has_rather_than_taking_a_whole_one(
    trained: Ground, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    course, place = trained.course(), trained.place("second/0003-r0")
    train_trial(course, replace(place, store=None), until_epoch=2)
    before, first = left_by(place), finish(trained)
    real, calls = results.records.files.write_parquet, itertools.count()

    def write(*arguments: Any) -> None:
        if next(calls) == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(results.records.epoch_transfer, "write_parquet", write)
        assert begin(course, place) == StartingPoint(epochs=2, reused=ReusedWork())
    assert_same(left_by(place), before)
    assert begin(course, place).is_finished
    assert_same(left_by(place), left_by(first))


def test_where_the_disk_is_full_a_trial_keeps_what_it_has(trained: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    course, place = trained.course(stages__1__epochs=4), trained.place("second/0003-r0")
    train_trial(course, place, until_epoch=2)
    before = left_by(place)

    def fail(*_arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(take_over, "import_epochs", fail)
    assert begin(course, place).epochs == 2
    assert_same(left_by(place), before)
    assert saved_states(place.states)
