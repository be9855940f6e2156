"""Sweeps from Python: the same options as the command, reports, and what is done with a finished sweep."""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import ray
from scipy.special import softmax
from transformers import AutoModel

import sweeps.api
import sweeps.driver.run_sweep
from mtlib.config.trial import TrialConfig
from mtlib.tasks import TASKS
from results.answers.answer_data import ANSWER_FILE
from results.ensembles.selection_method import Settings
from results.records.selection import write_selection
from results.records.tables import read_trials
from results.records.trials import read_sweep, sweep_encoders
from search_spaces.presets import general
from search_spaces.space import SearchSpace, grid_configs, value_in
from search_spaces.space_json import SPACE_JSON, space_from_json
from sweeps.api import ray_address, run_sweep
from sweeps.cli.summary import Ending
from sweeps.driver.run_sweep import SweepOutcome
from sweeps.driver.trials.table import TrialTable
from sweeps.options import MOST_RACED, SweepOptions, SweepPlan
from tests.architectures import ENCODERS
from tests.one_line_error import one_line_error
from tests.own_tokenizers import letter_tokenizer
from tests.prepared import prepare_rows
from tests.results.inference.trained_sweep import member_of, recorded_logits, selection_of
from tests.task_tables import read_folder

SMALL = {"encoder.max_length": 32, "stages.0.epochs": 1, "stages.1.epochs": 1, "tasks.sst.scored_train_rows": 11}


