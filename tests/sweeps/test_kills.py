"""Sweeps that are killed at random moments and go on: their record is that of one which nobody disturbed."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from results.table import load_sweep

pytestmark = [pytest.mark.slow, pytest.mark.ray]

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = ["stages.1.epochs=3", "smart.weight=0", "stages.0.steps_per_epoch=50", "stages.1.steps_per_epoch=50"]
COMMAND = ["--space", "batch_sizes", "--checkpoint-steps", "10", "--set", *SETTINGS]
TIMES_AND_HOSTS = [
    "device_seconds",
    "wall_seconds",
    "peak_memory_bytes",
    "host",
    "started",
    "shared_steps",
    "config_hash",
]
"""What may differ: which of two trials trains a stage that both need is a matter of timing too, and a hash holds the
path of the demonstration's encoder, as the configuration does."""
LONGEST = 300


@dataclass(frozen=True, kw_only=True)
class Record:
    """All that a sweep leaves but for times and hosts."""

    trials: pd.DataFrame
    curves: pd.DataFrame
    predictions: dict[str, pd.DataFrame]
    weights: dict[str, bytes]


def start(storage: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Starts the command; it and its Ray are a process group of their own."""
    command = [sys.executable, "sweeps/run.py", *arguments, "--storage", str(storage)]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=(storage / "log.txt").open("ab"), stderr=subprocess.STDOUT, start_new_session=True
    )


def finish(storage: Path, *arguments: str) -> int:
    """Runs the command to its end; its exit code."""
    return start(storage, *arguments).wait(LONGEST)


def read_record(folder: Path) -> Record:
    """What a sweep has left."""
    sweep = load_sweep(folder)
    trials = sweep.trials.drop(columns=TIMES_AND_HOSTS).set_index("trial").sort_index()
    trials["config"] = trials["config"].str.replace(str(folder.parent), "STORAGE")
    curves = sweep.curves.drop(columns="seconds")
    curves = curves.sort_values(list(curves.columns)).reset_index(drop=True)
    predictions = {task: sweep.predictions(task, "dev") for task in ("sst", "qqp", "sts")}
    weights = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.glob("trials/*/checkpoint/**/*")
        if path.is_file()
    }
    return Record(trials=trials, curves=curves, predictions=predictions, weights=weights)


def assert_equal(found: Record, wanted: Record) -> None:
    """Field by field, bit for bit."""
    pd.testing.assert_frame_equal(found.trials, wanted.trials)
    pd.testing.assert_frame_equal(found.curves, wanted.curves)
    for task, frame in wanted.predictions.items():
        columns = ["id", "trial", "epoch", "label"]
        pd.testing.assert_frame_equal(found.predictions[task][columns], frame[columns])
        assert found.predictions[task]["logits"].map(tuple).equals(frame["logits"].map(tuple)), task
    assert found.weights == wanted.weights


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """The record of a sweep that ran to its end."""
    storage = tmp_path_factory.mktemp("undisturbed")
    assert finish(storage, *COMMAND, "--name", "sweep") == 0, (storage / "log.txt").read_text()
    record = read_record(storage / "sweep")
    assert set(record.trials["status"]) == {"complete"}
    return record


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Path]:
    """A storage whose sweeps leave no process behind."""
    yield tmp_path
    for pid in processes_of(tmp_path):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def processes_of(storage: Path) -> list[int]:
    """The commands of a storage that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(storage) in path.read_text():
                found.append(int(path.parent.name))
    return found


def group_of(pid: int) -> list[int]:
    """Every process of the session that a command began: its Ray with all workers."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == pid:
                found.append(int(path.parent.name))
    return found


def has_begun(storage: Path) -> bool:
    """Whether some trial has been scored."""
    return any(storage.glob("sweep/trials/*/curves.parquet"))


def await_true(holds: Callable[[], bool]) -> None:
    """Waits until something holds."""
    deadline = time.monotonic() + LONGEST
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def kill_driver(driver: subprocess.Popen[bytes]) -> None:
    driver.kill()


def kill_everything(driver: subprocess.Popen[bytes]) -> None:
    for pid in group_of(driver.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def interrupt(driver: subprocess.Popen[bytes]) -> None:
    driver.send_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("kill", "seed"), [(kill_driver, 1), (kill_driver, 2), (kill_everything, 3), (kill_everything, 4), (interrupt, 5)]
)
def test_a_sweep_that_is_killed_and_goes_on_leaves_the_record_of_an_undisturbed_one(
    kill: Callable[[subprocess.Popen[bytes]], None], seed: int, storage: Path, undisturbed: Record
) -> None:
    """Killed twice: in its first run, and again while it goes on."""
    moments = random.Random(seed)
    for arguments in ([*COMMAND, "--name", "sweep"], ["--resume", "sweep"]):
        driver = start(storage, *arguments)
        await_true(lambda: has_begun(storage))
        time.sleep(moments.uniform(0, 12))
        kill(driver)
        driver.wait(60)
    assert finish(storage, "--resume", "sweep") == 0, (storage / "log.txt").read_text()
    assert_equal(read_record(storage / "sweep"), undisturbed)


@pytest.mark.parametrize("seed", [1, 2])
def test_workers_that_are_killed_cost_a_sweep_nothing_but_time(seed: int, storage: Path, undisturbed: Record) -> None:
    moments = random.Random(seed)
    driver = start(storage, *COMMAND, "--name", "sweep")
    await_true(lambda: has_begun(storage))
    time.sleep(moments.uniform(0, 8))
    workers = [pid for pid in group_of(driver.pid) if re.search("RayTrainWorker", command_of(pid))]
    os.kill(moments.choice(workers), signal.SIGKILL)
    assert driver.wait(LONGEST) == 0, (storage / "log.txt").read_text()
    assert_equal(read_record(storage / "sweep"), undisturbed)


def command_of(pid: int) -> str:
    """The name that a process shows."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""
