"""Does a sweep survive whatever happens to its processes and files? Faults by a seeded plan, against a calm sweep.

Command:  python benchmarks/chaos.py [--faults 20] [--seed 0] [--kinds worker,driver] [--bucket]
Cost:     30 to 60 s a fault on 2 cores, and two minutes for the undisturbed sweep
Prints:   a line per fault, a table by kind; exit code 0 if no fault did harm, else 1

Sweeps of small trials run as a user runs them: `sweeps/run.py` in a process of its own, `--resume` where a fault ends
it. Faults follow one another in one sweep until it is complete, then the next sweep begins. A fault does harm if the
sweep prints a traceback or a raw line of Ray, does not say what happened, prints nothing for more than 20 s, ends
with a trial that is lost or differs from the undisturbed sweep, or trains steps again that a state held.

Disk full and read-only need root: the storage is then a file system in memory of its own. With --bucket it is a bucket
on a server of this machine (moto's), which becomes slow, refuses every connection or answers with errors for a minute,
takes the credentials for expired, or loses the bucket. Processes are found by their environment, so other sweeps of the
machine are left alone.
"""

import argparse
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

import psutil
import pyarrow.fs as fs

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.compare_sweeps import differences
from mtlib.runtime.storage import is_file, join_location, list_files, open_folder
from results.records.tables import read_trials
from results.records.trials import COMPLETED
from tests.gate import Gate, open_gate
from tests.s3_server import s3_server, uri_of

ROOT = Path(__file__).resolve().parent.parent
NUM_TRIALS, EPOCHS, STEPS, CHECKPOINT_STEPS = 10, 4, 20, 10
RATES = ",".join(f"{0.0005 + 0.0001 * number:.4f}" for number in range(NUM_TRIALS))
COMMAND = (
    *("--vary", f"optimizer.learning_rate={RATES}", "--no-reuse", "--checkpoint-steps", str(CHECKPOINT_STEPS)),
    *("--concurrent", "2", "--set", "smart.weight=0", f"stages.0.epochs={EPOCHS}", f"stages.0.steps_per_epoch={STEPS}"),
)
"""Trials of a few seconds, two at a time."""
SILENT_SECONDS = 20.0
"""A sweep that prints nothing for longer is silent."""
LONGEST_SECONDS = 300.0
"""A sweep that has gone no further for so long after a fault hangs."""
EARLY = 0.2
"""Share of faults that come before the sweep goes on after the last one."""
INTERRUPTED = 0.5
"""Share of files that are damaged after Ctrl-C, not after a power cut; some are written only then."""
STORAGE_BYTES = 400 * 2**20
BUCKET_SECONDS = 60.0
"""How long a bucket is slow, refuses or answers with errors."""
SLOW_SECONDS = 0.3
"""Before each piece that a slow bucket sends or gets."""
WAITING = "Waiting for a bucket .*: "
"""Beginning of an expression for the line of a sweep that waits."""
RAW_LINES = re.compile(
    r"Traceback \(most recent call last\)|^\(\w+ pid=|^\[20\d\d-|^\[\w+ \w+ \d+ |^20\d\d-\d\d-\d\d .*(ERROR|WARNING)|"
    r"\*\*\* SIG|Fatal Python error|core_worker|gcs_rpc_client|AWS Error|OSError"
)
"""Lines that no user should see."""
STATE_FILE = re.compile(r"trials/(?P<trial>[^/]+)/checkpoint/state-(?P<step>\d+)-[^/]*/state\.json")
LOST_TRIAL = "was renamed or removed while it trained"
EPOCH_LINE = re.compile(r"(?P<trial>\d{4}-r\d) epoch (?P<epoch>\d+): ")
RESUME_LINE = re.compile(
    r"^\s+python sweeps/run\.py --resume |^(error|The sweep ended here): .*; continue with --resume "
)
ISOLATED = ("unshare", "--pid", "--fork", "--mount-proc")
"""Runs a command where no process of the sweep can be seen, as in a container on its host."""


