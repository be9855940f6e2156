"""The parts of Ray that a sweep uses and that may change without notice: private names, variables, conventions.

Checked against Ray 2.60; `pyproject.toml` allows no later one. When that bound moves, the tests of this file show
what has changed. No other file of `sweeps/` imports a private module of Ray.
"""

import atexit
import contextlib
import re
from collections.abc import Iterator
from unittest import mock

import ray
from ray._private import ray_constants, ray_logging, state, worker
from ray._private.authentication.authentication_token_setup import maybe_enable_token_auth_if_token_available
from ray._private.node import Node
from ray._raylet import PlacementGroupID
from ray.util.placement_group import PlacementGroup

DRIVER_VARIABLES = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # the sweep writes its own records
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000",  # Tune's snapshots of the experiment are not used
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # relative paths keep their meaning
}
"""Environment variables that Ray reads in the driver. A Ray that no longer knows one ignores it without an error."""

LOCAL_VARIABLES = {
    "RAY_enable_worker_prestart": "0",  # no process could take one over: each has an environment of its own
    "RAY_prestart_worker_first_driver": "0",
    "RAY_task_events_report_interval_ms": "0",
}
"""Environment variables of the Ray that a sweep starts on this machine, whose dashboard starts late."""

WORKER_VARIABLES = {
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "1000000",  # on a busy cluster a lane waits for resources
    "TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S": "2",  # 30 by default; a worker stuck in a collective is killed anyway
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # saves a process; a lost node is noticed without it
}
"""Environment variables that Ray Train reads in the workers and controllers of lanes."""

GCS_PORT_VARIABLE = "RAY_GCS_SERVER_PORT"
"""Port of the cluster that `ray.init(address="local")` starts. `ray.init` has no argument for it, only `ray start`."""

TUNE_WAIT_SECONDS = 0.5
TUNE_WAIT_USUALLY = 0.1
"""How long Tune waits for an event, which has no variable or argument."""

HEAD_NODE_RESOURCES = {"node:__internal_head__": 0.001}
"""A negligible share of the head node's marker resource: `tune.with_resources` rejects an empty request, and takes no
scheduling strategy that names a node."""


def available_resources_by_node() -> dict[str, dict[str, float]]:
    """Free resources of each node, by its id; the public `ray.available_resources` gives their sum over the cluster."""
    found: dict[str, dict[str, float]] = state.available_resources_per_node()
    return found


def dead_jobs() -> set[str]:
    """Ids of jobs whose driver has ended; the public `ray.util.state.list_jobs` needs a dashboard to answer."""
    return {job["JobID"] for job in state.jobs() if job["IsDead"]}


def job_of_group(group: str) -> str:
    """The job that made a placement group: its id, in hexadecimal, ends with the job's. No public table has it."""
    return group[-8:]


def group_of_id(group: str) -> PlacementGroup:
    """A placement group from its id in hexadecimal; the public `get_placement_group` finds only those with a name."""
    return PlacementGroup(PlacementGroupID(bytes.fromhex(group)))


def silence_process_messages() -> None:
    """Keeps what Ray prints about deaths of its processes off the terminal.

    The public variable, RAY_DEDUP_LOGS_SKIP_REGEX, is read once, when Ray is imported.
    """
    ray_logging.stdout_deduplicator.skip_re = re.compile("")


def use_saved_token() -> None:
    """Lets this process use the token in `~/.ray` if there is one and RAY_AUTH_MODE is not set.

    `ray start` does so, and asks for that token; `ray.init(address=...)` does not.
    """
    maybe_enable_token_auth_if_token_available(warn_if_disabled=False)


@contextlib.contextmanager
def without_monitors() -> Iterator[None]:
    """Lets `ray.init` start neither monitors of an autoscaler and of logs nor the dashboard's server.

    It has no arguments for that. A single machine has nothing to scale, its logs are not sent to the driver, and
    `start_dashboard` is for later.
    """
    with mock.patch.multiple(Node, start_monitor=skip, start_log_monitor=skip, start_api_server=skip):
        yield


def skip(_node: Node, **_arguments: object) -> None:
    """In place of a method of a node that starts a process."""


def start_dashboard() -> str | None:
    """Starts the dashboard of the Ray that this process has started `without_monitors`; its URL, if it did start."""
    node = worker._global_node
    if node is None or ray_constants.PROCESS_TYPE_DASHBOARD in node.all_processes:
        return None
    node.start_api_server(include_dashboard=True, raise_on_failure=False)
    return f"http://{node.webui_url}" if node.webui_url else None


def own_process_ids() -> list[int]:
    """Of the raylet and the other servers that this process has started; none if it has joined a cluster."""
    processes = getattr(worker._global_node, "all_processes", {})  # a joined node has none
    return [own.process.pid for started in processes.values() for own in started]


@contextlib.contextmanager
def patient_tune() -> Iterator[None]:
    """Lets Tune wait for `TUNE_WAIT_SECONDS` before it looks around; an event of a trial still wakes it at once."""
    from ray.air.execution._internal.actor_manager import RayActorManager  # here: it takes long to import

    wait = RayActorManager.next

    def wait_longer(manager: RayActorManager, timeout: float | None = None) -> bool:
        is_usual = timeout == TUNE_WAIT_USUALLY
        return bool(wait(manager, TUNE_WAIT_SECONDS if is_usual else timeout))

    with mock.patch.object(RayActorManager, "next", wait_longer):
        yield


def skip_shutdown_at_exit() -> None:
    """Ends the process without `ray.shutdown`, which Ray registers when it is imported and has no option against."""
    atexit.unregister(ray.shutdown)
