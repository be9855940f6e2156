"""Connects a sweep to Ray: starts Ray on this machine or joins a cluster, silences it, and disconnects at the end."""

import atexit
import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import ray

from mtlib.runtime.errors import first_line, require, typed_line
from mtlib.runtime.program_names import PROJECT_FOLDER
from sweeps.cluster.background_run import is_inside_ray
from sweeps.cluster.garbage_collection import collect_rarely
from sweeps.cluster.ray_settings import LOCAL_VARIABLES, WORKER_VARIABLES
from sweeps.cluster.usable_resources import LANES_MEMORY, usable_cpus, usable_memory

GCS_PORT_VARIABLE = "RAY_GCS_SERVER_PORT"
"""Port of the cluster that `ray.init(address="local")` starts. `ray.init` has no argument for it, only `ray start`."""
MIN_STORE_BYTES = 200 * 2**20
"""Least size of a local Ray's object store."""
STORE_SHARE = 1.2
"""Size of a local Ray's object store over that of the objects that it must hold."""
SWEEP_BYTES = 1500 * 2**20
"""Memory of a local sweep's processes that are not a lane's: driver, channel, Ray with its dashboard (measured)."""
MAX_STORE_BYTES = 2 * 2**30 if sys.platform == "darwin" else 10**10
"""Largest object store that Ray accepts outside of /dev/shm."""
SHARED_MEMORY = Path("/dev/shm")
SOCKET_BYTES = 107
"""Length of the path of a socket, at most."""
SOCKET_BELOW = "/ray/session_2026-12-31_23-59-59_999999_4194304/sockets/plasma_store"
"""Path of the longest socket of a local Ray, below its folder of temporary files."""
START_ATTEMPTS = 3
"""A machine that is busy with something else may miss Ray's limits once or twice; a third miss is an error."""
SLOW_START_SECONDS = 15.0
"""After so long, each time, a line says what is awaited."""
START_FAILURES = ("timed out during startup", "Failed to start GCS", "gcs_server.err")
"""Parts of Ray's error messages when its processes did not start in time, or one of them died."""
SETUP_HOOK = f"{collect_rarely.__module__}.{collect_rarely.__name__}"
"""Called in each of the sweep's processes when it starts."""
TORCH_VARIABLES = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128"}
"""Read by torch in the workers. In bf16 on a CPU each shape of a product has a kernel of half a megabyte, of which
torch keeps 1,024 by default; MiniLM's steps took the same time with 64, and 350 MB less."""
CONNECT_SECONDS = 5.0
"""Time limit of a TCP connection to a cluster."""


connected: dict[str, str | None] = {}
"""The `dashboard` of the Ray that this process has connected to, while it is; nothing of one that its user has."""


@contextlib.contextmanager
def connected_to_ray(
    address: str | None, num_bytes: int = 0, note: Callable[[str], None] = lambda _text: None
) -> Iterator[str | None]:
    """Starts Ray on this machine, or connects to a cluster, and disconnects at the end; yields its dashboard.

    Shutting Ray down while a thread is inside it ends the process with another exit code. Ray is then left to end with
    its driver.

    Args:
        address: of a cluster, e.g. `auto`; None for this machine alone. Ignored if Ray is connected already, which then
            stays connected: a command that connects once is one job in Ray's dashboard.
        num_bytes: size of what the object store of a Ray on this machine must hold.
        note: gets a line where Ray must be started again.

    Raises:
        ValueError: there is no cluster at the address.
    """
    silence_ray()
    if ray.is_initialized():
        yield connected.get("dashboard")
        return
    hide_token(note)
    dashboard = start_local(store_size(num_bytes), note) if address is None else connect(address)
    connected["dashboard"] = dashboard
    try:
        yield dashboard
    finally:
        disconnect()


def disconnect() -> None:
    """Disconnects from the Ray that this process has connected to by itself, once nothing needs it any more."""
    if not connected:
        return
    connected.clear()
    if is_inside_ray():
        atexit.unregister(ray.shutdown)
    else:
        ray.shutdown()