@dataclass(kw_only=True)
class Sweep:
    """A sweep under test: its process, and everything that it has printed."""

    storage: Path
    scratch: Path
    """RAY_TMPDIR, by which its processes are known."""
    log: Path
    """Gets everything that it prints."""
    name: str
    uri: str | None = None
    """URI of the storage where it is a bucket; `storage` is then for copies."""
    gate: Gate | None = None
    """Before the bucket's server."""
    lines: list[tuple[float, str]] = field(default_factory=list)
    """Each with its time on the monotonic clock."""
    process: "subprocess.Popen[str] | None" = None
    reader: threading.Thread | None = None

    def __post_init__(self) -> None:
        self.log.unlink(missing_ok=True)

    @property
    def folder(self) -> Path:
        """The sweep's, on a disk; where the storage is a bucket, that of its copy."""
        return self.storage / self.name

    @property
    def location(self) -> str:
        """The path or URI of the sweep."""
        return str(self.folder) if self.uri is None else join_location(self.uri, self.name)

    def start(self, *arguments: str) -> None:
        """Starts a command of this sweep; a thread reads what it prints."""
        command = [sys.executable, "sweeps/run.py", *arguments, "--storage", self.uri or str(self.storage)]
        self.say(f"# {shlex.join(command[1:])}")
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "RAY_TMPDIR": str(self.scratch)},
        )
        self.reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self.reader.start()

    def go_on(self) -> None:
        """Resumes the sweep; begins it again where it was ended before it had a folder."""
        self.start(*(("--resume", self.location) if self.has_folder else self.beginning))

    @property
    def has_folder(self) -> bool:
        """Whether it has come so far that it can be resumed."""
        return is_file(open_folder(self.location), "sweep.json")

    @property
    def beginning(self) -> tuple[str, ...]:
        """The arguments of its first command."""
        return (*COMMAND, "--name", self.name)

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.say(line.rstrip("\n"))

    def say(self, line: str) -> None:
        """Adds a line to the log; those of this program begin with #."""
        self.lines.append((time.monotonic(), line))
        with self.log.open("a") as log:
            log.write(f"{time.strftime('%H:%M:%S')} {line}\n")

    @property
    def exit_code(self) -> int | None:
        """Of the last command; None while it runs."""
        return None if self.process is None else self.process.poll()

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.exit_code is None

    def wait_for(self, holds: Callable[[], bool], seconds: float = LONGEST_SECONDS) -> bool:
        """Waits until a condition holds or the process has ended; False after so many seconds."""
        deadline = time.monotonic() + seconds
        while self.is_running and not holds():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        if not self.is_running:
            self._note_end()
        return True

    def _note_end(self) -> None:
        if self.reader is not None:
            self.reader.join(5)
            self.reader = None
            self.say(f"# exit code {self.exit_code}")

    def says(self, expression: str | re.Pattern[str], since: int) -> bool:
        """Whether some line from this one on matches."""
        return any(re.search(expression, text) for _, text in self.lines[since:] if not text.startswith("#"))

    @property
    def has_begun(self) -> bool:
        """Whether its last command has printed more than that it was interrupted, which it may be as it is loaded."""
        start = max(number for number, (_, text) in enumerate(self.lines) if text.startswith("# sweeps/run.py"))
        return any(not text.startswith("#") and text != "interrupted" for _, text in self.lines[start:])

    def has_epoch(self, since: int) -> bool:
        """Whether an epoch was trained since this line."""
        return bool(epochs_in(self.lines[since:]))

    def processes(self, title: str = "") -> list[psutil.Process]:
        """Living processes of the sweep whose command contains a text."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                is_own = process.environ().get("RAY_TMPDIR") == str(self.scratch)
                if is_own and process.status() != psutil.STATUS_ZOMBIE and title in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def stop(self) -> None:
        """Kills every process of the sweep, as a power cut does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(60)  # before psutil could take its exit code
        while found := self.processes():
            for one in found:
                with suppress(psutil.Error):
                    one.kill()
            psutil.wait_procs(found, timeout=10)
        self._note_end()


