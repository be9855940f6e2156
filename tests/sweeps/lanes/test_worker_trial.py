"""One trial on a lane of one worker, with this file in the mailbox's place: waiting, taking over, leaving to others."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from torch import nn

from mtlib.checkpoints.state import DiskFull, drop_states, newest_numbers, read_state, saved_states
from mtlib.config.trial import TrialConfig
from mtlib.errors import TrainingDiverged
from mtlib.runtime.workers import worker_rank
from mtlib.stages.keys import Cut
from mtlib.training.epoch_report import EpochReport, StepProgress
from results.records.epochs import read_trial_curves, write_epoch
from results.records.files import PROJECT_FOLDER, open_folder
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
from sweeps.reuse import starting_point as take_over
from sweeps.reuse.file_locks import claim_file
from sweeps.reuse.finished_trials import ReusedWork, TrialFolder, find_finished, read_reused_work, register_finished
from sweeps.reuse.stage_entry import read_entry
from sweeps.reuse.stage_store import StageStore, claim_stage, entry_folder, fetch_stage, has_stage
from sweeps.reuse.starting_point import StartingPoint
from tests.mtlib.runtime.worker_pair import pair_of_workers
from tests.sweeps.reuse.finished_trials import finish
from tests.sweeps.reuse.trained_trials import CPU, Ground, assert_same, left_by, train_trial

Hook = Callable[[], None]


class Link:
    """What a trial says, noted, and what it hears."""

    def __init__(self, place: TrialFolder) -> None:
        self.place = place
        self.is_stopped = False
        self.reused = ReusedWork()
        self.begun: list[StartingPoint] = []
        self.awaited: list[str] = []
        self.ended: list[tuple[int, str | None]] = []
        self.steps: list[int] = []
        self.replayed: list[int] = []
        self.while_waiting: list[Hook] = []
        """Done one after the other, each time that the trial has waited; once there are none, it is not wanted."""
        self.stops_behind: int | None = None
        """Epoch behind which the scheduler stops the trial."""
        self.at_step: Callable[[int], bool] = lambda _step: True

    def report_starting_point(self, beginning: StartingPoint) -> None:
        self.begun.append(beginning)

    def report_stage_finished(self, stage: int, why_not: str | None) -> None:
        self.ended.append((stage, why_not))

    def report_waiting(self, what: str) -> None:
        self.awaited.append(what)

    def is_wanted(self) -> bool:
        if not self.while_waiting:
            return False
        self.while_waiting.pop(0)()
        return True

    def replay(self, epochs: int, _config: TrialConfig) -> int | None:
        self.replayed.append(epochs)
        self.is_stopped = self.stops_behind is not None and self.stops_behind <= epochs
        return self.stops_behind if self.is_stopped else None

    def on_step(self, progress: StepProgress) -> bool:
        self.steps.append(progress.step)
        return self.at_step(progress.step)

    def on_epoch(self, report: EpochReport) -> bool:
        if worker_rank() == 0:
            write_epoch(self.place.sweep_folder, self.place.trial_id, report)
        self.is_stopped = report.epoch == self.stops_behind
        return not self.is_stopped


@pytest.fixture(autouse=True)
def no_time_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_trial, "WAIT_SECONDS", 0.0)


def run_of(course: LoadedTrial, place: TrialFolder, link: Any = None) -> TrialRun:
    given: Any = link or Link(place)
    return TrialRun(loaded=course, folder=place, reporter=given, device=CPU)


def keys(course: LoadedTrial) -> list[str]:
    return [cut.key for cut in course.cuts if cut.is_end]


def assert_nothing_is_held(run: TrialRun) -> None:
    """Neither the trial nor any of its stages."""
    assert run.claims == TrialClaims()
    assert not is_file_claimed(run.folder.path / LOCK_FILE)
    store = run.folder.store
    assert store is None or not any(is_claimed(store, key) for key in keys(run.loaded))


def cold(ground: Ground, course: LoadedTrial) -> TrialFolder:
    """The trial trained by itself, without a lane."""
    place = ground.place("cold/0000-r0", shares=False)
    train_trial(course, place)
    return place


def is_held(found: FileLock | None) -> bool:
    """Whether a claim was not to be had; it is given back if it was."""
    if found is not None:
        found.release()
    return found is None


def is_file_claimed(path: Path) -> bool:
    """Whether somebody holds a file."""
    return path.exists() and is_held(claim_file(path))


def is_claimed(store: StageStore, key: str) -> bool:
    """Whether somebody holds a stage."""
    return is_held(claim_stage(store, key))


def hold(path: Path) -> "subprocess.Popen[str]":
    """Another process that holds the claim on a file, until it is killed."""
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
    """Processes to be ended after the test."""
    found: list[subprocess.Popen[str]] = []
    yield found
    for holder in found:
        holder.kill()
        holder.wait()


# Nobody else is there.


def test_a_trial_by_itself_is_trained_as_without_a_lane_and_leaves_its_stages(ground: Ground) -> None:
    course, place = ground.course(), ground.place()
    run = run_of(course, place, link := Link(place))
    assert run_trial(run) == ("complete", None)
    assert link.begun == [StartingPoint(epochs=0, reused=ReusedWork())]
    assert link.replayed == [0]
    assert link.ended == [(0, None), (1, None)]
    assert link.steps == list(range(1, 13))
    assert place.store is not None
    entries = [read_entry(entry_folder(place.store, key)) for key in keys(course)]
    assert [entry.is_spare for entry in entries if entry is not None] == [False, True]
    assert [entry.facts["steps"] for entry in entries if entry is not None] == [4, 12]
    assert_same(left_by(place), left_by(cold(ground, course)))
    assert_nothing_is_held(run)


def test_an_end_that_no_longer_trial_can_go_on_from_is_not_kept(ground: Ground) -> None:
    course, place = ground.course(optimizer__schedule="slanted_triangular"), ground.place()
    link = Link(place)
    assert run_trial(run_of(course, place, link)) == ("complete", None)
    assert link.ended == [(0, None)]
    assert place.store is not None
    assert [has_stage(place.store, key) for key in keys(course)] == [True, False]
    numbers = newest_numbers(place.states)
    assert numbers is not None
    assert (numbers["stage"], numbers["epoch"]) != (1, 2), "nor is it saved"


def test_why_a_stage_could_not_be_kept_is_told_and_the_trial_goes_on(ground: Ground) -> None:
    course, place = ground.course(), ground.place(keep_bytes=1)
    link = Link(place)
    assert run_trial(run_of(course, place, link)) == ("complete", None)
    assert [stage for stage, _ in link.ended] == [0, 1]
    assert all("all stored stages together may have 1" in str(why) for _, why in link.ended)


def test_without_a_store_nothing_is_left_and_nobody_is_asked(ground: Ground) -> None:
    course, place = ground.course(), ground.place(shares=False)
    held = [claim_stage(ground.place().store, key) for key in keys(course)]  # type: ignore[arg-type]
    link = Link(place)
    run = run_of(course, place, link)
    assert run_trial(run) == ("complete", None)
    assert link.ended == []
    assert not list((ground.storage / ".cache" / "stages").glob("[0-9a-f]*"))
    assert all(held)
    assert_nothing_is_held(run)


def test_a_second_trial_takes_over_what_the_first_has_left_and_trains_the_rest(ground: Ground) -> None:
    run_trial(run_of(ground.course(), ground.place("sweep/0000-r0")))
    course, place = ground.course(tasks__sst__batch_size=4), ground.place("sweep/0001-r0")
    link = Link(place)
    assert run_trial(run_of(course, place, link)) == ("complete", None)
    assert [(found.epochs, found.reused.steps) for found in link.begun] == [(1, 4)]
    assert link.begun[0].reused.seconds > 0
    assert link.replayed == [1]
    assert link.steps == list(range(5, 13))
    assert link.ended == [(1, None)]
    assert_same(left_by(place), left_by(cold(ground, course)))


def test_a_longer_trial_goes_on_behind_a_shorter_one(ground: Ground) -> None:
    run_trial(run_of(ground.course(), ground.place("sweep/0000-r0")))
    course, place = ground.course(stages__1__epochs=4), ground.place("sweep/0001-r0")
    link = Link(place)
    assert run_trial(run_of(course, place, link)) == ("complete", None)
    assert link.steps == list(range(13, 21))
    assert_same(left_by(place), left_by(cold(ground, course)))


def test_what_is_at_its_end_already_is_complete_without_a_step(ground: Ground) -> None:
    """Its end was kept for longer trials; the trial that kept it is gone."""
    course, place = ground.course(), ground.place("sweep/0001-r0")
    run_trial(run_of(course, ground.place("sweep/0000-r0")))
    shutil.rmtree(ground.place("sweep/0000-r0").path)
    link = Link(place)
    assert run_trial(run_of(course, place, link)) == ("complete", None)
    assert (link.begun[0].epochs, link.steps, link.ended) == (3, [], [])


def test_an_equal_trial_is_reused_whole_and_one_whose_end_was_lost_is_complete(ground: Ground) -> None:
    course, first = ground.course(), ground.place("sweep/0000-r0")
    run_trial(run_of(course, first))
    drop_states(first.states)
    link = Link(place := ground.place("sweep/0001-r0"))
    assert run_trial(run_of(course, place, link)) == ("reused", None)
    assert (link.steps, link.replayed, link.begun[0].reused.taken_from) == ([], [3], "sweep/0000-r0")
    link = Link(first)
    assert run_trial(run_of(course, first, link)) == ("complete", None)
    assert (link.steps, link.begun[0].reused.taken_from) == ([], None)


def test_what_is_stopped_among_epochs_that_it_took_over_keeps_nothing_of_later_ones(ground: Ground) -> None:
    first, place = ground.place("sweep/0000-r0"), ground.place("sweep/0001-r0")
    run_trial(run_of(ground.course(stages__1__epochs=4), first))
    link = Link(place)
    link.stops_behind = 2
    assert run_trial(run_of(ground.course(stages__1__epochs=6), place, link)) == ("pruned", None)
    curves = read_trial_curves(open_folder(place.sweep_folder), place.trial_id).to_pylist()
    assert {row["epoch"] for row in curves} == {1, 2}
    assert link.reused.steps == max(row["step"] for row in curves) == 8
    assert {int(path.stem.rpartition("-")[2]) for path in place.path.glob("predictions/*")} == {1, 2}
    best = json.loads((place.states.path / "best.json").read_text())
    assert all(epoch <= 2 for epoch in best.values())
    assert {path.name for path in place.states.path.glob("weights/epoch-*")} == {
        f"epoch-{epoch:04d}.safetensors" for epoch in best.values()
    }
    assert not saved_states(place.states)
    assert read_reused_work(place).steps == 8


def test_what_is_stopped_while_it_is_told_again_is_pruned_without_a_step(ground: Ground) -> None:
    course, place = ground.course(), ground.place()
    train_trial(course, place, until_epoch=2)
    link = Link(place)
    link.stops_behind = 2
    run = run_of(course, place, link)
    assert run_trial(run) == ("pruned", None)
    assert (link.steps, link.replayed) == ([], [2])
    assert_nothing_is_held(run)


# Somebody else is there.


def test_a_trial_waits_for_a_stage_that_is_being_trained_and_takes_it_over(ground: Ground) -> None:
    course, place = ground.course(tasks__sst__batch_size=4), ground.place("sweep/0001-r0")
    assert place.store is not None
    held = claim_stage(place.store, keys(course)[0])
    assert held is not None

    def finish_the_stage() -> None:
        held.release()
        train_trial(ground.course(), ground.place("other/0000-r0"), until_epoch=1, keeps=True)

    link = Link(place)
    link.while_waiting = [lambda: None, lambda: None, finish_the_stage]
    assert run_trial(run_of(course, place, link)) == ("complete", None)
    assert link.while_waiting == []
    assert set(link.awaited) == {"stage 0, which it needs, is being trained elsewhere"}
    assert [found.epochs for found in link.begun] == [1]
    assert link.steps == list(range(5, 13))
    assert_same(left_by(place), left_by(cold(ground, course)))


def test_a_stage_whose_trainer_dies_is_taken_over(ground: Ground, holders: "list[subprocess.Popen[str]]") -> None:
    course, place = ground.course(), ground.place()
    assert place.store is not None
    holder = hold(place.store.folder / ".claims" / keys(course)[0])
    holders.append(holder)

    def kill() -> None:
        holder.kill()
        holder.wait()

    link = Link(place)
    link.while_waiting = [lambda: None, kill]
    assert run_trial(run_of(course, place, link)) == ("complete", None)
    assert link.while_waiting == []
    assert link.steps == list(range(1, 13))


def test_a_trial_that_a_left_over_worker_still_trains_is_waited_for(ground: Ground) -> None:
    course, place = ground.course(), ground.place()
    place.path.mkdir(parents=True)
    held = claim_file(place.path / LOCK_FILE)
    assert held is not None

    def go_away() -> None:
        train_trial(course, place, until_epoch=1)
        held.release()

    link = Link(place)
    link.while_waiting = [lambda: None, go_away]
    assert run_trial(run_of(course, place, link)) == ("complete", None)
    assert [found.epochs for found in link.begun] == [1], "what it has left counts"
    assert link.steps[0] == 5


def test_what_was_said_before_a_trial_waits_is_told_when_it_begins(ground: Ground) -> None:
    """A damaged state is forgotten before the wait, and is not there to be told of behind it."""
    course, place = ground.course(), ground.place()
    train_trial(ground.course(optimizer__learning_rate=0.5), place, until_epoch=1)
    assert place.store is not None
    held = claim_stage(place.store, keys(course)[0])
    assert held is not None
    link = Link(place)
    link.while_waiting = [lambda: None, held.release]
    assert run_trial(run_of(course, place, link)) == ("complete", None)
    (begun,) = link.begun
    assert begun.note is not None
    assert begun.note.startswith("0000-r0 starts over: ")


@pytest.mark.parametrize("what", ["stage", "trial"])
def test_a_trial_that_is_not_wanted_any_more_stops_waiting(ground: Ground, what: str) -> None:
    course, place = ground.course(), ground.place()
    place.path.mkdir(parents=True)
    assert place.store is not None
    held = claim_file(place.path / LOCK_FILE) if what == "trial" else claim_stage(place.store, keys(course)[0])
    assert held is not None
    link = Link(place)
    run = run_of(course, place, link)
    assert run_trial(run) == ("interrupted", None)
    assert (link.begun, link.steps) == ([], [])
    held.release()
    assert_nothing_is_held(run)


def test_a_stage_that_is_there_when_the_claim_comes_is_not_trained_again(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    course, place = ground.course(tasks__sst__batch_size=4), ground.place("sweep/0001-r0")
    was_late: list[str] = []

    def late(store: Any, key: str) -> Any:
        if not was_late:
            was_late.append(key)
            train_trial(ground.course(), ground.place("other/0000-r0"), until_epoch=1, keeps=True)
        return claim_stage(store, key)

    monkeypatch.setattr(worker_trial, "claim_stage", late)
    link = Link(place)
    assert run_trial(run_of(course, place, link)) == ("complete", None)
    assert was_late == keys(course)[:1]
    assert [found.epochs for found in link.begun] == [1]
    assert link.steps[0] == 5


def test_a_stage_that_is_there_and_cannot_be_taken_is_trained_again(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system does not let it, say; nobody must wait for that to change."""
    run_trial(run_of(ground.course(), ground.place("sweep/0000-r0")))
    shutil.rmtree(ground.place("sweep/0000-r0").finished_folder)
    monkeypatch.setattr(take_over, "fetch_stage", lambda *_arguments: None)
    course, place = ground.course(), ground.place("sweep/0001-r0")
    link = Link(place)
    run = run_of(course, place, link)
    assert run_trial(run) == ("complete", None)
    assert link.steps == list(range(1, 13))
    assert_same(left_by(place), left_by(ground.place("sweep/0000-r0")))
    assert_nothing_is_held(run)


