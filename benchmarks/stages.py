"""Steps and time saved by sharing stages, and its overhead in a sweep that cannot share any.

Command:  python benchmarks/stages.py [--part common|nothing|spaces] [--pairs 10] [--scale 1.0]
Cost:     common about 12 minutes, nothing about 30, spaces about 25, on 2 cores
Prints:   common: per question the steps and the wall time without sharing over those with it, and the largest possible
          ratio of steps
          nothing: CPU-seconds of all processes of a sweep that has nothing to share, over those of one with
          `--no-reuse`; the median of the pairs, with the quartiles
          spaces: every search space of the project in turn, over one storage, on the demonstration: steps without
          sharing over those trained; spaces without a grid, and those for larger encoders, are left out

All on the demonstration corpus and encoder. `common` runs each question as two sweeps on one lane, one that shares and
one with `--no-reuse`, each over a storage of its own; their scores must be equal before anything is printed. Wall time
is from the first trial's start to the last one's end; it includes evaluations, so its ratio may exceed that of the
steps. With Q steps in a common first stage and S in each of N second stages, the largest possible ratio of steps is
N (Q + S) / (Q + N S).
Bounds: at least 0.98 of that in steps and 0.85 in wall time; at most 3 % more CPU-seconds where nothing is shared.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import pandas as pd

from mtlib.config.losses import losses_for
from mtlib.demo.corpus import demo_folder
from mtlib.demo.overrides import demo_overrides
from mtlib.model.encoder import load_encoder
from mtlib.runtime.storage import Location
from mtlib.stages.plan import plan_stages
from results.records.driver_file import Ownership
from results.records.tables import read_trials, read_with_warnings
from search_spaces.space import SearchSpace, grid_trials, list_spaces, load_space
from sweeps.driver.run_sweep import run_plan
from sweeps.driver.trials.table import Event, open_table
from sweeps.lanes.training_inputs import read_training_inputs
from sweeps.options import SweepOptions, SweepPlan
from sweeps.plan.inputs import read_points
from sweeps.plan.prepare import prepare

ROOT = Path(__file__).resolve().parent.parent
STEPS_ALONE = 150
"""Steps per epoch of a sweep that has nothing to share: five trials of six epochs."""
SAMPLE_SECONDS = 0.2
"""Interval between two readings of the processes' CPU time: a process that ends loses at most so much of it."""
FIRST, SECOND = (2, 420), (5, 120)
"""Epochs and steps per epoch of the common first stage and of the second ones: Q is 1.4 S, as in the papers."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Cost and scores of a sweep."""

    steps: int
    """Optimizer steps that were trained."""
    seconds: float
    """From the first trial's start to the last one's end."""
    scores: pd.DataFrame
    """The curves without their times, sorted."""


def questions(encoder: Path, scale: float) -> dict[str, SearchSpace]:
    """Three questions whose trials share their first stage."""
    sizes = load_space("batch_sizes")
    base = sizes.base.override({**demo_overrides(sizes.base), **lengths(scale), "encoder.name": str(encoder)})
    plain = base.override({"smart.weight": 0.0})
    losses = losses_for("classes")
    grid: dict[Any, Any] = {"tasks.sst.loss": losses, "tasks.sts.loss_weight": (0.5, 1.0, 2.0, 4.0)}
    return {
        "BERT and Beyond, table 5: four batch sizes": replace(sizes, base=base),
        "three losses of SST": replace(sizes, base=plain, grid={"tasks.sst.loss": losses}),
        "12 settings of SST and STS": replace(sizes, base=plain, grid=grid),
    }


def lengths(scale: float) -> dict[str, int]:
    """Overrides that set epochs and steps of the two stages, the steps scaled."""
    found: dict[str, int] = {}
    for index, (epochs, steps) in enumerate((FIRST, SECOND)):
        found |= {f"stages.{index}.epochs": epochs, f"stages.{index}.steps_per_epoch": max(1, round(steps * scale))}
    return found


def plan_for(space: SearchSpace, data: Path, storage: Path, name: str, shares: bool) -> SweepPlan:
    """A sweep over a space on one lane."""
    options = SweepOptions(space=space.name, storage=str(storage), name=name, concurrent=1, reuse=shares, keep_gb=100.0)
    Path(options.folder).mkdir(parents=True)
    return SweepPlan(options=options, space=space, data_folder=data)


def measure(plan: SweepPlan) -> Measured:
    """Runs a sweep."""
    times: list[float] = []
    trained: dict[str, int] = {}

    table = open_table(plan)

    def on_event(event: Event) -> None:
        if event.kind in ("started", "ended"):
            times.append(event.time)
        trained.update({name: record.steps - record.shared_steps for name, record in table.records.items()})

    name = plan.space.base.encoder.name
    tables, encoders = read_points(plan.space, plan.data_folder), {name: load_encoder(name)}
    inputs = read_training_inputs(plan.space, tables, encoders, plan.data_folder, plan.options.cache_folder)
    with Ownership(plan.options.folder) as ownership:
        outcome = run_plan(table, inputs, on_event, ownership)
    assert set(outcome.counts) <= {"complete", "reused"}, outcome
    curves = load_curves(plan.options.folder)
    return Measured(steps=sum(trained.values()), seconds=max(times) - min(times), scores=curves)


