"""Canaries: each fails when the installed Ray no longer has something that `ray_internals` relies on."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from inspect import signature
from pathlib import Path

import psutil
import pytest
import ray
from ray._common.constants import HEAD_NODE_RESOURCE_NAME
from ray._private import ray_constants, ray_logging, state
from ray._private.authentication import authentication_token_setup
from ray._private.node import Node
from ray._raylet import JobID, PlacementGroupID
from ray.air.execution import PlacementGroupResourceManager
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.train import FailureConfig, UserCallback
from ray.tune.schedulers import ASHAScheduler, TrialScheduler

from results.records.files import PROJECT_FOLDER
from sweeps.cluster import ray_internals, train_internals
from sweeps.cluster.ray_internals import (
    DRIVER_VARIABLES,
    GCS_PORT_VARIABLE,
    HEAD_NODE_RESOURCES,
    LOCAL_VARIABLES,
    TUNE_WAIT_SECONDS,
    TUNE_WAIT_USUALLY,
    WORKER_VARIABLES,
    available_resources_by_node,
    dead_jobs,
    group_of_id,
    job_of_group,
    own_process_ids,
    patient_tune,
    silence_process_messages,
    use_saved_token,
    without_monitors,
)

READERS = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "tune/utils/callback.py",
    "TUNE_GLOBAL_CHECKPOINT_S": "tune/execution/tune_controller.py",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "tune/execution/tune_controller.py",
    "RAY_AIR_NEW_OUTPUT": "tune/experimental/output.py",
    "RAY_CHDIR_TO_TRIAL_DIR": "train/constants.py",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "train/v2/_internal/constants.py",
    "TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S": "train/constants.py",
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "train/v2/_internal/constants.py",
    GCS_PORT_VARIABLE: "_private/ray_constants.py",
}
"""The file of Ray that reads each variable."""


@pytest.mark.parametrize("name", [*DRIVER_VARIABLES, *WORKER_VARIABLES, GCS_PORT_VARIABLE])
def test_ray_reads_the_variable(name: str) -> None:
    path = Path(ray.__file__).parent / READERS[name]
    assert f'"{name}"' in path.read_text(), f"{path} no longer names {name}: find what has taken its place"


@pytest.mark.parametrize("name", LOCAL_VARIABLES)
def test_raylet_reads_the_variable(name: str) -> None:
    raylet = Path(ray.__file__).parent / "core" / "src" / "ray" / "raylet" / "raylet"
    assert name.encode() in raylet.read_bytes(), f"Ray no longer reads {name}: find what has taken its place"


def test_monitors_are_left_out_only_while_ray_starts() -> None:
    monitors = Node.start_monitor, Node.start_log_monitor
    source = (Path(ray.__file__).parent / "_private" / "node.py").read_text()
    assert all(f"self.{start.__name__}()" in source for start in monitors)
    with without_monitors():
        assert Node.start_monitor(None) is Node.start_log_monitor(None) is None
        assert Node.start_api_server(None, include_dashboard=False, raise_on_failure=True) is None
    assert (Node.start_monitor, Node.start_log_monitor) == monitors


def test_tune_waits_longer_only_where_it_waits_for_events(monkeypatch: pytest.MonkeyPatch) -> None:
    source = (Path(ray.__file__).parent / "tune" / "execution" / "tune_controller.py").read_text()
    assert f"self._actor_manager.next(timeout={TUNE_WAIT_USUALLY})" in source
    waited: list[float | None] = []
    monkeypatch.setattr(RayActorManager, "next", lambda _manager, timeout=None: waited.append(timeout))
    manager = RayActorManager(PlacementGroupResourceManager())
    with patient_tune():
        manager.next(timeout=TUNE_WAIT_USUALLY)
        manager.next(timeout=1)
    manager.next(timeout=TUNE_WAIT_USUALLY)
    assert waited == [TUNE_WAIT_SECONDS, 1, TUNE_WAIT_USUALLY]


def test_port_of_a_local_cluster_comes_from_the_variable() -> None:
    source = (Path(ray.__file__).parent / "_private" / "node.py").read_text()
    assert ray_constants.GCS_PORT_ENVIRONMENT_VARIABLE == GCS_PORT_VARIABLE
    assert "os.getenv(ray_constants.GCS_PORT_ENVIRONMENT_VARIABLE)" in source


def test_head_node_has_its_marker_resource() -> None:
    assert list(HEAD_NODE_RESOURCES) == [HEAD_NODE_RESOURCE_NAME]


@pytest.mark.parametrize("function", [state.available_resources_per_node, state.jobs])
def test_cluster_state_needs_no_arguments(function: object) -> None:
    assert callable(function)
    assert not signature(function).parameters


def test_placement_group_id_ends_with_its_jobs() -> None:
    job = JobID.from_int(3)
    group = PlacementGroupID.of(job).hex()
    assert job_of_group(group) == job.hex()
    assert group_of_id(group).id.hex() == group


def test_pattern_skips_messages_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    deduplicator = ray_logging.LogDeduplicator(5, None, None)
    batch = {"ip": "127.0.0.1", "pid": 1, "lines": ["a worker died"]}
    assert deduplicator.deduplicate(batch)[0]["lines"] == ["a worker died"]
    assert type(ray_logging.stdout_deduplicator) is ray_logging.LogDeduplicator
    monkeypatch.setattr(ray_logging, "stdout_deduplicator", deduplicator)
    silence_process_messages()
    assert deduplicator.deduplicate(batch | {"lines": ["another"]})[0]["lines"] == []


def test_saved_token_is_used_only_where_no_mode_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    enabled: list[bool] = []
    monkeypatch.setattr(authentication_token_setup, "_enable_token_auth", lambda: enabled.append(True))
    monkeypatch.setenv(authentication_token_setup.AUTH_MODE_ENV_VAR, "disabled")
    use_saved_token()
    assert (authentication_token_setup.AUTH_MODE_ENV_VAR, enabled) == ("RAY_AUTH_MODE", [])


def test_ray_registers_the_shutdown_that_is_unregistered() -> None:
    program = """
