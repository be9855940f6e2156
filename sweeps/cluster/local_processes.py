"""Kills the workers of the Ray that a sweep has started on this machine; some would stay for good.

They end with the driver, except one that has begun its exit by then. There an asynchronous actor, such as Ray Train's
controller, may wait forever for Python's lock (Ray 2.60), and no raylet is left to kill it.
"""

import contextlib
from collections.abc import Iterable

import psutil

RAYLET = "raylet"
"""Name of the process that starts workers, a child of the driver."""
AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""Names of the raylet's other children, without which it ends itself."""


def local_workers() -> list[psutil.Process]:
    """Processes of workers and actors below this process, and theirs; none if it has not started Ray."""
    found: list[psutil.Process] = []
    for raylet in with_names(psutil.Process().children(), RAYLET):
        with contextlib.suppress(psutil.NoSuchProcess):
            below = raylet.children(recursive=True)
            agents = with_names(below, *AGENTS)
            found += [process for process in below if process not in agents]
    return found


def with_names(processes: Iterable[psutil.Process], *names: str) -> list[psutil.Process]:
    """Those that run and have one of the names."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if process.name() in names:
                found.append(process)
    return found


def kill_processes(processes: Iterable[psutil.Process]) -> None:
    """Kills those that still run."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