@pytest.mark.parametrize("does_finish", [True, False])
def test_a_trial_whose_next_stage_is_trained_elsewhere_leaves_and_comes_back(ground: Ground, does_finish: bool) -> None:
    """It comes back to the stage that the other has left, or, if that has died, goes on from its own state."""
    course, place = ground.course(), ground.place()
    assert place.store is not None
    held = claim_stage(place.store, keys(course)[1])
    assert held is not None

    def end_elsewhere() -> None:
        held.release()
        if does_finish:
            train_trial(course, ground.place("other/0000-r0", shares=True), keeps=True)

    link = Link(place)
    link.while_waiting = [lambda: None, end_elsewhere]
    run = run_of(course, place, link)
    assert run_trial(run) == ("complete", None)
    assert [found.epochs for found in link.begun] == [0, 3 if does_finish else 1]
    assert link.begun[1].reused.steps == (8 if does_finish else 0)
    assert link.replayed == [0, 3 if does_finish else 1]
    assert link.steps == list(range(1, 5 if does_finish else 13))
    assert link.ended[0] == (0, None)
    assert_same(left_by(place), left_by(cold(ground, course)))
    assert_nothing_is_held(run)


def test_while_a_stage_is_trained_others_cannot_claim_it_and_then_they_can(ground: Ground) -> None:
    course, place = ground.course(), ground.place()
    seen: list[list[bool]] = []

    def look(step: int) -> bool:
        if step in (1, 4, 5, 12):
            seen.append([is_claimed(place.store, key) for key in keys(course)])  # type: ignore[arg-type]
        assert is_file_claimed(place.path / LOCK_FILE)
        return True

    link = Link(place)
    link.at_step = look
    run_trial(run_of(course, place, link))
    assert seen == [[True, False], [True, False], [False, True], [False, True]]