@dataclass(kw_only=True)
class Fault:
    """A fault that was injected, and what came of it."""

    kind: str
    what: str
    """What was done, for the log."""
    spoiled: tuple[str, ...] = ()
    """Trials whose own files were damaged: their steps may be trained again."""
    harm: list[str] = field(default_factory=list)
    retrained: int = 0
    """Steps that were trained again though a state held them."""
    silence: float = 0.0
    """The longest, in seconds."""
    began: int = 0
    """The first of the sweep's lines after it."""
    saved: Mapping[str, int] = field(default_factory=dict)
    """The step of each trial's newest state when it happened."""
    saved_at: int = 0
    """The first of the lines after these states: where the sweep is stopped for the fault, trials go on until then."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of fault."""

    inject: Callable[[Sweep, random.Random], tuple[str, tuple[str, ...]]]
    """Does it; returns what was done, and the trials whose files were damaged."""
    says: str
    """Expression that some line must match afterwards; empty where a driver that is dead cannot say anything."""
    repair: Callable[[Sweep], None] = lambda _sweep: None
    """Called once the sweep has ended, before it is resumed."""
    ends: bool = False
    """Whether it ends the run, which must say so and how to go on."""
    while_stopped: bool = False
    """Whether the sweep is stopped before it happens."""
    needs_root: bool = False
    place: Literal["any", "disk", "bucket"] = "any"
    """Which storage it can happen to."""


def kill(
    title: str, number: signal.Signals = signal.SIGKILL
) -> Callable[[Sweep, random.Random], tuple[str, tuple[()]]]:
    """A fault that sends a signal to one of the sweep's processes with this title, as soon as there is one."""

    def inject(sweep: Sweep, draw: random.Random) -> tuple[str, tuple[()]]:
        sweep.wait_for(lambda: bool(sweep.processes(title)))
        found = sweep.processes(title)
        if not found:
            return f"nothing: there was no {title}", ()
        chosen = draw.choice(found)
        with suppress(psutil.Error):
            os.kill(chosen.pid, number)
        return f"{number.name} to {title} {chosen.pid}", ()

    return inject


def kill_driver(sweep: Sweep, _draw: random.Random) -> tuple[str, tuple[()]]:
    """Kills the command itself; its Ray dies with it, sooner or later."""
    assert sweep.process is not None
    sweep.process.kill()
    return "SIGKILL to the driver", ()


def kill_everything(sweep: Sweep, _draw: random.Random) -> tuple[str, tuple[()]]:
    """Kills all processes of the sweep."""
    found = sweep.processes()
    sweep.stop()
    return f"SIGKILL to all {len(found)} processes", ()


def interrupt(sweep: Sweep, _draw: random.Random) -> tuple[str, tuple[()]]:
    """Ctrl-C."""
    assert sweep.process is not None
    sweep.process.send_signal(signal.SIGINT)
    return "SIGINT to the driver", ()


def signal_group(number: signal.Signals) -> Callable[[Sweep, random.Random], tuple[str, tuple[()]]]:
    """A fault that sends a signal to the command and all processes of its Ray, as a terminal or a batch system does."""

    def inject(sweep: Sweep, _draw: random.Random) -> tuple[str, tuple[()]]:
        assert sweep.process is not None
        with suppress(ProcessLookupError):
            os.killpg(sweep.process.pid, number)
        return f"{number.name} to the process group", ()

    return inject


def kill_lane(sweep: Sweep, draw: random.Random) -> tuple[str, tuple[()]]:
    """Kills a worker, and the controllers while they start it again, which leaves CPUs reserved."""
    kill("ray::RayTrainWorker")(sweep, draw)
    sweep.wait_for(lambda: False, draw.uniform(1, 4))
    for one in (found := sweep.processes("ray::TrainController")):
        with suppress(psutil.Error):
            one.kill()
    return f"SIGKILL to a worker, then to {len(found)} controllers", ()


def fill_disk(sweep: Sweep, _draw: random.Random) -> tuple[str, tuple[()]]:
    """Fills the storage with a file."""
    size = shutil.disk_usage(sweep.storage).free
    with suppress(OSError), (sweep.storage / "filler").open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(2**16))
    return f"the disk is full, {size:,} bytes were free", ()


def empty_disk(sweep: Sweep) -> None:
    """Makes room again."""
    (sweep.storage / "filler").unlink(missing_ok=True)


def make_read_only(sweep: Sweep, _draw: random.Random) -> tuple[str, tuple[()]]:
    """Mounts the storage anew, read-only; the kernel refuses it while a file is open for writing."""
    for attempt in range(500):
        if remount(sweep.storage, "ro"):
            return f"the storage is read-only after {attempt} attempts", ()
        time.sleep(0.02)
    return "nothing: files stayed open for writing", ()


