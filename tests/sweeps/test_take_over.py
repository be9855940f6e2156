"""Where a trial begins: what it takes over gives exactly what it would have trained, and what does not fit is left."""

import json
import shutil
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from mtlib.checkpoint import CHECKSUMS, known_checksums, newest_numbers, saved_states
from mtlib.config import TrialConfig
from results.epochs import compact, curves_path
from results.records import TrialRecord, write_trials
from sweeps.cleaning import keep_names
from sweeps.lane_trial import Course
from sweeps.stages import folder_of, has_stage
from sweeps.take_over import (
    Beginning,
    Shared,
    TrialPlace,
    find_beginning,
    keep_cut,
    note_finished,
    read_shared,
    take_finished,
    write_shared,
)
from tests.sweeps.trained_trials import FAST, Ground, assert_same, left_by, train_trial

NAMES = ("qqp", "sst", "sts", "overall")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds a storage with one trial in it, once it has been trained."""
    return tmp_path_factory.mktemp("shelf") / "storage"


@pytest.fixture
def empty(tmp_path: Path, tiny_config: TrialConfig, tiny_folder: Path, tiny_encoder_folder: Path) -> Ground:
    """A storage without anything in it."""
    base = tiny_config.override({**FAST, "encoder.name": str(tiny_encoder_folder)})
    return Ground(base, tiny_folder, tmp_path / "storage")


@pytest.fixture
def ground(empty: Ground, shelf: Path) -> Ground:
    """A storage in which trial `first/0000-r0` has been trained to its end and has kept both of its stages."""
    if not shelf.exists():
        template = replace(empty, storage=shelf)
        train_trial(template.course(), template.place("first/0000-r0"), keeps=True)
    shutil.copytree(shelf, empty.storage)
    return empty


def begin(course: Course, place: TrialPlace) -> Beginning:
    return find_beginning(place, course.config, course.origin, course.cuts)


def cold(ground: Ground, course: Course) -> TrialPlace:
    """The trial trained from its start by itself."""
    place = ground.place("cold/0000-r0", shares=False)
    assert begin(course, place) == Beginning(epochs=0, shared=Shared())
    assert len(train_trial(course, place)) == course.cuts[-1].total_steps
    return place


def finish(ground: Ground, name: str = "first/0000-r0") -> TrialPlace:
    """Notes a trial as finished, its states gone, and empties the store, so that only the whole trial can be had."""
    place = ground.place(name)
    note_finished(place, ground.course().cuts[-1])
    for state in saved_states(place.states):
        shutil.rmtree(state)
    shutil.rmtree(ground.storage / ".cache" / "stages")
    return place


def record_of(course: Course, place: TrialPlace, status: str) -> TrialRecord:
    counts = ("number", "replicate", "seed", "epochs", "steps", "shared_steps", "peak_memory_bytes")
    fields: dict[str, Any] = {name: {} for name in ("params", "best", "last", "best_epoch")}
    fields |= dict.fromkeys(("checkpoint", "taken_from", "error", "host", "started"))
    fields |= dict.fromkeys((*counts, "device_seconds", "wall_seconds"), 0)
    fields |= {"config": course.config.to_json(), "config_hash": course.config.content_hash}
    return TrialRecord(trial_id=place.trial_id, status=status, **fields)


def compact_as(status: str, course: Course, place: TrialPlace) -> None:
    """Compacts the sweep, whose only trial has this status."""
    write_trials(place.folder, [record_of(course, place, status)], ("sst", "qqp", "sts"))
    compact(place.folder)


# Cuts.

OTHERS: dict[str, tuple[dict[str, Any], int]] = {
    "other batches in the second stage": ({"tasks__sst__batch_size": 4}, 1),
    "another loss in the second stage": ({"tasks__sst__loss": "ordinal_log_loss"}, 1),
    "a longer second stage": ({"stages__1__epochs": 3}, 3),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_trial_goes_on_from_anothers_stage_to_exactly_what_it_would_have_come_to(ground: Ground, other: str) -> None:
    changes, epochs = OTHERS[other]
    course, place = ground.course(**changes), ground.place("second/0003-r1")
    found = begin(course, place)
    shared = Shared(steps=4 * epochs, seconds=1.5)
    assert found == Beginning(epochs=epochs, shared=shared)
    assert read_shared(place) == shared
    first = left_by(ground.place("first/0000-r0"))
    taken = left_by(place)
    assert taken.curves == [row for row in first.curves if row[1] <= epochs] != []
    assert taken.weights, "its best weights are there before it trains"
    steps = train_trial(course, place)
    assert steps[0] == 4 * epochs + 1
    assert_same(left_by(place), left_by(cold(ground, course)))
    assert not (place.path / ".taken").exists()


def test_a_shorter_trial_finds_only_the_ends_of_a_longer_ones_stages(empty: Ground) -> None:
    long = empty.course(stages__1__epochs=3)
    train_trial(long, empty.place("long/0000-r0"), keeps=True)
    assert begin(empty.course(), empty.place()).epochs == 1


def test_the_best_weights_of_a_stage_can_go_unused(empty: Ground) -> None:
    """A state that holds the best weights of its stage serves a trial whose next stage does not ask for them."""
    asking = empty.course(stages__1__start_from="best")
    train_trial(asking, empty.place("asking/0000-r0"), keeps=True)
    course, place = empty.course(), empty.place()
    assert begin(course, place).epochs == 1
    train_trial(course, place)
    assert_same(left_by(place), left_by(cold(empty, course)))


def test_what_has_taken_over_and_is_killed_goes_on_from_its_own_state(ground: Ground) -> None:
    course, place = ground.course(tasks__sst__batch_size=4), ground.place("second/0000-r0")
    begin(course, place)
    train_trial(course, place, until_epoch=2)
    assert begin(course, place) == Beginning(epochs=2, shared=Shared(steps=4, seconds=1.5))
    assert train_trial(course, place)[0] == 9
    assert_same(left_by(place), left_by(cold(ground, course)))


def test_the_trials_own_newer_state_wins_over_an_older_cut(ground: Ground) -> None:
    course, place = ground.course(tasks__sst__batch_size=4), ground.place("second/0000-r0")
    train_trial(course, replace(place, store=None), until_epoch=2)
    before = saved_states(place.states)
    assert begin(course, place) == Beginning(epochs=2, shared=Shared())
    assert saved_states(place.states) == before


def test_a_cut_wins_over_a_state_behind_fewer_epochs(ground: Ground) -> None:
    course, place = ground.course(tasks__sst__batch_size=4), ground.place("second/0000-r0")
    train_trial(course, place, until_step=2)
    assert newest_numbers(place.states) is not None
    assert begin(course, place) == Beginning(epochs=1, shared=Shared(steps=4, seconds=1.5))
    (state,) = saved_states(place.states)
    assert state.name.startswith("state-000000004")


def test_what_a_trial_has_trained_itself_is_not_called_shared(ground: Ground) -> None:
    """It had trained its first stage before it took over the second."""
    course, place = ground.course(), ground.place("second/0000-r0")
    train_trial(course, place, until_epoch=1)
    seconds = max(pq.read_table(place.folder / curves_path(place.trial_id))["seconds"].to_pylist())
    found = begin(course, place)
    assert (found.epochs, found.is_whole, found.shared.steps) == (3, False, 8)
    assert found.shared.seconds == pytest.approx(1.5 - seconds)
    note_finished(ground.place("first/0000-r0"), course.cuts[-1])
    other = ground.place("third/0000-r0")
    train_trial(course, other, until_epoch=1)
    assert (begin(course, other).is_whole, read_shared(other).steps) == (True, 8)


def test_a_damaged_cut_is_left_and_the_one_before_it_is_taken(ground: Ground) -> None:
    course, place = ground.course(), ground.place("second/0000-r0")
    assert place.store is not None
    last = course.cuts[-1].key
    path = folder_of(place.store, last) / "state" / "tensors"
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:-1])
    assert begin(course, place).epochs == 1
    assert not has_stage(place.store, last)


def test_a_stage_is_kept_once(ground: Ground) -> None:
    place, course = ground.place("first/0000-r0"), ground.course()
    assert keep_cut(place, course.cuts[-1], 99.0, is_spare=True) is None
    assert begin(course, ground.place("second/0000-r0")).shared.seconds == 1.5, "what was there stays"


def test_why_a_stage_is_not_kept_is_said(ground: Ground) -> None:
    course, place = ground.course(), ground.place("first/0000-r0")
    shutil.rmtree(ground.storage / ".cache" / "stages")
    small = replace(place, store=ground.place(most_bytes=10).store)
    why = keep_cut(small, course.cuts[-1], 1.0, is_spare=False)
    assert why is not None
    assert "all kept stages together may have 10" in why
    next((place.path / "predictions").glob("qqp-dev-*")).unlink()
    why = keep_cut(place, course.cuts[-1], 1.0, is_spare=False)
    assert why is not None
    assert "qqp-dev" in why
    (place.states.path / "best.json").unlink()
    assert keep_cut(place, course.cuts[-1], 1.0, is_spare=False) is not None
    assert not [path for path in place.path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("status", ["queued", "running", "interrupted", "failed"])
def test_a_trial_that_is_tried_again_keeps_its_next_stage_though_its_first_epochs_are_compacted(
    empty: Ground, status: str
) -> None:
    """What may go on is not compacted; but what was taken for failed is, and can be tried again with its state."""
    course, place = empty.course(), empty.place("first/0000-r0")
    train_trial(course, place, until_epoch=1)
    compact_as(status, course, place)
    assert (place.folder / curves_path(place.trial_id)).exists() == (status != "failed")
    assert begin(course, place) == Beginning(epochs=1, shared=Shared())
    assert train_trial(course, place, keeps=True)[0] == 5
    assert {path.name for path in place.path.iterdir()} == {"checkpoint", "curves.parquet", "predictions"}
    other, twin = empty.course(stages__1__epochs=3), empty.place("second/0000-r0")
    assert begin(other, twin).epochs == 3
    train_trial(other, twin)
    assert_same(left_by(twin), left_by(cold(empty, other)))


# Its own states.


def other_configuration(_place: TrialPlace) -> dict[str, Any]:
    return {"optimizer__learning_rate": 5e-4}


def too_few_curves(place: TrialPlace) -> dict[str, Any]:
    (place.folder / curves_path(place.trial_id)).unlink()
    return {}


def damaged_curves(place: TrialPlace) -> dict[str, Any]:
    path = place.folder / curves_path(place.trial_id)
    path.write_bytes(path.read_bytes()[:-9])
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
    empty: Ground, spoil: Callable[[TrialPlace], dict[str, Any]], why: str, shares: bool
) -> None:
    place = empty.place(shares=shares)
    train_trial(empty.course(), place, until_epoch=1)
    write_shared(place, Shared(steps=4))
    course = empty.course(**spoil(place))
    found = begin(course, place)
    assert (found.epochs, found.shared, found.is_whole) == (0, Shared(), False)
    assert found.note is not None
    assert found.note.startswith("0000-r0 begins anew: ")
    assert why in found.note
    assert "\n" not in found.note
    assert not place.states.path.exists()
    assert begin(course, place) == Beginning(epochs=0, shared=Shared()), "it is said once"
    train_trial(course, place)
    assert_same(left_by(place), left_by(cold(empty, course)))


def test_where_the_newest_state_is_damaged_the_one_before_it_counts(empty: Ground) -> None:
    course, place = empty.course(), empty.place()
    train_trial(course, place, until_epoch=2)
    newest, before = saved_states(place.states)
    assert before.name > "state-000000004", "between the epochs"
    (newest / "state.json").write_text("{")
    assert begin(course, place).epochs == 1
    train_trial(course, place)
    assert_same(left_by(place), left_by(cold(empty, course)))


def test_without_a_store_nothing_is_shared_and_the_trials_own_state_counts(ground: Ground) -> None:
    course, place = ground.course(), ground.place("second/0000-r0", shares=False)
    note_finished(ground.place("first/0000-r0"), course.cuts[-1])
    assert begin(course, place) == Beginning(epochs=0, shared=Shared())
    train_trial(course, place, until_epoch=1)
    assert begin(course, place) == Beginning(epochs=1, shared=Shared())


# Whole trials.


@pytest.mark.parametrize("is_compacted", [False, True])
def test_an_equal_trial_that_has_finished_is_taken_over_whole(ground: Ground, is_compacted: bool) -> None:
    course, first = ground.course(), finish(ground)
    before = left_by(first)
    if is_compacted:
        compact_as("complete", course, first)
        assert not (first.folder / curves_path(first.trial_id)).exists()
    place = ground.place("second/0007-r0")
    found = begin(course, place)
    assert (found.epochs, found.is_whole, found.note) == (3, True, None)
    assert (found.shared.steps, found.shared.taken_from) == (12, "first/0000-r0")
    assert found.shared.seconds == max(pq.read_table(place.path / "curves.parquet")["seconds"].to_pylist()) > 0
    assert read_shared(place) == found.shared
    assert_same(left_by(place), before)
    assert saved_states(place.states) == []
    assert not (place.path / ".taken").exists()
    again = ground.place("third/0000-r0")
    note_finished(place, course.cuts[-1])
    assert begin(course, again).shared.taken_from == "second/0007-r0"


def test_an_equal_trial_of_the_same_sweep_is_taken_over(ground: Ground) -> None:
    finish(ground)
    place = ground.place("first/0004-r0")
    assert begin(ground.course(), place).shared.taken_from == "first/0000-r0"
    assert_same(left_by(place), left_by(ground.place("first/0000-r0")))


@pytest.mark.parametrize(
    "changes", [{"replicate": 1}, {"seed": 1}, {"stages__1__epochs": 3}, {"tasks__sts__batch_size": 4}]
)
def test_a_trial_that_differs_is_not_taken_over_whole(ground: Ground, changes: dict[str, Any]) -> None:
    finish(ground)
    assert begin(ground.course(**changes), ground.place("second/0000-r0")) == Beginning(epochs=0, shared=Shared())


def without_weights(first: TrialPlace) -> None:
    next((first.states.path / "weights").glob("*.safetensors")).unlink()


def with_damaged_weights(first: TrialPlace) -> None:
    path = next((first.states.path / "weights").glob("*.safetensors"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def cleaned(first: TrialPlace) -> None:
    """Its sweep has deleted the weights that are best by one score alone, as those of others were better."""
    keep_names(first.states, set(NAMES[1:]))


def cleaned_of_all(first: TrialPlace) -> None:
    keep_names(first.states, set())


def without_best(first: TrialPlace) -> None:
    (first.states.path / "best.json").write_text("{")


def with_damaged_curves(first: TrialPlace) -> None:
    damaged_curves(first)


def without_its_last_epoch(first: TrialPlace) -> None:
    path = first.folder / curves_path(first.trial_id)
    table = pq.read_table(path)
    pq.write_table(table.filter([epoch < 3 for epoch in table["epoch"].to_pylist()]), path)


def without_predictions(first: TrialPlace) -> None:
    next((first.path / "predictions").glob("sst-dev-*")).unlink()


def without_its_sweep(first: TrialPlace) -> None:
    shutil.rmtree(first.folder)


def with_a_damaged_note(first: TrialPlace) -> None:
    next(first.finished_folder.glob("*.json")).write_text("[]")


SPOILT = {
    spoil.__name__: spoil
    for spoil in (
        without_weights,
        with_damaged_weights,
        cleaned,
        cleaned_of_all,
        without_best,
        with_damaged_curves,
        without_its_last_epoch,
        without_predictions,
        without_its_sweep,
        with_a_damaged_note,
    )
}


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_finished_trial_that_is_not_whole_any_more_is_not_taken_over(ground: Ground, spoil: str) -> None:
    SPOILT[spoil](finish(ground))
    place = ground.place("second/0000-r0")
    assert begin(ground.course(), place) == Beginning(epochs=0, shared=Shared())
    assert not (place.path / ".taken").exists()
    assert saved_states(place.states) == []


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_damaged_twin_leaves_a_trial_somewhere_it_can_really_go_on_from(ground: Ground, spoil: str) -> None:
    course, place = ground.course(), ground.place("second/0000-r0")
    train_trial(course, place, until_epoch=1)
    SPOILT[spoil](finish(ground))
    found = begin(course, place)
    assert found.epochs == (0 if spoil == "without_predictions" else 1)
    assert (found.note is None) == (found.epochs == 1)
    assert train_trial(course, place)[0] == 4 * found.epochs + 1
    assert_same(left_by(place), left_by(cold(ground, course)))


def test_a_trial_does_not_take_itself_over(ground: Ground) -> None:
    first = finish(ground)
    assert take_finished(first, ground.course().cuts[-1], NAMES) is None
    assert left_by(first).weights


def test_a_trial_whose_end_was_lost_is_whole_and_not_taken_from_anybody(ground: Ground) -> None:
    first = finish(ground)
    assert begin(ground.course(), first) == Beginning(epochs=3, shared=Shared(), is_whole=True)
    without_its_last_epoch(first)
    assert begin(ground.course(), first) == Beginning(epochs=0, shared=Shared())


def test_a_note_says_where_the_newest_equal_trial_is(ground: Ground) -> None:
    cut = ground.course().cuts[-1]
    for name in ("first/0000-r0", "second/0001-r0"):
        note_finished(ground.place(name), cut)
    (note,) = ground.place().finished_folder.iterdir()
    assert note.name == f"{cut.key}.json"
    assert json.loads(note.read_text()) == {"sweep": "second", "trial": "0001-r0"}


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"unknown": 1}'])
def test_what_was_shared_is_read_back_or_nothing(empty: Ground, content: str | None) -> None:
    place = empty.place()
    shared = Shared(steps=7, seconds=0.1, taken_from="first/0000-r0")
    write_shared(place, shared)
    assert read_shared(place) == shared
    path = place.path / "shared.json"
    path.unlink()
    if content is not None:
        path.write_text(content)
    assert read_shared(place) == Shared()


def test_the_checksums_of_best_weights_go_along(ground: Ground) -> None:
    places = [ground.place("second/0000-r0"), ground.place("third/0000-r0")]
    assert not begin(ground.course(stages__1__epochs=3), places[0]).is_whole
    finish(ground)
    assert begin(ground.course(), places[1]).is_whole
    for place in places:
        sums = known_checksums(place.states)
        assert sums.keys() == set((place.states.path / "weights").glob("*.safetensors")) != set()
        assert sums == {path: zlib.crc32(path.read_bytes()) for path in sums}


def test_weights_without_checksums_are_taken_over(ground: Ground) -> None:
    first, place = finish(ground), ground.place("second/0000-r0")
    (first.states.path / "weights" / CHECKSUMS).unlink()
    assert begin(ground.course(), place).is_whole
    assert left_by(place).weights
