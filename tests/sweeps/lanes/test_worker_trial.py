"""One trial on a lane: what it reuses, waits for and stores. `ReporterStub` stands in for the mailbox.

Long, as all ends of a trial are tested with the same stub of its reporter.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from torch import nn

from mtlib.checkpoints.state import DiskFull, drop_states, newest_numbers, read_state, saved_states
from mtlib.config.trial import TrialConfig
from mtlib.runtime.errors import TrainingDiverged
from mtlib.runtime.workers import worker_rank
from mtlib.stages.keys import Cut
from mtlib.training.epoch_report import EpochReport, StepProgress
from results.records.epochs import read_trial_curves, write_epoch
from results.records.files import open_folder
from sweeps.lanes import worker_trial as worker_trial
from sweeps.lanes.loaded_trial import LoadedTrial
from sweeps.lanes.worker_trial import (
    LOCK_FILE,
    TrialClaims,
    TrialRun,
    describe_error,
    run_trial,
    wrap_for,
)
from sweeps.reuse.file_locks import claim_file
from sweeps.reuse.finished_trials import ReusedWork, TrialFolder, find_finished, read_reused_work, register_finished
from sweeps.reuse.stage_entry import read_entry
from sweeps.reuse.stage_store import StageStore, claim_stage, entry_folder, fetch_stage, has_stage
from sweeps.reuse.starting_point import StartingPoint
from tests.sweeps.reuse.finished_trials import finish
from tests.sweeps.reuse.trained_trials import CPU, TrialStorage, assert_same, read_trial_files, train_trial
from tests.worker_pair import pair_of_workers

Hook = Callable[[], None]


pytestmark = pytest.mark.usefixtures("no_waiting_time")


class ReporterStub:
    """Records what a trial reports, and gives set answers."""

    def __init__(self, folder: TrialFolder) -> None:
        self.folder = folder
        self.is_stopped = False
        self.reused = ReusedWork()
        self.starting_points: list[StartingPoint] = []
        self.waits_for: list[str] = []
        self.ended: list[tuple[int, str | None]] = []
        self.steps: list[int] = []
        self.replayed: list[int] = []
        self.while_waiting: list[Hook] = []
        """Called one by one, at each wait of the trial; without any left, the trial is not wanted."""
        self.stops_after: int | None = None
        """Epoch after which the scheduler stops the trial."""
        self.at_step: Callable[[int], bool] = lambda _step: True

    def report_starting_point(self, beginning: StartingPoint) -> None:
        self.starting_points.append(beginning)

    def report_stage_finished(self, stage: int, why_not: str | None) -> None:
        self.ended.append((stage, why_not))

    def report_waiting(self, what: str) -> None:
        self.waits_for.append(what)

    def is_wanted(self) -> bool:
        if not self.while_waiting:
            return False
        self.while_waiting.pop(0)()
        return True

    def replay(self, epochs: int, _config: TrialConfig) -> int | None:
        self.replayed.append(epochs)
        self.is_stopped = self.stops_after is not None and self.stops_after <= epochs
        return self.stops_after if self.is_stopped else None

    def on_step(self, progress: StepProgress) -> bool:
        self.steps.append(progress.step)
        return self.at_step(progress.step)

    def on_epoch(self, report: EpochReport) -> bool:
        if worker_rank() == 0:
            write_epoch(self.folder.sweep_folder, self.folder.trial_id, report)
        self.is_stopped = report.epoch == self.stops_after
        return not self.is_stopped


def make_run(trial: LoadedTrial, folder: TrialFolder, reporter: Any = None) -> TrialRun:
    given: Any = reporter or ReporterStub(folder)
    return TrialRun(loaded=trial, folder=folder, reporter=given, device=CPU)


def stage_keys(trial: LoadedTrial) -> list[str]:
    return [cut.key for cut in trial.cuts if cut.is_end]


def assert_nothing_is_claimed(run: TrialRun) -> None:
    """Neither the trial nor any of its stages is claimed."""
    assert run.claims == TrialClaims()
    assert not is_file_claimed(run.folder.path / LOCK_FILE)
    store = run.folder.store
    assert store is None or not any(is_claimed(store, key) for key in stage_keys(run.loaded))


def train_alone(storage: TrialStorage, trial: LoadedTrial) -> TrialFolder:
    """Trains the trial without a lane or a store."""
    folder = storage.trial_folder("cold/0000-r0", shares=False)
    train_trial(trial, folder)
    return folder


def is_refused_claim(found: FileLock | None) -> bool:
    """Whether a claim was refused; a granted one is released."""
    if found is not None:
        found.release()
    return found is None


def is_file_claimed(path: Path) -> bool:
    """Whether a file is claimed."""
    return path.exists() and is_refused_claim(claim_file(path))


def is_claimed(store: StageStore, key: str) -> bool:
    """Whether a stage is claimed."""
    return is_refused_claim(claim_stage(store, key))


def test_trial_on_a_lane_equals_plain_training_and_stores_its_stages(storage: TrialStorage) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder()
    run = make_run(trial, folder, reporter := ReporterStub(folder))
    assert run_trial(run) == ("complete", None)
    assert reporter.starting_points == [StartingPoint(epochs=0, reused=ReusedWork())]
    assert reporter.replayed == [0]
    assert reporter.ended == [(0, None), (1, None)]
    assert reporter.steps == list(range(1, 13))
    assert folder.store is not None
    entries = [read_entry(entry_folder(folder.store, key)) for key in stage_keys(trial)]
    assert [entry.is_spare for entry in entries if entry is not None] == [False, True]
    assert [entry.facts["steps"] for entry in entries if entry is not None] == [4, 12]
    assert_same(read_trial_files(folder), read_trial_files(train_alone(storage, trial)))
    assert_nothing_is_claimed(run)


def test_stage_end_that_no_longer_trial_can_use_is_not_stored(storage: TrialStorage) -> None:
    trial, folder = storage.load_trial(optimizer__schedule="slanted_triangular"), storage.trial_folder()
    reporter = ReporterStub(folder)
    assert run_trial(make_run(trial, folder, reporter)) == ("complete", None)
    assert reporter.ended == [(0, None)]
    assert folder.store is not None
    assert [has_stage(folder.store, key) for key in stage_keys(trial)] == [True, False]
    numbers = newest_numbers(folder.states)
    assert numbers is not None
    assert (numbers["stage"], numbers["epoch"]) != (1, 2), "nor is it saved"


def test_reason_for_not_storing_a_stage_is_reported(storage: TrialStorage) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder(keep_bytes=1)
    reporter = ReporterStub(folder)
    assert run_trial(make_run(trial, folder, reporter)) == ("complete", None)
    assert [stage for stage, _ in reporter.ended] == [0, 1]
    assert all("all stored stages together may have 1" in str(why) for _, why in reporter.ended)


def test_without_a_store_nothing_is_stored_or_claimed(storage: TrialStorage) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder(shares=False)
    held = [claim_stage(storage.trial_folder().store, key) for key in stage_keys(trial)]  # type: ignore[arg-type]
    reporter = ReporterStub(folder)
    run = make_run(trial, folder, reporter)
    assert run_trial(run) == ("complete", None)
    assert reporter.ended == []
    assert not list((storage.path / ".cache" / "stages").glob("[0-9a-f]*"))
    assert all(held)
    assert_nothing_is_claimed(run)


def test_second_trial_reuses_the_firsts_stages_and_trains_the_rest(storage: TrialStorage) -> None:
    run_trial(make_run(storage.load_trial(), storage.trial_folder("sweep/0000-r0")))
    trial, folder = storage.load_trial(tasks__sst__batch_size=4), storage.trial_folder("sweep/0001-r0")
    reporter = ReporterStub(folder)
    assert run_trial(make_run(trial, folder, reporter)) == ("complete", None)
    assert [(found.epochs, found.reused.steps) for found in reporter.starting_points] == [(1, 4)]
    assert reporter.starting_points[0].reused.seconds > 0
    assert reporter.replayed == [1]
    assert reporter.steps == list(range(5, 13))
    assert reporter.ended == [(1, None)]
    assert_same(read_trial_files(folder), read_trial_files(train_alone(storage, trial)))


def test_longer_trial_continues_from_a_shorter_one(storage: TrialStorage) -> None:
    run_trial(make_run(storage.load_trial(), storage.trial_folder("sweep/0000-r0")))
    trial, folder = storage.load_trial(stages__1__epochs=4), storage.trial_folder("sweep/0001-r0")
    reporter = ReporterStub(folder)
    assert run_trial(make_run(trial, folder, reporter)) == ("complete", None)
    assert reporter.steps == list(range(13, 21))
    assert_same(read_trial_files(folder), read_trial_files(train_alone(storage, trial)))


def test_trial_with_a_stored_end_is_complete_without_a_step(storage: TrialStorage) -> None:
    """Its end was stored for longer trials; the trial that stored it is deleted."""
    trial, folder = storage.load_trial(), storage.trial_folder("sweep/0001-r0")
    run_trial(make_run(trial, storage.trial_folder("sweep/0000-r0")))
    shutil.rmtree(storage.trial_folder("sweep/0000-r0").path)
    reporter = ReporterStub(folder)
    assert run_trial(make_run(trial, folder, reporter)) == ("complete", None)
    assert (reporter.starting_points[0].epochs, reporter.steps, reporter.ended) == (3, [], [])


def test_equal_trial_is_reused_whole_and_a_lost_end_is_restored(storage: TrialStorage) -> None:
    trial, first = storage.load_trial(), storage.trial_folder("sweep/0000-r0")
    run_trial(make_run(trial, first))
    drop_states(first.states)
    reporter = ReporterStub(folder := storage.trial_folder("sweep/0001-r0"))
    assert run_trial(make_run(trial, folder, reporter)) == ("reused", None)
    assert (reporter.steps, reporter.replayed, reporter.starting_points[0].reused.taken_from) == (
        [],
        [3],
        "sweep/0000-r0",
    )
    reporter = ReporterStub(first)
    assert run_trial(make_run(trial, first, reporter)) == ("complete", None)
    assert (reporter.steps, reporter.starting_points[0].reused.taken_from) == ([], None)


def test_trial_stopped_in_reused_epochs_keeps_no_later_ones(storage: TrialStorage) -> None:
    first, folder = storage.trial_folder("sweep/0000-r0"), storage.trial_folder("sweep/0001-r0")
    run_trial(make_run(storage.load_trial(stages__1__epochs=4), first))
    reporter = ReporterStub(folder)
    reporter.stops_after = 2
    assert run_trial(make_run(storage.load_trial(stages__1__epochs=6), folder, reporter)) == ("pruned", None)
    curves = read_trial_curves(open_folder(folder.sweep_folder), folder.trial_id).to_pylist()
    assert {row["epoch"] for row in curves} == {1, 2}
    assert reporter.reused.steps == max(row["step"] for row in curves) == 8
    assert {int(path.stem.rpartition("-")[2]) for path in folder.path.glob("predictions/*")} == {1, 2}
    best = json.loads((folder.states.path / "best.json").read_text())
    assert all(epoch <= 2 for epoch in best.values())
    assert {path.name for path in folder.states.path.glob("weights/epoch-*")} == {
        f"epoch-{epoch:04d}.safetensors" for epoch in best.values()
    }
    assert not saved_states(folder.states)
    assert read_reused_work(folder).steps == 8


def test_trial_stopped_in_replay_is_pruned_without_a_step(storage: TrialStorage) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder()
    train_trial(trial, folder, until_epoch=2)
    reporter = ReporterStub(folder)
    reporter.stops_after = 2
    run = make_run(trial, folder, reporter)
    assert run_trial(run) == ("pruned", None)
    assert (reporter.steps, reporter.replayed) == ([], [2])
    assert_nothing_is_claimed(run)


# Ends.


def stop_in_epoch_two(reporter: ReporterStub) -> None:
    reporter.stops_after = 2


def interrupt_at_step_six(reporter: ReporterStub) -> None:
    reporter.at_step = lambda step: step != 6


def diverge(reporter: ReporterStub) -> None:
    def fail(step: int) -> bool:
        if step == 6:
            raise TrainingDiverged("qqp: loss is nan at step 6")
        return True

    reporter.at_step = fail


def raise_value_error(reporter: ReporterStub) -> None:
    def fail(step: int) -> bool:
        if step == 6:
            raise ValueError("it must fit\n  and more")
        return True

    reporter.at_step = fail


@pytest.mark.parametrize(
    ("change", "end"),
    [
        (lambda _link: None, ("complete", None)),
        (stop_in_epoch_two, ("pruned", None)),
        (interrupt_at_step_six, ("interrupted", None)),
        (diverge, ("failed", "qqp: loss is nan at step 6")),
        (raise_value_error, ("failed", "it must fit")),
    ],
)
@pytest.mark.parametrize("shares", [True, False])
def test_every_end_releases_all_claims(
    storage: TrialStorage, change: Callable[[ReporterStub], None], end: tuple[str, str | None], shares: bool
) -> None:
    folder = storage.trial_folder(shares=shares)
    reporter = ReporterStub(folder)
    change(reporter)
    run = make_run(storage.load_trial(), folder, reporter)
    assert run_trial(run) == end
    assert_nothing_is_claimed(run)


def test_error_on_one_worker_is_raised_and_claims_are_released(storage: TrialStorage) -> None:
    def fail(_step: int) -> bool:
        raise KeyError("lost")

    reporter = ReporterStub(folder := storage.trial_folder())
    reporter.at_step = fail
    run = make_run(storage.load_trial(), folder, reporter)
    with pytest.raises(KeyError, match="lost"):
        run_trial(run)
    assert_nothing_is_claimed(run)


def test_error_after_the_group_has_gone_does_not_fail_the_trial(
    storage: TrialStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch reports the lost process group as a ValueError."""

    def gone() -> int:
        raise RuntimeError("the process group of 2 workers has gone")

    def at_step(_step: int) -> bool:
        monkeypatch.setattr(worker_trial, "num_workers", gone)
        raise ValueError("Default process group has not been initialized")

    reporter = ReporterStub(folder := storage.trial_folder())
    reporter.at_step = at_step
    with pytest.raises(RuntimeError, match="has gone"):
        run_trial(make_run(storage.load_trial(), folder, reporter))