import atexit
found, register = [], atexit.register
atexit.register = lambda function, *args, **kwargs: (found.append(function), register(function, *args, **kwargs))[0]
import ray
print(ray.shutdown in found)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "True\n", "ray.shutdown is not what runs at exit: skip_shutdown_at_exit does nothing"


def test_ray_train_is_its_second_version() -> None:
    assert "controller_failure_limit" in signature(FailureConfig).parameters
    assert "worker_exceptions" in signature(UserCallback.after_exception).parameters


def test_asha_needs_only_the_id_of_a_trial() -> None:
    class Known:
        trial_id = "0000-r0"

    scheduler = ASHAScheduler(time_attr="epoch", metric="best", mode="max", max_t=10**6)
    scheduler.on_trial_add(None, Known())
    assert scheduler.on_trial_result(None, Known(), {"epoch": 1, "best": 0.5}) == TrialScheduler.CONTINUE


@pytest.mark.ray
@pytest.mark.usefixtures("private_ray")
def test_running_cluster_answers() -> None:
    here = ray.get_runtime_context()
    assert available_resources_by_node()[here.get_node_id()]["CPU"] <= 2
    assert [job["IsDead"] for job in state.jobs() if job["JobID"] == here.get_job_id()] == [False]
    assert here.get_job_id() not in dead_jobs()
    assert set(HEAD_NODE_RESOURCES) <= set(ray.nodes()[0]["Resources"])


def private_imports(path: Path) -> Iterator[str]:
    """Modules and names that a file imports from Ray and that Ray marks as private."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            names = [ast.unparse(node)] if isinstance(node, ast.Attribute) else []
        yield from (name for name in names if name.startswith("ray.") and "._" in name)


def test_no_other_file_uses_private_names_of_ray() -> None:
    own = {Path(ray_internals.__file__), Path(train_internals.__file__)}
    files = {*(PROJECT_FOLDER / "sweeps").rglob("*.py")}
    found = {path.name: set(private_imports(path)) for path in files - own}
    assert {name: names for name, names in found.items() if names} == {}
    assert all(set(private_imports(path)) for path in own)


@pytest.mark.ray
@pytest.mark.usefixtures("private_ray")
def test_servers_that_ray_has_started_have_ids() -> None:
    found = [psutil.Process(pid) for pid in own_process_ids()]
    assert {"raylet", "gcs_server"} <= {process.name() for process in found}
    assert {process.ppid() for process in found} == {psutil.Process().pid}
