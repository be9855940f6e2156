"""Whole trials that have finished: an equal one reuses them exactly, unless anything of them is missing."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from mtlib.checkpoints.best_weights import CHECKSUMS
from mtlib.checkpoints.state import saved_states
from results.records.epochs import curves_path
from sweeps.options import SweepOptions
from sweeps.reuse.finished_trials import (
    MAX_REGISTERED,
    ReusedWork,
    fetch_finished,
    read_reused_work,
    register_finished,
    registered_trials,
    trial_folder,
    write_reused_work,
)
from sweeps.reuse.starting_point import StartingPoint
from tests.sweeps.reuse.finished_trials import NAMES, SPOILT, begin, cleaned, compact_as, finish
from tests.sweeps.reuse.trained_trials import Ground, assert_same, left_by, train_trial


@pytest.mark.parametrize("is_compacted", [False, True])
def test_an_equal_trial_that_has_finished_is_taken_over_whole(trained: Ground, is_compacted: bool) -> None:
    course, first = trained.course(), finish(trained)
    before = left_by(first)
    if is_compacted:
        compact_as("complete", course, first)
        assert not (first.sweep_folder / curves_path(first.trial_id)).exists()
    place = trained.place("second/0007-r0")
    found = begin(course, place)
    assert (found.epochs, found.is_finished, found.note) == (3, True, None)
    assert (found.reused.steps, found.reused.taken_from) == (12, "first/0000-r0")
    assert found.reused.seconds == max(pq.read_table(place.path / "curves.parquet")["seconds"].to_pylist()) > 0
    assert read_reused_work(place) == found.reused
    assert_same(left_by(place), before)
    assert saved_states(place.states) == []
    assert not (place.path / ".taken").exists()
    again = trained.place("third/0000-r0")
    register_finished(place, course.cuts[-1])
    assert begin(course, again).reused.taken_from == "second/0007-r0"


def test_an_equal_trial_of_the_same_sweep_is_taken_over(trained: Ground) -> None:
    finish(trained)
    place = trained.place("first/0004-r0")
    assert begin(trained.course(), place).reused.taken_from == "first/0000-r0"
    assert_same(left_by(place), left_by(trained.place("first/0000-r0")))


@pytest.mark.parametrize(
    "changes", [{"replicate": 1}, {"seed": 1}, {"stages__1__epochs": 3}, {"tasks__sts__batch_size": 4}]
)
def test_a_trial_that_differs_is_not_taken_over_whole(trained: Ground, changes: dict[str, Any]) -> None:
    finish(trained)
    assert begin(trained.course(**changes), trained.place("second/0000-r0")) == StartingPoint(
        epochs=0, reused=ReusedWork()
    )


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_finished_trial_that_is_not_whole_any_more_is_not_taken_over(trained: Ground, spoil: str) -> None:
    SPOILT[spoil](finish(trained))
    place = trained.place("second/0000-r0")
    assert begin(trained.course(), place) == StartingPoint(epochs=0, reused=ReusedWork())
    assert not (place.path / ".taken").exists()
    assert saved_states(place.states) == []


def test_a_trial_does_not_take_itself_over(trained: Ground) -> None:
    first = finish(trained)
    assert fetch_finished(first, trained.course().cuts[-1], NAMES) is None
    assert left_by(first).weights


def test_a_trial_whose_sweep_is_deleted_is_still_to_be_had_from_those_that_took_it_over(trained: Ground) -> None:
    first, second, course = finish(trained), trained.place("second/0003-r0"), trained.course()
    before = left_by(first)
    assert begin(course, second).is_finished
    register_finished(second, course.cuts[-1])
    shutil.rmtree(first.sweep_folder)
    third = trained.place("third/0000-r0")
    assert begin(course, third).reused.taken_from == "second/0003-r0"
    assert_same(left_by(third), before)
    register_finished(third, course.cuts[-1])
    cleaned(third)
    assert begin(course, trained.place("fourth/0000-r0")).reused.taken_from == "second/0003-r0", (
        "the third lacks weights"
    )


def test_of_many_equal_trials_the_newest_are_noted(trained: Ground) -> None:
    cut = trained.course().cuts[-1]
    names = [f"sweep{number}/0000-r0" for number in range(MAX_REGISTERED + 2)]
    for name in (*names, names[3]):
        register_finished(trained.place(name), cut)
    newest = [names[3], *(name for name in reversed(names) if name != names[3])]
    assert registered_trials(trained.place(), cut) == newest[:MAX_REGISTERED]


def test_a_note_says_where_the_newest_equal_trial_is(trained: Ground) -> None:
    cut = trained.course().cuts[-1]
    for name in ("first/0000-r0", "second/0001-r0"):
        register_finished(trained.place(name), cut)
    (note,) = trained.place().finished_folder.iterdir()
    assert note.name == f"{cut.key}.json"
    assert json.loads(note.read_text()) == {"trials": ["second/0001-r0", "first/0000-r0"]}


def test_a_note_does_not_outlive_what_it_was_written_for(trained: Ground) -> None:
    """Another sweep has taken the name, and another configuration the trial's number."""
    first = finish(trained)
    shutil.rmtree(first.sweep_folder)
    other = trained.course(optimizer__learning_rate=1e-2)
    again = trained.place("first/0000-r0")
    train_trial(other, again)
    register_finished(again, other.cuts[-1])
    assert begin(trained.course(), trained.place("second/0000-r0")).reused.taken_from is None
    assert begin(other, trained.place("third/0000-r0")).reused.taken_from == "first/0000-r0"


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"unknown": 1}'])
def test_what_was_shared_is_read_back_or_nothing(ground: Ground, content: str | None) -> None:
    place = ground.place()
    shared = ReusedWork(steps=7, seconds=0.1, taken_from="first/0000-r0")
    write_reused_work(place, shared)
    assert read_reused_work(place) == shared
    path = place.path / "shared.json"
    path.unlink()
    if content is not None:
        path.write_text(content)
    assert read_reused_work(place) == ReusedWork()


def test_weights_without_checksums_are_taken_over(trained: Ground) -> None:
    first, place = finish(trained), trained.place("second/0000-r0")
    (first.states.path / "weights" / CHECKSUMS).unlink()
    assert begin(trained.course(), place).is_finished
    assert left_by(place).weights


def test_a_trials_files_are_in_its_own_folder_and_the_register_in_that_of_all_sweeps(tmp_path: Path) -> None:
    options = SweepOptions(space="tiny", name="first", storage=tmp_path, checkpoint_steps=7, reuse=False)
    found = trial_folder(options, "0000-r0")
    assert found.path == tmp_path / "first" / "trials" / "0000-r0"
    assert (found.states.path, found.states.checkpoint_steps) == (found.path / "checkpoint", 7)
    assert (found.store, found.finished_folder) == (None, tmp_path / ".cache" / "finished")
