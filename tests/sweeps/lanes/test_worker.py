"""Lanes on a real Ray without Tune: two workers, errors on one of them, and a worker that dies."""

import errno
import itertools
import os
import signal
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import ray
import torch
from ray import cloudpickle
from ray.exceptions import ActorDiedError
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from safetensors import SafetensorError
from safetensors.torch import save_file

import mtlib.checkpoints.state
import sweeps.lanes.trial_run
import sweeps.lanes.worker
from mtlib.checkpoints.state import StateFolder, load_state, saved_states
from mtlib.config.trial import TrialConfig
from mtlib.runtime.storage import BucketWait, open_folder
from mtlib.training.epoch_report import StepProgress
from results.records.epochs import read_trial_curves
from results.records.trial_folder import TrialEnd, read_end, read_start, write_end
from results.records.trials import SWEEP_FILE
from sweeps.cluster.node_drain import NodeDrain
from sweeps.driver.dispatcher import Dispatcher
from sweeps.driver.trials.messages import Assignment, Message
from sweeps.driver.trials.table import Event, open_table
from sweeps.driver.trials.trial import queued_record
from sweeps.lanes.channel import Channel
from sweeps.lanes.lane import LaneCallback
from sweeps.lanes.stored_inputs import put_inputs
from sweeps.lanes.worker import LaneSetup, cause_of, run_lane, smallest, train_assigned
from sweeps.reuse.finished_trials import trial_folder
from tests.sweeps.conftest import MakePlan
from tests.sweeps.lanes.plain_sweep import PlainReporter, assignment_of
from tests.training_inputs import FileReader, cached_encoder, read_inputs_of

PATIENCE_SECONDS = 300
BAD, KILLED, UNINTERRUPTED = (f"000{number}-r0" for number in (3, 4, 5))
"""Trials of one configuration: the plan's own are three others, whose configurations the sweep's table knows."""


def sabotage(marks: Path) -> None:
    """Makes the second worker fail in the third step of two trials: always by an error, once by a kill."""
    from mtlib.runtime.workers import worker_rank
    from sweeps.lanes.reporter import Reporter

    real = Reporter.on_step

    def on_step(reporter: Reporter, progress: StepProgress) -> bool:
        if worker_rank() == 1 and progress.step == 3:
            if reporter._trial_id == BAD:
                raise KeyError("lost")
            if reporter._trial_id == KILLED and not marks.exists():
                marks.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return real(reporter, progress)

    Reporter.on_step = on_step  # type: ignore[assignment, method-assign]


class OpenLane:
    """A lane and its channel; stands in for Tune and lets every trial continue."""

    def __init__(self, setup: LaneSetup, num_workers: int, storage: Path, prepare: Callable[[], None]) -> None:
        def train_loop() -> None:
            prepare()
            run_lane(setup)

        self.setup, self.dispatcher = setup, Dispatcher(open_table(setup.plan), setup.channel)
        self.events: list[Event] = []
        trainer = TorchTrainer(
            train_loop,
            scaling_config=ScalingConfig(num_workers=num_workers, resources_per_worker={"CPU": 1}),
            run_config=RunConfig(
                name="lane",
                storage_path=str(storage),
                failure_config=FailureConfig(max_failures=-1),
                callbacks=[LaneCallback(setup.channel, setup.lane)],
            ),
        )
        self.thread = threading.Thread(target=trainer.fit, daemon=True)
        self.thread.start()

    def run(self, trial_id: str, config: TrialConfig) -> Event:
        """Submits a trial and answers its reports; returns its end."""
        trial = queued_record(int(trial_id[:4]), 0, {}, config)
        self.dispatcher.tell(Message(kind="suggested", facts={"trial": trial}))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            for event in self.dispatcher.take_events(1.0):
                self.events.append(event)
                if event.kind == "report" and "overall" in event.facts["scores"]:
                    facts = {"epoch": event.facts["epoch"], "stop": False}
                    self.dispatcher.tell(Message(kind="verdict", trial_id=trial_id, facts=facts))
                if event.kind == "ended":
                    return event
        raise TimeoutError(f"{trial_id} did not end")

    def close(self) -> None:
        self.dispatcher.tell(Message(kind="stop"))
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive()
        self.dispatcher.close(PATIENCE_SECONDS)


