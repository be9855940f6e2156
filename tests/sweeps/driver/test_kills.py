"""Sweeps that are killed, stop at limits or run concurrently leave the record of an uninterrupted sweep."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import optuna
import pandas as pd
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial

from results.records.tables import read_trials
from results.records.trials import STOPPED_BY, read_sweep
from results.sweep import load_sweep
from sweeps.search.study import JOURNAL_NAME, NUMBER_ATTRIBUTE
from tests.scripts import ROOT
from tests.sweeps.driver.two_nodes import command_of, session_of, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.ray]

SETTINGS = ["stages.1.epochs=3", "smart.weight=0", "stages.0.steps_per_epoch=50", "stages.1.steps_per_epoch=50"]
COMMAND = ["--space", "batch_sizes", "--checkpoint-steps", "10", "--set", *SETTINGS]
SEARCHED = ["smart.mode=random", "stages.0.epochs=1", "stages.1.epochs=3"]
SEARCHED += ["stages.0.steps_per_epoch=20", "stages.1.steps_per_epoch=20"]
SEARCH = ["--space", "smart_lambda", "--search", "tpe", "--trials", "6", "--scheduler", "asha", "--replicates", "2"]
SEARCH += ["--checkpoint-steps", "10", "--set", *SEARCHED]
TIMES_AND_HOSTS = [
    "device_seconds",
    "wall_seconds",
    "peak_memory_bytes",
    "host",
    "started",
    "shared_steps",
    "config_hash",
]
"""What may differ: timing decides which of two trials trains a stage that both need, and a hash contains the path
of the demonstration's encoder, as the configuration does."""
LONGEST = 600


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a sweep leaves, without times and hosts."""

    trials: pd.DataFrame
    curves: pd.DataFrame
    predictions: dict[str, pd.DataFrame]
    weights: dict[str, bytes]
    num_trained: int
    """Optimizer steps that were not reused; a kill may repeat some."""


def start(storage: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Starts the command in a process group with its Ray."""
    command = [sys.executable, "sweeps/run.py", *arguments, "--storage", str(storage)]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=(storage / "log.txt").open("ab"), stderr=subprocess.STDOUT, start_new_session=True
    )


def finish(storage: Path, *arguments: str) -> int:
    """Runs the command to its end; its exit code."""
    return start(storage, *arguments).wait(LONGEST)


def read_record(folder: Path) -> Record:
    """Reads what a sweep has left."""
    sweep = load_sweep(folder)
    num_trained = int((sweep.trials["steps"] - sweep.trials["shared_steps"]).sum())
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
    return Record(trials=trials, curves=curves, predictions=predictions, weights=weights, num_trained=num_trained)