def test_interrupted_trial_resumes_at_its_last_step(storage: TrialStorage) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder()
    reporter = ReporterStub(folder)
    interrupt_at_step_six(reporter)
    assert run_trial(make_run(trial, folder, reporter))[0] == "interrupted"
    reporter = ReporterStub(folder)
    assert run_trial(make_run(trial, folder, reporter)) == ("complete", None)
    assert reporter.steps[0] == 7
    assert_same(read_trial_files(folder), read_trial_files(train_alone(storage, trial)))


def test_stage_not_stored_because_of_a_kill_is_stored_at_the_resume(
    storage: TrialStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder()
    with monkeypatch.context() as patch:
        patch.setattr(worker_trial, "store_stage_end", lambda *_arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run_trial(make_run(trial, folder))
    assert folder.store is not None
    assert not has_stage(folder.store, stage_keys(trial)[0])
    reporter = ReporterStub(folder)
    assert run_trial(make_run(trial, folder, reporter)) == ("complete", None)
    assert (reporter.steps[0], reporter.ended) == (5, [(0, None), (1, None)])
    assert has_stage(folder.store, stage_keys(trial)[0])


def test_damaged_state_is_not_stored(storage: TrialStorage) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder()
    train_trial(trial, folder, until_epoch=1)
    newest = saved_states(folder.states)[0] / "tensors"
    newest.write_bytes(newest.read_bytes()[:-1] + b"x")
    reporter = ReporterStub(folder)
    assert run_trial(make_run(trial, folder, reporter)) == ("complete", None)
    assert folder.store is not None
    assert reporter.ended == [(0, None), (1, None)]
    assert fetch_stage(folder.store, stage_keys(trial)[0], folder.sweep_folder / "taken") is not None
    assert read_state(folder.sweep_folder / "taken" / "state") is not None


def test_complete_trial_is_registered_while_its_end_is_claimed(
    storage: TrialStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder()
    held: list[bool] = []

    def register(own: TrialFolder, cut: Cut) -> None:
        assert own.store is not None
        held.append(is_claimed(own.store, cut.key))
        register_finished(own, cut)

    monkeypatch.setattr(worker_trial, "register_finished", register)
    run_trial(make_run(trial, folder))
    assert held == [True]
    assert find_finished(folder, trial.cuts[-1]) == [folder]


def test_reused_trial_is_registered(trained: TrialStorage) -> None:
    trial, first, second = trained.load_trial(), finish(trained), trained.trial_folder("second/0000-r0")
    assert run_trial(make_run(trial, second)) == ("reused", None)
    assert find_finished(second, trial.cuts[-1]) == [second, first]


def test_storing_a_stage_is_tried_once(storage: TrialStorage) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder(keep_bytes=1)
    train_trial(trial, folder, until_epoch=1)
    waits = iter([False, False, True])
    reporter = ReporterStub(folder)
    reporter.while_waiting = [lambda: None, lambda: None]

    def claim(_run: TrialRun, _cut: Cut) -> bool:
        return next(waits, True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_trial, "claim_cut", claim)
        assert run_trial(make_run(trial, folder, reporter)) == ("complete", None)
    assert [stage for stage, _ in reporter.ended] == [0, 1]


@pytest.mark.parametrize("shares", [True, False])
def test_only_complete_shared_trials_are_registered(storage: TrialStorage, shares: bool) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder(shares=shares)
    reporter = ReporterStub(folder)
    reporter.stops_after = 2 if shares else None
    assert run_trial(make_run(trial, folder, reporter))[0] == ("pruned" if shares else "complete")
    assert not folder.finished_folder.exists()


def test_one_worker_needs_no_wrapping() -> None:
    objective = nn.Linear(1, 1)
    assert wrap_for(CPU)(objective) is objective


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("x must be 1, got 2\nmore"), "x must be 1, got 2"),
        (TrainingDiverged("sst: loss is nan at step 3"), "sst: loss is nan at step 3"),
        (DiskFull("the disk must have room"), "the disk must have room"),
        (KeyError("lost"), "KeyError: 'lost'"),
    ],
)
def test_error_is_one_line_with_its_class_unless_it_is_for_users(error: Exception, text: str) -> None:
    assert describe_error(error) == text