def make_writable(sweep: Sweep) -> None:
    remount(sweep.storage, "rw")


def remount(folder: Path, how: str) -> bool:
    """Mounts a folder's file system anew; whether it could be."""
    command = ["mount", "-o", f"remount,{how}", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def start_second(sweep: Sweep, _draw: random.Random, isolated: Sequence[str] = ()) -> tuple[str, tuple[()]]:
    """Resumes the sweep while it runs, which must be refused in a line."""
    command = [*isolated, sys.executable, "sweeps/run.py", "--resume", sweep.location]
    environment = {**os.environ, "RAY_TMPDIR": str(sweep.scratch)}
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment, timeout=300)
    sweep.say(f"Second driver: exit code {found.returncode}; {found.stderr.strip()}")
    return "a second driver", ()


def start_isolated(sweep: Sweep, draw: random.Random) -> tuple[str, tuple[()]]:
    """A second driver in another namespace of process ids, where the kernel permits one."""
    if subprocess.run([*ISOLATED, "true"], capture_output=True, check=False).returncode != 0:
        return "nothing: unshare is not permitted", ()
    return f"{start_second(sweep, draw, ISOLATED)[0]} in another namespace of process ids", ()


def rename_sweep(sweep: Sweep, _draw: random.Random) -> tuple[str, tuple[()]]:
    """Renames the sweep's folder once it trains."""
    began = len(sweep.lines)
    sweep.wait_for(lambda: sweep.has_epoch(began))
    if not sweep.is_running:
        return "nothing: the sweep had ended", ()
    sweep.folder.rename(sweep.folder.with_suffix(".renamed"))
    return f"{sweep.folder} is renamed", ()


def rename_back(sweep: Sweep) -> None:
    """Gives the sweep's folder its name again; fails if the sweep has made a folder of that name."""
    with suppress(FileNotFoundError):
        sweep.folder.with_suffix(".renamed").rename(sweep.folder)


def rename_trial(sweep: Sweep, draw: random.Random) -> tuple[str, tuple[str, ...]]:
    """Renames the folder of a running trial, which must fail alone, and interrupts the sweep: a resume trains it."""
    began = len(sweep.lines)
    sweep.wait_for(lambda: sweep.has_epoch(began))
    running = json.loads((sweep.folder / "driver.json").read_text())["progress"]
    folders = [folder for name in sorted(running) if (folder := sweep.folder / "trials" / name).exists()]
    if not folders or not sweep.is_running:
        return "nothing: no trial runs", ()
    chosen = draw.choice(folders)
    chosen.rename(sweep.storage / f"{chosen.name}-{began}")
    sweep.wait_for(lambda: sweep.says(LOST_TRIAL, began))
    interrupt(sweep, draw)
    return f"the folder of {chosen.name} is renamed, then SIGINT", (chosen.name,)


def damage(pattern: str) -> Callable[[Sweep, random.Random], tuple[str, tuple[str, ...]]]:
    """A fault that truncates a file of the sweep, or flips some bits of it; one of those that match the pattern."""

    def inject(sweep: Sweep, draw: random.Random) -> tuple[str, tuple[str, ...]]:
        found = sorted(path for path in sweep.folder.glob(pattern) if path.stat().st_size)
        if "/state-" in pattern:  # nobody reads an older state while the newest is whole
            newest = {path.parents[1]: path.parent for path in found}
            found = [path for path in found if path.parent == newest[path.parents[1]]]
        if "/weights/" in pattern:  # nor weights that are not among the best any more
            found = [path for path in found if is_best(path)]
        if not found:
            return f"nothing: there was no {pattern}", ()
        path = draw.choice(found)
        content = bytearray(path.read_bytes())
        how = draw.choice(("truncated", "flipped", "emptied"))
        if how == "flipped":
            for _ in range(20):
                content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(
            content if how == "flipped" else content[: draw.randrange(len(content))] if how[0] == "t" else b""
        )
        name = path.relative_to(sweep.folder)
        return f"{name} {how}", (name.parts[1],) if name.parts[0] == "trials" else ()

    return inject


