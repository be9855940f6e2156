"""Connects a sweep to Ray: starts Ray on this machine or joins a cluster, silences it, and disconnects at the end."""

import atexit
import contextlib
import logging
import os
import secrets
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import ray

from mtlib.runtime.errors import first_line, require
from results.records.files import PROJECT_FOLDER
from sweeps.cluster.garbage_collection import collect_rarely
from sweeps.cluster.local_processes import kill_processes, kill_ray, ray_processes
from sweeps.cluster.ray_internals import (
    DRIVER_VARIABLES,
    GCS_PORT_VARIABLE,
    LOCAL_VARIABLES,
    WORKER_VARIABLES,
    silence_process_messages,
    skip_shutdown_at_exit,
    use_saved_token,
    without_monitors,
)

THREAD_PREFIX = "sweep: "
"""Prefix of the names of threads that call Ray."""
OBJECT_STORE_BYTES = 200 * 2**20
"""Shared memory of a local Ray. Sweeps pass small messages only; by default Ray takes a third of the memory."""
SOCKET_BYTES = 107
"""Length of the path of a socket, at most."""
SOCKET_BELOW = "/ray/session_2026-12-31_23-59-59_999999_4194304/sockets/plasma_store"
"""Path of the longest socket of a local Ray, below its folder of temporary files."""
START_ATTEMPTS = 3
START_TIMEOUT = "timed out during startup"
"""Part of Ray's error message when its processes did not start in time."""
SETUP_HOOK = f"{collect_rarely.__module__}.{collect_rarely.__name__}"
"""Called in each of the sweep's processes when it starts."""
TORCH_VARIABLES = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128"}
"""Read by torch in the workers. In bf16 on a CPU each shape of a product has a kernel of half a megabyte, of which
torch keeps 1,024 by default; MiniLM's steps took the same time with 64, and 350 MB less."""
CONNECT_SECONDS = 5.0
"""Time limit of a TCP connection to a cluster."""


@contextlib.contextmanager
def connected_to_ray(address: str | None) -> Iterator[str | None]:
    """Starts Ray on this machine, or connects to a cluster, and disconnects at the end; yields a cluster's dashboard.

    Shutting Ray down while a thread is inside it ends the process with another exit code. Ray is then left to end with
    its driver. What is left of a Ray that was started here is killed when it has been shut down or the process ends.

    Args:
        address: of a cluster, e.g. `auto`; None for this machine alone. Ignored if Ray is connected already, which then
            stays connected.

    Raises:
        ValueError: there is no cluster at the address.
    """
    silence_ray()
    if ray.is_initialized():
        yield None
        return
    dashboard = None
    if address is None:
        start_local()
    else:
        dashboard = connect(address)
    try:
        yield dashboard
    finally:
        if is_inside_ray():
            skip_shutdown_at_exit()
            atexit.register(kill_ray)
        else:
            shut_down()


def shut_down() -> None:
    """Disconnects from Ray, and ends the one that this process has started."""
    processes = ray_processes()
    try:
        ray.shutdown()
    finally:
        kill_processes(processes)


def is_inside_ray() -> bool:
    """Whether the thread of a `BackgroundRun` still runs."""
    return any(thread.name.startswith(THREAD_PREFIX) for thread in threading.enumerate())


def end_process(code: int) -> NoReturn:
    """Ends the process with this exit code, also if a thread inside Ray would turn it into a segmentation fault."""
    if is_inside_ray():
        sys.stdout.flush()
        sys.stderr.flush()
        kill_ray()
        os._exit(code)
    sys.exit(code)


