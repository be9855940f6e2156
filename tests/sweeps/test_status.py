"""The command that shows sweeps from their files: tables, following, mistakes."""

import time
from pathlib import Path

import pytest

from results.records.trials import SWEEP_COPY, SWEEP_FILE
from sweeps.status import main
from tests.driver_files import write_driver
from tests.one_line_error import one_line_exit
from tests.scripts import ROOT, run_process
from tests.sweeps.cli.test_sweep_state import Write, trial, write

__all__ = ["write"]  # the fixture

Capture = pytest.CaptureFixture[str]


def test_all_sweeps_are_listed_with_what_to_type_next(write: Write, tmp_path: Path, capsys: Capture) -> None:
    write(trial(0, "complete"), trial(1, "queued"))
    broken = write(trial(0, "complete"), name="broken")
    for name in (SWEEP_FILE, SWEEP_COPY):
        Path(broken, name).write_bytes(b"")
    assert main(["--storage", str(tmp_path)]) == 0
    damaged, header, line, *commands = capsys.readouterr().out.splitlines()
    assert damaged.startswith("broken cannot be read: ")
    assert header.split() == ["sweep", "state", "done", "running", "left", "failed", "best"]
    assert line.startswith("mine")
    assert commands == ["", "Next:", f"  python sweeps/run.py --resume {tmp_path}/mine"]


def test_trials_of_one_sweep_are_listed(write: Write, tmp_path: Path, capsys: Capture) -> None:
    write(trial(0, "complete"), trial(1, "failed", error="loss is nan"), trial(2, "running", epochs=1), life="running")
    assert main(["mine", "--storage", str(tmp_path)]) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "mine: Which weight?"
    assert lines[1].startswith("running: 1 done, 1 running, 0 left, 1 failed; about ")
    assert lines[2] == "best: overall 0.667 (0000-r0)"
    assert lines[4].split() == ["trial", "status", "epoch", "step", "smart.weight", "newest", "dev", "scores"]
    assert lines[5].split()[:7] == ["0000-r0", "complete", "3", "of", "4", "30", "0"]
    assert lines[5].endswith("SST 0.250  QQP 0.750  STS 0.500  overall 0.583")
    assert lines[6].endswith("loss is nan")
    write_driver(tmp_path / "mine", {"0002-r0": {"since": time.time(), "epoch": 2, "step": 7, "num_steps": 40}})
    assert main(["mine", "--storage", str(tmp_path)]) == 0
    assert "7 of 40" in capsys.readouterr().out
    assert lines[-2:] == ["Next:", f"  python sweeps/status.py {tmp_path}/mine"]


def test_empty_storage_is_no_error(tmp_path: Path, capsys: Capture) -> None:
    assert main(["--storage", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"No sweeps in {tmp_path}.\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--storage", "{}/nowhere"], "--storage must be a folder that exists"),
        (["other", "--storage", "{}"], "other is no sweep folder"),
    ],
)
def test_mistake_is_one_line(words: list[str], message: str, tmp_path: Path, capsys: Capture) -> None:
    assert message in one_line_exit(main, capsys, *(word.format(tmp_path) for word in words))


def test_script_needs_no_heavy_package(write: Write, tmp_path: Path) -> None:
    write(trial(0, "complete"))
    done = run_process([str(ROOT / "sweeps" / "status.py"), "--storage", str(tmp_path)], tmp_path)
    assert (done.code, done.stderr, done.heavy_packages) == (0, "", set())
    assert "mine" in done.stdout
