"""A trial on a lane while other processes train its stages or the trial itself."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from results.records.files import PROJECT_FOLDER
from sweeps.lanes import worker_trial as worker_trial
from sweeps.lanes.worker_trial import (
    LOCK_FILE,
    run_trial,
)
from sweeps.reuse import starting_point as take_over
from sweeps.reuse.file_locks import claim_file
from sweeps.reuse.stage_store import claim_stage
from tests.sweeps.lanes.test_worker_trial import (
    ReporterStub,
    assert_nothing_is_claimed,
    is_claimed,
    is_file_claimed,
    make_run,
    stage_keys,
    train_alone,
)
from tests.sweeps.reuse.trained_trials import TrialStorage, assert_same, read_trial_files, train_trial

pytestmark = pytest.mark.usefixtures("no_waiting_time")


def claim_elsewhere(path: Path) -> "subprocess.Popen[str]":
    """Starts another process that holds the claim on a file until it is killed."""
    program = (
        "import sys, time; from pathlib import Path; from sweeps.reuse.file_locks import claim_file\n"
        "held = claim_file(Path(sys.argv[1])); print(held is not None, flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], cwd=PROJECT_FOLDER, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    return holder


@pytest.fixture
def holders() -> "Iterator[list[subprocess.Popen[str]]]":
    """Processes to be killed after the test."""
    found: list[subprocess.Popen[str]] = []
    yield found
    for holder in found:
        holder.kill()
        holder.wait()


def test_trial_waits_for_a_stage_in_training_and_reuses_it(storage: TrialStorage) -> None:
    trial, folder = storage.load_trial(tasks__sst__batch_size=4), storage.trial_folder("sweep/0001-r0")
    assert folder.store is not None
    held = claim_stage(folder.store, stage_keys(trial)[0])
    assert held is not None

    def finish_stage() -> None:
        held.release()
        train_trial(storage.load_trial(), storage.trial_folder("other/0000-r0"), until_epoch=1, stores=True)

    reporter = ReporterStub(folder)
    reporter.while_waiting = [lambda: None, lambda: None, finish_stage]
    assert run_trial(make_run(trial, folder, reporter)) == ("complete", None)
    assert reporter.while_waiting == []
    assert set(reporter.waits_for) == {"stage 0, which it needs, is being trained elsewhere"}
    assert [found.epochs for found in reporter.starting_points] == [1]
    assert reporter.steps == list(range(5, 13))
    assert_same(read_trial_files(folder), read_trial_files(train_alone(storage, trial)))


def test_stage_of_a_dead_trainer_is_trained(storage: TrialStorage, holders: "list[subprocess.Popen[str]]") -> None:
    trial, folder = storage.load_trial(), storage.trial_folder()
    assert folder.store is not None
    holder = claim_elsewhere(folder.store.folder / ".claims" / stage_keys(trial)[0])
    holders.append(holder)

    def kill() -> None:
        holder.kill()
        holder.wait()

    reporter = ReporterStub(folder)
    reporter.while_waiting = [lambda: None, kill]
    assert run_trial(make_run(trial, folder, reporter)) == ("complete", None)
    assert reporter.while_waiting == []
    assert reporter.steps == list(range(1, 13))


def test_trial_waits_for_a_worker_that_still_trains_it(storage: TrialStorage) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder()
    folder.path.mkdir(parents=True)
    held = claim_file(folder.path / LOCK_FILE)
    assert held is not None

    def release() -> None:
        train_trial(trial, folder, until_epoch=1)
        held.release()

    reporter = ReporterStub(folder)
    reporter.while_waiting = [lambda: None, release]
    assert run_trial(make_run(trial, folder, reporter)) == ("complete", None)
    assert [found.epochs for found in reporter.starting_points] == [1], "its state is used"
    assert reporter.steps[0] == 5


def test_notes_before_waiting_are_reported_at_start(storage: TrialStorage) -> None:
    """A damaged state is deleted before the wait, so its note must be kept."""
    trial, folder = storage.load_trial(), storage.trial_folder()
    train_trial(storage.load_trial(optimizer__learning_rate=0.5), folder, until_epoch=1)
    assert folder.store is not None
    held = claim_stage(folder.store, stage_keys(trial)[0])
    assert held is not None
    reporter = ReporterStub(folder)
    reporter.while_waiting = [lambda: None, held.release]
    assert run_trial(make_run(trial, folder, reporter)) == ("complete", None)
    (start,) = reporter.starting_points
    assert start.note is not None
    assert start.note.startswith("0000-r0 starts over: ")


@pytest.mark.parametrize("what", ["stage", "trial"])
def test_withdrawn_trial_stops_waiting(storage: TrialStorage, what: str) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder()
    folder.path.mkdir(parents=True)
    assert folder.store is not None
    held = claim_file(folder.path / LOCK_FILE) if what == "trial" else claim_stage(folder.store, stage_keys(trial)[0])
    assert held is not None
    reporter = ReporterStub(folder)
    run = make_run(trial, folder, reporter)
    assert run_trial(run) == ("interrupted", None)
    assert (reporter.starting_points, reporter.steps) == ([], [])
    held.release()
    assert_nothing_is_claimed(run)


def test_stage_stored_before_the_claim_is_not_trained_again(
    storage: TrialStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, folder = storage.load_trial(tasks__sst__batch_size=4), storage.trial_folder("sweep/0001-r0")
    was_late: list[str] = []

    def claim_late(store: Any, key: str) -> Any:
        if not was_late:
            was_late.append(key)
            train_trial(storage.load_trial(), storage.trial_folder("other/0000-r0"), until_epoch=1, stores=True)
        return claim_stage(store, key)

    monkeypatch.setattr(worker_trial, "claim_stage", claim_late)
    reporter = ReporterStub(folder)
    assert run_trial(make_run(trial, folder, reporter)) == ("complete", None)
    assert was_late == stage_keys(trial)[:1]
    assert [found.epochs for found in reporter.starting_points] == [1]
    assert reporter.steps[0] == 5


def test_stored_stage_that_cannot_be_fetched_is_trained_again(
    storage: TrialStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system error, for example; no trial may wait for it to go away."""
    run_trial(make_run(storage.load_trial(), storage.trial_folder("sweep/0000-r0")))
    shutil.rmtree(storage.trial_folder("sweep/0000-r0").finished_folder)
    monkeypatch.setattr(take_over, "fetch_stage", lambda *_arguments: None)
    trial, folder = storage.load_trial(), storage.trial_folder("sweep/0001-r0")
    reporter = ReporterStub(folder)
    run = make_run(trial, folder, reporter)
    assert run_trial(run) == ("complete", None)
    assert reporter.steps == list(range(1, 13))
    assert_same(read_trial_files(folder), read_trial_files(storage.trial_folder("sweep/0000-r0")))
    assert_nothing_is_claimed(run)


