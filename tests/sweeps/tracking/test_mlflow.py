"""MLflow's own client finds the runs in a database of SQLite."""

import json
import math
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from sweeps.tracking.mlflow import MLflow
from tests.sweeps.tracking.tracked import BEST, VALUES, tracked_sweep, tracked_trial


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MlflowClient:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "of-my-own")
    monkeypatch.chdir(tmp_path)
    return MlflowClient()


def runs(client: MlflowClient) -> dict[str, Run]:
    experiment = client.get_experiment_by_name("of-my-own")
    assert experiment is not None
    return {str(run.info.run_name): run for run in client.search_runs([experiment.experiment_id])}


def test_run_is_found_again_and_ends_with_its_best_scores(client: MlflowClient, tmp_path: Path) -> None:
    trial = tracked_trial()
    first = MLflow(tracked_sweep(tmp_path), print)
    first.begin(trial)
    first.log(trial, 10, VALUES)
    first.end(trial, "interrupted", {})
    assert runs(client)["0003-r0"].info.status == "KILLED"
    second = MLflow(tracked_sweep(tmp_path), print)
    second.begin(trial)
    assert runs(client)["0003-r0"].info.status == "RUNNING"
    second.log(trial, 20, VALUES)
    second.end(trial, "complete", BEST)
    assert set(runs(client)) == {"mine", "0003-r0"}
    run, parent = runs(client)["0003-r0"], runs(client)["mine"]
    history = client.get_metric_history(run.info.run_id, "dev/sst/accuracy")
    assert sorted(point.step for point in history) == [10, 20]
    assert (run.data.metrics["best/overall"], run.info.status) == (0.6, "FINISHED")
    assert run.data.params["smart.weight"] == "0.3"
    assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert (run.data.tags["sweep"], run.data.tags["status"]) == ("mine", "complete")
    assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["config.json"]


def test_names_and_values_that_mlflow_does_not_take_are_changed_and_recoverable(
    client: MlflowClient, tmp_path: Path
) -> None:
    settings = {
        "question": "?" * 10_000,
        "tasks.*.batch_size": 8,
        "stages[0].order": ["sst"],
        "a//b": 1,
        "../x": 2,
        "k" * 300: 3,
        "k" * 301: 4,
        "long": "v" * 10_000,
        **{f"key{number}": number for number in range(200)},
    }
    trial = replace(tracked_trial(), settings=settings)
    MLflow(replace(tracked_sweep(tmp_path), question="?" * 10_000), print).begin(trial)
    run = runs(client)["0003-r0"]
    assert (run.data.params["tasks._.batch_size"], run.data.params["key199"]) == ("8", "199")
    assert len(run.data.params) == len(settings) - 1
    assert run.data.params["long"] == "v" * 6000
    kept = client.download_artifacts(run.info.run_id, "settings.json", str(tmp_path))
    assert json.loads(Path(kept).read_text()) == settings


def test_run_whose_beginning_failed_in_between_gets_its_parameters(
    client: MlflowClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = MLflow(tracked_sweep(tmp_path), print)
    with monkeypatch.context() as broken:
        broken.setattr(MlflowClient, "log_batch", None)
        with pytest.raises(TypeError):
            tracker.begin(tracked_trial())
    tracker.begin(tracked_trial())
    run = runs(client)["0003-r0"]
    assert run.data.params["smart.weight"] == "0.3"
    assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["config.json"]


def test_metrics_keep_their_values_and_a_run_that_was_taken_back_is_not_shown(
    client: MlflowClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker, trial = MLflow(tracked_sweep(tmp_path), print), tracked_trial()
    assert tracker.begin(trial)
    tracker.log(trial, 90, VALUES)
    with monkeypatch.context() as down:
        down.setattr(MlflowClient, "delete_run", Mock(side_effect=OSError("server is down")))
        with pytest.raises(OSError, match="down"):
            tracker.discard(trial)
    tracker.discard(trial)  # as the process tries again
    again = replace(trial, id=f"{trial.id}-2")
    assert tracker.begin(again)
    odd = {"a/b": 1.0, "a b": 2.0, "a*b": 3.0, "a[b": 4.0, "a]b": 5.0, "m" * 300: 6.0}
    tracker.log(again, 10, {**odd, "nan": math.nan, "high": math.inf, "low": -math.inf})
    data = runs(client)["0003-r0"].data
    assert sorted(value for value in data.metrics.values() if value == value) == list(odd.values())
    assert {"a/b", "a b", "a_b"} <= data.metrics.keys()
    assert math.isnan(data.metrics["nan"])
    assert (data.tags["high at step 10"], data.tags["low at step 10"]) == ("inf", "-inf")


def test_sweep_is_a_run_with_its_files(client: MlflowClient, tmp_path: Path) -> None:
    (tmp_path / "selection.json").write_text("{}")
    MLflow(tracked_sweep(tmp_path), print).finish("0.3 is best.", [tmp_path / "selection.json"])
    run = runs(client)["mine"]
    assert {file.path for file in client.list_artifacts(run.info.run_id)} == {"answer.txt", "selection.json"}
    assert (run.info.status, run.data.tags["question"]) == ("FINISHED", "Which one?")


def test_without_a_place_runs_are_found_again_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    notes: list[str] = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        tracker = MLflow(tracked_sweep(tmp_path), notes.append)
        tracker.begin(tracked_trial())
        tracker.finish("Keep 0.", [])
        assert list((tmp_path / name).iterdir()) == []
    uri = f"sqlite:///{tmp_path}/multitask-sweeps/mlflow.db"
    assert notes[0].endswith(f"mlflow ui --backend-store-uri {uri}")
    client = MlflowClient(uri)
    (experiment,) = [own for own in client.search_experiments() if own.name == "multitask-sweeps"]
    assert len(client.search_runs([experiment.experiment_id])) == 2
    assert list((tmp_path / "multitask-sweeps" / "mlruns").rglob("answer.txt"))
