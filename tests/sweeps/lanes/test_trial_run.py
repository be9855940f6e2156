"""A trial on a lane trains what is left, stores its stages for others, and ends in one of five ways."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from ray.exceptions import ActorUnavailableError

from mtlib.checkpoints.best_weights import read_best
from mtlib.checkpoints.state import DiskFull, saved_states
from mtlib.runtime.errors import TrainingDiverged
from mtlib.runtime.storage import write_bytes
from mtlib.runtime.workers import worker_rank
from mtlib.training.epoch_report import StepProgress
from results.records.epochs import trial_epochs
from results.records.trial_folder import log_path, read_end, read_start, write_start
from sweeps.lanes import trial_run
from sweeps.lanes.loaded_trial import LoadedTrial
from sweeps.lanes.trial_run import TrialRun, describe_error, end_trial, run_trial, start_of
from sweeps.reuse.finished_trials import TrialFolder, find_finished
from sweeps.reuse.stage_store import find_stage
from tests.sweeps.lanes.plain_sweep import CPU, PlainReporter, assignment_of, run_with
from tests.sweeps.reuse.finished_trials import reused_work
from tests.sweeps.reuse.trained_trials import TrialStorage, assert_same, read_trial_files, threads, train_trial
from tests.worker_pair import pair_of_workers


def run(
    trial: LoadedTrial, folder: TrialFolder, until_step: int | None = None, stop_after: int | None = None
) -> PlainReporter:
    """Runs a trial as a lane does, and ends it."""
    reporter = PlainReporter(folder.sweep_folder, folder.trial_id, until_step, stop_after)
    run_with(reporter, trial, folder)
    return reporter


def stored(reporter: PlainReporter) -> list[tuple[int, str | None]]:
    """Stages whose ends were stored, or why not."""
    return [(facts["stage"], facts["why_not"]) for kind, facts in reporter.events if kind == "stage_finished"]


def starting_epochs(reporter: PlainReporter) -> list[int]:
    return [facts["epochs"] for kind, facts in reporter.events if kind == "starting_point"]


def stage_keys(trial: LoadedTrial) -> list[str]:
    return [trial.end_of(stage).key for stage in range(len(trial.config.stages))]


def assert_exact(storage: TrialStorage, trial: LoadedTrial, folder: TrialFolder) -> None:
    """The trial's files are those of a training without a lane or a store."""
    alone = storage.trial_folder("alone/0000-r0", shares=False)
    train_trial(trial, alone)
    assert_same(read_trial_files(folder), read_trial_files(alone))


def test_trial_equals_plain_training_and_stores_its_stages(storage: TrialStorage) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder()
    reporter = run(trial, folder)
    assert reporter.end == ("complete", None)
    assert reporter.steps == list(range(1, 13))
    assert (starting_epochs(reporter), stored(reporter)) == ([0], [(0, None), (1, None)])
    assert folder.store is not None
    stages = [find_stage(folder.store, key) for key in stage_keys(trial)]
    assert [(stage.is_spare, stage.facts["steps"]) for stage in stages if stage] == [(False, 4), (True, 12)]
    end, start = read_end(folder.root, folder.trial_id), read_start(folder.root, folder.trial_id)
    assert end is not None
    assert start is not None
    assert (end.how, end.key, end.wall_seconds) == ("complete", trial.cuts[-1].key, 1.5)
    assert list(start.environments) == [trial.origin.environment]
    assert (saved_states(folder.states), list(find_finished(folder, trial.cuts[-1]))) == ([], [])
    assert_exact(storage, trial, folder)


def test_second_trial_reuses_the_firsts_stages_and_trains_the_rest(storage: TrialStorage) -> None:
    run(storage.load_trial(), storage.trial_folder("sweep/0000-r0"))
    trial, folder = storage.load_trial(tasks__sst__batch_size=4), storage.trial_folder("sweep/0001-r0")
    reporter = run(trial, folder)
    assert (starting_epochs(reporter), reporter.steps) == ([1], list(range(5, 13)))
    assert reporter.shared_seconds == reused_work(folder)[1] > 0
    assert stored(reporter) == [(1, None)]
    assert_exact(storage, trial, folder)


def test_equal_trial_is_reused_whole_and_registered(storage: TrialStorage) -> None:
    trial, first = storage.load_trial(), storage.trial_folder("sweep/0000-r0")
    run(trial, first)
    second = storage.trial_folder("sweep/0001-r0")
    reporter = run(trial, second)
    assert (reporter.end, reporter.steps, starting_epochs(reporter)) == (("reused", None), [], [3])
    assert reused_work(second)[2] == "sweep/0000-r0"
    third = storage.trial_folder("sweep/0002-r0")
    assert list(find_finished(third, trial.cuts[-1])) == [second, first]


def test_trial_stopped_in_reused_epochs_keeps_no_later_ones(storage: TrialStorage) -> None:
    run(storage.load_trial(stages__1__epochs=4), storage.trial_folder("sweep/0000-r0"))
    folder = storage.trial_folder("sweep/0001-r0")
    reporter = run(storage.load_trial(stages__1__epochs=6), folder, stop_after=2)
    assert (reporter.end, reporter.steps, starting_epochs(reporter)) == (("pruned", None), [], [5])
    assert trial_epochs(folder.root, folder.trial_id) == [1, 2]
    assert all(epoch <= 2 for epoch in read_best(folder.states).values())
    assert saved_states(folder.states) == []