@pytest.fixture
def lane_setup(
    private_ray: None,  # noqa: ARG001 - must be there
    make_plan: MakePlan,
    tiny_folder: Path,
    tiny_encoder_folder: Path,
    tiny_config: TrialConfig,
) -> LaneSetup:
    channel: Any = ray.remote(num_cpus=0)(Channel)
    base = tiny_config.override({"encoder.name": str(tiny_encoder_folder)})
    plan = make_plan(base=base, data_folder=tiny_folder, checkpoint_steps=2, reuse=False)
    inputs = put_inputs(read_inputs_of(plan), plan.data_folder, plan.options.cache_folder)
    return LaneSetup(lane="lane", channel=channel.remote(), plan=plan, inputs=inputs, driver_id="")


@pytest.fixture
def by_value() -> Iterator[None]:
    """Lets workers, which cannot import this file, run its functions."""
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.ray
@pytest.mark.timeout(600)
@pytest.mark.slow
@pytest.mark.usefixtures("by_value")
def test_lane_of_two_workers_survives_an_error_and_a_kill_on_one_of_them(lane_setup: LaneSetup, tmp_path: Path) -> None:
    """One lane and three trials: opening a lane takes most of the time."""
    lane = OpenLane(lane_setup, 2, tmp_path / "ray", lambda: sabotage(tmp_path / "was-killed"))
    config = lane_setup.plan.space.base
    ends = {trial_id: lane.run(trial_id, config).facts for trial_id in (BAD, KILLED, UNINTERRUPTED)}
    lane.close()

    assert ends[BAD]["how"] == "failed"
    assert ends[BAD]["error"].endswith("KeyError: 'lost'")
    assert [(ends[name]["how"], ends[name]["error"]) for name in (KILLED, UNINTERRUPTED)] == [("complete", None)] * 2
    resumed = dict.fromkeys(event.trial_id for event in lane.events if event.kind == "resumed")
    assert list(resumed) == [BAD, KILLED]  # the bad one once more where a state was written before its first error
    root = open_folder(lane_setup.plan.options.folder)
    killed, uninterrupted = (
        read_trial_curves(root, name).drop_columns(["trial", "seconds"]) for name in (KILLED, UNINTERRUPTED)
    )
    assert killed.equals(uninterrupted)
    assert ray.available_resources()["CPU"] == 2


@dataclass
class PlainLane:
    """A lane without Ray that trains trials in this process."""

    setup: LaneSetup
    reporters: list[PlainReporter]

    def run(self, trial_id: str, attempt: int = 1, drain: NodeDrain | None = None) -> PlainReporter:
        folder = trial_folder(self.setup.plan.options, trial_id)
        own = assignment_of(folder, self.setup.plan.space.base)
        plan = self.setup.plan
        encoder = cached_encoder(plan.space.base.encoder.name)
        reader: Any = FileReader(encoder, plan.data_folder, plan.options.cache_folder)
        train_assigned(self.setup, reader, Assignment(trial=own.trial, attempt=attempt), drain or NodeDrain())
        return self.reporters[-1]

    @property
    def folder(self) -> Path:
        return Path(self.setup.plan.options.folder)

    def states(self, trial_id: str) -> StateFolder:
        return StateFolder(path=self.folder / "trials" / trial_id / "checkpoint")

    def end(self, trial_id: str) -> TrialEnd | None:
        return read_end(open_folder(self.folder), trial_id)


