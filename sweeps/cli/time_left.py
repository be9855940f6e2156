"""How long a sweep still takes, by the time of its trials that have ended, or else of those that run.

ASHA stops first replicates only. Further replicates are trained to the end, so they are expected to take longer.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from results.records.driver_file import Progress, TrialProgress
from results.records.trials import TrialRecord

TIMED_STATUSES = ("complete", "pruned")
"""Statuses of trials whose time predicts that of others; reused trials take no time."""
NOT_BEGUN = ("queued", "interrupted")
MIN_FRACTION = 0.1
"""Fraction of a trial that must be done before its speed predicts its time."""


@dataclass(frozen=True, kw_only=True)
class ExpectedSeconds:
    """Expected wall seconds of a trial that has not begun."""

    first: float
    """Of a first replicate, which ASHA may stop."""
    further: float
    """Of a further replicate, which is trained to the end."""


def seconds_left(
    records: Mapping[str, TrialRecord],
    progress: Progress,
    now: float,
    *,
    num_configurations: int,
    num_left: int,
    num_lanes: int,
) -> float | None:
    """Estimated wall seconds until a sweep ends; None before the first estimate is possible, and at the end.

    Args:
        records: of the trials so far, by trial id.
        progress: of the trials that run.
        now: the time, in seconds since 1970.
        num_configurations: how many there will be.
        num_left: trials that have not begun.
        num_lanes: how many trials can run at once.
    """
    fractions = {name: fraction_done(records[name], own) for name, own in progress.items()}
    expected = expect_seconds(records.values()) or extrapolate(progress, fractions, now)
    if expected is None or not (fractions or num_left):
        return None
    running = [(records[name].replicate, 1 - fraction) for name, fraction in fractions.items()]
    counts = {"num_configurations": num_configurations, "num_left": num_left}
    total = seconds_to_train(expected, records.values(), **counts, running=running)
    return total / max(1, min(num_lanes, num_left + len(fractions)))


def fraction_done(record: TrialRecord, progress: TrialProgress) -> float:
    """The fraction of a running trial that is done: of its steps, or of its epochs if its step is not known."""
    if "step" in progress:
        return float(progress["step"] / progress["num_steps"])
    return record.epochs / num_planned_epochs(record)


def extrapolate(progress: Progress, fractions: Mapping[str, float], now: float) -> ExpectedSeconds | None:
    """The time of a trial by the running ones of which enough is done; None if there are none."""
    known = {name: own["since"] for name, own in progress.items() if "since" in own}
    lengths = [(now - since) / fractions[name] for name, since in known.items() if fractions[name] > MIN_FRACTION]
    return ExpectedSeconds(first=fmean(lengths), further=fmean(lengths)) if lengths else None


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
        running: of each running trial its replicate and the fraction of it that is left.
    """
    begun = sum(record.replicate == 0 and record.status not in NOT_BEGUN for record in records)
    num_firsts = min(max(0, num_configurations - begun), num_left)
    rest = sum(fraction * (expected.further if replicate else expected.first) for replicate, fraction in running)
    return num_firsts * expected.first + (num_left - num_firsts) * expected.further + rest


def num_planned_epochs(record: TrialRecord) -> int:
    """Epochs of a whole trial, over all stages."""
    return sum(int(stage["epochs"]) for stage in json.loads(record.config)["stages"])
