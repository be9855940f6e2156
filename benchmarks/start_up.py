"""Start-up and overhead of a sweep in this checkout, as ratios to another checkout, such as that of an earlier commit.

Command:  python benchmarks/start_up.py --against DIR [--pairs 5] [-- ARGUMENTS of sweeps/run.py]
          (git worktree add DIR COMMIT makes such a checkout)
Cost:     about a minute a pair on 2 cores; README's first sweep (`-- --space smart_lambda`) takes 2 to 4 minutes a run
Prints:   seconds of both checkouts and their ratio, as medians over the pairs with the quartiles of the ratios, to the
          first optimizer step, to the ranking and to the end, wall and processor time; then processor time by kind of
          process, and what driver, channel and controllers take of a core while trials train

The two checkouts run one sweep in turn; which of them is first alternates. Each run has a storage of its own, so its
demonstration corpus is generated and tokenized anew. Processor time is that of the command and of all processes that it
has started, also those that outlive their parents: Linux gives these to this process, and their counters in /proc are
read ten times a second. Ratios of processor time depend less on other work on the machine than those of wall time.
"""

import argparse
import ctypes
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
"""Option of Linux' `prctl` by which orphaned descendants become children of this process."""
SAMPLE_SECONDS = 0.1
STORAGE = "storage"
LEFTOVER_SECONDS = 20.0
"""How long processes may outlive the command."""
TICKS = os.sysconf("SC_CLK_TCK")

DEFAULT_SWEEP = (
    *("--vary", "optimizer.learning_rate=1e-3,2e-3"),
    *("--set", "stages.0.epochs=1", "stages.0.steps_per_epoch=4"),
)
"""Two trials of four steps."""
STEP_FILE_VARIABLE = "FIRST_STEP_FILE"
STEP_HOOK = '''
import importlib.machinery, os, sys, time

class Finder(importlib.machinery.PathFinder):
    """Lets the first optimizer step of a lane leave its time in a file."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "sweeps.lanes.reporter":
            return None
        spec = super().find_spec(name, path, target)
        load = spec.loader.exec_module

        def load_hooked(module):
            load(module)
            reporter = module.Reporter
            on_step = reporter.on_step

            def first_step(self, progress):
                reporter.on_step = on_step
                with open(os.environ["FIRST_STEP_FILE"], "a") as stream:
                    stream.write(f"{time.time()}\\n")
                return on_step(self, progress)

            reporter.on_step = first_step

        spec.loader.exec_module = load_hooked
        return spec

sys.meta_path.insert(0, Finder)
'''
"""A `sitecustomize.py`, which every Python process of the run loads first."""

OVERHEAD_KINDS = ("driver", "ray::Channel", "ray::TrainController")


@dataclass(kw_only=True)
class ProcessTimes:
    """Processor seconds of the descendants of this process, by process id and start time."""

    seconds: dict[tuple[int, int], float] = field(default_factory=dict)
    kinds: dict[tuple[int, int], str] = field(default_factory=dict)
    foreign: set[tuple[int, int]] = field(default_factory=set)
    """Processes that are no descendants; they are not looked at again."""

    def by_kind(self) -> dict[str, float]:
        """Sums over the processes of each kind."""
        sums: dict[str, float] = defaultdict(float)
        for process, seconds in self.seconds.items():
            sums[self.kinds[process]] += seconds
        return dict(sums)


@dataclass(kw_only=True)
class Times:
    """Wall and processor seconds from the command to a moment; the latter also by kind of process."""

    wall: float
    by_kind: dict[str, float]

    @property
    def cpu(self) -> float:
        return sum(self.by_kind.values())


@dataclass(kw_only=True)
class Run:
    """One measured sweep."""

    moments: dict[str, Times]
    """By `first step`, `trained` (the last trial's end), `ranking` and `end`."""
    driver_bytes: list[tuple[float, int]]
    """The most memory that the command's own process has used until a time, in order; seconds since 1970 and bytes."""
    printed: list[tuple[float, str]]
    """Each line of its output with its time, in seconds since 1970."""

    @property
    def overhead(self) -> float:
        """Share of a core that driver, channel and controllers take between the first step and the last trial's end."""
        begin, end = self.moments["first step"], self.moments["trained"]
        spent = sum(end.by_kind.get(kind, 0.0) - begin.by_kind.get(kind, 0.0) for kind in OVERHEAD_KINDS)
        return spent / (end.wall - begin.wall)


