"""What 10, 100 and 1,000 short trials cost the driver, the records and the commands that read them.

Command:  python benchmarks/many_trials.py [--trials 10 100 1000] [--workers 1 2]
Cost:     about 10 minutes on 2 idle cores, nearly all of it for 1,000 trials
Prints:   for each number of trials and of workers: wall seconds per trial from the first optimizer step to the last
          trial's end; processor seconds per trial of the driver, of channel and controllers, of the trials' workers
          and of all else; the driver's memory after 50 trials and at the end; the workers' (the median of ten trials'
          peaks) likewise; files and bytes of the sweep's folder; and seconds and memory of results/table.py and of
          results/selector.py for SST

Trials are drawn at random from the demonstration: four steps of SST and an evaluation of its 600 dev rows. Processor
time is that of all processes of the sweep (`benchmarks/start_up.py`).
"""

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.start_up import OVERHEAD_KINDS, PR_SET_CHILD_SUBREAPER, STORAGE, Run, measure
from results.records.tables import read_trials

HERE = Path(__file__).resolve().parent.parent
NAME = "many"
SETTINGS = (
    *("stages.0.tasks=sst", "stages.0.epochs=1", "stages.0.steps_per_epoch=4"),
    *("tasks.sst.scored_train_rows=0", "precision=fp32"),
)
WORKER_KIND = "ray::RayTrainWorker"
COLUMNS = (
    *("trials", "workers", "wall", "driver", "link", "training", "other"),
    *("driver 50 MB", "driver MB", "worker 50 MB", "worker MB", "files", "MB"),
)
WARM_TRIALS = 50
"""Trials after which memory should stay as it is."""
COMMANDS = {"table": ("results/table.py",), "selector": ("results/selector.py", "--task", "sst")}


def main() -> None:
    """Runs the sweeps and prints a row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="of each trial")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    commands = [f"{name} {unit}" for name in COMMANDS for unit in ("s", "MB")]
    print("".join(f"{name:>14}" for name in (*COLUMNS, *commands)), flush=True)
    for workers in options.workers:
        for trials in options.trials:
            with tempfile.TemporaryDirectory(prefix="many-trials-") as folder:
                run = measure(HERE, sweep_arguments(trials, workers), Path(folder))
                show(trials, workers, run, Path(folder) / STORAGE / NAME)


def sweep_arguments(trials: int, workers: int) -> list[str]:
    """The arguments of sweeps/run.py."""
    drawn = ["--vary", "optimizer.learning_rate=1e-4..1e-2:log", "--search", "random", "--trials", str(trials)]
    return ["--name", NAME, *drawn, "--workers", str(workers), "--set", *SETTINGS]


def show(trials: int, workers: int, run: Run, folder: Path) -> None:
    """Prints a row."""
    begin, end = run.moments["first step"], run.moments["trained"]
    spent = {kind: seconds - begin.by_kind.get(kind, 0.0) for kind, seconds in end.by_kind.items()}
    driver, training = spent.pop("driver"), spent.pop(WORKER_KIND)
    link = sum(spent.pop(kind, 0.0) for kind in OVERHEAD_KINDS)
    seconds = (end.wall - begin.wall, driver, link, training, sum(spent.values()))
    files = [path for path in folder.rglob("*") if path.is_file()]
    numbers = [f"{part / trials:.3f}" for part in seconds]
    numbers += [f"{part / 1e6:.0f}" for part in (*driver_memory(run), *worker_memory(folder))]
    numbers += [str(len(files)), f"{sum(path.stat().st_size for path in files) / 1e6:.1f}"]
    for script, *arguments in COMMANDS.values():
        took, peak = run_command(script, str(folder), *arguments)
        numbers += [f"{took:.1f}", f"{peak / 1e6:.0f}"]
    print("".join(f"{number:>14}" for number in (str(trials), str(workers), *numbers)), flush=True)


def driver_memory(run: Run) -> tuple[int, int]:
    """The most memory of the driver until `WARM_TRIALS` trials had ended, and until all had, in bytes."""
    ends = [at for at, line in run.printed if " complete after " in line]
    moments = ends[min(WARM_TRIALS, len(ends)) - 1], ends[-1]
    warm, whole = (max(size for at, size in run.driver_bytes if at <= moment + 1) for moment in moments)
    return warm, whole


def worker_memory(folder: Path) -> tuple[float, float]:
    """The median peak of ten trials, up to number `WARM_TRIALS` and of the last ones, in bytes."""
    peaks = [record.peak_memory_bytes for record in sorted(read_trials(str(folder)), key=lambda record: record.number)]
    warm = peaks[:WARM_TRIALS]
    return statistics.median(warm[-10:]), statistics.median(peaks[-10:])


def run_command(*words: str) -> tuple[float, int]:
    """Runs a command of the project; its wall seconds and the most memory it used, in bytes."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, *words], cwd=HERE, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: exit code {process.returncode}")
    return time.monotonic() - began, 1024 * usage.ru_maxrss


if __name__ == "__main__":
    main()