# Ways out.


def is_pruned(link: Link) -> None:
    link.stops_behind = 2


def is_interrupted(link: Link) -> None:
    link.at_step = lambda step: step != 6


def diverges(link: Link) -> None:
    def fail(step: int) -> bool:
        if step == 6:
            raise TrainingDiverged("qqp: loss is nan at step 6")
        return True

    link.at_step = fail


def is_refused(link: Link) -> None:
    def fail(step: int) -> bool:
        if step == 6:
            raise ValueError("it must fit\n  and more")
        return True

    link.at_step = fail


@pytest.mark.parametrize(
    ("spoil", "end"),
    [
        (lambda _link: None, ("complete", None)),
        (is_pruned, ("pruned", None)),
        (is_interrupted, ("interrupted", None)),
        (diverges, ("failed", "qqp: loss is nan at step 6")),
        (is_refused, ("failed", "it must fit")),
    ],
)
@pytest.mark.parametrize("shares", [True, False])
def test_whatever_way_a_trial_ends_it_gives_its_rights_back(
    ground: Ground, spoil: Callable[[Link], None], end: tuple[str, str | None], shares: bool
) -> None:
    place = ground.place(shares=shares)
    link = Link(place)
    spoil(link)
    run = run_of(ground.course(), place, link)
    assert run_trial(run) == end
    assert_nothing_is_held(run)