def main() -> None:
    """Measures the pairs and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="DIR", type=Path, required=True, help="the other checkout")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each checkout (default: 5)")
    parser.add_argument("sweep", metavar="ARGUMENTS", nargs="*", default=DEFAULT_SWEEP, help="of sweeps/run.py")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    here, other = Path(__file__).resolve().parent.parent, options.against.resolve()
    runs: dict[Path, list[Run]] = {here: [], other: []}
    for pair in range(options.pairs):
        for checkout in (here, other) if pair % 2 else (other, here):
            with tempfile.TemporaryDirectory(prefix="start-up-") as folder:
                runs[checkout].append(measure(checkout, options.sweep, Path(folder)))
            print(f"pair {pair + 1}, {checkout}: {short(runs[checkout][-1])}", flush=True)
    show(runs[other], runs[here])


def short(run: Run) -> str:
    """The times of one run in a line."""
    return ", ".join(f"{name} {times.wall:.1f} s ({times.cpu:.1f} CPU)" for name, times in run.moments.items())


def measure(checkout: Path, sweep: Sequence[str], folder: Path) -> Run:
    """Runs a sweep in a checkout, and waits until all of its processes have ended; its storage is in `folder`."""
    (folder / "sitecustomize.py").write_text(STEP_HOOK)
    step_file, log = folder / "first_step", folder / "log"
    path = os.pathsep.join([str(folder), str(checkout)])
    environment = {**os.environ, "PYTHONPATH": path, STEP_FILE_VARIABLE: str(step_file)}
    command = [sys.executable, "sweeps/run.py", *sweep, "--storage", str(folder / STORAGE)]
    printed: list[tuple[float, str]] = []
    begin = time.time()
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, cwd=checkout, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    reader = threading.Thread(target=note_lines, args=(process, printed), daemon=True)
    reader.start()
    run = watch(process, begin, step_file, printed)
    if process.returncode != 0 or "first step" not in run.moments:
        raise SystemExit(f"{checkout}: exit code {process.returncode}\n{log.read_text()}")
    return run


def note_lines(process: "subprocess.Popen[str]", printed: list[tuple[float, str]]) -> None:
    """Adds what a process prints to `printed`, line by line, with the time."""
    assert process.stdout is not None
    for line in process.stdout:
        printed.append((time.time(), line))


def watch(process: "subprocess.Popen[str]", begin: float, step_file: Path, printed: list[tuple[float, str]]) -> Run:
    """Samples processor times until the last descendant has ended."""
    finders: dict[str, Callable[[], float | None]] = {
        "first step": lambda: float(step_file.read_text().split()[0]) if step_file.exists() else None,
        "trained": lambda: time_of(printed, ("complete;",), "running", "queued"),
        "ranking": lambda: time_of(printed, ("──",)),
    }
    times, moments, driver_bytes = ProcessTimes(), dict[str, Times](), list[tuple[float, int]]()
    ended = float("inf")
    while sample(times, process.pid) and time.time() < ended + LEFTOVER_SECONDS:
        for name in [name for name in finders if name not in moments]:
            at = finders[name]()
            if at is not None:
                moments[name] = Times(wall=at - begin, by_kind=times.by_kind())
        if process.poll() is None:
            driver_bytes.append((time.time(), peak_bytes(process.pid)))
        if process.poll() is not None:
            ended = min(ended, time.time())
        time.sleep(SAMPLE_SECONDS)
    process.wait()
    moments["end"] = Times(wall=min(ended, time.time()) - begin, by_kind=times.by_kind())
    return Run(moments=moments, driver_bytes=driver_bytes, printed=printed)


def peak_bytes(pid: int | str) -> int:
    """The most memory that a process has used so far; 0 once it has ended."""
    try:
        status = Path("/proc", str(pid), "status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s*(\d+) kB", status)
    return 1024 * int(found[1]) if found else 0


def time_of(printed: Sequence[tuple[float, str]], wanted: Sequence[str], *unwanted: str) -> float | None:
    """When the first line was printed that has all `wanted` words and none of the unwanted ones."""
    for at, line in list(printed):
        if all(word in line for word in wanted) and not any(word in line for word in unwanted):
            return at
    return None


def sample(times: ProcessTimes, root: int) -> bool:
    """Reads the processor time of every living descendant of this process; whether there is one."""
    parents: dict[int, int] = {}
    processes: dict[int, tuple[int, int]] = {}
    spent: dict[int, float] = {}
    for pid, parent, start, seconds in read_processes(times.foreign):
        parents[pid], processes[pid], spent[pid] = parent, (pid, start), seconds
    own = {os.getpid()}
    is_growing = True
    while is_growing:
        found = {pid for pid, parent in parents.items() if parent in own} - own
        own |= found
        is_growing = bool(found)
    own.discard(os.getpid())
    for pid, process in processes.items():
        if pid in own:
            times.seconds[process] = spent[pid]
            times.kinds[process] = kind_of(pid, root) or times.kinds.get(process, "other")
        elif pid != os.getpid():
            times.foreign.add(process)
    return bool(own)


def read_processes(skipped: set[tuple[int, int]]) -> Iterator[tuple[int, int, int, float]]:
    """Process id, parent, start time and processor seconds of all processes that are no zombies, from /proc."""
    known = {pid for pid, _ in skipped}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) in known:
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if fields[0] != "Z":
            yield int(folder.name), int(fields[1]), int(fields[19]), (int(fields[11]) + int(fields[12])) / TICKS


def kind_of(pid: int, root: int) -> str:
    """What a process is for: `driver`, a name that Ray gives, or the name of its program; empty once it has ended."""
    if pid == root:
        return "driver"
    try:
        words = Path("/proc", str(pid), "cmdline").read_text().replace("\0", " ").split()
    except OSError:
        return ""
    if not words:
        return ""
    if words[0].startswith("ray-dashboard") or any("forkserver" in word for word in words):
        return "dashboard.py"
    scripts = [word for word in words if word.endswith(".py")]
    return re.split("[.(]", words[0])[0] if words[0].startswith("ray::") else Path((scripts or words)[0]).name


def show(before: Sequence[Run], after: Sequence[Run]) -> None:
    """Prints the tables."""
    print(f"\nMedians of {len(after)} pairs; the ratio is this checkout to the other one, with its quartiles")
    print(f"{'':28}{'other':>9}{'this':>9}   ratio")
    for name in after[0].moments:
        moments = [(one.moments[name], two.moments[name]) for one, two in zip(before, after, strict=True)]
        show_row(f"{name}, wall s", [(one.wall, two.wall) for one, two in moments])
        show_row(f"{name}, CPU s", [(one.cpu, two.cpu) for one, two in moments])
    shares = [(100 * one.overhead, 100 * two.overhead) for one, two in zip(before, after, strict=True)]
    show_row("overhead, % of a core", shares)
    print("\nProcessor seconds by kind of process, medians: to the first step, and to the end")
    kinds = sorted({kind for run in (*before, *after) for kind in run.moments["end"].by_kind})
    print(f"{'':28}{'other':>9}{'this':>9}{'other':>9}{'this':>9}")
    for kind in kinds:
        cells = [
            statistics.median(run.moments[name].by_kind.get(kind, 0.0) for run in runs)
            for name in ("first step", "end")
            for runs in (before, after)
        ]
        print(f"{kind:28}" + "".join(f"{cell:9.2f}" for cell in cells))


def show_row(name: str, pairs: Sequence[tuple[float, float]]) -> None:
    """Prints the medians of both checkouts and of the ratios, with the quartiles of the latter."""
    ratios = [two / one for one, two in pairs]
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    one, two = (statistics.median(values) for values in zip(*pairs, strict=True))
    print(f"{name:28}{one:9.2f}{two:9.2f}   {statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