@pytest.fixture
def plain_lane(
    make_plan: MakePlan,
    tiny_folder: Path,
    tiny_encoder_folder: Path,
    tiny_config: TrialConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> PlainLane:
    config = tiny_config.override({"encoder.name": str(tiny_encoder_folder), "stages.1.steps_per_epoch": 4})
    reporters: list[PlainReporter] = []

    def make(_channel: object, _root: object, assignment: Assignment, *_further: object) -> PlainReporter:
        reporters.append(PlainReporter(plan.options.folder, assignment.trial_id))
        return reporters[-1]

    monkeypatch.setattr(sweeps.lanes.worker, "Reporter", make)
    nobody: Any = None
    plan = make_plan(base=config, data_folder=tiny_folder, checkpoint_steps=2, reuse=False)
    return PlainLane(LaneSetup(lane="lane", channel=nobody, plan=plan, inputs=nobody, driver_id=""), reporters)


def test_trial_on_a_drained_node_has_a_state_and_no_end(plain_lane: PlainLane) -> None:
    drain = NodeDrain()
    drain.nodes = ["n"]
    left = plain_lane.run(BAD, drain=drain)
    assert (left.end, plain_lane.end(BAD)) == (None, None)
    assert load_state(plain_lane.states(BAD)) is not None
    again = plain_lane.run(BAD, attempt=2)
    assert (again.end, again.steps) == (("complete", None), list(range(left.steps[-1] + 1, 13)))


def test_trial_that_meets_a_full_disk_is_interrupted_and_resumes_once_there_is_room(
    plain_lane: PlainLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, num_written = plain_lane.states(BAD), itertools.count(1)

    def save_six(tensors: Any, path: Path) -> None:
        if next(num_written) > 6:
            raise SafetensorError("I/O error: No space left on device (os error 28)")
        save_file(tensors, path)

    with monkeypatch.context() as patch:
        patch.setattr(mtlib.checkpoints.state, "save_file", save_six)
        first = plain_lane.run(BAD)
    assert first.end is not None
    status, error = first.end
    assert status == "interrupted"
    assert str(error).startswith("the disk must have room for ")
    assert plain_lane.end(BAD) is None
    assert load_state(states) is not None
    again, uninterrupted = plain_lane.run(BAD), plain_lane.run(UNINTERRUPTED)
    assert again.end == uninterrupted.end == ("complete", None)
    assert uninterrupted.steps == list(range(1, 13))
    assert again.steps == uninterrupted.steps[-len(again.steps) :]
    assert 12 - len(again.steps) >= first.steps[-1] - 2
    assert saved_states(states) == []
    assert best_digests(plain_lane.folder, BAD) == best_digests(plain_lane.folder, UNINTERRUPTED)


def test_wait_for_a_bucket_reaches_the_driver(plain_lane: PlainLane, monkeypatch: pytest.MonkeyPatch) -> None:
    wait, told = BucketWait(), list[Message]()
    monkeypatch.setattr(sweeps.lanes.worker, "BUCKET_WAIT", wait)
    channel: Any = SimpleNamespace(tell=SimpleNamespace(remote=told.append))
    plain_lane.setup = replace(plain_lane.setup, channel=channel)
    plain_lane.run(BAD)
    wait.note("Waiting")
    assert told == [Message(kind="waits", trial_id=BAD, facts={"text": "Waiting"})]


def test_trial_that_has_lost_the_channel_has_not_failed(plain_lane: PlainLane, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(PlainReporter, "on_epoch", Mock(side_effect=ActorDiedError))
        with pytest.raises(ActorDiedError):
            plain_lane.run(BAD)
    assert plain_lane.end(BAD) is None
    assert plain_lane.run(BAD).end == ("complete", None)


def test_states_stay_where_the_end_cannot_be_recorded(plain_lane: PlainLane, monkeypatch: pytest.MonkeyPatch) -> None:
    full_disk = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    with monkeypatch.context() as patch:
        patch.setattr(sweeps.lanes.trial_run, "write_end", full_disk)
        first = plain_lane.run(BAD)
    assert first.end == ("interrupted", "No space left on device")
    assert plain_lane.end(BAD) is None
    assert saved_states(plain_lane.states(BAD)) != []
    again = plain_lane.run(BAD)
    assert again.end == ("complete", None)
    assert len(again.steps) < len(first.steps)
    assert saved_states(plain_lane.states(BAD)) == []


@pytest.mark.parametrize(
    ("lost", "place", "call", "how"),
    [
        ("trials/bad", PlainReporter, "on_epoch", "failed"),
        ("trials/bad", mtlib.checkpoints.state, "save_file", "failed"),
        ("", PlainReporter, "on_epoch", "interrupted"),
    ],
)
def test_trial_whose_folder_is_renamed_fails_alone_and_nothing_makes_the_folder_again(
    plain_lane: PlainLane, monkeypatch: pytest.MonkeyPatch, lost: str, place: Any, call: str, how: str
) -> None:
    """Where the sweep's folder is renamed all trials are interrupted, and the driver says why."""
    (plain_lane.folder / SWEEP_FILE).touch()
    folder, real = plain_lane.folder / lost.replace("bad", BAD), getattr(place, call)

    def rename_first(*arguments: Any) -> Any:
        folder.rename(plain_lane.folder.parent / "renamed")
        monkeypatch.undo()
        return real(*arguments)  # into a folder that is gone

    monkeypatch.setattr(place, call, rename_first)
    ended = plain_lane.run(BAD).end
    assert ended is not None
    assert (ended[0], "its folder" in str(ended[1])) == (how, how == "failed")
    assert not folder.exists()


def best_digests(folder: Path, trial_id: str) -> dict[str, int]:
    """Checksums of a trial's best weights."""
    weights = folder / "trials" / trial_id / "checkpoint" / "weights"
    return {path.name: zlib.crc32(path.read_bytes()) for path in weights.glob("epoch-*")}


def test_trial_that_cannot_be_loaded_fails_on_record(plain_lane: PlainLane, monkeypatch: pytest.MonkeyPatch) -> None:
    error = ValueError("sst.csv must exist\nmore")
    monkeypatch.setattr(sweeps.lanes.worker, "load_trial", Mock(side_effect=error))
    assert plain_lane.run(BAD).end == ("failed", "sst.csv must exist")
    end, start = plain_lane.end(BAD), read_start(open_folder(plain_lane.folder), BAD)
    assert end is not None
    assert start is not None
    assert (end.how, end.error, start.number) == ("failed", "sst.csv must exist", 3)


def test_error_of_a_single_worker_fails_the_trial_and_one_of_several_is_raised(
    plain_lane: PlainLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps.lanes.worker, "run_trial", Mock(side_effect=KeyError("lost")))
    with pytest.raises(KeyError, match="lost"):
        plain_lane.run(KILLED)
    assert (plain_lane.reporters[-1].errors, plain_lane.reporters[-1].end) == (["KeyError: 'lost', by trial"], None)


@pytest.mark.parametrize(
    ("error", "gpus", "cause"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), 0.5, "shared_gpu"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), 0.5, "shared_gpu"),
        (torch.OutOfMemoryError("CUDA out of memory"), 1.0, "trial"),
        (OSError("read-only"), 0.5, "storage"),
        (KeyError("lost"), 0.5, "trial"),
    ],
)
def test_memory_that_others_use_too_is_another_cause_than_the_trial(error: Exception, gpus: float, cause: str) -> None:
    assert cause_of(error, gpus) == cause


