"""Ray for one sweep: started on this machine or reached at an address, quiet, and ended as it was found."""

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import ray

from mtlib.errors import first_line
from sweeps.cluster.ray_internals import (
    DRIVER_VARIABLES,
    GCS_PORT_VARIABLE,
    WORKER_VARIABLES,
    silence_process_messages,
    skip_shutdown_at_exit,
    use_saved_token,
)

ROOT = Path(__file__).resolve().parents[2]
"""Folder of the four packages, from which Ray's workers import them."""

THREADS = "sweep: "
"""How the names of threads that call Ray begin."""

OBJECT_STORE_BYTES = 200 * 2**20
"""Shared memory of a Ray of our own: sweeps pass small messages only, Ray would take a third of the machine's."""

KNOCK_SECONDS = 5.0
"""How long a cluster may take to answer a connection."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The Ray that a sweep runs on."""

    is_own: bool
    """Whether it was started for the sweep and ends with it."""
    is_connected_here: bool
    """Whether the connection was made for the sweep and ends with it."""
    dashboard: str | None
    """Address of its dashboard."""


def open_ray(address: str | None) -> Cluster:
    """Starts Ray on this machine, or connects to a cluster.

    Args:
        address: a cluster, e.g. `auto`; None for this machine alone. Ignored where Ray is connected already.

    Raises:
        ValueError: there is no cluster at the address.
    """
    silence_ray()
    if ray.is_initialized():
        return Cluster(is_own=False, is_connected_here=False, dashboard=None)
    if address is None or address == "local":
        url, is_own = start_local(), True
    else:
        url, is_own = connect(address), False
    return Cluster(is_own=is_own, is_connected_here=True, dashboard=f"http://{url}" if url else None)


def close_ray(cluster: Cluster) -> None:
    """Leaves Ray as it was before `open_ray`.

    A thread that is still inside Ray would end the whole process, with an exit code of its own, when Ray is shut down
    under it. So if one has not come back, Ray is left to end with the process: it ends when its driver is gone.
    """
    if not cluster.is_connected_here:
        return
    if is_inside_ray():
        skip_shutdown_at_exit()
    else:
        ray.shutdown()


def is_inside_ray() -> bool:
    """Whether a thread that calls Ray has not come back."""
    return any(thread.name.startswith(THREADS) for thread in threading.enumerate())


def end_process(code: int) -> NoReturn:
    """Ends the process with this exit code, also where a thread inside Ray would make that a segmentation fault."""
    if is_inside_ray():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def start_thread(work: Callable[[], None], name: str) -> threading.Thread:
    """Starts a thread that calls Ray; `close_ray` knows of it."""
    thread = threading.Thread(target=work, name=f"{THREADS}{name}", daemon=True)
    thread.start()
    return thread


def silence_ray() -> None:
    """Keeps Ray's own messages off the terminal; what matters is said by the sweep. Set variables stay."""
    for name, value in DRIVER_VARIABLES.items():
        os.environ.setdefault(name, value)
    warnings.filterwarnings("ignore", module=r"ray\.")
    silence_process_messages()
    for name in ("ray", "ray.tune", "ray.train", "ray.data"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def start_local() -> str | None:
    """Starts a Ray of our own on this machine; the host and port of its dashboard."""
    port = free_port()
    host = ray.util.get_node_ip_address()
    os.environ[GCS_PORT_VARIABLE] = str(port)
    try:
        with ignoring_interrupts():
            # Workers that look for their cluster would take any Ray of this machine: they are told which it is.
            context = ray.init(
                address="local",
                include_dashboard=True,
                object_store_memory=OBJECT_STORE_BYTES,
                runtime_env=worker_environment({"RAY_ADDRESS": f"{host}:{port}"}),
                log_to_driver=False,
                logging_level=logging.CRITICAL + 1,
            )
            return context.dashboard_url or None
    finally:
        del os.environ[GCS_PORT_VARIABLE]


@contextlib.contextmanager
def ignoring_interrupts() -> Iterator[None]:
    """Processes that start meanwhile ignore Ctrl-C, which goes to every process of a terminal.

    Without this Ray's dashboard dies of it (the others block it), and lanes, which ask it, close late.
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
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


def connect(address: str) -> str | None:
    """Connects to a running cluster; the host and port of its dashboard, if it has one."""
    try:
        if is_here(knock(address)):
            use_saved_token()  # a Ray of our own leaves one in ~/.ray, which `ray start` on this machine then asks for
        context = ray.init(
            address=address,
            runtime_env=worker_environment({}),
            log_to_driver=False,
            logging_level=logging.CRITICAL + 1,
        )
        return context.dashboard_url or None
    except (OSError, ValueError) as error:
        hint = "if it asks for a token, set RAY_AUTH_MODE=token"
        rule = "--address must be a running Ray cluster"
        raise ValueError(f"{rule}, got {address}: {first_line(error)}; {hint}") from error


def knock(address: str) -> str:
    """The host of `host:port`; raises OSError if nobody listens: Ray would try for minutes, and say so all the time."""
    host, _, port = address.rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), timeout=KNOCK_SECONDS).close()
    return host


def is_here(host: str) -> bool:
    """Whether a host is this machine."""
    return host in ("localhost", "127.0.0.1", ray.util.get_node_ip_address())


def worker_environment(more: dict[str, str]) -> dict[str, dict[str, str]]:
    """The runtime environment of all processes of the sweep."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    settings = {name: os.environ.get(name, value) for name, value in WORKER_VARIABLES.items()}
    parallelism = os.environ.get("TOKENIZERS_PARALLELISM", "false")
    return {"env_vars": {**settings, "TOKENIZERS_PARALLELISM": parallelism, "PYTHONPATH": path, **more}}