def slow_down(sweep: Sweep, _draw: random.Random) -> tuple[str, tuple[()]]:
    """Slows the bucket down for a while."""
    assert sweep.gate is not None
    sweep.gate.delay = SLOW_SECONDS
    sweep.wait_for(lambda: False, BUCKET_SECONDS)
    sweep.gate.delay = 0.0
    return f"the bucket was slow for {BUCKET_SECONDS:.0f} s", ()


def refuse(sweep: Sweep, _draw: random.Random) -> tuple[str, tuple[()]]:
    """Lets the bucket refuse every connection for a while."""
    assert sweep.gate is not None
    sweep.gate.refuse()
    sweep.wait_for(lambda: False, BUCKET_SECONDS)
    sweep.gate.accept()
    return f"the bucket refused for {BUCKET_SECONDS:.0f} s", ()


def answer(what: str, methods: str = "[A-Z]+", *, stays: bool = False) -> Callable[..., tuple[str, tuple[()]]]:
    """A fault of the bucket, which answers requests with an error, for a while or until `accept_again`."""

    def inject(sweep: Sweep, _draw: random.Random) -> tuple[str, tuple[()]]:
        assert sweep.gate is not None
        sweep.gate.answered, sweep.gate.answer = methods.encode(), what
        if not stays:
            sweep.wait_for(lambda: False, BUCKET_SECONDS)
            accept_again(sweep)
        return f"the bucket answered {what} to {methods}", ()

    return inject


def accept_again(sweep: Sweep) -> None:
    """Lets the bucket answer again."""
    assert sweep.gate is not None
    sweep.gate.answer = ""


def is_best(weights: Path) -> bool:
    """Whether a file of weights is that of a best epoch by its trial's `best.json`."""
    best = json.loads((weights.parents[1] / "best.json").read_text())
    return int(weights.stem.rpartition("-")[2]) in best.values()


kinds: Mapping[str, Kind] = {
    "worker": Kind(inject=kill("ray::RayTrainWorker"), says=r"is down"),
    "tune": Kind(inject=kill("ray::TuneTrial"), says=r"process in Ray Tune"),
    "controller": Kind(inject=kill("ray::TrainController"), says=r"is lost"),
    "channel": Kind(inject=kill("ray::Channel"), says=r"^The sweep failed: ", ends=True),
    "driver": Kind(inject=kill_driver, says="", ends=True),
    "raylet": Kind(inject=kill("raylet/raylet"), says=r"^The sweep failed: .*Ray", ends=True),
    "gcs": Kind(inject=kill("gcs/gcs_server"), says=r"^The sweep failed: .*Ray", ends=True),
    "everything": Kind(inject=kill_everything, says="", ends=True),
    "interrupt": Kind(inject=interrupt, says="[Ii]nterrupted", ends=True),
    "terminate": Kind(inject=signal_group(signal.SIGTERM), says="Stopped by SIGTERM", ends=True),
    "hang-up": Kind(inject=signal_group(signal.SIGHUP), says="Stopped by SIGHUP", ends=True),
    "lane": Kind(inject=kill_lane, says=r"is lost"),
    "stopped-worker": Kind(inject=kill("ray::RayTrainWorker", signal.SIGSTOP), says=r"is down"),
    "full": Kind(
        inject=fill_disk, says=r"[Nn]o space|disk", repair=empty_disk, ends=True, needs_root=True, place="disk"
    ),
    "read-only": Kind(
        inject=make_read_only, says="Read-only", repair=make_writable, ends=True, needs_root=True, place="disk"
    ),
    "state": Kind(inject=damage("trials/*/checkpoint/state-*/*"), says="damaged", while_stopped=True, place="disk"),
    "weights": Kind(
        inject=damage("trials/*/checkpoint/weights/*.safetensors"), says="damaged", while_stopped=True, place="disk"
    ),
    "epoch": Kind(inject=damage("trials/*/epochs/*.parquet"), says="damaged", while_stopped=True, place="disk"),
    "trial.json": Kind(inject=damage("trials/*/*.json"), says="damaged", while_stopped=True, place="disk"),
    "trials.parquet": Kind(inject=damage("trials.parquet"), says="", while_stopped=True, place="disk"),
    "sweep.json": Kind(inject=damage("sweep.json"), says="damaged", while_stopped=True, place="disk"),
    "journal": Kind(inject=damage("optuna-journal.log"), says="", while_stopped=True, place="disk"),
    "second-driver": Kind(inject=start_second, says=r"exit code 2; error: a sweep must not be running already"),
    "isolated-driver": Kind(inject=start_isolated, says=r"exit code 2; error: a sweep must not be running already"),
    "renamed-sweep": Kind(
        inject=rename_sweep,
        says="was renamed or removed while the sweep ran",
        repair=rename_back,
        ends=True,
        place="disk",
    ),
    "renamed-trial": Kind(inject=rename_trial, says=LOST_TRIAL, ends=True, place="disk"),
    "slow-bucket": Kind(inject=slow_down, says="", place="bucket"),
    "refusing-bucket": Kind(inject=refuse, says=WAITING, place="bucket"),
    "bucket-500": Kind(inject=answer("500 InternalError", "PUT|POST"), says=f"{WAITING}500", place="bucket"),
    "bucket-503": Kind(inject=answer("503 SlowDown"), says=f"{WAITING}503", place="bucket"),
    "expired": Kind(
        inject=answer("400 ExpiredToken", stays=True), says=": 400", repair=accept_again, ends=True, place="bucket"
    ),
    "no-bucket": Kind(
        inject=answer("404 NoSuchBucket", stays=True),
        says="NoSuchBucket",
        repair=accept_again,
        ends=True,
        place="bucket",
    ),
}
"""Every kind by its name."""


