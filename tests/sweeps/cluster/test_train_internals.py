"""Canaries: each fails when the installed Ray Train no longer has something that `train_internals` relies on."""

from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from ray.train.v2._internal.execution.controller import TrainController
from ray.train.v2._internal.execution.worker_group.worker import RayTrainWorker
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from sweeps.cluster import train_internals
from sweeps.cluster.train_internals import LEFT_OUT, QuietScalingPolicy, choose_trainer, fit_lean


@pytest.fixture
def trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataParallelTrainer:
    monkeypatch.setattr("ray.train.v2.api.data_parallel_trainer.usage_lib.record_library_usage", lambda _name: None)
    monkeypatch.setattr(train_internals, "ObjectRefWrapper", lambda function: function)  # it would start a Ray
    return DataParallelTrainer(
        lambda: None,
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="lane", storage_path=str(tmp_path), failure_config=FailureConfig(max_failures=-1)),
    )


class Result:
    """Stands in for what a run returns."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error


def test_run_has_all_that_the_controller_asks_for_and_none_of_what_is_left_out(
    trainer: DataParallelTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(trainer, "_initialize_and_run_controller", lambda **parts: given.update(parts) or Result(None))
    usual = trainer._create_default_callbacks()
    fit_lean(trainer)
    assert set(given) == set(signature(TrainController.__init__).parameters) - {"self"}
    assert {type(item) for item in usual} - {type(item) for item in given["callbacks"]} == set(LEFT_OUT)
    assert isinstance(given["scaling_policy"], QuietScalingPolicy)
    assert given["scaling_policy"].make_decision_for_non_running_worker_group().num_workers == 1


def test_only_several_workers_get_a_process_group() -> None:
    assert choose_trainer(1) is DataParallelTrainer
    assert choose_trainer(2) is TorchTrainer


def test_error_of_the_run_is_raised(trainer: DataParallelTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "_initialize_and_run_controller", lambda **_parts: Result(RuntimeError("lost")))
    with pytest.raises(RuntimeError, match="lost"):
        fit_lean(trainer)


def test_workers_start_without_a_provider_of_datasets() -> None:
    assert signature(RayTrainWorker.init_train_context).parameters["dataset_shard_provider"].default is None


@pytest.mark.ray
@pytest.mark.usefixtures("private_ray")
def test_lean_run_starts_only_the_controller_the_synchronisation_and_the_worker(tmp_path: Path) -> None:
    def train() -> None:
        import psutil

        titles = (process.cmdline() for process in psutil.Process().parent().children())
        found = {words[0].split(".")[0] for words in titles if words and words[0].startswith("ray::")}
        (tmp_path / "names").write_text(" ".join(sorted(found)))

    config = ScalingConfig(num_workers=1)
    fit_lean(DataParallelTrainer(train, scaling_config=config, run_config=RunConfig(storage_path=str(tmp_path))))
    names = (tmp_path / "names").read_text().split()
    assert not {"ray::DatasetManager", "ray::PlacementGroupCleaner", "ray::_AutoscalingCoordinatorActor"} & {*names}
    assert "ray::TrainController" in names
