"""The environment of Ray's processes, their protection from Ctrl-C, and connecting; other tests start Ray itself."""

import importlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import ray

from mtlib.runtime.program_names import PROJECT_FOLDER
from sweeps.cluster import connection
from sweeps.cluster.background_run import BackgroundRun
from sweeps.cluster.connection import (
    MAX_STORE_BYTES,
    MIN_STORE_BYTES,
    START_ATTEMPTS,
    SWEEP_BYTES,
    connect,
    connected_to_ray,
    free_port,
    hide_token,
    ignoring_interrupts,
    start_local,
    start_local_once,
    store_size,
    token_path,
    use_own_token,
    use_short_folder,
    worker_environment,
)
from sweeps.cluster.garbage_collection import collect_rarely
from sweeps.cluster.usable_resources import LANES_MEMORY


def test_workers_find_the_packages_and_keep_the_users_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    monkeypatch.setenv("TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S", "7")
    environment = worker_environment({"RAY_ADDRESS": "here:1"})
    variables = environment["env_vars"]
    assert variables["PYTHONPATH"] == f"{PROJECT_FOLDER}{os.pathsep}/theirs"
    assert (variables["TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S"], variables["RAY_ADDRESS"]) == ("7", "here:1")
    assert (PROJECT_FOLDER / "sweeps" / "run.py").is_file()
    module, _, name = environment["worker_process_setup_hook"].rpartition(".")
    assert getattr(importlib.import_module(module), name) is collect_rarely


def test_processes_started_meanwhile_ignore_ctrl_c_and_we_do_not() -> None:
    program = "import os, signal as s; [os.kill(os.getpid(), n) for n in (s.SIGINT, s.SIGHUP)]; print('alive')"
    outside = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job already ignores it
    try:
        with ignoring_interrupts():
            deaf = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert deaf.stdout == "alive\n"
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, outside)