@pytest.fixture
def places(tiny_folder: Path, tiny_encoder_folder: Path, tmp_path: Path) -> dict[str, Any]:
    """Options of a sweep on tiny data."""
    return {"data": tiny_folder, "encoder": tiny_encoder_folder, "storage": tmp_path, "name": "first"}


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans ask no Ray that another test has begun what its nodes can do, which takes seconds."""
    monkeypatch.setattr(sweeps.api, "ray_address", lambda: None)


@pytest.fixture
def plans(
    without_ray: None,  # noqa: ARG001 - plans ask none
    monkeypatch: pytest.MonkeyPatch,
) -> list[SweepPlan]:
    """The plans of the sweeps that would run; nothing is trained."""
    found: list[SweepPlan] = []

    def note(table: TrialTable, *_given: object, **_hooks: object) -> SweepOutcome:
        found.append(table.plan)
        return SweepOutcome(counts={"complete": 7}, failures={})

    monkeypatch.setattr(sweeps.driver.run_sweep, "run_plan", note)
    return found


def test_options_are_those_of_the_command_and_nothing_is_printed(
    plans: list[SweepPlan], places: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_sweep("smart_lambda", **places, set=SMALL, max_hours=2, replicates=3, reuse=False, scheduler=None)
    (plan,) = plans
    assert (plan.options.folder, plan.options.replicates, plan.options.reuse) == (f"{tmp_path}/first", 3, False)
    assert (plan.options.max_hours, plan.space.base.encoder.max_length) == (2.0, 32)
    assert (found.folder, found.exit_code, found.status) == (tmp_path / "first", 0, "complete")
    assert (found.counts, found.failures, found.messages) == ({"complete": 7}, {}, ())
    assert capsys.readouterr() == ("", "")
    assert read_sweep(found.folder)["command"].startswith("sweeps.api.run_sweep(space='smart_lambda', data='/")


def test_verbose_prints_what_the_command_prints(
    plans: list[SweepPlan], places: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run_sweep("smart_lambda", **places, set=SMALL, verbose=True)
    assert len(plans) == 1
    text = capsys.readouterr().out
    assert text.startswith("Sweep first: ")
    assert "Files: " in text


@pytest.mark.usefixtures("without_ray")
@pytest.mark.parametrize(("verdict", "code"), [("shown", 0), ("excluded", 5), ("open", 6)])
def test_claim_ends_complete_with_any_verdict(
    verdict: str, code: int, places: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = SweepOutcome(counts={"complete": 6}, failures={}, verdict=verdict)
    monkeypatch.setattr(sweeps.driver.run_sweep, "run_plan", lambda *_given, **_hooks: outcome)
    found = run_sweep("smart_lambda", claim="smart.weight=1 beats base by 0.005", **places, set=SMALL)
    assert (found.exit_code, found.status) == (code, "complete")
    assert json.loads(Path(found.folder, ANSWER_FILE).read_text())["claim"]["margin"] == 0.005


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[SweepOptions]:
    """The options of the sweeps that would be prepared."""
    found: list[SweepOptions] = []

    def note(options: SweepOptions, _command: str, *, is_verbose: bool) -> Ending:
        assert not is_verbose
        found.append(options)
        return Ending(folder="", outcome=SweepOutcome(counts={}, failures={}), exit_code=0, messages=())

    monkeypatch.setattr("sweeps.api.run_or_resume", note)
    return found


@pytest.mark.parametrize(
    ("key", "given", "values"),
    [
        ("tasks.sst.prefix", ["a, b: ", "c"], ["a, b: ", "c"]),
        ("smart.tasks", [["sst"], ["sst", "qqp"]], [("sst",), ("sst", "qqp")]),
        ("encoder.dropout", (None, 0.1), [None, 0.1]),
        ("data.bucket_by_length", [True, np.False_], [True, False]),
        ("optimizer.learning_rate", np.linspace(0.5, 1, 2), [0.5, 1.0]),
        ("tasks.sst.batch_size", range(8, 10), [8, 9]),
        ("tasks.sst.batch_size", pd.Series([8, 9]), [8, 9]),
        ("tasks.sst.batch_size", np.int64(9), [9]),
        ("smart.mode", "paper,random", ["paper", "random"]),
    ],
    ids=str,
)
def test_what_is_given_is_what_is_searched(
    key: str, given: Any, values: list[Any], asked: list[SweepOptions], places: dict[str, Any]
) -> None:
    run_sweep(vary={key: given}, set={"smart.weight": 1}, **places)
    searched = [value_in(config, key) for config in grid_configs(prepare_rows(asked[0]).space)]
    assert (searched, list(map(type, searched))) == (values, list(map(type, values)))


def test_numbers_of_numpy_truth_values_and_none_are_options(asked: list[SweepOptions]) -> None:
    numbers: dict[str, Any] = {"trials": np.int64(4), "workers": np.int32(2), "keep_gb": np.float32(0.5)}
    run_sweep("joint", search="tpe", **numbers, until_decided=True, encoder=None, max_hours=pd.NA)
    switches: dict[str, Any] = {"until_decided": False, "retry_failed": False, "reuse": True}
    run_sweep("joint", **switches, set={"encoder.dropout": None, "smart.weight": np.float64(0.5)})
    raced, plain = asked
    assert (raced.trials, raced.workers, raced.keep_gb, raced.max_hours) == (4, 2, 0.5, None)
    assert (raced.until_decided, raced.replicates) == (0.0, MOST_RACED)
    assert (plain.until_decided, plain.set) == (None, {"encoder.dropout": None, "smart.weight": 0.5})


def test_space_that_was_built_in_python_is_kept_and_resumed(plans: list[SweepPlan], places: dict[str, Any]) -> None:
    base = general(TASKS).override({"encoder.max_length": 32})
    space = SearchSpace(name="mine", question="Which?", base=base, grid={"tasks.sst.prefix": ("a, b: ", "")})
    found = run_sweep(space, **{**places, "name": None})
    assert Path(found.folder).name.startswith("mine-"), "as a sweep without a name is called"
    assert space_from_json(Path(found.folder, SPACE_JSON).read_bytes()) == space
    run_sweep(resume=found.folder)
    begun, resumed = plans
    assert dict(begun.space.grid) == dict(space.grid)
    assert resumed.space == begun.space
    assert "run_sweep(space=mine, data=" in read_sweep(found.folder)["command"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"space": None}, "--space must name a search space, got none"),
        ({"wokers": 2}, "unknown option 'wokers'; did you mean 'workers'?"),
        ({"dry_run": True}, "unknown option 'dry_run'"),
        ({"workers": 0}, "--workers must be at least 1, got 0"),
        ({"workers": [1]}, "--workers must be a whole number, got (1,)"),
        ({"data": 5}, "data must be text or a path, got 5"),
        ({"log_to": 5}, "--log-to must be a list, got 5"),
        ({"log_to": [{"a": 1}]}, "an entry of --log-to must be text, got {'a': 1}"),
        ({"methods": "mine.py"}, "methods must be a list of files, got 'mine.py'"),
        ({"set": "a=1"}, "set must be a mapping of values by key, got 'a=1'"),
        ({"vary": {5: [1]}}, "vary must be a mapping of values by key, got {5: (1,)}"),
        ({"vary": {"encoder.name": [5]}}, "--vary encoder.name must be hub names or folders, got (5,)"),
        (
            {"set": {"encoder": {"name": "rel"}}},
            "set must have plain values by dotted key, or lists of them, got encoder",
        ),
        ({"vary": {"encoder": [{"name": "rel"}]}}, "vary must have plain values by dotted key, or lists of them"),
        ({"vary": {"smart.weight": {0, 1}}}, "vary must have plain values by dotted key, or lists of them"),
        ({"set": {"stages.0.tasks": 5}}, "stages.0.tasks must be a list, got 5"),
        ({"space": 5}, "space must be a name, the path of a file or a SearchSpace, got 5"),
        ({"name": ""}, "--name must not be empty, or be left out, got ''"),
        ({"space": None, "resume": "nowhere"}, "nowhere is no sweep folder"),
    ],
)
def test_mistake_is_a_value_error(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    assert message in one_line_error(run_sweep, **{"space": "smart_lambda", "storage": tmp_path, **options})


def test_address_is_that_of_a_ray_that_runs_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    assert ray_address() == "10.0.0.1:6379"
    monkeypatch.setitem(sys.modules, "ray", None)
    assert ray_address() == "10.0.0.1:6379"


def wait_for_cpus(count: int) -> None:
    """Waits until so many CPUs of Ray are free again, which it reports late."""
    until = time.monotonic() + 20
    while ray.available_resources().get("CPU") != count:
        assert time.monotonic() < until, ray.available_resources()
        time.sleep(0.1)


@pytest.mark.ray
@pytest.mark.usefixtures("private_ray")
def test_sweep_on_a_running_ray_is_ranked_selected_from_and_predicts(
    places: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Ray goes on afterwards, and nothing is printed. The thread is not the main one, as in a service."""
    small = {"stages.0.epochs": 2, "stages.0.steps_per_epoch": 3, "stages.0.tasks": "sst", "encoder.max_length": 32}
    call = asyncio.to_thread(run_sweep, vary={"smart.weight": [0, 0.5]}, **places, set=small, concurrent=1)
    found = asyncio.run(call)
    assert (found.status, found.counts) == ("complete", {"complete": 2})
    assert ray.is_initialized()
    wait_for_cpus(2)
    assert capsys.readouterr() == ("", "")
    assert found.sweep.ranking()["smart.weight"].tolist() != []
    assert set(found.sweep.effects()["key"]) == {"smart.weight"}
    with pytest.raises(ValueError, match=r"selection.json"):
        found.predict(["good"], task="sst")
    selection = found.select(settings=Settings(num_folds=2), repeats=1)
    assert set(selection.tasks) == {"sst"}
    assert json.loads(Path(found.folder, "selection.json").read_text())["tasks"]
    with pytest.raises(ValueError, match=r"^unknown option of a selection 'metod'; did you mean 'method'\?"):
        found.select(metod="greedy")
    with pytest.warns(UserWarning, match="^2 rows with a blank text without prediction, the first is row 1$"):
        predictions = found.predict(["good film", "", "bad film", None], task="sst")
    assert list(predictions) == ["prediction", *(f"probability_{label}" for label in range(5))]
    assert predictions["prediction"].isna().tolist() == [False, True, False, True]
    frame = pd.DataFrame({"id": [1, 2], "sentence": ["good film", "bad film"]}, index=["x", "y"])
    for texts in (frame, frame["sentence"]):
        of_frame = found.predict(texts, task="sst")
        assert of_frame.index.tolist() == ["x", "y"]
        assert of_frame["prediction"].tolist() == predictions["prediction"][::2].tolist()
    with pytest.raises(ValueError, match=r"^texts must have the task's columns \(sentence\), each once, got id$"):
        found.predict(frame[["id"]], task="sst")
    with pytest.raises(ValueError, match=r"unknown task of the selection 'qqp'"):
        found.predict(["a"], task="qqp")