def main() -> int:
    """Runs the plan, prints the table; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=20, help="faults in all (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="of the plan (default: 0)")
    words = "names of kinds, separated by commas (default: all that can happen to the storage)"
    parser.add_argument("--kinds", help=words)
    parser.add_argument("--bucket", action="store_true", help="keep the sweeps in a bucket (needs moto[server])")
    words = "folder of an undisturbed sweep that was made before; it is made there if it is missing"
    parser.add_argument("--undisturbed", type=Path, help=words)
    parser.add_argument("--logs", type=Path, default=Path(tempfile.gettempdir()), help="folder for what sweeps printed")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background would hand on that it is ignored
    places = ("any", "bucket" if options.bucket else "disk")
    known = [name for name, kind in kinds.items() if kind.place in places]
    names = options.kinds.split(",") if options.kinds else known
    if unknown := set(names) - set(known):
        parser.error(f"--kinds must be among {', '.join(known)}, got {', '.join(sorted(unknown))}")
    if os.geteuid() != 0:
        names = [name for name in names if not kinds[name].needs_root]
    with tempfile.TemporaryDirectory(prefix="chaos-", dir="/tmp", ignore_cleanup_errors=True) as scratch:
        storage = Path(scratch) / "storage"
        storage.mkdir()
        with small_disk(storage):
            calm = options.undisturbed or storage / "undisturbed"
            if not calm.exists():
                run_undisturbed(storage, Path(scratch), options.logs, calm)
            plan, draw = planned(names, options.faults, random.Random(options.seed)), random.Random(options.seed)
            with bucket(Path(scratch) / "s3.log") if options.bucket else nullcontext((None, None)) as (uri, gate):

                def make(name: str) -> Sweep:
                    log = options.logs / f"chaos-{name}.log"
                    return Sweep(storage=storage, scratch=Path(scratch), log=log, name=name, uri=uri, gate=gate)

                faults = run_plan(make, calm, plan, draw)
    show_table(faults)
    return 1 if len(faults) < options.faults or any(fault.harm for fault in faults) else 0


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A context in which a folder is a small file system in memory, where this process may mount one."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={STORAGE_BYTES}", "tmpfs", str(folder)]
    is_mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)


@contextmanager
def bucket(log: Path) -> Iterator[tuple[str, Gate]]:
    """The URI of a folder in a bucket, and the gate before its server."""
    with s3_server(log) as address, open_gate(address) as gate:
        yield uri_of(gate.address, "chaos"), gate


def planned(names: Sequence[str], count: int, draw: random.Random) -> list[str]:
    """Kinds in a random order, each once before any comes again."""
    rounds = [draw.sample(list(names), len(names)) for _ in range(-(-count // len(names)))]
    return [name for names in rounds for name in names][:count]


def run_undisturbed(storage: Path, scratch: Path, logs: Path, folder: Path) -> None:
    """Runs an undisturbed sweep, and moves it to its folder."""
    sweep = Sweep(storage=storage, scratch=scratch, log=logs / "chaos-undisturbed.log", name="undisturbed")
    sweep.start(*sweep.beginning)
    sweep.wait_for(lambda: False, 1200)
    sweep.stop()
    print(f"undisturbed: {NUM_TRIALS} trials, longest silence {longest_silence(sweep.lines):.0f} s", flush=True)
    if sweep.folder != folder:
        shutil.move(sweep.folder, folder)


def run_plan(make: Callable[[str], Sweep], calm: Path, plan: list[str], draw: random.Random) -> list[Fault]:
    """Runs as many disturbed sweeps as the faults of the plan need; the faults with their harm."""
    faults, number = list[Fault](), 0
    while plan:
        sweep = make(f"sweep-{number}")
        try:
            found = disturb(sweep, plan, draw)
        finally:
            sweep.stop()
        judge(sweep, found)
        if sweep.uri is not None:
            sweep.folder.mkdir()
            root = open_folder(sweep.location)
            fs.copy_files(root.base_path, str(sweep.folder), root.base_fs)
        wrong = wrong_results(calm, sweep.folder)
        print(f"{sweep.name}: {len(found)} faults, {', '.join(wrong) or 'equal to the undisturbed one'}", flush=True)
        if not found:
            break
        found[-1].harm += [f"{line} (after {len(found)} faults)" for line in wrong]
        faults += found
        number += 1
        shutil.rmtree(sweep.folder, ignore_errors=True)
    return faults


def disturb(sweep: Sweep, plan: list[str], draw: random.Random) -> list[Fault]:
    """Runs a sweep to its end under faults from the front of the plan, which it removes; returns these faults."""
    faults: list[Fault] = []
    sweep.start(*sweep.beginning)
    while plan:
        began, is_early = len(sweep.lines), draw.random() < EARLY
        if not sweep.wait_for(lambda since=began, now=is_early: now or sweep.has_epoch(since)):  # type: ignore[misc]
            break
        sweep.wait_for(lambda: False, draw.uniform(0, 3))
        if not sweep.is_running:
            break
        faults.append(strike(sweep, plan.pop(0), draw))
    has_ended = sweep.wait_for(lambda: False, 2 * LONGEST_SECONDS)
    if faults and not has_ended:
        faults[-1].harm.append("the sweep hangs")
    elif faults and sweep.exit_code != 0:
        faults[-1].harm.append(f"the sweep ends with exit code {sweep.exit_code}")
    return faults


def strike(sweep: Sweep, name: str, draw: random.Random) -> Fault:
    """Injects a fault of a kind, and resumes the sweep if that has ended it."""
    kind, began = kinds[name], len(sweep.lines)
    if kind.while_stopped:
        if draw.random() < INTERRUPTED:
            interrupt(sweep, draw)
            sweep.wait_for(lambda: False)
        sweep.stop()
    saved, saved_at = saved_steps(sweep.location), len(sweep.lines)
    what, spoiled = kind.inject(sweep, draw)
    fault = Fault(kind=name, what=what, spoiled=spoiled, began=began, saved=saved, saved_at=saved_at)
    sweep.say(f"# {name}: {what}")
    print(f"  {name}: {what}", flush=True)
    if kind.while_stopped:
        sweep.go_on()
    if what.startswith("nothing"):
        return fault
    if kind.ends:
        if not sweep.wait_for(lambda: False):
            fault.harm.append("the run did not end")
            sweep.stop()
    elif not sweep.wait_for(lambda: not kind.says or sweep.says(kind.says, began)):
        fault.harm.append("the run went no further")
        sweep.stop()
    was_over = sweep.exit_code == 0 and not kind.while_stopped  # it came too late to matter
    if kind.says and not sweep.says(kind.says, began) and not was_over:
        fault.harm.append(f"no line matches '{kind.says}'")
    if sweep.is_running:
        return fault
    kind.repair(sweep)
    if sweep.exit_code == 0:
        return fault
    if not kind.ends:
        fault.harm.append(f"it ended the run with exit code {sweep.exit_code}")
    is_silent = (kind.ends and not kind.says) or not (sweep.has_folder and sweep.has_begun)
    if not is_silent and not sweep.says(RESUME_LINE, began):
        fault.harm.append(f"exit code {sweep.exit_code} without a command to go on")
    sweep.go_on()
    return fault


def saved_steps(location: str) -> dict[str, int]:
    """The step of each trial's newest state."""
    found: dict[str, int] = {}
    for info in list_files(open_folder(location), "trials"):
        if state := STATE_FILE.fullmatch(str(info.path)):
            found[state["trial"]] = max(int(state["step"]), found.get(state["trial"], 0))
    return found