def test_trial_of_two_environments_is_not_shared(storage: TrialStorage) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder()
    with threads(2):
        other = storage.load_trial()
        run(other, folder, until_step=6)
    reporter = run(trial, folder)
    assert (reporter.end, reporter.steps[0], stored(reporter)) == (("complete", None), 7, [])
    start, end = read_start(folder.root, folder.trial_id), read_end(folder.root, folder.trial_id)
    assert start is not None
    assert list(start.environments) == [other.origin.environment, trial.origin.environment]
    assert len(start.notes) == 1
    assert end is not None
    assert (end.how, end.key) == ("complete", "")
    assert list(find_finished(storage.trial_folder("sweep/0001-r0"), trial.cuts[-1])) == []
    assert starting_epochs(run(trial, storage.trial_folder("sweep/0001-r0"))) == [0]


def test_stage_not_stored_because_of_a_kill_is_stored_at_the_resume(
    storage: TrialStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder()
    with monkeypatch.context() as patch:
        patch.setattr(trial_run, "store_stage_end", lambda *_arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(trial, folder)
    reporter = run(trial, folder)
    assert (reporter.steps[0], stored(reporter)) == (5, [(0, None), (1, None)])


class Failing(PlainReporter):
    """Raises in the fifth step."""

    def __init__(self, folder: TrialFolder, fail: Callable[[], object]) -> None:
        super().__init__(folder.sweep_folder, folder.trial_id)
        self.fail = fail

    def on_step(self, progress: StepProgress) -> bool:
        if progress.step == 5:
            self.fail()
        return super().on_step(progress)


@pytest.mark.parametrize("error", [TrainingDiverged("qqp: loss is nan at step 5"), ValueError("it must fit")])
def test_error_that_all_workers_meet_fails_the_trial(storage: TrialStorage, error: Exception) -> None:
    folder = storage.trial_folder()
    reporter = Failing(folder, Mock(side_effect=error))
    run_with(reporter, storage.load_trial(), folder)
    end = read_end(folder.root, folder.trial_id)
    assert end is not None
    assert reporter.end == (end.how, end.error) == ("failed", str(error))
    log = (Path(folder.sweep_folder) / log_path(folder.trial_id)).read_text()
    assert "Traceback" in log
    assert f"{type(error).__name__}: {error}" in log


def test_other_errors_are_raised(storage: TrialStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = storage.trial_folder()
    with pytest.raises(KeyError, match="lost"):
        run_with(Failing(folder, Mock(side_effect=KeyError("lost"))), storage.load_trial(), folder)

    def lose_the_group() -> None:
        error = RuntimeError("the process group has gone")
        monkeypatch.setattr(trial_run, "num_workers", Mock(side_effect=error))
        raise ValueError("Default process group has not been initialized")

    with pytest.raises(RuntimeError, match="has gone"):
        run_with(Failing(folder, lose_the_group), storage.load_trial(), folder)
    assert read_end(folder.root, folder.trial_id) is None


def test_start_of_an_earlier_attempt_keeps_its_notes_and_a_damaged_one_is_written_again(storage: TrialStorage) -> None:
    folder, assignment = storage.trial_folder(), assignment_of(storage.trial_folder(), storage.base)
    first = start_of(assignment, folder, "one")
    assert (first.host, first.notes, first.config) == ("one", (), storage.base.to_json())
    write_start(folder.root, replace(first, notes=("a note",), shared_steps=4))
    again = start_of(assignment, folder, "two")
    assert again == replace(first, host="two", notes=("a note",), shared_steps=4)
    write_bytes(folder.own, "trial.json", b"{")
    assert start_of(assignment, folder, "two").notes == ()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("x must be 1, got 2\nmore"), "x must be 1, got 2"),
        (TrainingDiverged("sst: loss is nan at step 3"), "sst: loss is nan at step 3"),
        (DiskFull("the disk must have room"), "the disk must have room"),
        (KeyError("lost"), "KeyError: 'lost'"),
        (ActorUnavailableError("The actor 48ae is unavailable", None), "the sweep's driver does not answer"),
    ],
)
def test_error_is_one_line_with_its_class_unless_it_is_for_users(error: Exception, text: str) -> None:
    assert describe_error(error) == text


def run_both(_wrap: Any, storage: TrialStorage, name: str, changes: dict[str, Any], shares: bool, until: int) -> Any:
    """Runs a trial on each of two workers, interrupted after step `until` unless that is 0; its end and steps."""
    folder = storage.trial_folder(name, shares=shares)
    trial, reporter = storage.load_trial(**changes), PlainReporter(folder.sweep_folder, folder.trial_id, until)
    line: Any = reporter
    assignment = assignment_of(folder, trial.config)
    own = TrialRun(assignment=assignment, loaded=trial, folder=folder, reporter=line, device=CPU)
    end = run_trial(own)
    if worker_rank() == 0:
        end_trial(own, *end)
    return end[0], reporter.steps


@pytest.mark.slow
def test_two_workers_share_stages_and_resume_exactly(storage: TrialStorage) -> None:
    changes = {"tasks__sst__batch_size": 4}
    with pair_of_workers() as ask:
        assert ask(run_both, storage, "sweep/0000-r0", {}, True, 0) == [("complete", list(range(1, 13)))] * 2
        first, resumed = (ask(run_both, storage, "sweep/0001-r0", changes, True, until) for until in (7, 0))
        equal = ask(run_both, storage, "sweep/0002-r0", changes, True, 0)
        alone = ask(run_both, storage, "cold/0000-r0", changes, False, 0)
    assert first == [("interrupted", [5, 6, 7])] * 2
    assert resumed == [("complete", [8, 9, 10, 11, 12])] * 2
    assert equal == [("reused", [])] * 2
    assert alone == [("complete", list(range(1, 13)))] * 2
    wanted = read_trial_files(storage.trial_folder("cold/0000-r0"))
    for name in ("sweep/0001-r0", "sweep/0002-r0"):
        assert_same(read_trial_files(storage.trial_folder(name)), wanted)