def test_an_error_that_not_all_workers_may_have_met_goes_on_and_the_rights_are_given_back(ground: Ground) -> None:
    def fail(_step: int) -> bool:
        raise KeyError("lost")

    link = Link(place := ground.place())
    link.at_step = fail
    run = run_of(ground.course(), place, link)
    with pytest.raises(KeyError, match="lost"):
        run_trial(run)
    assert_nothing_is_held(run)


def test_an_error_of_a_worker_that_others_have_left_is_not_the_trials_fault(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process group is gone, and torch says so with a ValueError."""

    def gone() -> int:
        raise RuntimeError("the process group of 2 workers has gone")

    def at_step(_step: int) -> bool:
        monkeypatch.setattr(worker_trial, "num_workers", gone)
        raise ValueError("Default process group has not been initialized")

    link = Link(place := ground.place())
    link.at_step = at_step
    with pytest.raises(RuntimeError, match="has gone"):
        run_trial(run_of(ground.course(), place, link))


def test_an_interrupted_trial_goes_on_from_its_last_step(ground: Ground) -> None:
    course, place = ground.course(), ground.place()
    link = Link(place)
    is_interrupted(link)
    assert run_trial(run_of(course, place, link))[0] == "interrupted"
    link = Link(place)
    assert run_trial(run_of(course, place, link)) == ("complete", None)
    assert link.steps[0] == 7
    assert_same(left_by(place), left_by(cold(ground, course)))


def test_a_stage_whose_keeping_a_kill_prevented_is_kept_when_the_trial_goes_on(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    course, place = ground.course(), ground.place()
    with monkeypatch.context() as patch:
        patch.setattr(worker_trial, "store_stage_end", lambda *_arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run_trial(run_of(course, place))
    assert place.store is not None
    assert not has_stage(place.store, keys(course)[0])
    link = Link(place)
    assert run_trial(run_of(course, place, link)) == ("complete", None)
    assert (link.steps[0], link.ended) == (5, [(0, None), (1, None)])
    assert has_stage(place.store, keys(course)[0])


def test_a_damaged_state_is_not_handed_on(ground: Ground) -> None:
    course, place = ground.course(), ground.place()
    train_trial(course, place, until_epoch=1)
    newest = saved_states(place.states)[0] / "tensors"
    newest.write_bytes(newest.read_bytes()[:-1] + b"x")
    link = Link(place)
    assert run_trial(run_of(course, place, link)) == ("complete", None)
    assert place.store is not None
    assert link.ended == [(0, None), (1, None)]
    assert fetch_stage(place.store, keys(course)[0], place.sweep_folder / "taken") is not None
    assert read_state(place.sweep_folder / "taken" / "state") is not None


def test_a_complete_trial_is_noted_for_equal_ones_while_it_still_has_the_right_to_its_end(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    course, place = ground.course(), ground.place()
    held: list[bool] = []

    def noting(own: TrialFolder, cut: Cut) -> None:
        assert own.store is not None
        held.append(is_claimed(own.store, cut.key))
        register_finished(own, cut)

    monkeypatch.setattr(worker_trial, "register_finished", noting)
    run_trial(run_of(course, place))
    assert held == [True]
    assert find_finished(place, course.cuts[-1]) == [place]


def test_a_whole_trial_that_was_taken_over_is_noted_too(trained: Ground) -> None:
    course, first, second = trained.course(), finish(trained), trained.place("second/0000-r0")
    assert run_trial(run_of(course, second)) == ("reused", None)
    assert find_finished(second, course.cuts[-1]) == [second, first]


def test_a_stage_that_cannot_be_kept_is_tried_once_and_not_each_time_that_the_trial_has_waited(ground: Ground) -> None:
    course, place = ground.course(), ground.place(keep_bytes=1)
    train_trial(course, place, until_epoch=1)
    waits = iter([False, False, True])
    link = Link(place)
    link.while_waiting = [lambda: None, lambda: None]

    def take(_run: TrialRun, _cut: Cut) -> bool:
        return next(waits, True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_trial, "claim_cut", take)
        assert run_trial(run_of(course, place, link)) == ("complete", None)
    assert [stage for stage, _ in link.ended] == [0, 1]


@pytest.mark.parametrize("shares", [True, False])
def test_only_what_is_complete_and_shared_is_noted(ground: Ground, shares: bool) -> None:
    course, place = ground.course(), ground.place(shares=shares)
    link = Link(place)
    link.stops_behind = 2 if shares else None
    assert run_trial(run_of(course, place, link))[0] == ("pruned" if shares else "complete")
    assert not place.finished_folder.exists()


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
def test_an_error_is_one_line_with_its_kind_unless_it_is_for_people(error: Exception, text: str) -> None:
    assert describe_error(error) == text


# Two workers.


def run_both(_wrap: Any, ground: Ground, name: str, changes: dict[str, Any], shares: bool, until: int) -> Any:
    """On each of two workers: a trial of a lane, interrupted behind a step unless that is 0; its end and its steps."""
    place = ground.place(name, shares=shares)
    link = Link(place)
    link.at_step = lambda step: step != until
    end, _ = run_trial(run_of(ground.course(**changes), place, link))
    return end, link.steps


@pytest.mark.slow
def test_two_workers_share_stages_and_go_on_together_to_what_they_come_to_alone(ground: Ground) -> None:
    changes = {"tasks__sst__batch_size": 4}
    with pair_of_workers() as ask:
        assert ask(run_both, ground, "sweep/0000-r0", {}, True, 0) == [("complete", list(range(1, 13)))] * 2
        begun, left = (
            ask(run_both, ground, "sweep/0001-r0", changes, True, 7),
            ask(run_both, ground, "sweep/0001-r0", changes, True, 0),
        )
        twin = ask(run_both, ground, "sweep/0002-r0", changes, True, 0)
        alone = ask(run_both, ground, "cold/0000-r0", changes, False, 0)
    assert begun == [("interrupted", [5, 6, 7])] * 2
    assert left == [("complete", [8, 9, 10, 11, 12])] * 2
    assert twin == [("reused", [])] * 2
    assert alone == [("complete", list(range(1, 13)))] * 2
    wanted = left_by(ground.place("cold/0000-r0"))
    for name in ("sweep/0001-r0", "sweep/0002-r0"):
        assert_same(left_by(ground.place(name)), wanted)
