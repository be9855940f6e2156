"""Kills the processes of the Ray that this process has started; some would outlive it.

Ray's processes end with the driver, but not all that have begun their exit by then: an asynchronous actor, such as Ray
Train's controller, may block on the GIL for good (Ray 2.60), and the agents of a killed raylet stay for two minutes.
"""

import contextlib
from collections.abc import Iterable

import psutil

from sweeps.cluster.ray_internals import own_process_ids


def ray_processes() -> list[psutil.Process]:
    """Processes of the Ray that this process has started, each before its descendants; none if it has not."""
    found: list[psutil.Process] = []
    for pid in own_process_ids():
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            found.append(process)
            found += process.children(recursive=True)
    return found


def kill_processes(processes: Iterable[psutil.Process]) -> None:
    """Kills those that still run."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def kill_ray() -> None:
    """Kills the `ray_processes`."""
    kill_processes(ray_processes())
