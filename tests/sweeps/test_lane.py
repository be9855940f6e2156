"""Lanes on a real Ray: with two workers, errors on one of them, and a worker that dies. No Tune here."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import cloudpickle
from ray.train.torch import TorchTrainer
from ray.train.v2.api.config import FailureConfig, RunConfig, ScalingConfig

from mtlib.config import TrialConfig
from mtlib.reports import Progress
from results.epochs import read_curves
from sweeps.lane import LaneSetup, corpus_of, run_lane
from sweeps.messages import Event
from sweeps.trial_mailbox import Mailbox

pytestmark = pytest.mark.ray
PATIENCE_SECONDS = 300


def sabotage(marks: Path) -> None:
    """Makes the second worker fail in the third step of two trials: by an error, and once by being killed."""
    from mtlib.workers import worker_rank
    from sweeps.lane_link import LaneLink

    real = LaneLink.on_step

    def on_step(link: LaneLink, progress: Progress) -> bool:
        if worker_rank() == 1 and progress.step == 3:
            if link._trial_id == "bad":
                raise KeyError("lost")
            if link._trial_id == "killed" and not marks.exists():
                marks.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return real(link, progress)

    LaneLink.on_step = on_step  # type: ignore[assignment, method-assign]


class OpenLane:
    """A lane and its mailbox; this class stands in for trials and scheduler: it lets every trial go on."""

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
        """Submits a trial and answers its reports; its end."""
        ray.get(self.mailbox.submit.remote(trial_id, config.to_json()))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            events: list[Event] = ray.get(self.mailbox.take_events.remote(1.0))
            for event in events:
                self.events.append(event)
                if event.kind == "report" and event.facts["scored_epoch"]:
                    self.mailbox.verdict.remote(trial_id, event.facts["epoch"], False)
                if event.kind == "ended":
                    return event
        raise TimeoutError(f"{trial_id} did not end")

    def close(self) -> None:
        ray.get(self.mailbox.close.remote())
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive()
        ray.kill(self.mailbox)


@pytest.fixture
def lane_setup(
    private_ray: None,  # noqa: ARG001 - must be there
    tmp_path: Path,
    tiny_folder: Path,
    tiny_encoder_folder: Path,
    tiny_config: TrialConfig,
) -> LaneSetup:
    mailbox: Any = ray.remote(num_cpus=0)(Mailbox)
    return LaneSetup(
        lane="lane",
        mailbox=mailbox.remote(),
        base=tiny_config.override({"encoder.name": str(tiny_encoder_folder)}).to_json(),
        metric="overall",
        folder=tmp_path / "sweep",
        data_folder=tiny_folder,
        cache_folder=tmp_path / "cache",
        cpus_per_worker=1,
        state_steps=2,
    )


@pytest.fixture
def by_value() -> Iterator[None]:
    """Lets workers, which cannot import this file, run its functions."""
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.usefixtures("by_value")
def test_a_lane_of_two_workers_outlives_an_error_and_a_kill_on_one_of_them(
    lane_setup: LaneSetup, tmp_path: Path
) -> None:
    """One lane, three trials: opening one takes most of the time."""
    lane = OpenLane(lane_setup, 2, tmp_path / "ray", lambda: sabotage(tmp_path / "was-killed"))
    config = TrialConfig.from_json(lane_setup.base)
    ends = {trial_id: lane.run(trial_id, config).facts for trial_id in ("bad", "killed", "undisturbed")}
    lane.close()

    assert (ends["bad"]["how"], ends["bad"]["error"]) == ("failed", "KeyError: 'lost'")
    assert [(ends[name]["how"], ends[name]["error"]) for name in ("killed", "undisturbed")] == [("complete", None)] * 2
    resumed = [event.trial_id for event in lane.events if event.kind == "resumed"]
    assert resumed == ["killed"], "an error is the trial's fault, a death may not be"
    curves = read_curves(lane_setup.folder).drop_columns(["seconds"]).to_pandas()
    killed, undisturbed = (curves[curves.trial == name].drop(columns="trial") for name in ("killed", "undisturbed"))
    assert killed.to_numpy().tolist() == undisturbed.to_numpy().tolist()
    assert ray.available_resources()["CPU"] == 2


def test_trials_share_a_corpus_exactly_where_they_learn_from_the_same_rows(
    tiny_folder: Path, tiny_encoder_folder: Path, tiny_config: TrialConfig, tmp_path: Path
) -> None:
    config = tiny_config.override({"encoder.name": str(tiny_encoder_folder)})
    more = {"task": "sst", "path": str(tiny_folder / "ids-sst-dev.csv"), "role": "augment"}
    others: list[dict[str, Any]] = [{"optimizer.learning_rate": 1e-5}, {"stages.1.tasks": "sst,qqp"}]
    others.append({f"data.sources.more.{key}": value for key, value in more.items()})
    shared, fewer, augmented = (corpus_of(config.override(keys), tiny_folder, tmp_path) for keys in others)
    corpus = corpus_of(config, tiny_folder, tmp_path)
    assert shared is corpus
    assert set(fewer.tables) == {(task, split) for task in ("sst", "qqp") for split in ("train", "dev")}
    table = augmented.tables["sst", "train"]
    assert (table.num_rows, table.num_own_rows, corpus.tables["sst", "train"].num_rows) == (43, 30, 30)
    assert len({found.fingerprint for found in (corpus, fewer, augmented)}) == 3
