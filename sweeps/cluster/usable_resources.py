"""CPUs and memory that this process may use: in a container, a Slurm job or under `taskset` not all of the machine."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

OWN_CGROUPS = Path("/proc/self/cgroup")
CGROUPS = Path("/sys/fs/cgroup")
LANES_MEMORY = "lanes_memory"
"""A resource of a local Ray: bytes that its lanes may use. Ray itself sees the outermost cgroup's limit alone, and
`ray.init` has no public argument for its own `memory`."""


def usable_cpus() -> int:
    """Returns the CPUs that this process may run on, as far as the quotas of its cgroups allow; at least 1."""
    masked = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [*read_cgroups("cpu", "cpu.max"), *read_cgroups("cpu", "cpu.cfs_quota_us", "cpu.cfs_period_us")]
    return max(1, min([masked, *(quota // period for quota, period in quotas if quota > 0)]))


def usable_memory() -> int:
    """Returns the bytes of memory of this machine, as far as the limits of this process's cgroups allow."""
    limits = [*read_cgroups("memory", "memory.max"), *read_cgroups("memory", "memory.limit_in_bytes")]
    return min([int(psutil.virtual_memory().total), *(limit for (limit,) in limits)])


def read_cgroups(controller: str, *names: str) -> Iterator[list[int]]:
    """Yields the numbers in these files of this process's cgroup, and of each cgroup around it that has a limit."""
    for line in OWN_CGROUPS.read_text().splitlines() if OWN_CGROUPS.exists() else ():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        # Version 1 has a tree for each controller; version 2 has one, which is below `unified` where both are used.
        for root in (CGROUPS / controller,) if controllers else (CGROUPS, CGROUPS / "unified"):
            own = root / path.lstrip("/")  # in a container perhaps its path outside, which is not there
            for folder in (own, *own.parents):
                with suppress(OSError, ValueError):  # no such file, or `max`
                    yield [int(word) for name in names for word in (folder / name).read_text().split()]
