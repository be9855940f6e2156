"""What the keys of a search do to early scores, which trials that were pruned have too."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from results.analysis.effects.sweep_effects import SweepEffects
from results.records.trials import COMPLETED, OVERALL, TrialRecord


@dataclass(frozen=True, kw_only=True)
class EarlyTrials:
    """The first trials of a search as they were at an epoch that all of them reached."""

    epoch: int
    records: tuple[TrialRecord, ...]
    """As if they had completed then."""
    curves: pd.DataFrame
    """Of these trials at that epoch."""


@dataclass(frozen=True, kw_only=True)
class EarlyEffects:
    """Effects on the scores at an epoch."""

    epoch: int
    effects: SweepEffects


def early_trials(records: Sequence[TrialRecord], curves: pd.DataFrame) -> EarlyTrials | None:
    """The first trials that completed or were pruned, at the last epoch at which all of them have an overall score.

    Effects on final scores leave out the pruned trials, which are the worse ones; these do not. None if none was
    pruned, or no epoch has all scores.
    """
    firsts = [record for record in records if record.replicate == 0 and record.status in (*COMPLETED, "pruned")]
    if all(record.status in COMPLETED for record in firsts):
        return None
    ids = [record.trial_id for record in firsts]
    own = curves[curves["trial"].isin(ids)]
    num_scored = own[own["task"] == OVERALL].groupby("epoch")["trial"].nunique()
    reached = num_scored.index[num_scored == len(ids)]
    if reached.empty:
        return None
    epoch = int(reached.max())
    return EarlyTrials(
        epoch=epoch,
        records=tuple(replace(record, status="complete") for record in firsts),
        curves=own[own["epoch"] == epoch],
    )
