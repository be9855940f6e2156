"""How long a sweep still takes, by the time of its trials that have ended, or else of those that run."""

import json
from collections.abc import Mapping
from statistics import fmean

from results.records.driver_file import Progress, TrialProgress
from results.records.trials import TrialRecord

TIMED_STATUSES = ("complete", "pruned")
"""Statuses of trials whose time predicts that of others; reused trials take no time."""
MIN_FRACTION = 0.1
"""Fraction of a trial that must be done before its speed predicts its time."""


def seconds_left(
    records: Mapping[str, TrialRecord], progress: Progress, now: float, *, num_left: int, num_lanes: int
) -> float | None:
    """Estimated wall seconds until a sweep ends; None before the first estimate is possible, and at the end.

    Args:
        records: of the trials so far, by trial id.
        progress: of the trials that run.
        now: the time, in seconds since 1970.
        num_left: trials that have not begun.
        num_lanes: how many trials can run at once.
    """
    fractions = {name: fraction_done(records[name], own) for name, own in progress.items()}
    begun = {name: own["since"] for name, own in progress.items() if "since" in own}
    ended = [record.wall_seconds for record in records.values() if record.status in TIMED_STATUSES]
    running = [(now - since) / fractions[name] for name, since in begun.items() if fractions[name] > MIN_FRACTION]
    seconds = ended or running
    if not seconds or not (fractions or num_left):
        return None
    num_whole = num_left + sum(1 - fraction for fraction in fractions.values())
    return num_whole * fmean(seconds) / max(1, min(num_lanes, num_left + len(fractions)))


def fraction_done(record: TrialRecord, progress: TrialProgress) -> float:
    """Returns the fraction of a running trial that is done: of its steps, or of its epochs if its step is not known."""
    if "step" in progress:
        return float(progress["step"] / progress["num_steps"])
    return record.epochs / num_planned_epochs(record)


def num_planned_epochs(record: TrialRecord) -> int:
    """Epochs of a whole trial, over all stages."""
    return sum(int(stage["epochs"]) for stage in json.loads(record.config)["stages"])
