"""W&B's own files, written offline, hold the runs without a description of the machine."""

import math
import os
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import wandb
from wandb.proto.wandb_internal_pb2 import Record

from sweeps.tracking.wandb import Wandb
from tests.scripts import ROOT, run_process
from tests.sweeps.tracking.tracked import BEST, VALUES, tracked_sweep, tracked_trial

HEADER_BYTES, BLOCK_BYTES = 7, 2**15
FRAGMENT_HEADER = struct.Struct("<IHB")
FULL, LAST = 1, 4


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("WANDB_PROJECT", "of-my-own")
    yield tmp_path
    wandb.teardown()  # which forgets these variables


def read_log(content: bytes) -> Iterator[bytes]:
    """The records of a log in LevelDB's format, behind W&B's header: blocks of fragments, each with a header."""
    place, whole = HEADER_BYTES, b""
    while place + FRAGMENT_HEADER.size <= len(content):
        left = BLOCK_BYTES - place % BLOCK_BYTES
        if left < FRAGMENT_HEADER.size:
            place += left
            continue
        _, length, kind = FRAGMENT_HEADER.unpack_from(content, place)
        place += FRAGMENT_HEADER.size
        whole += content[place : place + length]
        place += length
        if kind in (FULL, LAST):
            yield whole
            whole = b""


def records(folder: Path, run: str) -> Iterator[Any]:
    """What the files of a run say, in the order of writing."""
    wandb.teardown()  # waits for W&B's own process: a run that has finished may still be on its way to the disk
    for path in sorted(folder.glob(f"wandb/offline-run-*-{run}/*.wandb")):
        yield from map(Record.FromString, read_log(path.read_bytes()))


def history(folder: Path, run: str) -> list[dict[str, str]]:
    found = [record.history.item for record in records(folder, run) if record.WhichOneof("record_type") == "history"]
    return [{"/".join([item.key, *item.nested_key]).strip("/"): item.value_json for item in items} for items in found]


def test_two_runs_are_open_together_and_one_that_is_continued_is_kept_once(folder: Path) -> None:
    trial, other = tracked_trial(), tracked_trial("0004-r0")
    tracker = Wandb(tracked_sweep(folder), print)
    tracker.begin(trial)
    tracker.begin(other)
    tracker.log(trial, 10, VALUES)
    tracker.log(other, 15, VALUES)
    tracker.end(trial, "interrupted", {})
    tracker.end(other, "complete", BEST)
    time.sleep(1.1)  # W&B names the folder of a run by the second
    assert tracker.begin(trial), "it gets all points, as `wandb sync` sends one folder in place of another"
    for step in (10, 20):
        tracker.log(trial, step, VALUES)
    tracker.end(trial, "complete", BEST)
    assert [row["_step"] for row in history(folder, trial.id)] == ["10", "20"]
    assert [row["_step"] for row in history(folder, other.id)] == ["15"]
    run = next(record.run for record in records(folder, trial.id) if record.WhichOneof("record_type") == "run")
    assert (run.run_id, run.display_name, run.run_group) == (trial.id, "0003-r0", "mine")
    assert (run.project, run.job_type, run.host) == ("of-my-own", "configuration 0003", "")
    config = {item.key: item.value_json for item in run.config.update}
    assert (config["smart.weight"], config["seed"]) == ("0.3", "7")
    summary = {
        item.key or item.nested_key[0]: item.value_json
        for record in records(folder, trial.id)
        for item in record.summary.update
    }
    assert (summary["best/sst"], summary["status"]) == ("0.5", '"complete"')


def test_offline_run_that_was_taken_back_is_deleted_and_odd_values_are_kept(folder: Path) -> None:
    trial = tracked_trial()
    again = replace(trial, id=f"{trial.id}-2", settings={**trial.settings, "tasks.*.x[0]": "v" * 9999})
    tracker = Wandb(tracked_sweep(folder), print)
    assert tracker.begin(trial)
    tracker.log(trial, 30, VALUES)
    tracker.discard(trial)
    assert tracker.begin(again)
    tracker.log(again, 20, {"a b": math.nan, "m" * 300: math.inf})
    tracker.end(again, "complete", BEST)
    assert history(folder, trial.id) == []
    (row,) = history(folder, again.id)
    assert (row["_step"], row["a b"], row["m" * 300]) == ("20", "NaN", "Infinity")
    run = next(record.run for record in records(folder, again.id) if record.WhichOneof("record_type") == "run")
    assert {item.key: item.value_json for item in run.config.update}["tasks.*.x[0]"] == f'"{"v" * 9999}"'


def test_sweep_has_a_run_with_its_files(folder: Path) -> None:
    (folder / "selection.json").write_text("{}")
    notes = list[str]()
    sweep = tracked_sweep(folder)
    Wandb(sweep, notes.append).finish("0.3 is best.", [folder / "selection.json"])
    kinds = {record.WhichOneof("record_type") for record in records(folder, sweep.id)}
    assert kinds >= {"run", "summary"}
    requests = [record.request for record in records(folder, sweep.id) if record.WhichOneof("record_type") == "request"]
    artifacts = [record.artifact for record in records(folder, sweep.id)] + [
        one.log_artifact.artifact for one in requests
    ]
    files = {item.path for artifact in artifacts for item in artifact.manifest.contents}
    assert files == {"answer.txt", "selection.json"}
    assert notes == [f"W&B: runs are kept offline; to send them: wandb sync {folder}/wandb/offline-run-*"]


def test_the_machine_is_not_described(folder: Path) -> None:
    tracker, trial = Wandb(tracked_sweep(folder), print), tracked_trial()
    tracker.begin(trial)
    tracker.end(trial, "complete", BEST)
    kinds = {record.WhichOneof("record_type") for record in records(folder, trial.id)}
    assert not kinds & {"environment", "stats", "output", "output_raw"}
    assert not list(folder.glob("wandb/*/files/*requirements*"))
    content = b"".join(path.read_bytes() for path in folder.glob("wandb/offline-run-*/*.wandb"))
    assert str(Path.home()).encode() + b"/" not in content


def test_without_a_login_and_a_place_runs_are_kept_with_the_sweeps(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    program = (
        "import sys; from pathlib import Path; from sweeps.tracking.wandb import Wandb\n"
        "from tests.sweeps.tracking.tracked import BEST, tracked_sweep, tracked_trial\n"
        "tracker, trial = Wandb(tracked_sweep(Path('x')), print), tracked_trial()\n"
        "tracker.begin(trial); tracker.end(trial, 'complete', BEST); tracker.finish('Keep 0.', [])\n"
    )
    own = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    done = run_process(["-c", program], tmp_path / "work", {**own, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)})
    place = f"{tmp_path}/multitask-sweeps/wandb"
    assert done.stdout == f"W&B: runs are kept offline; to send them: wandb sync {place}/offline-run-*\n", done.stderr
    assert len(list(Path(place).glob("offline-run-*/*.wandb"))) == 2
    assert list((tmp_path / "work").iterdir()) == []
