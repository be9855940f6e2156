"""How long a sweep still takes, by the time of its trials that have ended.

Replicates of the best configurations are never stopped early, so they take longer than trials that ASHA may stop.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from statistics import fmean

from results.records.trials import TrialRecord
from sweeps.options import SweepOptions

TIMED_STATUSES = ("complete", "pruned")
"""Statuses of trials whose time predicts that of others; reused trials take no time."""


@dataclass(frozen=True, kw_only=True)
class ExpectedSeconds:
    """Expected wall seconds of a trial that has not begun."""

    common: float
    """Of a training that every configuration gets, which the scheduler may stop."""
    further: float
    """Of a training that only the best configurations get, which always completes."""


def expect_seconds(records: Collection[TrialRecord], common_replicates: int) -> ExpectedSeconds | None:
    """Expected times by the trials that have ended; None while there are none.

    Args:
        records: of the sweep's trials.
        common_replicates: trainings that every configuration gets.
    """
    timed = [record for record in records if record.status in TIMED_STATUSES]
    if not timed:
        return None
    common = [record.wall_seconds for record in timed if record.replicate < common_replicates]
    whole = [record.wall_seconds for record in timed if record.status == "complete"]
    whole = whole or [record.wall_seconds * num_planned_epochs(record) / max(record.epochs, 1) for record in timed]
    return ExpectedSeconds(common=fmean(common or whole), further=fmean(whole))


def sum_seconds(
    expected: ExpectedSeconds,
    common_replicates: int,
    *,
    num_left: int,
    num_further: int,
    running: Iterable[tuple[int, float]],
) -> float:
    """Expected wall seconds of all that is left, were it trained one after another.

    Args:
        expected: of one trial.
        common_replicates: trainings that every configuration gets.
        num_left: trials that have not begun.
        num_further: of these, trainings that only the best configurations get.
        running: of each running trial its replicate and the part of it that is left, 0 to 1.
    """
    begun = sum(
        part * (expected.common if number < common_replicates else expected.further) for number, part in running
    )
    return (num_left - num_further) * expected.common + num_further * expected.further + begun


def num_further_left(
    records: Iterable[TrialRecord], options: SweepOptions, num_configurations: int, num_alone: int
) -> int:
    """Trainings that only the best configurations get and that have not begun; arguments as of `num_trials`."""
    begun = sum(record.replicate >= options.common_replicates and record.status != "queued" for record in records)
    return max(0, options.num_further(num_configurations, num_alone) - begun)


def num_planned_epochs(record: TrialRecord) -> int:
    """Epochs of a whole trial, over all stages."""
    return sum(int(stage["epochs"]) for stage in json.loads(record.config)["stages"])
