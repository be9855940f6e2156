"""How long a sweep still takes, by the time of its trials that have ended.

ASHA stops first replicates only. Further replicates are trained to the end, so they are expected to take longer.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from statistics import fmean

from results.records.trials import TrialRecord

TIMED_STATUSES = ("complete", "pruned")
"""Statuses of trials whose time predicts that of others; reused trials take no time."""
NOT_BEGUN = ("queued", "interrupted")


@dataclass(frozen=True, kw_only=True)
class ExpectedSeconds:
    """Expected wall seconds of a trial that has not begun."""

    first: float
    """Of a first replicate, which ASHA may stop."""
    further: float
    """Of a further replicate, which is trained to the end."""


def expect_seconds(records: Iterable[TrialRecord]) -> ExpectedSeconds | None:
    """Expected times by a sweep's trials that have ended; None while there are none.

    While no trial has completed, the time of a whole one is extrapolated from those that were stopped.
    """
    timed = [record for record in records if record.status in TIMED_STATUSES]
    if not timed:
        return None
    first = [record.wall_seconds for record in timed if record.replicate == 0]
    whole = [record.wall_seconds for record in timed if record.status == "complete"]
    whole = whole or [record.wall_seconds * num_planned_epochs(record) / max(record.epochs, 1) for record in timed]
    return ExpectedSeconds(first=fmean(first or whole), further=fmean(whole))


def seconds_to_train(
    expected: ExpectedSeconds,
    records: Collection[TrialRecord],
    *,
    num_configurations: int,
    num_left: int,
    running: Iterable[tuple[int, float]],
) -> float:
    """Expected wall seconds of all that is left if the trials ran one after another.

    Replicates of configurations that may yet be stopped are counted in full.

    Args:
        expected: of one trial.
        records: of the trials so far.
        num_configurations: how many there will be.
        num_left: trials that have not begun.
        running: of each running trial its replicate and the part of it that is left, 0 to 1.
    """
    begun = sum(record.replicate == 0 and record.status not in NOT_BEGUN for record in records)
    num_firsts = min(max(0, num_configurations - begun), num_left)
    rest = sum(part * (expected.further if replicate else expected.first) for replicate, part in running)
    return num_firsts * expected.first + (num_left - num_firsts) * expected.further + rest


def num_planned_epochs(record: TrialRecord) -> int:
    """Epochs of a whole trial, over all stages."""
    return sum(int(stage["epochs"]) for stage in json.loads(record.config)["stages"])
