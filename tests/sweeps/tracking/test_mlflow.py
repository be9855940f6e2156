"""MLflow's own client finds the runs in a database of SQLite."""

from pathlib import Path

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