def load_curves(folder: Location) -> pd.DataFrame:
    """The curves of a sweep without their times, sorted."""
    frame: pd.DataFrame = read_with_warnings(folder).curves.drop_columns(["seconds"]).to_pandas()
    return frame.sort_values(list(frame.columns)).reset_index(drop=True)


def measure_common(data: Path, encoder: Path, folder: Path, scale: float) -> None:
    """Prints the steps and time that sharing a first stage saves."""
    for number, (name, space) in enumerate(questions(encoder, scale).items()):
        count = len(grid_trials(space))
        shared, alone = (
            measure(plan_for(space, data, folder / f"{number}-{shares}", "sweep", shares)) for shares in (True, False)
        )
        pd.testing.assert_frame_equal(shared.scores, alone.scores)
        first, second = (stage.num_steps for stage in plan_stages(space.base, dict.fromkeys(space.base.train_sets, 1)))
        best = count * (first + second) / (first + count * second)
        steps, seconds = alone.steps / shared.steps, alone.seconds / shared.seconds
        print(f"{name}: {count} trials, Q {first}, S {second}; largest possible ratio {best:.2f}")
        is_held = steps / best >= 0.98 and seconds / best >= 0.85
        print(f"  steps {alone.steps:,} / {shared.steps:,} = {steps:.2f}, {steps / best:.3f} of it; {verdict(is_held)}")
        print(
            f"  wall {alone.seconds:.0f} s / {shared.seconds:.0f} s = {seconds:.2f}, {seconds / best:.3f} of it",
            flush=True,
        )


def cpu_seconds(folder: Path, name: str, shares: bool, scale: float) -> float:
    """CPU-seconds of all processes of a sweep whose trials share nothing: driver, Ray and workers."""
    steps = f"stages.0.steps_per_epoch={round(STEPS_ALONE * scale)}"
    command = [sys.executable, "sweeps/run.py", "--space", "sentiment_losses", "--storage", str(folder), "--name", name]
    command += ["--concurrent", "1", "--set", steps, *([] if shares else ["--no-reuse"])]
    with (folder / "log.txt").open("ab") as log:
        sweep = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
    spent: dict[int, float] = {}
    while sweep.poll() is None:
        spent |= session_seconds(sweep.pid)
        time.sleep(SAMPLE_SECONDS)
    assert sweep.returncode == 0, (folder / "log.txt").read_text()
    return sum(spent.values())


def session_seconds(session: int) -> dict[int, float]:
    """CPU-seconds of every process of a session, by its id."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                found[int(path.parent.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def measure_nothing(folder: Path, num_pairs: int, scale: float) -> None:
    """Prints the overhead of keeping stages in a sweep that has nothing to share."""
    folder.mkdir()
    ratios = []
    for number in range(num_pairs):
        found: dict[bool, float] = {}
        for shares in (True, False) if number % 2 else (False, True):
            storage = folder / f"{number}-{shares}"  # what another sweep has left would be taken over
            storage.mkdir()
            found[shares] = cpu_seconds(storage, "sweep", shares, scale)
        curves = [load_curves(folder / f"{number}-{shares}" / "sweep") for shares in (True, False)]
        pd.testing.assert_frame_equal(curves[0], curves[1])
        ratios.append(found[True] / found[False])
        print(f"  pair {number}: {found[True]:.1f} s / {found[False]:.1f} s = {ratios[-1]:.3f}", flush=True)
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(f"nothing to share: {middle:.3f} times the CPU-seconds ({low:.3f} to {high:.3f}); {verdict(middle <= 1.03)}")


def verdict(holds: bool) -> str:
    """Whether a bound holds, in words."""
    return "within its bound" if holds else "BEYOND ITS BOUND"


def measure_spaces(folder: Path) -> None:
    """Prints the steps that all search spaces save over one storage, one after the other."""
    trained, asked = 0, 0
    for space in list_spaces():
        if not space.grid:
            continue
        options = SweepOptions(space=space.name, storage=str(folder), name=space.name, concurrent=1, keep_gb=100.0)
        try:
            prepared = prepare(options, lambda _lines: None, contextlib.ExitStack())
        except ValueError as error:  # it names layers that this encoder does not have
            rule, _, _ = str(error).partition(", got")
            print(f"{space.name:24} left out: {rule}", flush=True)
            continue
        Path(options.folder).mkdir(parents=True)
        measured = measure(prepared.plan)
        steps = sum(record.steps for record in read_trials(options.folder))
        trained, asked = trained + measured.steps, asked + steps
        print(
            f"{space.name:24} {steps:7,} steps, {measured.steps:7,} trained; so far {asked / trained:.2f}", flush=True
        )


def main() -> None:
    """Measures the requested parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("common", "nothing", "spaces"), action="append", help="default: all three")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of `nothing` (default: 10)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the stages' lengths (default: 1)")
    options = parser.parse_args()
    parts = options.part or ["common", "nothing", "spaces"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, encoder = demo_folder(folder / "demo")
        if "common" in parts:
            measure_common(data, encoder, folder / "common", options.scale)
        if "nothing" in parts:
            measure_nothing(folder / "nothing", options.pairs, options.scale)
        if "spaces" in parts:
            measure_spaces(folder / "spaces")


if __name__ == "__main__":
    main()