def judge(sweep: Sweep, faults: Sequence[Fault]) -> None:
    """Adds to each fault the harm that the lines show between it and the next one."""
    for number, fault in enumerate(faults):
        end = faults[number + 1].began if number + 1 < len(faults) else len(sweep.lines)
        lines = sweep.lines[fault.began : end]
        fault.silence = longest_silence(lines)
        if fault.silence > SILENT_SECONDS:
            fault.harm.append(f"nothing was printed for {fault.silence:.0f} s")
        raw = [text for _, text in lines if RAW_LINES.search(text)]
        fault.harm += [f"raw line: {raw[0]}"] if raw else []
        spoiled = {name for one in faults[: number + 1] for name in one.spoiled}
        again = [
            f"epoch {epoch} of {trial} is trained again, whose state was at step {fault.saved[trial]}"
            for trial, epoch in epochs_in(sweep.lines[fault.saved_at : end])
            if trial not in spoiled and epoch * STEPS < fault.saved.get(trial, 0)
        ]
        fault.retrained = STEPS * len(again)
        fault.harm += again


def epochs_in(lines: Sequence[tuple[float, str]]) -> list[tuple[str, int]]:
    """Trial and number of each epoch that was trained."""
    matches = (EPOCH_LINE.match(text) for _, text in lines)
    return [(found["trial"], int(found["epoch"])) for found in matches if found]


