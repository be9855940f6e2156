"""A Ray cluster on this machine whose nodes are processes that can be killed, and a sweep that runs on it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from sweeps.cluster.connection import free_port
from tests.scripts import ROOT

NOTICED_SOONER = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "4",
    "RAY_memory_monitor_refresh_ms": "0",
}
"""Ray's head declares a silent node dead after 2 s instead of 15."""
LONGEST = 600
IN_OWN_MOUNTS = ("unshare", "--mount")
"""Runs a command with file systems of its own, which needs the rights of root."""


@dataclass(kw_only=True)
class Nodes:
    """A cluster: a head, and nodes that can be added and killed."""

    folder: Path
    environment: dict[str, str]
    port: int
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self, name: str, num_cpus: int, *arguments: str, hidden: Path | None = None) -> None:
        """Starts a node and waits until it is up; `hidden` is a folder that is another, empty one there."""
        ports = [f"--{kind}-port={free_port()}" for kind in ("dashboard-agent-listen", "metrics-export")]
        command = ["ray", "start", "--block", f"--num-cpus={num_cpus}", f"--temp-dir={self.folder}", *ports, *arguments]
        if hidden is not None:
            command = [*IN_OWN_MOUNTS, "sh", "-c", f'mount -t tmpfs none "{hidden}" && exec "$@"', "sh", *command]
        path = self.folder / f"{name}.txt"
        with path.open("wb") as log:
            self.processes[name] = process = subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        wait_for(lambda: "Ray runtime started" in path.read_text() or process.poll() is not None, f"node {name}")
        assert process.poll() is None, path.read_text()

    def add(self, name: str, num_cpus: int, *, hidden: Path | None = None) -> None:
        """Adds a node."""
        self.start(name, num_cpus, f"--address={self.address}", hidden=hidden)

    def kill(self, name: str) -> None:
        """Kills a node's raylet with -9, as a power loss would; its workers die with it."""
        (raylet,) = [pid for pid in session_of(self.processes[name].pid) if "raylet/raylet" in command_of(pid)]
        os.kill(raylet, signal.SIGKILL)


def session_of(pid: int) -> list[int]:
    """Processes of the session that `pid` leads."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            if int(path.read_text().rpartition(")")[2].split()[3]) == pid:
                found.append(int(path.parent.name))
    return found


def command_of(pid: int) -> str:
    """The command line of a process up to its options."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").split(" --")[0]
    return ""


def wait_for(holds: Callable[[], bool], what: str, seconds: float = LONGEST) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.2)


@contextmanager
def open_nodes(home: Path, head_cpus: int) -> Iterator[Nodes]:
    """A cluster with a head of `head_cpus` CPUs; it ends with the context."""
    with TemporaryDirectory(prefix="n", dir="/tmp") as folder:  # Ray's sockets need a short path
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        environment |= {"HOME": str(home), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        nodes = Nodes(folder=Path(folder), environment={**environment, **NOTICED_SOONER}, port=free_port())
        client = f"--ray-client-server-port={free_port()}"
        try:
            nodes.start("head", head_cpus, "--head", f"--port={nodes.port}", "--include-dashboard=false", client)
            yield nodes
        finally:
            for process in nodes.processes.values():
                for pid in session_of(process.pid):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                process.wait(60)


@dataclass(kw_only=True)
class Run:
    """A running sweep command."""

    process: "subprocess.Popen[str]"
    log: Path

    def has_line(self, pattern: str) -> bool:
        """Whether some line of its output matches a pattern."""
        return re.search(pattern, self.log.read_text()) is not None

    def wait_until(self, pattern: str) -> None:
        """Waits for a line."""
        wait_for(lambda: self.has_line(pattern) or self.process.poll() is not None, pattern)
        assert self.has_line(pattern), self.log.read_text()


def start_command(arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> Run:
    """Starts `sweeps/run.py` in a process group of its own, with a new log in a folder."""
    log = folder / f"log{len(list(folder.glob('log*.txt')))}.txt"
    with log.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, "sweeps/run.py", *arguments],
            cwd=ROOT,
            env=environment,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
    return Run(process=process, log=log)


def start_sweep(nodes: Nodes, storage: Path, *arguments: str) -> Run:
    """Starts `sweeps/run.py` on a cluster."""
    places = ["--address", nodes.address, "--storage", str(storage)]
    return start_command([*places, *arguments], nodes.environment, storage)