def silence_ray() -> None:
    """Keeps Ray's own messages off the terminal."""
    warnings.filterwarnings("ignore", module=r"ray\.")
    for name in ("ray", "ray.tune", "ray.train", "ray.data"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def store_size(num_bytes: int) -> int:
    """Returns the object store's size for a local Ray that must hold so many bytes, as far as this machine has room.

    In a container /dev/shm may be small. Ray then keeps the store in a file of its own folder. What exceeds the store
    goes to disk.
    """
    wanted = max(MIN_STORE_BYTES, int(STORE_SHARE * num_bytes))
    has_room = SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free >= wanted
    available = min(int(psutil.virtual_memory().available), usable_memory()) // 2
    return max(MIN_STORE_BYTES, min(wanted, available if has_room else min(available, MAX_STORE_BYTES)))


def start_local(store_bytes: int, note: Callable[[str], None] = lambda _text: None) -> str | None:
    """Starts Ray on this machine, with an object store of this size; `note` gets a line for each failed attempt.

    Ray waits 30 s for its own processes, too few where many others run or one has died: then it is started again.

    Raises:
        ValueError: it did not start `START_ATTEMPTS` times, or cannot start here.
    """
    use_short_folder()
    use_own_token()
    reason = ""
    for _ in range(START_ATTEMPTS):
        try:
            return start_local_once(store_bytes, note)
        except Exception as error:  # Ray raises nothing more specific
            ray.shutdown()
            if not any(part in str(error) for part in START_FAILURES):
                raise ValueError(f"Ray must be able to start on this machine, got {typed_line(error)}") from error
            reason = first_line(error)
            note(f"Ray did not start: {reason}")
    raise ValueError(f"Ray must start within 30 s on this machine, got {START_ATTEMPTS} failures: {reason}")


def use_short_folder() -> None:
    """Lets a local Ray keep its files in RAY_TMPDIR or /tmp where TMPDIR is too long for the sockets below it.

    Raises:
        ValueError: RAY_TMPDIR, which is for Ray alone, is too long.
    """
    longest = SOCKET_BYTES - len(SOCKET_BELOW)
    own, usual = (os.environ.get(name, "") for name in ("RAY_TMPDIR", "TMPDIR"))
    rule = f"RAY_TMPDIR must have at most {longest} letters, as Ray makes sockets below it"
    require(len(os.fsencode(own)) <= longest, rule, own)
    if len(os.fsencode(usual)) > longest:
        os.environ["RAY_TMPDIR"] = os.environ["TMPDIR"] = own or "/tmp"  # the dashboard makes sockets in TMPDIR itself


def token_path() -> Path:
    """Returns where Ray keeps its token; once there is one, it asks for it on every cluster of this account."""
    return Path(os.path.expanduser("~/.ray/auth_token"))  # noqa: PTH111 - it stays where there is no home


def use_own_token() -> None:
    """Writes the token of a local Ray where there is none, as Ray would let every account of the machine read it.

    Where the home folder cannot be written the token is in the environment alone.
    """
    has_own = "RAY_AUTH_TOKEN" in os.environ or "RAY_AUTH_TOKEN_PATH" in os.environ
    if has_own or os.environ.get("RAY_AUTH_MODE", "token").lower() != "token":
        return
    path, token = token_path(), secrets.token_hex(32)
    whole = path.with_name(f".{path.name}.{token[:8]}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            whole.touch(mode=0o600)
            whole.write_text(token)
            try:
                os.link(whole, path)
            except FileExistsError:  # another sweep was first: its Ray has that token
                pass
            finally:
                whole.unlink()
    except OSError:
        if not os.access(path, os.R_OK):
            os.environ["RAY_AUTH_TOKEN"] = token


def hide_token(note: Callable[[str], None]) -> None:
    """Lets no other account read a token that Ray has written; `note` gets a line where one could."""
    with contextlib.suppress(OSError):  # there is none, or it is another account's
        if token_path().stat().st_mode & 0o077:
            token_path().chmod(0o600)
            note(f"{token_path()} could be read by others, who could submit jobs to your Ray; it no longer can")


def start_local_once(store_bytes: int, note: Callable[[str], None]) -> str | None:
    """Starts Ray, with a port of its own; its dashboard's URL. Raises Exception where its processes take too long."""
    port = free_port()
    host = ray.util.get_node_ip_address()
    os.environ[GCS_PORT_VARIABLE] = str(port)
    has_started = threading.Event()

    def note_again() -> None:
        while not has_started.wait(SLOW_START_SECONDS):
            what = "its control service, node and dashboard have 30 s each to answer"
            note(f"Ray still starts: {what}; the machine may be busy")

    threading.Thread(target=note_again, name="start", daemon=True).start()
    try:
        with ignoring_interrupts():
            # Without RAY_ADDRESS workers may connect to another Ray of this machine.
            return init_silently(
                "local",
                {"RAY_ADDRESS": f"{host}:{port}", **LOCAL_VARIABLES},
                num_cpus=usable_cpus(),
                resources={LANES_MEMORY: max(1, usable_memory() - store_bytes - SWEEP_BYTES)},
                include_dashboard=True,  # also frees what killed controllers of lanes have reserved
                object_store_memory=store_bytes,
            )
    except SystemExit:  # by Ray's handler of SIGTERM
        raise KeyboardInterrupt from None
    finally:
        has_started.set()
        del os.environ[GCS_PORT_VARIABLE]


def init_silently(address: str, variables: dict[str, str], **settings: Any) -> str | None:
    """Calls `ray.init`, which prints a line for each attempt to reach a process that is not there; the dashboard's URL.

    Args:
        address: of a cluster, or `local`.
        variables: for the environment of all processes of the sweep, besides those that are always set.
        settings: further ones of `ray.init`.
    """
    with silent_stderr():
        context = ray.init(
            address=address,
            runtime_env=worker_environment(variables),
            log_to_driver=False,
            logging_level=logging.CRITICAL + 1,
            **settings,
        )
    return f"http://{context.dashboard_url}" if context.dashboard_url else None


@contextlib.contextmanager
def ignoring_interrupts() -> Iterator[None]:
    """Lets processes that are started in this context ignore Ctrl-C and SIGHUP, which a terminal sends to all of them.

    Some of Ray's processes would die, and trials could not save their states.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def free_port() -> int:
    """Returns a port that no process listens on."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


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
        known = os.environ.get("RAY_ADDRESS") or latest_address() if address == "auto" else address
        host, _, port = known.rpartition(":")
        if port.isdigit():  # Ray would retry for minutes and print each attempt
            try:
                socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
            except OSError as error:
                raise OSError(f"{known}: {first_line(error)}" if known != address else first_line(error)) from error
        if host in ("localhost", "127.0.0.1", ray.util.get_node_ip_address()) and token_path().is_file():
            os.environ.setdefault("RAY_AUTH_MODE", "token")
        return init_silently(address, {})
    except (OSError, ValueError) as error:
        hint = "if it asks for a token, set RAY_AUTH_MODE=token"
        is_variable = address == os.environ.get("RAY_ADDRESS")
        rule = f"{'RAY_ADDRESS' if is_variable else '--address'} must be a running Ray cluster"
        raise ValueError(f"{rule}, got {address}: {first_line(error)}; {hint}") from error


def latest_address() -> str:
    """Returns the address of the latest cluster that was started on this machine, which `auto` stands for where
    RAY_ADDRESS is not set (see `ray.init`); `auto` if there is none, or Ray finds another one by its process."""
    folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    try:
        address = Path(folder, "ray", "ray_current_cluster").read_text().strip()
    except OSError:
        return "auto"
    has_cluster = any(process.info["name"] == "gcs_server" for process in psutil.process_iter(["name"]))
    return "auto" if has_cluster else address


def worker_environment(more: dict[str, str]) -> dict[str, Any]:
    """Ray's runtime environment for all processes of the sweep, with `more` variables."""
    path = os.pathsep.join(filter(None, (str(PROJECT_FOLDER), os.environ.get("PYTHONPATH"))))
    settings = {name: os.environ.get(name, value) for name, value in {**WORKER_VARIABLES, **TORCH_VARIABLES}.items()}
    return {"env_vars": {**settings, "PYTHONPATH": path, **more}, "worker_process_setup_hook": SETUP_HOOK}