# Two workers.


def run_both(_wrap: Any, storage: TrialStorage, name: str, changes: dict[str, Any], shares: bool, until: int) -> Any:
    """Trains on each of two workers, interrupted after step `until` unless that is 0; its status and steps."""
    folder = storage.trial_folder(name, shares=shares)
    reporter = ReporterStub(folder)
    reporter.at_step = lambda step: step != until
    end, _ = run_trial(make_run(storage.load_trial(**changes), folder, reporter))
    return end, reporter.steps


@pytest.mark.slow
def test_two_workers_share_stages_and_resume_exactly(storage: TrialStorage) -> None:
    changes = {"tasks__sst__batch_size": 4}
    with pair_of_workers() as ask:
        assert ask(run_both, storage, "sweep/0000-r0", {}, True, 0) == [("complete", list(range(1, 13)))] * 2
        first, resumed = (
            ask(run_both, storage, "sweep/0001-r0", changes, True, 7),
            ask(run_both, storage, "sweep/0001-r0", changes, True, 0),
        )
        equal = ask(run_both, storage, "sweep/0002-r0", changes, True, 0)
        alone = ask(run_both, storage, "cold/0000-r0", changes, False, 0)
    assert first == [("interrupted", [5, 6, 7])] * 2
    assert resumed == [("complete", [8, 9, 10, 11, 12])] * 2
    assert equal == [("reused", [])] * 2
    assert alone == [("complete", list(range(1, 13)))] * 2
    wanted = read_trial_files(storage.trial_folder("cold/0000-r0"))
    for name in ("sweep/0001-r0", "sweep/0002-r0"):
        assert_same(read_trial_files(storage.trial_folder(name)), wanted)