def save_other_encoder(folder: Path) -> Path:
    """A tiny ModernBERT that reads letters."""
    AutoModel.from_config(ENCODERS["modernbert"]).save_pretrained(folder)
    letter_tokenizer().save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("private_ray")
def test_encoders_of_one_sweep_are_kept_apart_and_predict_together(
    places: dict[str, Any], tiny_folder: Path, tmp_path: Path
) -> None:
    names = [str(places.pop("encoder")), str(save_other_encoder(tmp_path / "other"))]
    small = {"stages.0.epochs": 1, "stages.0.steps_per_epoch": 2, "stages.0.tasks": "sst", "encoder.max_length": 32}
    found = run_sweep(vary={"encoder.name": names}, **places, set={**small, "tasks.sst.prefix": "a "}, concurrent=1)
    assert found.counts == {"complete": 2}
    assert list(sweep_encoders(found.sweep.info)) == names
    folder, trials = Path(found.folder), ("0000-r0", "0001-r0")
    assert [TrialConfig.from_json(record.config).encoder.name for record in read_trials(folder)] == names
    members = tuple(member_of(folder, trial, "sst", 0.5) for trial in trials)
    write_selection(folder, selection_of(folder, {"sst": members}))
    dev = read_folder(tiny_folder, ("sst",), ("dev",))["sst", "dev"]
    predicted = found.predict(dev.texts[0], task="sst", device="cpu").filter(like="probability")
    recorded = [softmax(recorded_logits(folder, trial, "sst"), axis=1) for trial in trials]
    assert np.abs(predicted.to_numpy() - np.mean(recorded, axis=0)).max() <= 1e-3
