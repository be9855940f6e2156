"""Workers that hang in their own exit do not outlive the driver."""

import subprocess
import sys

import psutil
import pytest

from results.records.files import PROJECT_FOLDER
from sweeps.cluster.local_processes import kill_processes, local_workers

DRIVER = """
import ctypes, os, time
import ray
from sweeps.cluster.connection import BackgroundRun, connected_to_ray, end_process
from sweeps.cluster.local_processes import local_workers

class Hanging:
    def hang_at_exit(self):
        libc = ctypes.CDLL(None)
        mutex = ctypes.mutex = ctypes.create_string_buffer(128)
        libc.pthread_mutex_lock(mutex)
        getattr(libc, "__cxa_atexit")(libc.pthread_mutex_lock, mutex, None)  # before the functions registered earlier
        return os.getpid()

with connected_to_ray(None):
    actor = ray.remote(num_cpus=0)(Hanging).remote()
    pid = ray.get(actor.hang_at_exit.remote())
    del actor  # it begins to exit
    time.sleep(3)
    print(pid, *(process.pid for process in local_workers()))
    BackgroundRun(lambda: time.sleep(1000), "lane0")  # so Ray is not shut down
end_process(3)
"""


@pytest.mark.slow
@pytest.mark.ray
def test_worker_that_hangs_at_its_exit_is_killed_with_the_driver() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DRIVER], cwd=PROJECT_FOLDER, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 3, done.stderr
    hanging, *workers = map(int, done.stdout.split())
    assert hanging in workers
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in workers if psutil.pid_exists(pid)], timeout=10)
    assert not alive


def test_other_children_are_no_workers_and_ended_processes_are_left() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        process = psutil.Process(other.pid)
        assert process not in local_workers()
        kill_processes([process])
        assert other.wait(10) == -9
    kill_processes([process])