def longest_silence(lines: Sequence[tuple[float, str]]) -> float:
    """The longest time between two lines, in seconds."""
    times = [moment for moment, _ in lines]
    return max((after - before for before, after in pairwise(times)), default=0.0)


def wrong_results(calm: Path, folder: Path) -> list[str]:
    """What a sweep has lost, and how its files differ from those of the undisturbed one, a line each."""
    try:
        status = {record.trial_id: record.status for record in read_trials(folder)}
        wanted = [record.trial_id for record in read_trials(calm)]
    except ValueError as error:
        return [f"its records cannot be read: {error}"]
    lost = [trial for trial in wanted if status.get(trial) not in COMPLETED]
    patterns = ("trials.parquet", "curves.parquet", "trials/*/epochs/*.parquet", "trials/*/checkpoint/weights/*.s*")
    names = sorted(
        {path.relative_to(place) for place in (calm, folder) for name in patterns for path in place.glob(name)}
    )
    kept = [name for name in names if not set(name.parts) & set(lost)]
    other = {str(name): found for name in kept if (found := list(differences(calm / name, folder / name)))}
    lines = [f"{len(lost)} trials lost: {', '.join(lost)}"] if lost else []
    return [*lines, *([f"{len(other)} files differ, {next(iter(other.items()))}"] if other else [])]


def show_table(faults: Sequence[Fault]) -> None:
    """Prints what came of the faults, by kind, and each harm."""
    print(f"{'kind':16}{'faults':>8}{'survived':>10}{'trained again':>15}{'longest silence':>17}")
    for name in [*(name for name in kinds if any(fault.kind == name for fault in faults)), ""]:
        own = [fault for fault in faults if name in ("", fault.kind)]
        silence, again = max((one.silence for one in own), default=0), sum(one.retrained for one in own)
        survived = sum(not one.harm for one in own)
        print(f"{name or 'all':16}{len(own):>8}{survived:>10}{again:>15}{silence:>15.0f} s")
    for fault in faults:
        for line in fault.harm:
            print(f"{fault.kind} ({fault.what}): {line}")


if __name__ == "__main__":
    sys.exit(main())
