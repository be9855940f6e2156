"""A plan over a tiny space, and one private Ray for all tests that need one."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mtlib.config import TrialConfig
from search_spaces.space import SearchSpace
from sweeps.options import SweepPlan

MakePlan = Callable[..., SweepPlan]


@pytest.fixture
def make_plan(tmp_path: Path, tiny_config: TrialConfig) -> MakePlan:
    """Builds a plan for a grid over `smart.weight`; any field of the plan or the space may be given."""

    def make(**changes: Any) -> SweepPlan:
        base = changes.pop("base", tiny_config)
        space: dict[str, Any] = {
            "grid": {"smart.weight": (0.0, 0.3, 1.0)},
            "ranges": {},
            "conditions": {},
            "metric": "overall",
        }
        space |= {name: changes.pop(name) for name in list(changes) if name in space}
        folder = tmp_path / changes.get("name", "sweep")
        folder.mkdir()
        settings: dict[str, Any] = {
            "name": "sweep",
            "folder": folder,
            "space": SearchSpace(name="tiny", question="Does it run?", base=base, **space),
            "base": base,
            "search": "grid",
            "num_trials": None,
            "replicates": 1,
            "scheduler": "none",
            "seed": 0,
            "num_workers": 1,
            "cpus_per_worker": 1,
            "gpus_per_worker": 0.0,
            "concurrent": None,
            "address": None,
            "data_folder": tmp_path,
            "cache_folder": tmp_path / "cache",
        }
        return SweepPlan(**{**settings, **changes})

    return make


@pytest.fixture(scope="session")
def private_ray() -> Iterator[None]:
    """A Ray of two CPUs that only these tests know; started once, ended when all are done."""
    import ray

    from sweeps.cluster import be_quiet, worker_environment

    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as folder:  # Ray's sockets need a short path
        be_quiet()
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            object_store_memory=100 * 2**20,
            runtime_env=worker_environment({}),
            log_to_driver=False,
            _temp_dir=folder,
            # What else this machine is doing must not cost a worker its life in the middle of a test.
            _system_config={"memory_monitor_refresh_ms": 0},
        )
        yield
        ray.shutdown()
