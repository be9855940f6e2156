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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import ray
import torch
from ray import cloudpickle
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from safetensors import SafetensorError
from safetensors.torch import save_file

import mtlib.checkpoints.state
import sweeps.lanes.worker
from mtlib.checkpoints.state import State, StateFolder, load_state, save_state, saved_states
from mtlib.config.trial import TrialConfig
from mtlib.training.epoch_report import StepProgress
from results.records.tables import read_curves
from results.records.trial_folder import read_end
from sweeps.lanes.mailbox import Mailbox
from sweeps.lanes.messages import Assignment, Event
from sweeps.lanes.worker import LaneSetup, is_contained, record_end, run_assignment, run_lane
from tests.sweeps.conftest import MakePlan
from tests.sweeps.lanes.plain_sweep import PlainReporter
from tests.sweeps.reuse.trained_trials import TrialStorage

pytestmark = pytest.mark.ray
PATIENCE_SECONDS = 300


def sabotage(marks: Path) -> None:
    """Makes the second worker fail in the third step of two trials: once by an error, once by a kill."""
    from mtlib.runtime.workers import worker_rank
    from sweeps.lanes.reporter import TrialReporter

    real = TrialReporter.on_step

    def on_step(link: TrialReporter, progress: StepProgress) -> bool:
        if worker_rank() == 1 and progress.step == 3:
            if link._trial_id == "bad":
                raise KeyError("lost")
            if link._trial_id == "killed" and not marks.exists():
                marks.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return real(link, progress)

    TrialReporter.on_step = on_step  # type: ignore[assignment, method-assign]


class OpenLane:
    """A lane and its mailbox; stands in for Tune and lets every trial continue."""

    def __init__(self, setup: LaneSetup, num_workers: int, storage: Path, prepare: Callable[[], None]) -> None:
        def train_loop() -> None:
            prepare()
            run_lane(setup)

        self.mailbox = setup.mailbox
        self.events: list[Event] = []
        trainer = TorchTrainer(
            train_loop,
            scaling_config=ScalingConfig(num_workers=num_workers, resources_per_worker={"CPU": 1}),
            run_config=RunConfig(name="lane", storage_path=str(storage), failure_config=FailureConfig(max_failures=-1)),
        )
        self.thread = threading.Thread(target=trainer.fit, daemon=True)
        self.thread.start()

    def run(self, trial_id: str, config: TrialConfig) -> Event:
        """Submits a trial and answers its reports; returns its end."""
        ray.get(self.mailbox.submit.remote(trial_id, config.to_json()))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            events: list[Event] = ray.get(self.mailbox.take_events.remote(1.0))
            for event in events:
                self.events.append(event)
                if event.kind == "report" and event.facts["scored_epoch"]:
                    self.mailbox.set_decision.remote(trial_id, event.facts["epoch"], False)
                if event.kind == "ended":
                    return event
        raise TimeoutError(f"{trial_id} did not end")

    def close(self) -> None:
        ray.get(self.mailbox.interrupt.remote())
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive()
        ray.kill(self.mailbox)


@pytest.fixture
def lane_setup(
    private_ray: None,  # noqa: ARG001 - must be there
    make_plan: MakePlan,
    tiny_folder: Path,
    tiny_encoder_folder: Path,
    tiny_config: TrialConfig,
) -> LaneSetup:
    mailbox: Any = ray.remote(num_cpus=0)(Mailbox)
    base = tiny_config.override({"encoder.name": str(tiny_encoder_folder)})
    plan = make_plan(base=base, data_folder=tiny_folder, checkpoint_steps=2, reuse=False)
    return LaneSetup(lane="lane", mailbox=mailbox.remote(), plan=plan)


@pytest.fixture
def by_value() -> Iterator[None]:
    """Lets workers, which cannot import this file, run its functions."""
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.slow
@pytest.mark.usefixtures("by_value")
def test_lane_of_two_workers_survives_an_error_and_a_kill_on_one_of_them(lane_setup: LaneSetup, tmp_path: Path) -> None:
    """One lane and three trials: opening a lane takes most of the time."""
    lane = OpenLane(lane_setup, 2, tmp_path / "ray", lambda: sabotage(tmp_path / "was-killed"))
    config = lane_setup.plan.space.base
    ends = {trial_id: lane.run(trial_id, config).facts for trial_id in ("bad", "killed", "uninterrupted")}
    lane.close()

    assert (ends["bad"]["how"], ends["bad"]["error"]) == ("failed", "KeyError: 'lost'")
    assert [(ends[name]["how"], ends[name]["error"]) for name in ("killed", "uninterrupted")] == [
        ("complete", None)
    ] * 2
    resumed = [event.trial_id for event in lane.events if event.kind == "resumed"]
    assert resumed == ["killed"], "an error is the trial's fault, a death may not be"
    curves = read_curves(lane_setup.plan.options.folder).drop_columns(["seconds"]).to_pandas()
    killed, uninterrupted = (curves[curves.trial == name].drop(columns="trial") for name in ("killed", "uninterrupted"))
    assert killed.to_numpy().tolist() == uninterrupted.to_numpy().tolist()
    assert ray.available_resources()["CPU"] == 2


