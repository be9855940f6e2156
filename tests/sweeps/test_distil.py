"""The command that distils: from a sweep to its students and the verdict, and one line for any mistake."""

import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from mtlib.config.trial import TrialConfig
from mtlib.tasks import TASKS
from results.records.tables import write_trials
from results.records.trials import write_sweep
from results.sweep import load_sweep
from search_spaces.space import SearchSpace, grid_configs
from sweeps import distil
from sweeps.distil import main, sweep_options, train_students
from sweeps.options import SweepOptions, saved_options
from tests.one_line_error import one_line_error, one_line_exit
from tests.results.conftest import build_record
from tests.scripts import ROOT

SOURCE = {"task": "sst", "role": "augment"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "SWEEP must name the folder of a sweep"),
        (["{folder}", "--unlabelled", "texts.txt"], "--unlabelled must be TASK=FILE"),
        (["{folder}", "--unlabelled", "sts=texts.csv#one"], "--unlabelled must name 2 columns for sts"),
        (["{folder}", "--unlabelled", "sst=nowhere.csv"], "--unlabelled must be a readable file, got nowhere.csv"),
        (["{folder}", "--unlabelled", "sst=texts.doc"], "--unlabelled must end in .csv"),
        (["{folder}", "--unlabelled", "tone=texts.csv"], "unknown task of the selection 'tone'"),
        (["{folder}", "--student", "./nowhere"], "--student must be a hub name or a folder that exists"),
        (
            ["{folder}", "--data", "{data}", "--", "--dry-run", "--name", "x"],
            "flags behind -- must leave to this command",
        ),
        (
            ["{folder}", "--data", "{data}", "--name", "taught", "--", "--workers", "0"],
            "--workers must be at least 1, got 0",
        ),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str], message: str, trained_folder: Path, tiny_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [word.format(folder=trained_folder, data=tiny_folder) for word in words]
    data = ["--data", tiny_folder] if given and "--" not in given else []
    assert message in one_line_exit(main, capsys, *given, *data)


