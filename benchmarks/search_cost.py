"""What does a search with early stopping cost, against training all its configurations to the end, one by one?

Command:  python benchmarks/search_cost.py SWEEP
Cost:     a second; it reads the sweep's records only
Prints:   steps and time of the sweep's trials, and of all its configurations trained to the end once, one by one

The second is extrapolated: a trial that was stopped early takes, to its end, as long per epoch as it did until then.
Trials were timed while as many ran side by side as there were lanes; alone on the machine they may be a little faster.
The wall time of the sweep is from the first trial's start to the last one's end, which counts a pause before a resume.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from mtlib.runtime.command_line import counted, duration, run_command
from mtlib.runtime.errors import require
from results.records.trials import TrialRecord, read_trials
from sweeps.cli.time_left import TIMED_STATUSES, num_planned_epochs


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What some trainings cost."""

    trainings: int
    steps: float
    """Optimizer steps."""
    device_seconds: float
    wall_seconds: float


def cost_of(records: Sequence[TrialRecord]) -> Cost:
    """What some trials of a sweep, all of which have begun, cost."""
    begun = [(datetime.fromisoformat(record.started), record) for record in records if record.started]
    ends = [start + timedelta(seconds=record.wall_seconds) for start, record in begun]
    return Cost(
        trainings=len(records),
        steps=sum(record.steps for record in records),
        device_seconds=sum(record.device_seconds for record in records),
        wall_seconds=(max(ends) - min(start for start, _ in begun)).total_seconds(),
    )


def cost_one_by_one(records: Sequence[TrialRecord]) -> Cost:
    """What it would cost to train each of some trials to its end, one after another."""
    factors = [num_planned_epochs(record) / record.epochs for record in records]
    return Cost(
        trainings=len(records),
        steps=sum(factor * record.steps for factor, record in zip(factors, records, strict=True)),
        device_seconds=sum(factor * record.device_seconds for factor, record in zip(factors, records, strict=True)),
        wall_seconds=sum(factor * record.wall_seconds for factor, record in zip(factors, records, strict=True)),
    )


def lines_of(records: Sequence[TrialRecord]) -> list[str]:
    """The table: the search, all that the sweep trained, and all configurations to the end; ratios to the last."""
    timed = [record for record in records if record.status in TIMED_STATUSES and record.epochs > 0]
    firsts = [record for record in timed if record.replicate == 0]
    require(bool(firsts), "the sweep must have first trainings that completed or were pruned", "none")
    whole = cost_one_by_one(firsts)
    rows = {"first trainings": cost_of(firsts), "all trainings": cost_of(timed), "to the end, one by one": whole}
    lines = [f"{'':24}{'trainings':>10}{'steps':>16}{'device time':>18}{'wall time':>18}"]
    for name, cost in rows.items():
        steps = f"{cost.steps:,.0f} ({cost.steps / whole.steps:.2f})"
        device = f"{duration(cost.device_seconds)} ({cost.device_seconds / whole.device_seconds:.2f})"
        wall = f"{duration(cost.wall_seconds)} ({cost.wall_seconds / whole.wall_seconds:.2f})"
        lines.append(f"{name:24}{cost.trainings:>10}{steps:>16}{device:>18}{wall:>18}")
    num_other = len(records) - len(timed)
    return [*lines, f"Left out, without a time of their own: {counted(num_other, 'trial')}"] if num_other else lines


def main() -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", metavar="SWEEP", help="folder of the sweep")
    options = parser.parse_args()
    return run_command(lambda: print("\n".join(lines_of(read_trials(options.sweep)))))


if __name__ == "__main__":
    sys.exit(main())
