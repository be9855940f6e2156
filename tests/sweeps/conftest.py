"""A plan over a tiny space, storages with and without a trained trial, and one private Ray for all tests."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from mtlib.config.trial import TrialConfig
from search_spaces.space import SearchSpace
from sweeps.options import SweepOptions, SweepPlan
from tests.sweeps.reuse.trained_trials import FAST, TrialStorage, train_trial

MakePlan = Callable[..., SweepPlan]


UNUSUAL_OPTIONS: dict[str, Any] = {
    "began_as_demonstration": True,
    "space": "smart_lambda",
    "vary": {"smart.num_steps": "1,2"},
    "smaller_grids": ({"smart.num_steps": "1"},),
    "methods": ("/home/mine.py",),
    "encoder": "roberta-base",
    "workers": 2,
    "cpus_per_worker": 3,
    "gpus_per_worker": 1.0,
    "concurrent": 4,
    "until_decided": 0.01,
    "search": "tpe",
    "trials": 9,
    "replicates": 5,
    "replicate_best": 3,
    "chosen_by": 2,
    "scheduler": "asha",
    "name": "mine",
    "seed": 6,
    "set": {"smart.mode": "paper"},
    "address": "auto",
    "reuse": False,
    "keep_gb": 0.5,
    "keep_models": 2,
    "checkpoint_steps": 7,
    "node_wait_minutes": 3.0,
    "silent_minutes": 5.0,
    "max_hours": 1.5,
    "max_steps": 900,
    "log_to": ("tensorboard", "wandb"),
    "hold_out": 0.2,
    "dry_run": True,
}
"""Options of a new sweep, none at its default; `data` and `storage` are left out."""


def with_options(plan: SweepPlan, **changes: Any) -> SweepPlan:
    """A plan with some options changed."""
    return replace(plan, options=replace(plan.options, **changes))


@pytest.fixture
def make_plan(tmp_path: Path, tiny_config: TrialConfig) -> MakePlan:
    """Builds a plan for a grid over `smart.weight`; any option or field of the space may be given."""

    def make(**changes: Any) -> SweepPlan:
        data_folder = changes.pop("data_folder", tmp_path)
        searched: dict[str, Any] = {"base": tiny_config, "grid": {"smart.weight": (0.0, 0.3, 1.0)}}
        names = {field.name for field in fields(SearchSpace)} - {"name"}
        searched |= {name: changes.pop(name) for name in list(changes) if name in names}
        space = SearchSpace(name="tiny", question="Does it run?", **searched)
        options = SweepOptions(space="tiny", storage=str(tmp_path), **{"name": "sweep", **changes})
        Path(options.folder).mkdir()
        return SweepPlan(options=options, space=space, data_folder=data_folder)

    return make


@pytest.fixture
def storage(tmp_path: Path, tiny_config: TrialConfig, tiny_folder: Path, tiny_encoder_folder: Path) -> TrialStorage:
    """A storage without anything in it."""
    base = tiny_config.override({**FAST, "encoder.name": str(tiny_encoder_folder)})
    return TrialStorage(base, tiny_folder, tmp_path / "storage")


@pytest.fixture(scope="session")
def trained_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a storage with one trained trial, filled at its first use."""
    return tmp_path_factory.mktemp("trained") / "storage"


@pytest.fixture
def trained(storage: TrialStorage, trained_template: Path) -> TrialStorage:
    """A storage in which trial `first/0000-r0` has been trained to its end and has kept both of its stages."""
    if not trained_template.exists():
        template = replace(storage, path=trained_template)
        train_trial(template.load_trial(), template.trial_folder("first/0000-r0"), stores=True)
    shutil.copytree(trained_template, storage.path)
    return storage


@pytest.fixture(scope="session")
def private_ray() -> Iterator[None]:
    """A Ray of two CPUs that only these tests know; started once, ended when all are done."""
    import ray

    from sweeps.cluster.background_run import is_inside_ray
    from sweeps.cluster.connection import silence_ray, worker_environment

    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as folder:  # Ray's sockets need a short path
        silence_ray()
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            object_store_memory=100 * 2**20,
            runtime_env=worker_environment({}),
            log_to_driver=False,
            _temp_dir=folder,
            # Other processes on this machine must not get a worker killed in the middle of a test.
            _system_config={"memory_monitor_refresh_ms": 0},
        )
        yield
        deadline = time.monotonic() + 60
        while is_inside_ray() and time.monotonic() < deadline:  # a thread of a sweep would crash this process
            time.sleep(0.1)
        ray.shutdown()