@pytest.mark.parametrize("how", ["complete", "pruned", "failed"])
def test_end_that_a_worker_recorded_before_it_died_stands(plain_lane: PlainLane, how: str) -> None:
    """Its states are gone: the trial would be trained from its start."""
    plain_lane.run(BAD)
    write_end(open_folder(plain_lane.folder), BAD, TrialEnd(how=how, error="why", wall_seconds=7.0))
    reporter = plain_lane.run(BAD, attempt=2)
    assert (reporter.end, reporter.steps) == ((how, "why"), [])
    again = plain_lane.run(BAD, attempt=1)
    assert again.end != (how, "why"), "an end from an earlier run of the sweep does not count: the trial was queued"


def test_parts_that_fit_a_gpu_are_on_record_and_stay_when_the_trial_goes_on(
    plain_lane: PlainLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sizes in ((4, None), (2, 2)):  # the second time the trial has its sizes
        monkeypatch.setattr(sweeps.lanes.worker, "fitting_micro_batches", lambda *_, sizes=sizes: sizes)
        assert plain_lane.run(BAD).end == ("complete", None)
        start = read_start(open_folder(plain_lane.folder), BAD)
        assert start is not None
        assert start.micro_batch_sizes == (4, None)
        assert start.notes == (
            f"{BAD}: the GPU's memory does not hold a batch at once in stage 0; it passes in parts of 4 rows",
        )
    assert smallest([(4, None, None), (None, 8, None)]) == (4, 8, None)