class BackgroundRun:
    """A run of Ray Train or Ray Tune in a thread: in the main thread these would take over Ctrl-C."""

    def __init__(self, fit: Callable[[], object], name: str) -> None:
        self.name = name
        self.error: str | None = None
        """Why the run itself failed."""
        self._fit = fit
        self._thread = threading.Thread(target=self._run, name=f"{THREAD_PREFIX}{name}", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether the run has ended and its resources are free."""
        return not self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        """Waits for the end of the run, at most so long."""
        self._thread.join(max(0.0, seconds))

    def _run(self) -> None:
        try:
            self._fit()
        except Exception as error:  # ends the run, and is left to the driver
            self.error = f"{type(error).__name__}: {first_line(error)}"


def silence_ray() -> None:
    """Keeps Ray's own messages off the terminal; environment variables that the user has set stay."""
    for name, value in DRIVER_VARIABLES.items():
        os.environ.setdefault(name, value)
    warnings.filterwarnings("ignore", module=r"ray\.")
    silence_process_messages()
    for name in ("ray", "ray.tune", "ray.train", "ray.data"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def start_local() -> None:
    """Starts Ray on this machine, without its dashboard (see `sweeps.cluster.dashboard`).

    Ray waits 30 s for its own processes, too few where many others run: then it is started again.

    Raises:
        ValueError: it did not start `START_ATTEMPTS` times, or cannot start here.
    """
    use_short_folder()
    use_own_token()
    reason = ""
    for _ in range(START_ATTEMPTS):
        try:
            start_local_once()
            return
        except Exception as error:  # Ray raises nothing more specific
            ray.shutdown()
            if START_TIMEOUT not in str(error):
                found = f"{type(error).__name__}: {first_line(error)}"
                raise ValueError(f"Ray must be able to start on this machine, got {found}") from error
            reason = first_line(error)
    raise ValueError(f"Ray must start within 30 s on this machine, got {START_ATTEMPTS} timeouts: {reason}")


def use_short_folder() -> None:
    """Lets a local Ray keep its files in /tmp where TMPDIR is too long for the sockets below it.

    Raises:
        ValueError: RAY_TMPDIR, which is for Ray alone, is too long.
    """
    longest = SOCKET_BYTES - len(SOCKET_BELOW)
    own, usual = (os.environ.get(name, "") for name in ("RAY_TMPDIR", "TMPDIR"))
    rule = f"RAY_TMPDIR must have at most {longest} letters, as Ray makes sockets below it"
    require(len(os.fsencode(own)) <= longest, rule, own)
    if not own and len(os.fsencode(usual)) > longest:
        os.environ["RAY_TMPDIR"] = "/tmp"


def use_own_token() -> None:
    """Gives a local Ray a token where the home folder, in which it would write one, cannot be written."""
    folder = Path("~/.ray").expanduser()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK) and not (folder / "auth_token").exists():
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex())


def start_local_once() -> None:
    """Starts Ray, with a port of its own; raises Exception where its processes take too long."""
    port = free_port()
    host = ray.util.get_node_ip_address()
    os.environ[GCS_PORT_VARIABLE] = str(port)
    for name, value in LOCAL_VARIABLES.items():
        os.environ.setdefault(name, value)
    try:
        with ignoring_interrupts(), without_monitors():
            # Without RAY_ADDRESS workers may connect to another Ray of this machine.
            ray.init(
                address="local",
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                runtime_env=worker_environment({"RAY_ADDRESS": f"{host}:{port}"}),
                log_to_driver=False,
                logging_level=logging.CRITICAL + 1,
            )
    finally:
        del os.environ[GCS_PORT_VARIABLE]


@contextlib.contextmanager
def ignoring_interrupts() -> Iterator[None]:
    """Lets processes that are started in this context ignore Ctrl-C, which a terminal sends to all of them.

    Ray's other processes block it; the one that would serve a dashboard would die.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def free_port() -> int:
    """A port that no process listens on."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def silent_stderr() -> Iterator[None]:
    """Discards what this process, Ray's C++ code included, writes on standard error while the context lasts."""
    sys.stderr.flush()
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    os.close(nothing)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def connect(address: str) -> str | None:
    """Connects to a running cluster and returns the URL of its dashboard, if it has one."""
    try:
        host, _, port = address.rpartition(":")
        if port.isdigit():  # Ray would retry for minutes and print each attempt
            socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
        if host in ("localhost", "127.0.0.1", ray.util.get_node_ip_address()):
            use_saved_token()  # a local Ray leaves one in ~/.ray, which `ray start` on this machine then requires
        with silent_stderr():  # where there is no cluster, it prints a line for each attempt
            context = ray.init(
                address=address,
                runtime_env=worker_environment({}),
                log_to_driver=False,
                logging_level=logging.CRITICAL + 1,
            )
        return f"http://{context.dashboard_url}" if context.dashboard_url else None
    except (OSError, ValueError) as error:
        hint = "if it asks for a token, set RAY_AUTH_MODE=token"
        is_variable = address == os.environ.get("RAY_ADDRESS")
        rule = f"{'RAY_ADDRESS' if is_variable else '--address'} must be a running Ray cluster"
        raise ValueError(f"{rule}, got {address}: {first_line(error)}; {hint}") from error


def worker_environment(more: dict[str, str]) -> dict[str, Any]:
    """Ray's runtime environment for all processes of the sweep, with `more` variables."""
    path = os.pathsep.join(filter(None, (str(PROJECT_FOLDER), os.environ.get("PYTHONPATH"))))
    settings = {name: os.environ.get(name, value) for name, value in {**WORKER_VARIABLES, **TORCH_VARIABLES}.items()}
    parallelism = os.environ.get("TOKENIZERS_PARALLELISM", "false")
    variables = {**settings, "TOKENIZERS_PARALLELISM": parallelism, "PYTHONPATH": path, **more}
    return {"env_vars": variables, "worker_process_setup_hook": SETUP_HOOK}
