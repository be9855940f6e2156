"""Trackio's own database holds the runs; its folder is read at the import, so each test has a process of its own."""

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

from tests.scripts import ROOT, run_process

PROGRAM = """
from pathlib import Path
from sweeps.tracking.trackio import Trackio
from tests.sweeps.tracking.tracked import BEST, VALUES, tracked_sweep, tracked_trial
tracker = Trackio(tracked_sweep(Path("x")), lambda _line: None)
trial, other = tracked_trial(), tracked_trial("0004-r0")
"""


def run_program(folder: Path, lines: str) -> None:
    done = run_process(
        ["-c", PROGRAM + lines], folder, {**os.environ, "PYTHONPATH": str(ROOT), "TRACKIO_DIR": str(folder)}
    )
    assert done.code == 0, done.stderr


def rows(folder: Path) -> list[tuple[str, int, dict[str, Any]]]:
    """Run, step and values of each row."""
    with sqlite3.connect(folder / "multitask-sweeps.db") as database:
        found = database.execute("SELECT run_name, step, metrics FROM metrics ORDER BY id").fetchall()
    return [(name, step, json.loads(values)) for name, step, values in found]


def test_two_runs_are_open_together_and_one_is_continued(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        "tracker.begin(trial); tracker.begin(other)\n"
        "tracker.log(trial, 10, VALUES); tracker.log(other, 15, VALUES)\n"
        "tracker.end(trial, 'interrupted', {}); tracker.end(other, 'complete', BEST)\n",
    )
    run_program(tmp_path, "tracker.begin(trial); tracker.log(trial, 20, VALUES); tracker.end(trial, 'complete', BEST)")
    found = rows(tmp_path)
    curve = [(name, step) for name, step, values in found if "dev/sst/accuracy" in values]
    assert sorted(curve) == [("mine-1a2b-0003-r0", 10), ("mine-1a2b-0003-r0", 20), ("mine-1a2b-0004-r0", 15)]
    ends = {name: (step, values) for name, step, values in found if "status" in values}
    assert ends["mine-1a2b-0003-r0"] == (20, {"best/sst": 0.5, "best/overall": 0.6, "status": "complete"})
    with sqlite3.connect(tmp_path / "multitask-sweeps.db") as database:
        ((config,),) = database.execute("SELECT config FROM configs WHERE run_name = 'mine-1a2b-0003-r0'").fetchall()
    assert json.loads(config)["smart.weight"] == 0.3
    assert json.loads(config)["_Group"] == "mine"


def test_run_that_was_taken_back_is_deleted_and_odd_values_are_kept(tmp_path: Path) -> None:
    run_program(
        tmp_path,
        "import dataclasses, math\n"
        "settings = {**trial.settings, 'tasks.*.x[0]': 'v' * 9999}\n"
        "again = dataclasses.replace(trial, id=trial.id + '-2', settings=settings)\n"
        "tracker.begin(trial); tracker.log(trial, 20, VALUES); tracker.discard(trial)\n"
        "tracker.begin(again); tracker.log(again, 10, {'a b': math.nan, 'm' * 300: math.inf})\n"
        "tracker.end(again, 'complete', BEST)\n",
    )
    found = rows(tmp_path)
    assert {(name, step) for name, step, _ in found} == {("mine-1a2b-0003-r0-2", 10)}
    assert found[0][2] == {"a b": "NaN", "m" * 300: "Infinity"}
    with sqlite3.connect(tmp_path / "multitask-sweeps.db") as database:
        ((config,),) = database.execute("SELECT config FROM configs").fetchall()
    assert json.loads(config)["tasks.*.x[0]"] == "v" * 9999


def test_sweep_is_a_run_with_the_answer(tmp_path: Path) -> None:
    run_program(tmp_path, "tracker.finish('0.3 is best.', [])")
    ((name, _, values),) = rows(tmp_path)
    assert name == "mine-1a2b"
    assert "0.3 is best." in json.dumps(values["answer"])
