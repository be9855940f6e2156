"""Workers that hang in their own exit do not outlive the driver; what is not a worker is spared."""

import contextlib
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from ray._private import worker as ray_worker

from results.records.files import PROJECT_FOLDER
from sweeps.cluster import local_processes
from sweeps.cluster.local_processes import kill_processes, local_workers
from sweeps.cluster.ray_internals import AGENT_TITLES, own_raylet

DRIVER = """
import ctypes, os, sys, time
import ray
from sweeps.cluster.connection import BackgroundRun, connected_to_ray, end_process
from sweeps.cluster.local_processes import local_workers

class Hanging:
    def hang_at_exit(self, path):
        libc = ctypes.CDLL(None)
        mutex = ctypes.create_string_buffer(128)
        name = ctypes.create_string_buffer(path.encode())
        libc.pthread_mutex_lock(mutex)
        at_exit = getattr(libc, "__cxa_atexit")  # the last one that is registered is called first
        at_exit(libc.pthread_mutex_lock, mutex, None)  # does not return
        at_exit(libc.unlink, name, None)
        ctypes.kept = mutex, name
        return os.getpid()

with connected_to_ray(None):
    actor = ray.remote(num_cpus=0)(Hanging).remote()
    pid = ray.get(actor.hang_at_exit.remote(sys.argv[1]))
    del actor  # it begins to exit
    while os.path.exists(sys.argv[1]):
        time.sleep(0.05)
    print(pid, *(process.pid for process in local_workers()))
    BackgroundRun(lambda: time.sleep(1000), "lane0")  # so Ray is not shut down
end_process(3)
"""


@pytest.mark.slow
@pytest.mark.ray
def test_worker_that_hangs_at_its_exit_is_killed_with_the_driver(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    alive.touch()
    command = [sys.executable, "-c", DRIVER, str(alive)]
    done = subprocess.run(command, cwd=PROJECT_FOLDER, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 3, done.stderr
    hanging, *workers = map(int, done.stdout.split())
    assert hanging in workers
    left = []
    for pid in workers:
        with contextlib.suppress(psutil.NoSuchProcess):
            left.append(psutil.Process(pid))
    _, left = psutil.wait_procs(left, timeout=10)
    kill_processes(left)
    assert not left


class Stub:
    """A process with others below it; `error` is raised by all that it is asked."""

    def __init__(self, title: str, *below: "Stub", error: Exception | None = None) -> None:
        self.title, self.below, self.error, self.is_killed = title, below, error, False

    def cmdline(self) -> list[str]:
        self.fail()
        return [self.title, "", ""]

    def children(self, *, recursive: bool = False) -> list["Stub"]:
        self.fail()
        further = [one for child in self.below for one in child.children(recursive=True)] if recursive else []
        return [*self.below, *further]

    def kill(self) -> None:
        self.fail()
        self.is_killed = True

    def fail(self) -> None:
        if self.error:
            raise self.error


def workers_below(raylet: Stub, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The workers of a raylet."""
    monkeypatch.setattr(local_processes, "own_raylet", lambda: 7)
    monkeypatch.setattr(psutil, "Process", {7: raylet}.__getitem__)
    return local_workers()


def test_workers_and_what_they_started_are_found_but_no_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, starting = Stub("ray::TrainController.run", Stub("python", Stub("sh"))), Stub("python")
    agents = [Stub(title, Stub("pip")) for title in AGENT_TITLES]
    assert len(agents) == 2
    found = workers_below(Stub("raylet", *agents, worker, starting), monkeypatch)
    assert [process.title for process in found] == ["ray::TrainController.run", "python", "sh", "python"]


def test_processes_that_end_or_may_not_be_read_are_no_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    ended, foreign, last = Stub("a", error=psutil.NoSuchProcess(1)), Stub("b", error=psutil.AccessDenied(2)), Stub("c")
    found = workers_below(Stub("raylet", ended, foreign, last), monkeypatch)
    assert found == [ended, foreign, last]
    kill_processes(found)
    assert last.is_killed
    assert workers_below(Stub("raylet", error=psutil.NoSuchProcess(7)), monkeypatch) == []


def test_process_that_joined_a_cluster_has_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    for node in (None, SimpleNamespace(all_processes={}), SimpleNamespace()):
        monkeypatch.setattr(ray_worker, "_global_node", node)
        assert own_raylet() is None
        assert local_workers() == []


@pytest.mark.ray
@pytest.mark.usefixtures("private_ray")
def test_raylet_is_that_of_the_started_ray() -> None:
    raylet = own_raylet()
    assert raylet is not None
    assert psutil.Process(raylet).name() == "raylet"
    assert psutil.Process(raylet).ppid() == psutil.Process().pid
