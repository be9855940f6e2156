"""Events of a sweep reach real trackers through their processes; a tracker that is down costs lines and no more."""

import json
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from results.records.trials import write_sweep
from sweeps.driver.trials.trial import make_trial
from sweeps.tracking import listener
from sweeps.tracking.listener import Trackers, tracked_sweep, tracked_trial
from tests.local_table import LocalTable
from tests.recorded_trials import report_of, write_trial
from tests.sweeps.conftest import MakePlan
from tests.sweeps.driver.trials.test_changes import begin


@pytest.fixture
def local(make_plan: MakePlan) -> LocalTable:
    """The table of a sweep whose folder has a record."""
    made = LocalTable(make_plan())
    created = "2026-01-01T12:00:00+00:00"
    write_sweep(made.plan.options.folder, {"name": "sweep", "created": created, "space": {"question": "Which one?"}})
    return made


def hear(trackers: Trackers, local: LocalTable) -> None:
    """The trackers hear what has happened since."""
    for event in local.events():
        trackers.on_event(event)


def start(trackers: Trackers, local: LocalTable) -> None:
    begin(local)
    hear(trackers, local)


def report(trackers: Trackers, local: LocalTable, epoch: int, attempt: int = 1) -> None:
    points = [vars(point) for point in report_of(epoch, 0.1 * epoch).points]
    scores = {"sst": 0.05 * epoch, "overall": 0.1 * epoch}
    local.report(epoch, name="0000-r0", attempt=attempt, step=4 * epoch, scores=scores, points=points)
    hear(trackers, local)


def end(trackers: Trackers, local: LocalTable, attempt: int = 1) -> None:
    local.tell("left", "0000-r0", attempt, status="complete", error=None, spent={})
    hear(trackers, local)


def open_trackers(local: LocalTable, *names: str) -> Trackers:
    return Trackers(names, local.plan.options.folder, local.plan.tasks)


def curve(folder: Path, tag: str) -> list[int]:
    found = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return [event.step for event in found.Scalars(tag)]


def test_tracker_that_is_down_costs_lines_and_holds_up_nothing(
    local: LocalTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    trackers = open_trackers(local, "mlflow", "tensorboard")
    began = time.monotonic()
    start(trackers, local)
    report(trackers, local, 1)
    end(trackers, local)
    assert time.monotonic() - began < 5
    lines = list(trackers.finish(["Which one?"], is_interrupted=False))
    down = "the server of mlflow at http://127.0.0.1:9 does not answer; it is tried again while the sweep goes on"
    assert lines.count(down) == 1
    assert "mlflow does not have all of this sweep; a resumed one sends the rest" in lines
    assert curve(Path(local.plan.options.folder, "tensorboard/0000-r0"), "dev/overall") == [4]


def test_process_that_does_not_answer_is_ended(local: LocalTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "SHORT_SECONDS", 0.0)
    monkeypatch.setattr(listener, "INTERRUPTED_SECONDS", 0.01)
    first, last = open_trackers(local, "tensorboard").finish([], is_interrupted=True)
    assert first == "Waiting for tensorboard to take the rest, 0 s at most ..."
    assert "it was given up, as it did not answer" in last


def test_paths_of_this_machine_are_not_passed_on(local: LocalTable) -> None:
    record = local.table.records["0000-r0"]
    config = json.loads(record.config)
    config["encoder"]["name"] = "/home/me/a/enc"
    config["data"]["tasks"] = {"sst": {"files": {"train": "hf:///home/me/ds:t"}}}
    params = {"encoder.name": "/home/me/a/enc", "encoder.start_from": "/home/me/x/trials/0003-r0", "smart.weight": 0.5}
    changed = replace(record, config=json.dumps(config), params=params)
    sweep = replace(tracked_sweep(local.plan.options.folder), fingerprints={"data": "d1", "/home/me/a/enc": "e1"})
    tracked = tracked_trial(sweep, changed)
    assert "/home" not in json.dumps(asdict(tracked))
    assert (tracked.settings["encoder.name"], tracked.settings["encoder.start_from"]) == ("enc", "x/trials/0003-r0")
    assert (tracked.settings["encoder_fingerprint"], tracked.settings["data_fingerprint"]) == ("e1", "d1")
    assert tracked.config["data"]["tasks"]["sst"]["files"]["train"] == "hf://ds:t"


def test_curve_is_that_of_the_records_where_a_trial_goes_on_from_an_earlier_state(local: LocalTable) -> None:
    trackers, folder = open_trackers(local, "tensorboard"), Path(local.plan.options.folder)
    trial = make_trial(local.plan.space, 0, 0, {"smart.weight": 0.0})
    start(trackers, local)
    for epoch in (1, 2, 3):
        report(trackers, local, epoch)
    write_trial(folder, trial, "interrupted", [0.6])  # the epochs after the first are gone
    local.tell("workers_died", lane="a", why="it died")
    start(trackers, local)
    local.tell("starting_point", "0000-r0", 2, state="s", epochs=1, shared_steps=0, taken_from=None)
    report(trackers, local, 2, attempt=2)
    end(trackers, local, attempt=2)
    list(trackers.finish([], is_interrupted=False))
    assert curve(folder / "tensorboard/0000-r0", "dev/overall") == [4, 8]
