"""What does a search with early stopping cost, against training all its configurations to the end, one by one?

Command:  python benchmarks/search_cost.py SWEEP
Cost:     a second; it reads the sweep's records only
Prints:   steps and time of the sweep's trials, and of all its configurations trained to the end once, one by one

The last row is extrapolated: a trial takes as long for each further step as for those that it has trained. Trials were
timed while as many ran side by side as there were lanes; alone on the machine they may be a little faster. The wall
time of the other rows is from the first start to the last end, without the pause of a trial that was resumed. Steps
that were taken from other trials do not count.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from mtlib.config.trial import TrialConfig
from mtlib.runtime.command_line import counted, duration, run_command
from mtlib.runtime.errors import require
from results.records.tables import read_trials
from results.records.trials import TrialRecord, read_sweep
from sweeps.cli.time_left import TIMED_STATUSES, num_planned_epochs


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What some trials cost."""

    trials: int
    steps: float
    """Optimizer steps."""
    device_seconds: float
    wall_seconds: float


def cost_of(records: Sequence[TrialRecord]) -> Cost:
    """What some trials of a sweep, all of which have begun, cost."""
    begun = [(datetime.fromisoformat(record.started), record) for record in records if record.started]
    ends = [start + timedelta(seconds=record.wall_seconds) for start, record in begun]
    return Cost(
        trials=len(records),
        steps=sum(map(trained_steps, records)),
        device_seconds=sum(record.device_seconds for record in records),
        wall_seconds=(max(ends) - min(start for start, _ in begun)).total_seconds(),
    )


def cost_one_by_one(records: Sequence[TrialRecord]) -> Cost:
    """What it would cost to train each of some trials to its end, one after another."""
    steps = [planned_steps(record) for record in records]
    factors = [planned / trained_steps(record) for planned, record in zip(steps, records, strict=True)]
    return Cost(
        trials=len(records),
        steps=sum(steps),
        device_seconds=sum(factor * record.device_seconds for factor, record in zip(factors, records, strict=True)),
        wall_seconds=sum(factor * record.wall_seconds for factor, record in zip(factors, records, strict=True)),
    )


def trained_steps(record: TrialRecord) -> int:
    """Steps that a trial has trained itself."""
    return record.steps - record.shared_steps


def planned_steps(record: TrialRecord) -> float:
    """Steps of a whole trial; where the length of an epoch is not configured, as many per epoch as so far."""
    stages = TrialConfig.from_json(record.config).stages
    lengths = [stage.epochs * stage.steps_per_epoch for stage in stages if stage.steps_per_epoch]
    is_known = len(lengths) == len(stages)
    return sum(lengths) if is_known else record.steps * num_planned_epochs(record) / record.epochs


def lines_of(records: Sequence[TrialRecord]) -> list[str]:
    """The table: first replicates, all trials, and all configurations to the end; with ratios to the last."""
    timed = [record for record in records if trained_steps(record) > 0 and record.wall_seconds > 0]
    firsts = [record for record in timed if record.replicate == 0 and record.status in TIMED_STATUSES]
    require(bool(firsts), "the sweep must have first replicates that completed or were pruned", "none")
    whole = cost_one_by_one(firsts)
    rows = {"first replicates": cost_of(firsts), "all trials": cost_of(timed), "to the end, one by one": whole}
    lines = [f"{'':24}{'trials':>8}{'steps':>16}{'device time':>18}{'wall time':>18}"]
    for name, cost in rows.items():
        steps = f"{cost.steps:,.0f} ({cost.steps / whole.steps:.2f})"
        device = f"{duration(cost.device_seconds)} ({cost.device_seconds / whole.device_seconds:.2f})"
        wall = f"{duration(cost.wall_seconds)} ({cost.wall_seconds / whole.wall_seconds:.2f})"
        lines.append(f"{name:24}{cost.trials:>8}{steps:>16}{device:>18}{wall:>18}")
    num_other = len(records) - len(timed)
    return [*lines, f"Left out, as they trained no step: {counted(num_other, 'trial')}"] if num_other else lines


def print_cost(sweep: str) -> None:
    """Prints the table of a sweep."""
    read_sweep(sweep)  # says what is wrong with the folder
    print("\n".join(lines_of(read_trials(sweep))))


def main() -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", metavar="SWEEP", help="folder of the sweep")
    options = parser.parse_args()
    return run_command(lambda: print_cost(options.sweep))


if __name__ == "__main__":
    sys.exit(main())