def test_a_sweep_without_ensembles_is_refused(
    trained_folder: Path, tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(trained_folder, tmp_path / "mine")
    (copy / "selection.json").unlink()
    assert "results/selector.py" in one_line_exit(main, capsys, copy, "--data", tiny_folder)


def test_the_command_for_held_out_rows_keeps_the_flags(
    trained_folder: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them it would score other students."""
    words = [str(trained_folder), "--student", str(tiny_folder), "--name", "taught", "--data", str(tiny_folder)]
    config = distil.best_config(str(trained_folder)).override({"data.hold_out": 0.1})
    monkeypatch.setattr(distil, "best_config", lambda _: config)
    monkeypatch.setattr(distil, "load_sweep", lambda _: None)
    monkeypatch.setattr(distil, "distillation_lines", lambda *_, **__: [])
    monkeypatch.setattr(distil, "best_taught_trial", lambda _: "0001-r0")
    lines = distil.outcome_lines(distil.read_request(words), words)
    assert f"    python sweeps/distil.py --score-hold-out {shlex.join(words)}" in lines


@pytest.fixture
def space(tiny_config: TrialConfig) -> SearchSpace:
    return SearchSpace(name="students", question="Which?", base=tiny_config, grid={"encoder.max_length": (8, 16)})


def begin(place: Path, space: SearchSpace, *statuses: str) -> None:
    """Writes a sweep of the space whose trials have these statuses."""
    pairs = zip(statuses, grid_configs(space), strict=False)
    records = [build_record(number, status=own, config=config.to_json()) for number, (own, config) in enumerate(pairs)]
    place.mkdir()
    options = SweepOptions(space="students", name=place.name, storage=str(place.parent), replicates=3)
    write_sweep(place, {"name": place.name, "options": saved_options(options)})
    write_trials(place, records, tuple(TASKS))


def request_for(place: Path, space: SearchSpace, **changes: Any) -> Any:
    """What `train_students` reads of a command line."""
    options = {"concurrent": 2, "workers": 1, "address": "auto"}
    own = {"data": "d", "encoder": space.base.encoder.name, "replicates": 3, "run_options": options}
    return SimpleNamespace(**{"students": str(place), "is_dry_run": False, **own, **changes})


@pytest.mark.parametrize(
    ("statuses", "is_dry_run", "wanted"),
    [
        ((), False, {"data": "d", "replicates": 3, "concurrent": 2, "workers": 1, "name": "mine", "dry_run": False}),
        ((), True, {"name": "mine", "dry_run": True}),
        (("complete", "queued"), False, {"resume": "{storage}/mine", "concurrent": 2, "address": "auto"}),
        (("complete", "queued"), True, None),
        (("complete", "failed"), False, None),
    ],
)
def test_what_is_left_is_trained(
    statuses: tuple[str, ...],
    is_dry_run: bool,
    wanted: dict[str, Any] | None,
    space: SearchSpace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, started = tmp_path / "mine", list[dict[str, Any]]()
    if statuses:
        begin(place, space, *statuses)

    def start(given: dict[str, Any], command: str) -> int:
        assert command == "python sweeps/distil.py home"
        started.append(given)
        if not statuses and not is_dry_run:
            begin(place, space, "complete", "complete")
        return 0

    monkeypatch.setattr(distil, "run_given", start)
    code, is_whole = train_students(request_for(place, space, is_dry_run=is_dry_run), space, ["home"])
    assert (code, is_whole) == (0, not is_dry_run and "queued" not in statuses)
    assert len(started) == (wanted is not None)
    for name, value in (wanted or {}).items():
        assert started[0][name] == (value.format(storage=tmp_path) if isinstance(value, str) else value)
    if "resume" in (wanted or {}):
        assert "workers" not in started[0], "which no resume changes"


def test_options_that_no_resume_changes_are_those_of_the_beginning(space: SearchSpace, tmp_path: Path) -> None:
    begin(tmp_path / "mine", space, "complete", "queued")
    request = request_for(tmp_path / "mine", space, run_options={"set": {"optimizer.learning_rate": "1"}})
    message = one_line_error(train_students, request, space, [])
    assert message.startswith("--set must be what the students of")
    assert sweep_options(request_for(tmp_path / "mine", space, replicates=5), space)["replicates"] == 5


def test_a_sweep_that_learned_something_else_is_refused(space: SearchSpace, tmp_path: Path) -> None:
    begin(tmp_path / "mine", space, "complete")
    request = request_for(tmp_path / "mine", space)
    other = {"data.sources.more": {**SOURCE, "path": "more.csv"}}
    further = SearchSpace(name="students", question="Which?", base=space.base.override(other), grid=space.grid)
    assert "got a difference in more.csv" in one_line_error(train_students, request, further, [])
    another = request_for(tmp_path / "mine", space, encoder="another")
    assert "must start from the same encoder" in one_line_error(train_students, another, space, [])


def test_files_of_a_sweep_that_teaches_may_have_moved(space: SearchSpace, tmp_path: Path) -> None:
    sources = ({**SOURCE, "path": f"/{name}/teachers/more-1f.csv"} for name in ("first", "renamed"))
    before, now = (replace(space, base=space.base.override({"data.sources.more": own})) for own in sources)
    begin(tmp_path / "mine", before, "complete")
    assert train_students(request_for(tmp_path / "mine", space), now, []) == (0, True)


def run(script: str, *words: object) -> str:
    """The output of a command that succeeds."""
    command = [sys.executable, str(ROOT / script), *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_ensembles_of_the_demonstration_become_one_model(tmp_path: Path) -> None:
    storage, sweep = tmp_path / "storage", tmp_path / "storage" / "mine"
    words = ("--space", "smart_lambda", "--hold-out", 0.1, "--storage", storage, "--name", "mine")
    run("sweeps/run.py", *words, "--set", "stages.0.epochs=2")
    run("results/selector.py", sweep)
    texts = tmp_path / "more.csv"
    pd.DataFrame({"sentence": [f"a film number {number}" for number in range(30)]}).to_csv(texts, index=False)
    arguments = (sweep, "--unlabelled", f"sst={texts}", "--replicates", 2)
    first = run("sweeps/distil.py", *arguments)
    again = run("sweeps/distil.py", *arguments, "--score-hold-out")
    assert "best single model" in first
    assert "On held-out rows" not in first
    assert "On held-out rows" in again
    students = load_sweep(storage / "mine-students")
    assert sorted(students.trials["student"].unique()) == ["both", "teacher"]
    assert (students.trials["status"] == "complete").all()
    curves = students.curves
    taught = curves[(curves["metric"] == "distillation") & (curves["task"] == "sst")]
    assert (taught["value"] > 0).all()
