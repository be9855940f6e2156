"""Events of a sweep reach real trackers through their processes; a tracker that is down costs lines and no more."""

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from results.records.trials import write_sweep
from sweeps.driver.ledger import Ledger, apply_event, open_ledger
from sweeps.lanes.channel import Event
from sweeps.search.trial import make_trial
from sweeps.tracking import listener
from sweeps.tracking.listener import Trackers, tracked_sweep, tracked_trial
from tests.recorded_trials import report_of, write_trial
from tests.sweeps.conftest import MakePlan


@pytest.fixture
def ledger(make_plan: MakePlan) -> Ledger:
    """That of a sweep whose folder has a record."""
    made = open_ledger(make_plan())
    created = "2026-01-01T12:00:00+00:00"
    write_sweep(made.plan.options.folder, {"name": "sweep", "created": created, "space": {"question": "Which one?"}})
    return made


def hear(trackers: Trackers, ledger: Ledger, kind: Any, **facts: Any) -> list[str]:
    event = Event(kind=kind, lane="sweep-lane0", trial_id="0000-r0", facts=facts)
    apply_event(ledger, event)
    return trackers.on_event(event, ledger.records)


def start(trackers: Trackers, ledger: Ledger) -> None:
    hear(trackers, ledger, "started", host="here", why=None)


def report(trackers: Trackers, ledger: Ledger, epoch: int) -> None:
    points = [vars(point) for point in report_of(epoch, 0.1 * epoch).points]
    scores = {"sst": 0.05 * epoch, "overall": 0.1 * epoch}
    hear(trackers, ledger, "report", epoch=epoch, step=4 * epoch, seconds=1.0, scores=scores, points=points)


def end(trackers: Trackers, ledger: Ledger, how: str = "complete") -> None:
    hear(trackers, ledger, "ended", how=how, error=None, was_started=True)


def open_trackers(ledger: Ledger, *names: str) -> Trackers:
    return Trackers(names, ledger.plan.options.folder, ledger.plan.tasks)


def curve(folder: Path, tag: str) -> list[int]:
    found = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return [event.step for event in found.Scalars(tag)]


def test_tracker_that_is_down_costs_lines_and_holds_up_nothing(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setattr(listener, "FINISH_SECONDS", 60.0)
    trackers = open_trackers(ledger, "mlflow", "tensorboard")
    began = time.monotonic()
    start(trackers, ledger)
    report(trackers, ledger, 1)
    end(trackers, ledger)
    assert time.monotonic() - began < 5
    lines = list(trackers.finish(["Which one?"], is_interrupted=False))
    assert any(line.startswith("mlflow fails, and is tried again while the sweep goes on: ") for line in lines)
    assert "mlflow does not have all of this sweep; a resumed one sends the rest" in lines
    assert curve(Path(ledger.plan.options.folder, "tensorboard/0000-r0"), "dev/overall") == [4]


def test_process_that_does_not_answer_is_ended(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "SHORT_SECONDS", 0.0)
    monkeypatch.setattr(listener, "INTERRUPTED_SECONDS", 0.0)
    lines = list(open_trackers(ledger, "tensorboard").finish([], is_interrupted=True))
    assert lines[0] == "Waiting for tensorboard ..."
    assert "process has died" in lines[-1]


def test_paths_of_this_machine_are_not_passed_on(ledger: Ledger) -> None:
    record = ledger.records["0000-r0"]
    config = json.loads(record.config)
    config["encoder"]["name"] = "/home/me/a/enc"
    config["data"]["tasks"] = {"sst": {"files": {"train": "hf:///home/me/ds:t"}}}
    params = {"encoder.name": "/home/me/a/enc", "encoder.start_from": "/home/me/x/trials/0003-r0", "smart.weight": 0.5}
    changed = replace(record, config=json.dumps(config), params=params)
    sweep = replace(tracked_sweep(ledger.plan.options.folder), fingerprints={"data": "d1", "/home/me/a/enc": "e1"})
    tracked = tracked_trial(sweep, changed)
    assert "/home" not in json.dumps(asdict(tracked))
    assert (tracked.settings["encoder.name"], tracked.settings["encoder.start_from"]) == ("enc", "x/trials/0003-r0")
    assert (tracked.settings["encoder_fingerprint"], tracked.settings["data_fingerprint"]) == ("e1", "d1")
    assert tracked.config["data"]["tasks"]["sst"]["files"]["train"] == "hf://ds:t"


def test_curve_is_that_of_the_records_where_a_trial_goes_on_from_an_earlier_state(ledger: Ledger) -> None:
    trackers, folder = open_trackers(ledger, "tensorboard"), Path(ledger.plan.options.folder)
    trial = make_trial(ledger.plan.space, 0, 0, {"smart.weight": 0.0})
    start(trackers, ledger)
    for epoch in (1, 2, 3):
        report(trackers, ledger, epoch)
    write_trial(folder, trial, "interrupted", [0.6])  # the epochs after the first are gone
    hear(trackers, ledger, "starting_point", epochs=1, shared_steps=0, taken_from=None)
    report(trackers, ledger, 1)
    report(trackers, ledger, 2)
    end(trackers, ledger)
    list(trackers.finish([], is_interrupted=False))
    assert curve(folder / "tensorboard/0000-r0", "dev/overall") == [4, 8]
