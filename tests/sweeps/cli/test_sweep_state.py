"""A sweep's state by its files: numbers of trials, whether it runs, the best score, the next command, the time left."""

import json
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.runtime.program_names import PROJECT_FOLDER
from mtlib.runtime.storage import open_folder, write_bytes
from mtlib.tasks import TASKS
from results.records.tables import read_trials, write_caches, write_trials
from results.records.trial_folder import log_path
from results.records.trials import SWEEP_COPY, SWEEP_FILE, TrialRecord, write_sweep
from search_spaces.space import load_space
from sweeps.cli.sweep_state import list_sweeps, read_sweep_state, step_text
from sweeps.driver.history import read_known
from sweeps.driver.trials.trial import make_trial
from sweeps.options import SweepOptions
from tests.driver_files import write_driver
from tests.recorded_trials import write_trial
from tests.results.conftest import build_record

Write = Callable[..., str]
CONFIG = TrialConfig(stages=(StageConfig(tasks=("qqp",), epochs=1), StageConfig(tasks=("sst",), epochs=3))).to_json()


def trial(number: int, status: str, **changes: Any) -> TrialRecord:
    return build_record(number, **{"status": status, "config": CONFIG, **changes})


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the files of a sweep; `life` is `running`, `stopped`, or `none` for one that has never run."""
    monkeypatch.chdir(PROJECT_FOLDER)

    def write(*records: TrialRecord, name: str = "mine", life: str = "stopped", **info: Any) -> str:
        folder = tmp_path / name
        space = {"question": "Which weight?", "metric": "overall"}
        write_sweep(folder, {"name": name, "created": "2026-01-02T03:04:05+00:00", "space": space, **info})
        if records:
            write_trials(folder, records, tuple(TASKS))
        for record in records:
            write_bytes(
                open_folder(folder), log_path(record.trial_id), b""
            )  # without a folder it would be trained again
        if life != "none":
            running = {record.trial_id: {"since": time.time()} for record in records if record.status == "running"}
            write_driver(folder, running, has_stopped=life == "stopped")
        return str(folder)

    return write


def test_numbers_of_a_running_sweep(write: Write) -> None:
    statuses = ("complete", "reused", "pruned", "failed", "running", "queued", "queued")
    state = read_sweep_state(write(*(trial(number, status) for number, status in enumerate(statuses)), life="running"))
    assert (state.num_done, state.counts["failed"], state.counts["running"], state.num_left) == (3, 1, 1, 2)
    assert (state.life, state.is_running, state.space["question"]) == ("running", True, "Which weight?")
    assert state.next_command == f"python sweeps/status.py {state.folder}"


def test_trials_that_ran_when_a_sweep_stopped_are_left(write: Write) -> None:
    state = read_sweep_state(write(trial(0, "complete"), trial(1, "running"), trial(2, "queued")))
    assert (state.num_done, state.counts["running"], state.num_left) == (1, 0, 2)
    assert state.life.startswith("stopped ")
    assert state.next_command == f"python sweeps/run.py --resume {state.folder}"
    assert state.seconds_left is None


@pytest.mark.parametrize(
    ("status", "next_command"),
    [("pruned", "python results/table.py {}"), ("failed", "python sweeps/run.py --resume {} --retry-failed")],
)
def test_sweep_with_nothing_left_has_ended(write: Write, status: str, next_command: str) -> None:
    state = read_sweep_state(write(trial(0, "complete"), trial(1, status)))
    assert (state.life, state.num_left) == ("ended", 0)
    assert state.next_command == next_command.format(state.folder)


@pytest.mark.parametrize("lost", ["trials/0001-r0/epochs/0001.parquet", "trials/0001-r0/epochs", "trials/0001-r0"])
def test_trial_whose_files_are_gone_is_left_as_a_resume_trains_it_again(tmp_path: Path, lost: str) -> None:
    options = SweepOptions(space="joint", name="mine", storage=str(tmp_path))
    write_sweep(options.folder, {"name": "mine"})
    for number in (0, 1):
        write_trial(options.folder, make_trial(load_space("joint"), number, 0, {}), "complete", (0.5, 0.6))
    write_caches(options.folder, read_trials(options.folder))
    assert read_sweep_state(options.folder).num_left == 0
    path = Path(options.folder, lost)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    state = read_sweep_state(options.folder)
    assert (state.num_done, state.num_left) == (1, 1)
    known = read_known(options, "overall", TASKS).records
    assert [own.trial_id for own in known if own.status != "queued"] == ["0000-r0"]


def test_replicates_that_had_begun_when_the_first_failed_count(write: Write) -> None:
    ended = {"0000-r0": "failed", "0000-r1": "complete", "0001-r0": "complete", "0001-r1": "complete"}
    records = [trial(int(name[3]), status, replicate=int(name[-1]), trial_id=name) for name, status in ended.items()]
    state = read_sweep_state(write(*records, options={"search": "grid", "replicates": 3}))
    assert (state.counts.total(), state.num_left) == (5, 1), "0001-r2"
    assert state.next_command == f"python sweeps/run.py --resume {state.folder}"


@pytest.mark.parametrize("seed", range(20))
def test_each_trial_on_record_counts_once(write: Write, seed: int) -> None:
    draw = random.Random(seed)
    statuses = ("complete", "reused", "pruned", "failed", "running", "queued", "interrupted")
    records = [
        trial(number, draw.choice(statuses), replicate=replicate, trial_id=f"{number:04d}-r{replicate}")
        for number in range(4)
        for replicate in range(draw.choice((1, 3)))
    ]
    state = read_sweep_state(write(*records, life="running", options={"search": "grid", "replicates": 3}))
    running_or_failed = state.counts["running"] + state.counts["failed"]
    assert state.num_done + state.num_left + running_or_failed == state.counts.total()
    assert state.counts.total() <= 4 * 3


def test_best_is_by_the_searched_metric_and_not_of_a_failed_trial(write: Write) -> None:
    scores = [{"sst": 0.5, "overall": 0.6}, {"sst": 0.4, "overall": 0.7}, {"overall": 0.9}]
    trials = [
        trial(number, status, best=best, last=best, best_epoch=dict.fromkeys(best, 1))
        for number, (status, best) in enumerate(zip(("complete", "pruned", "failed"), scores, strict=True))
    ]
    assert read_sweep_state(write(*trials)).best_text == "overall 0.700 (0001-r0)"
    space = {"question": "?", "metric": "sst"}
    assert read_sweep_state(write(*trials, name="other", space=space)).best_text == "SST 0.500 (0000-r0)"


def test_steps_and_time_left_of_a_first_trial_are_by_its_progress(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(trial(0, "running", epochs=0), trial(1, "queued"), life="running")
    place = {"since": 1000.0, "epoch": 1, "step": 300, "num_steps": 1200}
    monkeypatch.setattr("time.time", lambda: 1060.0)
    write_driver(folder, {"0000-r0": place})
    state = read_sweep_state(folder)
    assert state.progress == {"0000-r0": place}
    assert step_text(state.records[0], place) == "300 of 1,200"
    assert state.seconds_left == pytest.approx(180 + 240)
    write_driver(folder, {"0000-r0": place}, has_stopped=True)
    assert read_sweep_state(folder).progress == {}


def test_newest_sweep_comes_first_and_other_folders_are_ignored(write: Write, tmp_path: Path) -> None:
    write(trial(0, "complete"), name="a")
    write(trial(0, "complete"), name="b", created="2026-02-02T03:04:05+00:00")
    (tmp_path / "notes").mkdir()
    (tmp_path / "file.txt").touch()
    states, damaged = list_sweeps(str(tmp_path))
    assert ([state.name for state in states], damaged) == (["b", "a"], [])


DAMAGE: dict[str, Callable[[Path], object]] = {
    "sweep.json is no JSON": lambda folder: write_both(folder, "{"),
    "other version": lambda folder: write_both(folder, '{"schema_version": 99}'),
    "an option is text": lambda folder: change_info(folder, options={"replicates": "many"}),
    "tasks are text": lambda folder: change_info(folder, base={"data": {"tasks": "none"}}),
}


def change_info(folder: Path, **changes: Any) -> None:
    write_sweep(folder, {**json.loads((folder / SWEEP_FILE).read_text()), **changes})


def write_both(folder: Path, text: str) -> None:
    """Changes `sweep.json` and its copy."""
    for name in (SWEEP_FILE, SWEEP_COPY):
        (folder / name).write_text(text)


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_sweep_leaves_the_others(write: Write, tmp_path: Path, damage: str) -> None:
    write(trial(0, "complete"), name="whole")
    folder = write(trial(0, "complete"), name="broken")
    DAMAGE[damage](Path(folder))
    states, damaged = list_sweeps(str(tmp_path))
    assert [state.name for state in states] == ["whole"]
    assert [name for name, _ in damaged] == ["broken"]