@pytest.mark.parametrize("does_finish", [True, False])
def test_trial_leaves_for_a_stage_trained_elsewhere_and_returns(storage: TrialStorage, does_finish: bool) -> None:
    """It continues from the stage that the other has stored or, if that has died, from its own state."""
    trial, folder = storage.load_trial(), storage.trial_folder()
    assert folder.store is not None
    held = claim_stage(folder.store, stage_keys(trial)[1])
    assert held is not None

    def end_elsewhere() -> None:
        held.release()
        if does_finish:
            train_trial(trial, storage.trial_folder("other/0000-r0", shares=True), stores=True)

    reporter = ReporterStub(folder)
    reporter.while_waiting = [lambda: None, end_elsewhere]
    run = make_run(trial, folder, reporter)
    assert run_trial(run) == ("complete", None)
    assert [found.epochs for found in reporter.starting_points] == [0, 3 if does_finish else 1]
    assert reporter.starting_points[1].reused.steps == (8 if does_finish else 0)
    assert reporter.replayed == [0, 3 if does_finish else 1]
    assert reporter.steps == list(range(1, 5 if does_finish else 13))
    assert reporter.ended[0] == (0, None)
    assert_same(read_trial_files(folder), read_trial_files(train_alone(storage, trial)))
    assert_nothing_is_claimed(run)


def test_stage_is_claimed_only_while_it_is_trained(storage: TrialStorage) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder()
    seen: list[list[bool]] = []

    def record_claims(step: int) -> bool:
        if step in (1, 4, 5, 12):
            seen.append([is_claimed(folder.store, key) for key in stage_keys(trial)])  # type: ignore[arg-type]
        assert is_file_claimed(folder.path / LOCK_FILE)
        return True

    reporter = ReporterStub(folder)
    reporter.at_step = record_claims
    run_trial(make_run(trial, folder, reporter))
    assert seen == [[True, False], [True, False], [False, True], [False, True]]
