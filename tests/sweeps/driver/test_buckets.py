"""Sweeps in a bucket: what happens to the bucket costs time only, and any machine continues them."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

from results.sweep import load_sweep
from tests.gate import Gate, open_gate
from tests.s3_server import uri_of
from tests.scripts import ROOT
from tests.sweeps.driver.two_nodes import Run, start_command

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.timeout(1200)]

SETTINGS = ["smart.mode=random", "stages.0.epochs=1", "stages.1.epochs=3", "encoder.max_length=32"]
SETTINGS += ["stages.0.steps_per_epoch=20", "stages.1.steps_per_epoch=60"]
COMMAND = [
    "--space",
    "smart_lambda",
    "--vary",
    "smart.weight=0,0.5",
    "--name",
    "sweep",
    "--checkpoint-steps",
    "10",
    "--set",
    *SETTINGS,
]
LONGEST = 600
REFUSED_SECONDS = 60
TIMES = ["seconds", "device_seconds", "wall_seconds", "peak_memory_bytes", "started", "host", "config", "config_hash"]


Start = Callable[..., Run]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts the command in a process group with its Ray."""

    def begin(*arguments: str, home: Path | None = None) -> Run:
        return start_command(arguments, {**os.environ, "HOME": str(home or tmp_path / "home")}, tmp_path)

    return begin


def finish(run: Run) -> str:
    """Waits for the end of a command, which must be a good one; its output."""
    assert run.process.wait(LONGEST) == 0, run.log.read_text()
    assert "Traceback" not in run.log.read_text()
    return run.log.read_text()


@pytest.fixture
def gate(s3_address: str) -> Iterator[Gate]:
    with open_gate(s3_address) as found:
        yield found


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data and encoder of the demonstration."""
    folder = tmp_path_factory.mktemp("demo") / "here"
    subprocess.run([sys.executable, "-m", "mtlib.demo", str(folder)], cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, places: Path) -> str:
    """A sweep on a disk that ran to its end."""
    storage = tmp_path_factory.mktemp("undisturbed")
    command = [sys.executable, "sweeps/run.py", *words(places, str(storage))]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=LONGEST)
    return str(storage / "sweep")


def words(places: Path, storage: str) -> list[str]:
    """The words of the command."""
    return ["--data", str(places / "data"), "--encoder", str(places / "encoder"), "--storage", storage, *COMMAND]


def assert_equal(found: str, wanted: str) -> None:
    """Scores, curves and predictions are equal to the last digit."""
    left, right = load_sweep(found), load_sweep(wanted)
    for name in ("trials", "curves"):
        frames = [
            getattr(sweep, name).drop(columns=[column for column in TIMES if column in getattr(sweep, name)])
            for sweep in (left, right)
        ]
        pd.testing.assert_frame_equal(*frames)
    for task in ("sst", "qqp", "sts"):
        frames = [sweep.predictions(task, "dev") for sweep in (left, right)]
        pd.testing.assert_frame_equal(*(frame.drop(columns="logits") for frame in frames))
        assert frames[0]["logits"].map(tuple).equals(frames[1]["logits"].map(tuple))


def test_bucket_that_is_slow_and_refuses_for_a_minute_costs_time_only(
    gate: Gate, places: Path, undisturbed: str, start: Start
) -> None:
    storage = uri_of(gate.address, uuid.uuid4().hex)
    run = start(*words(places, storage))
    run.wait_until(r"000\d-r0 epoch 1: ")
    gate.delay = 0.05
    run.wait_until(r"000\d-r0 epoch 2: ")
    gate.delay = 0.0
    gate.refuse()
    time.sleep(REFUSED_SECONDS)
    gate.accept()
    finish(run)
    assert_equal(uri_of(gate.address, storage.split("/")[3].split("?")[0] + "/sweep"), undisturbed)


def test_sweep_whose_machine_is_lost_goes_on_elsewhere(
    s3_address: str, places: Path, undisturbed: str, start: Start, tmp_path: Path
) -> None:
    folder = uuid.uuid4().hex
    run = start(*words(places, uri_of(s3_address, folder)))
    run.wait_until(r"000\d-r0 epoch 2: ")
    os.killpg(run.process.pid, signal.SIGKILL)
    run.process.wait()
    there = shutil.copytree(places, tmp_path / "there")
    moved = places.rename(places.with_name("gone"))
    try:
        sweep = uri_of(s3_address, f"{folder}/sweep")
        place = ["--data", str(there / "data"), "--encoder", str(there / "encoder")]
        said = finish(start("--resume", sweep, *place, home=tmp_path / "other"))
    finally:
        moved.rename(places)
    assert re.search(r"000\d-r0 continues after epoch \d", said)
    assert_equal(sweep, undisturbed)
    record = load_sweep(sweep).trials
    assert not record["config"].str.contains(str(places / "encoder")).any(), "each trial names the present place"
