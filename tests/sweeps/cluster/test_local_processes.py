"""Processes of Ray that hang in their own exit do not outlive the driver."""

import contextlib
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from ray._private import worker as ray_worker

from results.records.files import PROJECT_FOLDER
from sweeps.cluster import local_processes
from sweeps.cluster.local_processes import kill_processes, kill_ray, ray_processes
from sweeps.cluster.ray_internals import own_process_ids

DRIVER = """
import ctypes, os, sys, time
import ray
from sweeps.cluster.connection import BackgroundRun, connected_to_ray, end_process
from sweeps.cluster.local_processes import ray_processes

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
    print(pid, *(process.pid for process in ray_processes()))
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
    hanging, *others = map(int, done.stdout.split())
    assert hanging in others
    left = []
    for pid in others:
        with contextlib.suppress(psutil.NoSuchProcess):
            left.append(psutil.Process(pid))
    _, left = psutil.wait_procs(left, timeout=10)
    kill_processes(left)
    assert not left


class Stub:
    """A process; `error` is raised by all that it is asked."""

    def __init__(self, *below: "Stub", error: Exception | None = None) -> None:
        self.below, self.error, self.is_killed = below, error, False

    def children(self, *, recursive: bool) -> tuple["Stub", ...]:
        assert recursive
        self.fail()
        return self.below

    def kill(self) -> None:
        self.fail()
        self.is_killed = True

    def fail(self) -> None:
        if self.error:
            raise self.error


def test_processes_that_end_or_may_not_be_read_are_no_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, last = Stub(), Stub()
    ended, foreign = Stub(error=psutil.NoSuchProcess(2)), Stub(error=psutil.AccessDenied(3))
    raylet = Stub(worker)
    monkeypatch.setattr(local_processes, "own_process_ids", lambda: [1, 2, 3, 4])
    monkeypatch.setattr(psutil, "Process", {1: raylet, 2: ended, 3: foreign, 4: last}.__getitem__)
    assert ray_processes() == [raylet, worker, ended, foreign, last]
    kill_ray()
    assert [process.is_killed for process in (raylet, worker, last)] == [True] * 3


def test_process_that_joined_a_cluster_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for node in (None, SimpleNamespace(all_processes={}), SimpleNamespace()):
        monkeypatch.setattr(ray_worker, "_global_node", node)
        assert own_process_ids() == []
        assert ray_processes() == []