@dataclass
class PlainLane:
    """A lane without Ray that trains trials in this process."""

    setup: LaneSetup
    links: list[PlainReporter]

    def run(self, trial_id: str) -> None:
        config = self.setup.plan.space.base.to_json()
        run_assignment(self.setup, Assignment(trial_id=trial_id, config=config))

    @property
    def folder(self) -> Path:
        return self.setup.plan.options.folder

    def states(self, trial_id: str) -> StateFolder:
        return StateFolder(path=self.folder / "trials" / trial_id / "checkpoint")


@pytest.fixture
def plain_lane(
    make_plan: MakePlan,
    tiny_folder: Path,
    tiny_encoder_folder: Path,
    tiny_config: TrialConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> PlainLane:
    config = tiny_config.override({"encoder.name": str(tiny_encoder_folder), "stages.1.steps_per_epoch": 4})
    links: list[PlainReporter] = []

    def link(_mailbox: object, folder: Path, trial_id: str, *_further: object) -> PlainReporter:
        links.append(PlainReporter(folder, trial_id))
        return links[-1]

    monkeypatch.setattr(sweeps.lanes.worker, "TrialReporter", link)
    monkeypatch.setattr("ray.train.torch.get_device", lambda: torch.device("cpu"))
    nobody: Any = None
    plan = make_plan(base=config, data_folder=tiny_folder, checkpoint_steps=2, reuse=False)
    return PlainLane(LaneSetup(lane="lane", mailbox=nobody, plan=plan), links)


def test_trial_that_fails_on_a_full_disk_resumes_once_there_is_room(
    plain_lane: PlainLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, links, states = plain_lane.folder, plain_lane.links, plain_lane.states("full")
    num_written = itertools.count(1)

    def save_six(tensors: Any, path: Path) -> None:
        if next(num_written) > 6:
            raise SafetensorError("I/O error: No space left on device (os error 28)")
        save_file(tensors, path)

    with monkeypatch.context() as patch:
        patch.setattr(mtlib.checkpoints.state, "save_file", save_six)
        plain_lane.run("full")
    assert links[0].end is not None
    how, error = links[0].end
    assert how == "failed"
    assert str(error).startswith("the disk must have room for ")
    end = read_end(folder, "full")
    assert end is not None
    assert (end["how"], end["error"]) == ("failed", error)
    assert load_state(states) is not None
    for trial_id in ("full", "uninterrupted"):
        plain_lane.run(trial_id)
    _, again, uninterrupted = links
    assert again.end == uninterrupted.end == ("complete", None)
    assert uninterrupted.steps == list(range(1, 13))
    assert again.steps == uninterrupted.steps[-len(again.steps) :]
    assert 12 - len(again.steps) >= links[0].steps[-1] - 2
    assert saved_states(states) == []
    assert best_digests(folder, "full") == best_digests(folder, "uninterrupted")


def no_room(*_arguments: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_full_disk_at_a_known_end_is_tolerated_and_other_errors_are_raised(
    storage: TrialStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, end = storage.trial_folder(), {"how": "complete"}
    assert record_end(folder, end)
    assert read_end(folder.sweep_folder, folder.trial_id) == end
    monkeypatch.setattr(sweeps.lanes.worker, "write_end", no_room)
    assert not record_end(folder, end)

    def forbidden(*_arguments: Any) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(sweeps.lanes.worker, "write_end", forbidden)
    with pytest.raises(PermissionError, match="not yours"):
        record_end(folder, end)


def test_states_stay_where_the_end_cannot_be_recorded(plain_lane: PlainLane, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sweeps.lanes.worker, "write_end", no_room)
        plain_lane.run("full")
    assert plain_lane.links[0].end == ("complete", None)
    assert read_end(plain_lane.folder, "full") is None
    assert saved_states(plain_lane.states("full")) != []
    plain_lane.run("full")
    assert plain_lane.links[1].end == ("complete", None)
    assert len(plain_lane.links[1].steps) < len(plain_lane.links[0].steps)
    assert saved_states(plain_lane.states("full")) == []


def best_digests(folder: Path, trial_id: str) -> dict[str, int]:
    """Checksums of a trial's best weights."""
    weights = folder / "trials" / trial_id / "checkpoint" / "weights"
    return {path.name: zlib.crc32(path.read_bytes()) for path in weights.glob("epoch-*")}


@pytest.mark.parametrize("status", ["complete", "reused", "pruned", "failed", "interrupted"])
def test_states_are_deleted_at_the_end_unless_interrupted(
    status: str, plain_lane: PlainLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_state(plain_lane.states("done"), 1, State(tensors={}, numbers={}))
    monkeypatch.setattr(sweeps.lanes.worker, "run_trial", lambda _run: (status, None))
    plain_lane.run("done")
    assert bool(saved_states(plain_lane.states("done"))) == (status == "interrupted")


@pytest.mark.parametrize(
    ("error", "device", "is_alone", "is_contained_here"),
    [
        (KeyError("lost"), "cpu", True, True),
        (RuntimeError("Connection closed by peer"), "cpu", True, True),
        (RuntimeError("Connection closed by peer"), "cpu", False, False),  # also where the peer has left the group
        (KeyError("lost"), "cpu", False, False),
        (RuntimeError("CUDA error"), "cuda", True, False),
        (torch.OutOfMemoryError("CUDA out of memory"), "cuda", True, True),
    ],
)
def test_error_is_contained_on_one_worker_with_a_sound_device(
    error: Exception, device: str, is_alone: bool, is_contained_here: bool
) -> None:
    assert is_contained(error, torch.device(device), is_alone) == is_contained_here
