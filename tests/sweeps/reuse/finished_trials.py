"""Trials that have finished, in whatever state others may find them."""

import shutil
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq

from mtlib.checkpoints.state import saved_states
from results.records.epochs import compact, curves_path
from results.records.trials import TrialRecord, write_trials
from sweeps.driver.ledger import queued_record
from sweeps.lanes.loaded_trial import LoadedTrial
from sweeps.reuse.finished_trials import TrialFolder, register_finished
from sweeps.reuse.starting_point import StartingPoint, prepare_starting_point
from sweeps.reuse.weight_pruning import keep_weights_of
from sweeps.search.trial_spec import TrialSpec
from tests.sweeps.reuse.trained_trials import Ground

NAMES = ("qqp", "sst", "sts", "overall")


def begin(course: LoadedTrial, place: TrialFolder) -> StartingPoint:
    return prepare_starting_point(place, course.config, course.origin, course.cuts)


def finish(ground: Ground, name: str = "first/0000-r0") -> TrialFolder:
    """Notes a trial as finished, its states gone, and empties the store, so that only the whole trial can be had."""
    place = ground.place(name)
    register_finished(place, ground.course().cuts[-1])
    for state in saved_states(place.states):
        shutil.rmtree(state)
    shutil.rmtree(ground.storage / ".cache" / "stages")
    return place


def record_of(course: LoadedTrial, place: TrialFolder, status: str) -> TrialRecord:
    queued = queued_record(TrialSpec(number=0, replicate=0, params={}, config=course.config))
    return replace(queued, trial_id=place.trial_id, status=status)


def compact_as(status: str, course: LoadedTrial, place: TrialFolder) -> None:
    """Compacts the sweep, whose only trial has this status."""
    write_trials(place.sweep_folder, [record_of(course, place, status)], ("sst", "qqp", "sts"))
    compact(place.sweep_folder)


def damaged_curves(place: TrialFolder) -> dict[str, Any]:
    path = place.sweep_folder / curves_path(place.trial_id)
    path.write_bytes(path.read_bytes()[:-9])
    return {}


def without_weights(first: TrialFolder) -> None:
    next((first.states.path / "weights").glob("*.safetensors")).unlink()


def with_damaged_weights(first: TrialFolder) -> None:
    path = next((first.states.path / "weights").glob("*.safetensors"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def cleaned(first: TrialFolder) -> None:
    """Its sweep has deleted the weights that are best by one score alone, as those of others were better."""
    keep_weights_of(first.states, set(NAMES[1:]))


def cleaned_of_all(first: TrialFolder) -> None:
    keep_weights_of(first.states, set())


def without_best(first: TrialFolder) -> None:
    (first.states.path / "best.json").write_text("{")


def with_damaged_curves(first: TrialFolder) -> None:
    damaged_curves(first)


def without_its_last_epoch(first: TrialFolder) -> None:
    path = first.sweep_folder / curves_path(first.trial_id)
    table = pq.read_table(path)
    pq.write_table(table.filter([epoch < 3 for epoch in table["epoch"].to_pylist()]), path)


def without_predictions(first: TrialFolder) -> None:
    next((first.path / "predictions").glob("sst-dev-*")).unlink()


def without_its_sweep(first: TrialFolder) -> None:
    shutil.rmtree(first.sweep_folder)


def with_a_damaged_note(first: TrialFolder) -> None:
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