@pytest.mark.parametrize(
    ("variables", "used"),
    [
        ({"TMPDIR": "/" + "x" * 38}, None),
        ({"TMPDIR": "/" + "x" * 39}, "/tmp"),
        ({"TMPDIR": "/" + "ä" * 20}, "/tmp"),
        ({"TMPDIR": "/" + "x" * 90, "RAY_TMPDIR": "/short"}, "/short"),
        ({"RAY_TMPDIR": "/" + "x" * 38}, "/" + "x" * 38),
    ],
)
def test_sockets_of_a_local_ray_have_short_paths(
    variables: dict[str, str], used: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TMPDIR", "RAY_TMPDIR"):
        monkeypatch.setenv(name, "")  # is restored afterwards
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    use_short_folder()
    assert os.environ.get("RAY_TMPDIR") == used
    is_long = len(os.fsencode(variables.get("TMPDIR", ""))) > 39
    assert os.environ.get("TMPDIR") == (used if is_long else variables.get("TMPDIR")), (
        "the dashboard's sockets are there"
    )


@pytest.mark.parametrize(("home", "has_own"), [("/proc/nobody", True), ("", False)])
def test_a_token_is_given_where_the_home_folder_cannot_hold_one(
    home: str, has_own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "")
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.setenv("HOME", home or str(tmp_path))
    use_own_token()
    assert ("RAY_AUTH_TOKEN" in os.environ) == has_own
    if not has_own:
        assert [path.name for path in token_path().parent.iterdir()] == ["auth_token"]
        assert (token_path().stat().st_mode & 0o777, len(token_path().read_text())) == (0o600, 64)


@pytest.mark.parametrize(("mode", "is_told"), [(0o644, True), (0o640, True), (0o600, False), (0o400, False)])
def test_token_that_others_could_read_is_hidden_and_stays(
    mode: int, is_told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    token_path().parent.mkdir()
    token_path().write_text("token")
    token_path().chmod(mode)
    notes = list[str]()
    hide_token(notes.append)
    use_own_token()
    assert (token_path().stat().st_mode & 0o077, token_path().read_text()) == (0, "token")
    assert [str(token_path()) in note for note in notes] == [True] * is_told


def test_slow_start_is_noted_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    notes, is_noted = list[str](), threading.Event()

    def note(line: str) -> None:
        notes.append(line)
        if len(notes) == 2:
            is_noted.set()

    monkeypatch.setattr(connection, "SLOW_START_SECONDS", 0.01)
    monkeypatch.setattr(connection, "init_silently", lambda *_address, **_settings: str(is_noted.wait(10)))
    assert start_local_once(MIN_STORE_BYTES, note) == "True"
    awaited = "its control service, node and dashboard have 30 s each to answer"
    assert notes[:2] == [f"Ray still starts: {awaited}; the machine may be busy"] * 2


def test_missing_cluster_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    error = ConnectionError("Could not find any running Ray instance.\nPlease specify one")
    with pytest.raises(ValueError, match=r"^--address must be a running Ray cluster, got 127.0.0.1:\d+: .*refused"):
        connect(f"127.0.0.1:{free_port()}")
    monkeypatch.setattr(ray, "init", Mock(side_effect=error))
    with pytest.raises(ValueError, match=r"^--address must be a running Ray cluster, got auto: Could not find any .*$"):
        connect("auto")
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    with pytest.raises(ValueError, match=r"^RAY_ADDRESS must be a running Ray cluster, got auto: "):
        connect("auto")


@pytest.fixture
def shutdowns(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Calls of `ray.shutdown`, which do nothing: the Ray of other tests keeps running, with its workers."""
    calls: list[str] = []
    monkeypatch.setattr(ray, "shutdown", lambda: calls.append("shutdown"))
    return calls


@pytest.mark.parametrize("num_timeouts", [0, START_ATTEMPTS - 1, START_ATTEMPTS])
def test_slow_local_ray_is_started_again_a_few_times(
    num_timeouts: int, shutdowns: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = ("The current node timed out during startup. x", "Failed to start GCS. Last 0 lines: x")
    left = [Exception(reasons[number % 2]) for number in range(num_timeouts)]

    def start(*_arguments: object) -> str:
        if left:
            raise left.pop()
        return "http://dashboard"

    monkeypatch.setattr(connection, "start_local_once", start)
    notes = list[str]()
    if num_timeouts < START_ATTEMPTS:
        assert start_local(MIN_STORE_BYTES, notes.append) == "http://dashboard"
    else:
        with pytest.raises(ValueError, match="must start within 30 s"):
            start_local(MIN_STORE_BYTES, notes.append)
    assert len(shutdowns) == len(notes) == num_timeouts


def test_auto_of_a_dead_cluster_is_one_error_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dead, other = (f"127.0.0.1:{free_port()}" for _ in range(2))
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(f"{dead}\n")
    monkeypatch.setattr("psutil.process_iter", lambda _names: [])
    with pytest.raises(ValueError, match=rf"^--address must be a running Ray cluster, got auto: {dead}: .*refused"):
        connect("auto")
    monkeypatch.setenv("RAY_ADDRESS", other)
    with pytest.raises(ValueError, match=rf"got auto: {other}: .*refused"):
        connect("auto")


def test_ray_is_not_shut_down_while_a_thread_uses_it(shutdowns: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(connection, "start_local", lambda *_arguments: None)
    may_go = threading.Event()
    with connected_to_ray(None) as dashboard:
        run = BackgroundRun(lambda: may_go.wait(10), "lane0")
    assert (dashboard, shutdowns) == (None, [])
    may_go.set()
    run.wait(10)
    with connected_to_ray(None):
        pass
    assert shutdowns == ["shutdown"]


@pytest.mark.parametrize(
    ("num_bytes", "room", "memory", "size"),
    [
        (0, 10**12, 10**12, MIN_STORE_BYTES),
        (10**9, 10**12, 10**12, int(1.2 * 10**9)),
        (10**11, 10**12, 10**12, int(1.2 * 10**11)),
        (10**9, 64 * 2**20, 10**12, int(1.2 * 10**9)),  # as Docker has it: the store is a file elsewhere
        (10**11, 64 * 2**20, 10**12, MAX_STORE_BYTES),
        (10**10, 10**12, 8 * 10**9, 4 * 10**9),  # the rest goes to disk
    ],
)
def test_object_store_of_a_local_ray_holds_what_it_must(
    num_bytes: int, room: int, memory: int, size: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(connection, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=room))
    for available, usable in ((memory, 10**13), (10**13, memory)):
        monkeypatch.setattr("psutil.virtual_memory", lambda found=available: SimpleNamespace(available=found))
        monkeypatch.setattr(connection, "usable_memory", lambda found=usable: found)
        assert store_size(num_bytes) == size


def test_local_ray_has_the_cpus_and_the_memory_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    given = dict[str, object]()
    monkeypatch.setattr(connection, "usable_cpus", lambda: 3)
    monkeypatch.setattr(connection, "usable_memory", lambda: 9 * 10**9)
    monkeypatch.setattr(connection, "init_silently", lambda *_arguments, **settings: given.update(settings))
    start_local_once(10**9, lambda _line: None)
    assert (given["num_cpus"], given["resources"]) == (3, {LANES_MEMORY: 8 * 10**9 - SWEEP_BYTES})
