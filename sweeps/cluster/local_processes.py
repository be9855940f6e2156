"""Kills the workers of the Ray that this process has started; some would outlive it.

They end with the driver, except one that has begun its exit by then. There an asynchronous actor, such as Ray Train's
controller, may block on the GIL for good (Ray 2.60), and no raylet is left to kill it.
"""

import contextlib
from collections.abc import Iterable

import psutil

from sweeps.cluster.ray_internals import AGENT_TITLES, own_raylet


def local_workers() -> list[psutil.Process]:
    """Worker processes of the raylet that this process has started, and their descendants; none if it has not."""
    raylet = own_raylet()
    found: list[psutil.Process] = []
    if raylet is not None:
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(raylet).children():
                found += [] if is_agent(child) else [child, *descendants(child)]
    return found


def is_agent(process: psutil.Process) -> bool:
    """Whether a child of the raylet is one of its agents, without which it ends itself."""
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline()).strip() in AGENT_TITLES
    return False


def descendants(process: psutil.Process) -> list[psutil.Process]:
    """All processes below one; none if it has ended or may not be read."""
    with contextlib.suppress(psutil.Error):
        found: list[psutil.Process] = process.children(recursive=True)
        return found
    return []


def kill_processes(processes: Iterable[psutil.Process]) -> None:
    """Kills those that still run."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def kill_local_workers() -> None:
    """Kills the `local_workers`."""
    kill_processes(local_workers())