def assert_equal(found: Record, wanted: Record) -> None:
    """Fields are equal bit for bit, but for the number of reused steps, which depends on timing."""
    pd.testing.assert_frame_equal(found.trials, wanted.trials)
    pd.testing.assert_frame_equal(found.curves, wanted.curves)
    for task, frame in wanted.predictions.items():
        columns = ["id", "trial", "epoch", "label"]
        pd.testing.assert_frame_equal(found.predictions[task][columns], frame[columns])
        assert found.predictions[task]["logits"].map(tuple).equals(frame["logits"].map(tuple)), task
    assert found.weights == wanted.weights


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """The record of a sweep that ran to its end."""
    storage = tmp_path_factory.mktemp("uninterrupted")
    assert finish(storage, *COMMAND, "--name", "sweep") == 0, (storage / "log.txt").read_text()
    record = read_record(storage / "sweep")
    assert set(record.trials["status"]) == {"complete"}
    return record


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Path]:
    """A storage whose sweeps leave no process running."""
    yield tmp_path
    for pid in processes_of(tmp_path):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def processes_of(storage: Path) -> list[int]:
    """Running commands of a storage."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(storage) in path.read_text():
                found.append(int(path.parent.name))
    return found


def has_trained(storage: Path, since: float) -> bool:
    """Whether some trial has saved a state since a time, in seconds since 1970; states may be deleted again."""
    for path in storage.glob("sweep/trials/*/checkpoint/state-*"):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime > since:
                return True
    return False


def has_scored(storage: Path) -> bool:
    """Whether some trial has been scored."""
    return any(storage.glob("sweep/trials/*/epochs/*.parquet"))


def has_ended(storage: Path) -> bool:
    """Whether some trial has ended."""
    return any(storage.glob("sweep/trials/*/end.json"))


def kill_driver(driver: subprocess.Popen[bytes]) -> None:
    driver.kill()


def kill_everything(driver: subprocess.Popen[bytes]) -> None:
    for pid in session_of(driver.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def interrupt(driver: subprocess.Popen[bytes]) -> None:
    driver.send_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("kill", "seed"), [(kill_driver, 1), (kill_driver, 2), (kill_everything, 3), (kill_everything, 4), (interrupt, 5)]
)
def test_killed_and_resumed_sweep_equals_an_uninterrupted_one(
    kill: Callable[[subprocess.Popen[bytes]], None], seed: int, storage: Path, uninterrupted: Record
) -> None:
    """Killed twice while it trains: in its first run, and again after resuming."""
    moments = random.Random(seed)
    for arguments, longest in (([*COMMAND, "--name", "sweep"], 4), (["--resume", "sweep"], 2)):
        since = time.time()
        driver = start(storage, *arguments)
        wait_for(partial(has_trained, storage, since), "a state")
        time.sleep(moments.uniform(0, longest))
        assert driver.poll() is None, "it was over before it could be killed"
        kill(driver)
        driver.wait(60)
    assert finish(storage, "--resume", "sweep") == 0, (storage / "log.txt").read_text()
    assert_equal(read_record(storage / "sweep"), uninterrupted)


@pytest.mark.timeout(900)
def test_sweep_that_stops_at_limits_equals_an_uninterrupted_one(storage: Path, uninterrupted: Record) -> None:
    limit = ["--max-steps", "160"]  # of 700; both lanes may end an epoch of 50 beyond it
    codes = [finish(storage, *COMMAND, "--name", "sweep", *limit)]
    begun = [record for record in read_trials(storage / "sweep") if record.epochs]
    assert {record.status for record in begun} <= {"complete", "interrupted"}
    assert not any(record.error for record in begun)
    assert read_sweep(storage / "sweep")[STOPPED_BY] == "--max-steps 160"
    while codes[-1] == 4 and len(codes) < 20:
        codes.append(finish(storage, "--resume", "sweep", *limit))
    log = (storage / "log.txt").read_text()
    assert codes[-1] == 0, log
    assert len(codes) > 2, "it stopped at least twice"
    assert "--max-steps 160 was reached (trials: " in log
    assert STOPPED_BY not in read_sweep(storage / "sweep")
    assert_equal(read_record(storage / "sweep"), uninterrupted)


def kill_after_a_trial(storage: Path) -> None:
    """Starts a search, and kills it once a trial has ended."""
    driver = start(storage, *SEARCH, "--name", "sweep")
    wait_for(lambda: has_ended(storage), "the end of a trial")
    assert driver.poll() is None, "it was over before it could be killed"
    kill_driver(driver)
    driver.wait(60)


def stop_at_a_limit(storage: Path) -> None:
    """Runs a search up to a limit."""
    assert finish(storage, *SEARCH, "--name", "sweep", "--max-steps", "70") == 4, (storage / "log.txt").read_text()
    records = read_trials(storage / "sweep")
    stopped = {record.number for record in records if record.status == "interrupted"}
    assert stopped, "some trial was stopped in its middle"
    states = {trial.user_attrs[NUMBER_ATTRIBUTE]: trial.state.name for trial in trials_of_study(storage / "sweep")}
    assert {states[number] for number in stopped} == {"RUNNING"}, "none was told to be pruned"


@pytest.mark.parametrize("stop", [kill_after_a_trial, stop_at_a_limit])
def test_stopped_and_resumed_search_completes_every_configuration_once_in_its_study(
    stop: Callable[[Path], None], storage: Path
) -> None:
    stop(storage)
    assert finish(storage, "--resume", "sweep") == 0, (storage / "log.txt").read_text()
    records, trials = read_trials(storage / "sweep"), trials_of_study(storage / "sweep")
    assert len({record.trial_id for record in records}) == len(records)
    assert {record.number for record in records} == set(range(6))
    assert {record.status for record in records} <= {"complete", "pruned", "reused"}
    assert sorted(state_and_value(trials)) == list(range(6)), "each configuration has one trial that has ended"
    for number, (state, value) in state_and_value(trials).items():
        own = [record for record in records if record.number == number]
        bests = [record.best["overall"] for record in own]
        assert [record.replicate for record in own] == ([0] if state == "PRUNED" else [0, 1])
        assert state == ("PRUNED" if own[0].status == "pruned" else "COMPLETE")
        assert state == "PRUNED" or value == pytest.approx(sum(bests) / 2)
    before = read_record(storage / "sweep")
    assert finish(storage, "--resume", "sweep") == 0, (storage / "log.txt").read_text()
    assert_equal(read_record(storage / "sweep"), before)
    assert facts_of(trials_of_study(storage / "sweep")) == facts_of(trials), "the journal is made again"


def test_killed_sweep_gives_its_replicates_to_the_best_and_more_when_resumed(storage: Path) -> None:
    """Killed while a further replicate trains, then resumed with one more replicate of the best."""
    command = ["--space", "smart_lambda", "--search", "random", "--trials", "4", "--checkpoint-steps", "10"]
    command += ["--replicates", "2", "--replicate-best", "2", "--set", *SEARCHED]
    driver = start(storage, *command, "--name", "sweep")
    wait_for(lambda: any(storage.glob("sweep/trials/*-r1/checkpoint/state-*")), "a state of a further replicate")
    assert driver.poll() is None, "it was over before it could be killed"
    kill_driver(driver)
    driver.wait(60)
    assert finish(storage, "--resume", "sweep", "--replicates", "3") == 0, (storage / "log.txt").read_text()
    records, trials = read_trials(storage / "sweep"), trials_of_study(storage / "sweep")
    assert {record.status for record in records} == {"complete"}
    firsts = {record.number: record.best["overall"] for record in records if record.replicate == 0}
    best = sorted(firsts, key=lambda number: -firsts[number])[:2]
    expected = [(number, r) for number in range(4) for r in range(3 if number in best else 1)]
    assert [(record.number, record.replicate) for record in records] == expected
    assert state_and_value(trials) == {number: ("COMPLETE", score) for number, score in firsts.items()}
    ranking = load_sweep(storage / "sweep").ranking()
    assert ranking["was_dropped"].tolist() == [False, False, True, True]
    assert ranking["may_be_best"].tolist()[2:] == [True, True]


def trials_of_study(folder: Path) -> list[FrozenTrial]:
    """Trials in the study of the sweep in a folder."""
    trials: list[FrozenTrial] = optuna.load_study(
        study_name=folder.name, storage=JournalStorage(JournalFileBackend(str(folder / JOURNAL_NAME)))
    ).get_trials()
    return trials


def facts_of(trials: Iterable[FrozenTrial]) -> dict[int, tuple[object, ...]]:
    """What a study knows of each configuration, besides its times and its place among the others."""
    return {
        trial.user_attrs[NUMBER_ATTRIBUTE]: (
            trial.state,
            trial.value,
            trial.params,
            trial.intermediate_values,
            trial.user_attrs,
        )
        for trial in trials
    }


def state_and_value(trials: Iterable[FrozenTrial]) -> dict[int, tuple[str, float | None]]:
    """State and value of each configuration's only finished trial."""
    ended = [
        trial for trial in trials if trial.state.is_finished() and trial.user_attrs.get(NUMBER_ATTRIBUTE) is not None
    ]
    found = {trial.user_attrs[NUMBER_ATTRIBUTE]: (trial.state.name, trial.value) for trial in ended}
    assert len(found) == len(ended)
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_workers_change_no_result(seed: int, storage: Path, uninterrupted: Record) -> None:
    moments = random.Random(seed)
    driver = start(storage, *COMMAND, "--name", "sweep")
    wait_for(lambda: has_scored(storage), "a score")
    time.sleep(moments.uniform(0, 4))
    workers = [pid for pid in session_of(driver.pid) if re.search("RayTrainWorker", command_of(pid))]
    os.kill(moments.choice(workers), signal.SIGKILL)
    assert driver.wait(LONGEST) == 0, (storage / "log.txt").read_text()
    assert_equal(read_record(storage / "sweep"), uninterrupted)


def test_two_concurrent_sweeps_of_one_storage_have_equal_results(storage: Path, uninterrupted: Record) -> None:
    drivers = [start(storage, *COMMAND, "--name", name) for name in ("sweep", "other")]
    assert [driver.wait(LONGEST) for driver in drivers] == [0, 0], (storage / "log.txt").read_text()
    found = [read_record(storage / name) for name in ("sweep", "other")]
    for record in found:
        assert set(record.trials["status"]) <= {"complete", "reused"}
        alone = uninterrupted.trials[["status", "taken_from"]]
        assert_equal(replace(record, trials=record.trials.assign(**alone)), uninterrupted)
    trained = sum(record.num_trained for record in found)  # neither waits for a stage that the other trains
    assert uninterrupted.num_trained <= trained <= 2 * uninterrupted.num_trained
